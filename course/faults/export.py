"""Faults of exported models."""

from __future__ import annotations

from course.faults.fault import Fault

FAULTS = (
    Fault("trace-loses-branch", "trace records one path", "export", "12"),
    Fault("trace-in-train-mode", "dropout baked into a trace", "export", "12"),
    Fault("static-shape-export", "exported shapes are fixed to the example's", "export", "12"),
    Fault("runtime-input-dtype", "wrong input dtype or layout at the runtime", "export", "12"),
    Fault("external-weights-missing", "model.onnx.data left behind", "export", "12"),
    Fault("opset-not-honoured", "requested opset differs from the file's", "export", "12"),
)
