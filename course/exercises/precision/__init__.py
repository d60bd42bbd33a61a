"""The exercises of lesson 08, Mixed precision: one file an exercise."""
