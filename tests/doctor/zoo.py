"""Sound training setups of many kinds: each function returns arguments of `examine` that must raise no alarm."""

from __future__ import annotations

from doctor import zoo_loops, zoo_losses  # noqa: F401  # they add to the registry
from doctor.registry import ZOO

__all__ = ["ZOO"]
