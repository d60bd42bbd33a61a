"""A second set of pairs and sound setups, of other form than the first, that nothing was adjusted to."""

from __future__ import annotations

from doctor import held_out_forms, held_out_modules, held_out_near, held_out_training, held_out_zoo  # noqa: F401
from doctor.registry import HELD_OUT, HELD_OUT_ZOO

__all__ = ["HELD_OUT", "HELD_OUT_ZOO"]
