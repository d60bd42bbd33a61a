"""The exercises of lesson 05, The CIFAR-10 loop: one file an exercise."""
