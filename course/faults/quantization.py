"""Faults of quantized models."""

from __future__ import annotations

from course.faults.fault import Fault

FAULTS = (
    Fault(
        "quantization-skips-layer",
        "the requested layer type is silently left in float",
        "quantization",
        "13",
    ),
    Fault("quantization-uncalibrated", "convert without calibration", "quantization", "13"),
    Fault("quantization-outlier", "calibration range stretched by an outlier", "quantization", "13"),
    Fault("quantization-per-tensor-weights", "one scale for all channels", "quantization", "13"),
    Fault("quantization-missing-stub", "float tensor reaches a quantized layer", "quantization", "13"),
    Fault("quantization-functional-op", "functional add/cat on quantized tensors", "quantization", "13"),
    Fault("fuse-in-train-mode", "fuse_modules in train mode", "quantization", "13"),
    Fault("quantized-state-dict", "quantized state_dict loaded into a float model", "quantization", "13"),
    Fault("inplace-api-returns-none", "result of an in-place API assigned", "quantization", "13"),
)
