"""The exercises of lesson 14, From checkpoint to answer: one file an exercise."""
