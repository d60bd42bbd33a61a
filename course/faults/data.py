"""Faults of datasets, loaders and the data themselves."""

from __future__ import annotations

from course.faults.fault import Fault

FAULTS = (
    Fault("ragged-batch", "samples of different shapes reach the default collate", "data", "04"),
    Fault("list-sample-transposed", "a Python list sample is collated position by position", "data", "04"),
    Fault(
        "worker-rng-duplicated",
        "a generator stored on the dataset is copied to each worker",
        "data",
        "04",
    ),
    Fault("batchnorm-single-sample", "a last batch of one sample in train mode", "data", "04"),
    Fault("none-sample", "__getitem__ returned None", "data", "04"),
    Fault(
        "unpicklable-worker-object",
        "a lambda, local function or open handle must be pickled for a worker",
        "data",
        "04",
    ),
    Fault("shared-file-handle", "workers share one open file offset", "data", "04"),
    Fault("padding-leaks", "padded positions enter pooling, attention or the loss", "data", "04"),
    Fault("unshuffled-classes", "sorted training data without shuffle", "data", "04"),
    Fault(
        "input-scale-mismatch",
        "train and test inputs on different scales, or 0..255 inputs",
        "data",
        "04",
    ),
    Fault("dataset-mutates-cache", "__getitem__ changes its cached array in place", "data", "04"),
    Fault("iterable-not-sharded", "each worker yields the whole IterableDataset", "data", "04"),
    Fault("augmented-validation", "validation data pass through the training augmentation", "data", "04"),
    Fault("missing-main-guard", "spawned workers re-import a script without a main guard", "data", "04"),
    Fault("workers-restarted", "workers are started again each epoch", "data", "04"),
    Fault("nonfinite-data", "NaN or inf in inputs or targets", "data", "06"),
    Fault("label-misaligned", "labels shifted or shuffled against their inputs", "data", "06"),
    Fault("duplicate-samples", "the same sample many times, or constant inputs", "data", "06"),
    Fault("pretrained-normalisation", "inputs not normalised as the pretrained weights expect", "data", "04"),
)
