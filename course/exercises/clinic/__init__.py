"""The exercises of lesson 06, Debugging clinic: one file an exercise."""
