"""The exercises of lesson 09, torch.compile: one file an exercise."""
