"""The exercises of lesson 03, nn.Module registration: one file an exercise."""
