"""A budget of time."""

from __future__ import annotations

import time


class Clock:
    """A budget in seconds that runs from its making."""

    def __init__(self, budget: float) -> None:
        self.budget = budget
        self._start = time.perf_counter()

    def spent(self) -> float:
        """Seconds since its making."""
        return time.perf_counter() - self._start

    def left(self) -> float:
        """Seconds left; negative when the budget is spent."""
        return self.budget - self.spent()

    def allows(self, seconds: float) -> bool:
        """Whether something that takes this long fits in."""
        return self.left() > seconds
