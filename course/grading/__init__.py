"""Grading many people's answers: what each did is observed behind a protection, and judged outside of it."""
