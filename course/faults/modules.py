"""Faults of modules, registration and initialisation."""

from __future__ import annotations

from course.faults.fault import Fault

FAULTS = (
    Fault(
        "unregistered-submodule",
        "layers held in a plain list or dict are not registered",
        "modules",
        "03",
    ),
    Fault("missing-super-init", "attributes assigned before Module.__init__()", "modules", "03"),
    Fault("no-parameters", "the model registers no parameters at all", "modules", "03"),
    Fault("shared-by-list-multiplication", "[layer] * n repeats one object", "modules", "03"),
    Fault("tensor-not-buffer", "a plain tensor attribute is neither parameter nor buffer", "modules", "03"),
    Fault("forward-called-directly", "model.forward(x) bypasses hooks", "modules", "03"),
    Fault(
        "optimizer-misses-parameters",
        "trainable parameters that no optimizer group holds",
        "modules",
        "03",
    ),
    Fault(
        "frozen-batchnorm-drifts",
        "frozen BatchNorm still updates running statistics in train mode",
        "modules",
        "03",
    ),
    Fault("freeze-typo", "requires_grad set on the module, not on its parameters", "modules", "03"),
    Fault("layer-built-in-forward", "a layer constructed inside forward", "modules", "03"),
    Fault("module-used-as-function", "nn.ReLU(x) instead of F.relu(x)", "modules", "03"),
    Fault("functional-dropout-ignores-eval", "F.dropout without training=self.training", "modules", "03"),
    Fault(
        "flatten-size-mismatch",
        "the first linear layer does not fit the flattened features",
        "modules",
        "03",
    ),
    Fault("batch-first-mismatch", "(batch, seq) fed to a layer that expects (seq, batch)", "modules", "03"),
    Fault("symmetric-init", "constant or zero initialisation keeps units identical", "modules", "03"),
    Fault(
        "dead-activation",
        "units whose output and gradient are zero for all data (dead ReLU, saturation)",
        "modules",
        "03",
    ),
)
