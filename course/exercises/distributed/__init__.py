"""The exercises of lesson 11, Scaling out: one file an exercise."""
