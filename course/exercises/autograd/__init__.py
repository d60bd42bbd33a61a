"""The exercises of lesson 02, Autograd pitfalls: one file an exercise."""
