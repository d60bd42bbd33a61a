"""The learner's own files: copies of the notebooks, and what has been passed.

Nothing here imports torch, so that `course status` answers at once.
"""
