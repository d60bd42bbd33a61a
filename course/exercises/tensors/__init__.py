"""The exercises of lesson 01, Tensors and strides: one file an exercise."""
