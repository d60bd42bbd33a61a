"""Checkpoints that survive: written whole or not at all, checked when read, and enough to go on bit for bit."""

from __future__ import annotations

from course.training.checkpoint.files import CheckpointError, CheckpointWarning, load, read_header, save_atomically
from course.training.checkpoint.manager import CheckpointManager
from course.training.checkpoint.order import ResumableBatches, sample_seed
from course.training.checkpoint.run_state import RunState
from course.training.checkpoint.weights import LoadReport, load_weights, strip_prefixes

__all__ = [
    "CheckpointError",
    "CheckpointManager",
    "CheckpointWarning",
    "LoadReport",
    "ResumableBatches",
    "RunState",
    "load",
    "load_weights",
    "read_header",
    "sample_seed",
    "save_atomically",
    "strip_prefixes",
]
