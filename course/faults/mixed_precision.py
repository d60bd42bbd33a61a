"""Faults of half precision."""

from __future__ import annotations

from course.faults.fault import Fault

FAULTS = (
    Fault("half-overflow", "values beyond 65504 in float16", "mixed precision", "08"),
    Fault("clip-before-unscale", "clipping scaled gradients", "mixed precision", "08"),
    Fault("unscale-twice", "unscale_ called twice before update", "mixed precision", "08"),
    Fault("scaler-update-missing", "scaler.update() missing", "mixed precision", "08"),
    Fault("pure-half-adam", "Adam on half weights: eps and moments underflow", "mixed precision", "08"),
    Fault("legacy-amp-api", "torch.cuda.amp names", "mixed precision", "08"),
    Fault("bfloat16-to-numpy", "NumPy has no bfloat16", "mixed precision", "08"),
    Fault(
        "custom-function-autocast",
        "custom autograd.Function under autocast without custom_fwd/bwd",
        "mixed precision",
        "08",
    ),
    Fault(
        "half-accumulator",
        "counters, EMA or running means kept in half precision",
        "mixed precision",
        "08",
    ),
    Fault("gradient-underflow", "float16 gradients vanish without loss scaling", "mixed precision", "08"),
)
