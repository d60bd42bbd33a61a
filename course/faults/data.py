"""Faults of datasets, loaders and the data themselves."""

from __future__ import annotations

from course.faults.fault import Fault

FAULTS = (
    Fault(
        "ragged-batch",
        "samples of different shapes reach the default collate",
        "data",
        "04",
        section="Indices, samples, batches",
        why=(
            "A batch is one tensor, and a tensor is a rectangle: `default_collate` stacks the samples, so all must "
            "have one shape. The message names the shapes and the first sample that differs."
        ),
        fix=(
            "For sequences pass `collate_fn=`: pad with `pad_sequence(..., batch_first=True)` and return lengths or "
            "a mask as well (`course.data.padding.pad_collate`). For images resize or crop in the transform."
        ),
    ),
    Fault(
        "list-sample-transposed",
        "a Python list sample is collated position by position",
        "data",
        "04",
        section="Indices, samples, batches",
        why=(
            "`default_collate` goes into lists and tuples and collates position by position. A sample that is a "
            "list of three numbers is a container with three positions, so the batch is a list of three tensors, "
            "one number of each sample in each."
        ),
        fix=(
            "Return tensors or arrays from `__getitem__`: `torch.tensor(tokens)`. Keep tuples and dicts for things "
            "that are really different, such as input and target."
        ),
    ),
    Fault(
        "worker-rng-duplicated",
        "a generator stored on the dataset is copied to each worker",
        "data",
        "04",
        section="Random numbers in workers",
        why=(
            "Each worker holds a copy of the dataset, generators included, and all copies are in the same state. "
            "torch re-seeds the global generators of torch, `random` and NumPy in every worker, but it cannot know "
            "of a `default_rng` or `random.Random` of yours."
        ),
        fix=(
            "Draw from a global generator (`torch.rand`, `np.random`), or make a generator in `__getitem__` from "
            "the seed, the epoch and the index. A generator that is made at first use is copied too, once the main "
            "process has read a sample."
        ),
    ),
    Fault(
        "batchnorm-single-sample",
        "a last batch of one sample in train mode",
        "data",
        "04",
        section="Indices, samples, batches",
        why=(
            "In train mode BatchNorm needs a deviation over the batch, and one value for each channel has none. "
            "When the number of samples leaves a remainder of 1, the last batch of the epoch is such a batch."
        ),
        fix=(
            "`drop_last=True` in the training loader, or another batch size. Not in validation: there "
            "`model.eval()` uses the running statistics, and no sample may be lost."
        ),
    ),
    Fault(
        "none-sample",
        "__getitem__ returned None",
        "data",
        "04",
        section="Indices, samples, batches",
        why=(
            "A function that ends without `return`, or an `except` that returns None for an unreadable file, makes "
            "a sample that cannot be stacked. The error comes in the collate function, far from the file."
        ),
        fix=(
            "Look for bad files once, when you list them. If samples must be skipped while loading, filter in a "
            "`collate_fn` and count what you leave out: `default_collate([s for s in samples if s is not None])`."
        ),
    ),
    Fault(
        "unpicklable-worker-object",
        "a lambda, local function or open handle must be pickled for a worker",
        "data",
        "04",
        section="Files, databases and pickles",
        why=(
            "Workers that are spawned, or come from a fork server, get the dataset, `collate_fn` and "
            "`worker_init_fn` as a pickle. Open files, connections, locks, generators in progress, lambdas and "
            "local functions cannot be pickled. A class or function of a notebook can, by its name, and is not "
            "found in the new process."
        ),
        fix=(
            "Keep the path, open in the worker, and leave the handle out in `__getstate__`. Put classes and "
            "functions into a module and import them; use `functools.partial` of a module's function in place of a "
            "lambda."
        ),
    ),
    Fault(
        "shared-file-handle",
        "workers share one open file offset",
        "data",
        "04",
        section="Files, databases and pickles",
        why=(
            "A fork copies the dataset, but both copies of an open file are one open file with one position. "
            "Between one worker's `seek` and `read` the other one moves it, so records are mixed up, without an "
            "error."
        ),
        fix=(
            "Open in each process: at the first sample, and again where `os.getpid()` is not the process that "
            "opened it. Positions that are passed along (`os.pread`), memory maps and files that are opened for "
            "each sample are safe as well."
        ),
    ),
    Fault(
        "padding-leaks",
        "padded positions enter pooling, attention or the loss",
        "data",
        "04",
        section="Where padding leaks",
        why=(
            "Padding is data to every operation that is not told otherwise: means count it, softmax gives it "
            "weight, recurrent states run on over it, losses reward predicting it. The result for a sample then "
            "depends on what else is in its batch."
        ),
        fix=(
            "Keep lengths or a mask with the batch. Sum over real positions and divide by their number, mask "
            "attention, pack sequences for recurrent layers, pad targets with -100 (`ignore_index`). Test: a sample "
            "alone and in a batch must give the same."
        ),
    ),
    Fault(
        "unshuffled-classes",
        "sorted training data without shuffle",
        "data",
        "04",
        section="Indices, samples, batches",
        why=(
            "`shuffle` is False by default. When the data are sorted by class, each batch holds one class; the "
            "model learns to say that class, the loss within the epoch is excellent, and what was learnt before is "
            "overwritten."
        ),
        fix=(
            "`shuffle=True` in the training loader; draw at random when you split, too. Look at `targets.unique()` "
            "of the first batches."
        ),
    ),
    Fault(
        "input-scale-mismatch",
        "train and test inputs on different scales, or 0..255 inputs",
        "data",
        "04",
        section="Transforms and scales",
        why=(
            "`v2.ToDtype(torch.float32, scale=True)` goes by the dtype: uint8 is divided by 255, floating point is "
            "taken to be in 0..1 already and left as it is (the older `ToTensor` divides uint8 arrays and PIL "
            "images only). So one pipeline gives 0..1 and another one 0..255. (Columns of a table that differ from "
            "each "
            "other in scale are `unnormalised-inputs`.)"
        ),
        fix=(
            "Use one pipeline for all data, and keep images uint8 until `scale=True` converts them. Assert the "
            "range of a batch: `0 <= x.min()` and `x.max() <= 1`, before normalising."
        ),
    ),
    Fault(
        "dataset-mutates-cache",
        "__getitem__ changes its cached array in place",
        "data",
        "04",
        section="Two kinds of dataset",
        why=(
            "`self.rows[i]` of a tensor is a view, and `x -= mean` or `mul_` writes through it into the stored "
            "data. Each access changes the sample again, so the data drift from epoch to epoch."
        ),
        fix=(
            "Work out of place (`x = x - mean`), or `clone()` first. Test: `dataset[0]` twice must be equal, where "
            "nothing is random."
        ),
    ),
    Fault(
        "iterable-not-sharded",
        "each worker yields the whole IterableDataset",
        "data",
        "04",
        section="Worker processes",
        why=(
            "The loader divides indices among workers, but an iterable dataset has none. Every worker iterates over "
            "its own copy from the beginning, so each sample comes `num_workers` times."
        ),
        fix=(
            "In `__iter__` ask `torch.utils.data.get_worker_info()`, and yield every n-th item: "
            "`itertools.islice(items, worker.id, None, worker.num_workers)`. In the main process it returns None: "
            "yield all."
        ),
    ),
    Fault(
        "augmented-validation",
        "validation data pass through the training augmentation",
        "data",
        "04",
        section="Parts with transforms of their own",
        why=(
            "`random_split` and `Subset` give views of one dataset, and the transform belongs to that dataset. Both "
            "parts get it, so validation samples are flipped and cropped at random, and the score changes from run "
            "to run."
        ),
        fix=(
            "Split the raw dataset, then wrap each part with its own transform, as `course.data.splits.Transformed` "
            "does; or make the dataset twice and give both the same split of indices."
        ),
    ),
    Fault(
        "missing-main-guard",
        "spawned workers re-import a script without a main guard",
        "data",
        "04",
        section="Files, databases and pickles",
        why=(
            "A spawned worker imports the script that started it. Code at the top level runs again there, reaches "
            "the line that starts workers, and Python stops it: no new process before the first has finished "
            "starting. Windows and macOS spawn, so the script that runs on Linux fails there."
        ),
        fix=(
            'Put everything that runs into a function, and call it behind `if __name__ == "__main__":`. In a '
            "notebook put datasets into a module that workers can import."
        ),
    ),
    Fault(
        "workers-restarted",
        "workers are started again each epoch",
        "data",
        "04",
        section="Worker processes",
        why=(
            "Workers belong to the iterator, and each epoch makes a new one: processes are started, the dataset is "
            "copied or pickled, files are opened and caches filled again. With spawn that takes seconds, in which "
            "nothing is computed."
        ),
        fix=(
            "`persistent_workers=True` keeps them for the life of the loader. For small data in memory "
            "`num_workers=0` is mostly faster."
        ),
    ),
    Fault(
        "nonfinite-data",
        "NaN or inf in inputs or targets",
        "data",
        "06",
        section="Data first",
        why=(
            "One NaN or infinity in an input or a target makes the loss NaN, and the gradients of that step make "
            "all parameters NaN. It comes from empty fields in tables, divisions by a deviation of 0, or logarithms "
            "of 0."
        ),
        fix=(
            "Check once, before training: `torch.isfinite(x).all()` for inputs and targets. Find the samples with "
            "`~torch.isfinite(x).flatten(1).all(1)`, and mend them at the source."
        ),
    ),
    Fault(
        "label-misaligned",
        "labels shifted or shuffled against their inputs",
        "data",
        "06",
        section="Data first",
        why=(
            "Inputs and labels were sorted, filtered or shuffled separately, or a header line moved one of them by "
            "a row. Shapes still agree. The model can only learn the frequencies of the classes, or learns by heart."
        ),
        fix=(
            "Keep input and label in one record until the batch is made, and index both with the same permutation. "
            "Look at a few samples with their labels, after all loading code."
        ),
    ),
    Fault(
        "duplicate-samples",
        "the same sample many times, or constant inputs",
        "data",
        "06",
        section="Data first",
        why=(
            "An index that is not used, a cached result, or a join that multiplies rows gives the same sample again "
            "and again, or constant inputs. The loss falls fast, because there is little to learn, and duplicates "
            "on both sides of a split make validation look good."
        ),
        fix=(
            "Compare some samples with each other: `len({x.numpy().tobytes() for x, _ in samples})` counts "
            "different ones. Remove duplicates before you split."
        ),
    ),
    Fault(
        "pretrained-normalisation",
        "inputs not normalised as the pretrained weights expect",
        "data",
        "04",
        section="Transforms and scales",
        why=(
            "The weights, and the running statistics of BatchNorm, fit inputs on the scale that they were "
            "trained on. Inputs in 0..1 or 0..255, or standardised with the statistics of another data set, "
            "still have the right shape; the features are just wrong, and accuracy falls without an error."
        ),
        fix=(
            "Standardise with the mean and deviation of the pretrained model's own training data: torchvision"
            " keeps them in `weights.transforms()`. For a model of your own, save them with it, as buffers."
        ),
    ),
)
