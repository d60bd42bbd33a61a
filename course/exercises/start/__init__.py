"""Exercises of lesson 00."""
