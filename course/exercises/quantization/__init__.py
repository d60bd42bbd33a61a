"""The exercises of lesson 13, Quantization: one file an exercise."""
