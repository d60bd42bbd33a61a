"""The exercises of lesson 12, Export: one file an exercise."""
