"""Pairs of a faulty setup and its sound twin, and the table of what is left out, with the reason."""

from __future__ import annotations

from doctor import setups_autograd, setups_data, setups_modules, setups_state, setups_training  # noqa: F401
from doctor.registry import SETUPS

__all__ = ["LEFT_OUT", "SETUPS"]

NO_TRAINING = "nothing of it happens within a training setup: the explainer has it"
AT_BUILD = "raises while the setup is being built, before `examine` can be called: the explainer has it"
NEEDS_GPU = "needs a device other than the CPU to be seen"
AFTER_TRAINING = "a fault of an exported or quantized model, not of training"
OUTSIDE = "happens in the program around the step (the epoch loop, the launcher, two runs compared)"
SLOW = "slow and not wrong: at most a note"
MEASURED = "a fault of how something was timed, not of the training"

# Faults of the catalogue that are not made a setup.
LEFT_OUT = {
    "cpu-build-installed": "a fault of the installation: `course env` finds it",
    "model-left-on-cpu": NEEDS_GPU,
    "device-mismatch": NEEDS_GPU,
    "cuda-checkpoint-on-cpu": NEEDS_GPU,
    "out-of-memory": "to run out of memory on purpose would take the tests down as well",
    "write-into-index-copy": NO_TRAINING,
    "legacy-tensor-constructor": NO_TRAINING,
    "numpy-readonly-alias": NO_TRAINING,
    "numpy-object-array": AT_BUILD,
    "tensor-of-list-of-arrays": AT_BUILD,
    "missing-super-init": AT_BUILD,
    "sampler-and-shuffle": AT_BUILD,
    "missing-main-guard": OUTSIDE,
    "workers-restarted": f"{SLOW}, and restarting is right where data are small",
    "pretrained-normalisation": "that weights are pretrained cannot be seen from the weights",
    "label-misaligned": "seen from one batch, wrong labels and hard data look the same",
    "optimizer-not-restored": OUTSIDE,
    "scheduler-not-restored": OUTSIDE,
    "seed-incomplete": OUTSIDE,
    "nondeterministic-kernel": OUTSIDE,
    "warmup-in-timing": MEASURED,
    "hook-after-compile": OUTSIDE,
    "sampler-set-epoch": OUTSIDE,
    "not-launched-with-torchrun": OUTSIDE,
    "same-seed-on-all-ranks": OUTSIDE,
    "metric-not-reduced": OUTSIDE,
    "clock-without-synchronise": MEASURED,
    "warm-up-timed": MEASURED,
    "python-loop-over-images": SLOW,
    "item-in-the-loop": SLOW,
    "one-draw-for-the-batch": "a batch whose images were all mirrored looks like a batch of such images",
    "checkpointed-dropout-redrawn": "only a run without checkpointing shows other gradients, and none is made",
    "learning-rate-not-scaled": OUTSIDE,
    **dict.fromkeys(
        (
            "trace-loses-branch",
            "trace-in-train-mode",
            "static-shape-export",
            "runtime-input-dtype",
            "external-weights-missing",
            "opset-not-honoured",
            "quantization-skips-layer",
            "quantization-uncalibrated",
            "quantization-outlier",
            "quantization-per-tensor-weights",
            "quantization-missing-stub",
            "quantization-functional-op",
            "fuse-in-train-mode",
            "quantized-state-dict",
            "inplace-api-returns-none",
        ),
        AFTER_TRAINING,
    ),
}

# Cases of the collection that are not adapted, though a pair of the same fault may exist.
CASES_LEFT_OUT = {
    "ckpt-01": NEEDS_GPU,
    "ckpt-07": OUTSIDE,
    "compile-01": "the same as ckpt-02, whose pair loads keys with a wrapper's prefix",
    "compile-03": OUTSIDE,
    "data-16": LEFT_OUT["workers-restarted"],
    "dist-03": AT_BUILD,
    "dist-09": "the same as ckpt-02, whose pair loads keys with a wrapper's prefix",
    "module-02": AT_BUILD,
    "numpy-01": "two names for one buffer, outside of any loader; numpy-04 is the case within one",
    "numpy-07": NO_TRAINING,
    "tensor-07": NO_TRAINING,
    "tensor-14": "a write into one row of an expanded tensor is no error and leaves no trace in the step",
    **dict.fromkeys((f"export-{n:02}" for n in (3, 4, 5, 6, 9)), AFTER_TRAINING),
    **dict.fromkeys((f"quant-{n:02}" for n in (2, 3, 4, 5, 7, 8)), AFTER_TRAINING),
}
