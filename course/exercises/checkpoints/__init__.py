"""The exercises of lesson 07, Checkpoints, resuming, reproducibility: one file an exercise."""
