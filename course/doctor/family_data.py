"""The data: order of classes, repeated and changing samples, numbers that are none."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import TensorDataset, default_collate

from course.doctor import datasets, running
from course.doctor.loss_values import size
from course.doctor.report import Finding

if TYPE_CHECKING:
    from course.doctor.setup import Setup

_SAMPLES = 160
_MOST_ORDER = 20_000


def examine(setup: Setup) -> Iterator[Finding]:
    """Samples, their order and their numbers, as the training loader gives them."""
    if setup.loader is None:
        return
    dataset = datasets.dataset_of(setup.loader)
    samples: dict[int, Any] = {}
    if dataset is not None and len(dataset):
        with setup.scratch():
            yield from changing(dataset)
        with setup.scratch():
            end = setup.clock.spent() + 0.15 * setup.clock.budget
            samples = datasets.read(dataset, datasets.spread(len(dataset), _SAMPLES), lambda: setup.clock.spent() < end)
            yield from repeated(samples)
            yield from _transposed(setup, dataset)
    with setup.scratch():
        yield from _sorted(setup, dataset)
    yield from _not_finite(setup, dataset, samples)
    yield from _labels_out_of_range(setup, dataset)


# --- samples ------------------------------------------------------------------------------------------------------


def changing(dataset: Any) -> Iterator[Finding]:
    """A sample that is another one when it is read again, because reading it changes what is stored."""
    stored = [
        (path, thing)
        for path, thing in datasets.held(dataset, (Tensor, np.ndarray))
        if (thing.nbytes if isinstance(thing, np.ndarray) else thing.numel() * thing.element_size()) < 2**27
    ]
    if not stored:
        return
    index, reads, states = 0, [], []
    for _ in range(3):
        states.append([datasets.copied(thing)[:1] for _, thing in stored])
        with datasets.seeded(0):
            sample = datasets.read(dataset, [index], lambda: True)
        if not sample:
            return
        reads.append(datasets.copied(datasets.parts(sample[index])[0]))
    moved = [
        path
        for (path, _), one, other in zip(stored, states[1], states[2], strict=True)
        if not datasets.same(one, other)
    ]
    if moved and not datasets.same(reads[1], reads[2]) and not datasets.same(reads[0], reads[1]):
        means = ", ".join(f"{read[0].double().mean():.4g}" for read in reads if read)
        yield Finding(
            "dataset-mutates-cache",
            f"Reading sample {index} three times from the same seed gives different inputs (means {means}), and each "
            f"reading changes the stored `{moved[0]}`.",
        )


def repeated(samples: dict[int, Any]) -> Iterator[Finding]:
    """Many indices, few different inputs."""
    inputs = {index: datasets.arrays(datasets.parts(sample)[0]) for index, sample in samples.items()}
    inputs = {index: found for index, found in inputs.items() if found}
    if len(inputs) < 16:
        return
    first = next(iter(inputs.values()))[0]
    kinds = {_key(found) for found in inputs.values()}
    constant = len(kinds) == 1
    # Few values in few columns repeat by chance, and token sequences by nature.
    fine = first.numel() >= 4 and _continuous([found[0] for found in inputs.values()])
    if not (constant and first.numel() >= 2) and not (fine and len(kinds) <= len(inputs) // 2):
        return
    places = {found[0].data_ptr() for found in inputs.values()}
    flat = constant and float(first.min()) == float(first.max())
    what = f", all equal to {first.flatten()[0].item():.4g}" if flat else ""
    seen = f"{len(inputs)} indices of the dataset give {len(kinds)} different inputs, of shape {size(first)}{what}"
    if constant and len(places) == 1 and not flat and _of_numpy(next(iter(samples.values()))):
        yield Finding(
            "numpy-shared-memory",
            f"{seen}: all of them are the same memory of one NumPy array, which was overwritten for each sample.",
        )
        return
    yield Finding("duplicate-samples", f"{seen}.", severity="error" if len(kinds) <= 2 else "warning")


def _key(found: list[Tensor]) -> bytes:
    return b"|".join(array.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes() for array in found)


def _continuous(tensors: list[Tensor]) -> bool:
    if not tensors[0].is_floating_point():
        return tensors[0].dtype == torch.uint8 and tensors[0].numel() >= 48
    return any(bool((tensor != tensor.round()).any()) for tensor in tensors[:16]) or tensors[0].numel() >= 64


def _of_numpy(sample: Any) -> bool:
    value = datasets.parts(sample)[0]
    if isinstance(value, np.ndarray):
        return True
    if not isinstance(value, Tensor) or value.device.type != "cpu":
        return False
    memory = value.untyped_storage()
    # A row of a larger array is no buffer that was filled again and again.
    return not memory.resizable() and memory.nbytes() == value.numel() * value.element_size()


def _transposed(setup: Setup, dataset: Any) -> Iterator[Finding]:
    """A Python list of numbers as a sample: the default collate makes a list of its positions."""
    if getattr(setup.loader, "collate_fn", None) is not default_collate or not setup.batches:
        return
    sample = datasets.read(dataset, [0], lambda: True).get(0)
    members = list(sample) if isinstance(sample, tuple) else [sample]
    batch = setup.batches[0]
    for position, member in enumerate(members):
        if not (isinstance(member, list) and len(member) >= 3 and all(isinstance(n, (int, float)) for n in member)):
            continue
        made = batch[position] if isinstance(sample, tuple) else batch
        if not (isinstance(made, list) and len(made) == len(member) and all(isinstance(t, Tensor) for t in made)):
            continue
        if setup.training is not None and setup.training.error is None and not _turned(setup, len(member), made[0]):
            continue
        yield Finding(
            "list-sample-transposed",
            f"A sample holds a Python list of {len(member)} numbers, and the batch is a list of {len(made)} tensors of "
            f"shape {size(made[0])}: one for each position, not one tensor for each sample.",
        )
        return


def _turned(setup: Setup, length: int, one: Tensor) -> bool:
    """Whether a model was given (positions, samples)."""
    for event in setup.training.of("forward") if setup.training else ():
        for seen in event.inputs[:1] if event.root else ():
            if len(seen.shape) >= 2 and seen.shape[:2] == (length, one.shape[0]) and length != one.shape[0]:
                return True
    return False


# --- order --------------------------------------------------------------------------------------------------------


def _sorted(setup: Setup, dataset: Any) -> Iterator[Finding]:
    found = _labels_in_order(setup, dataset)
    if found is None:
        return
    labels, batch_size, whole = found
    yield from sorted_classes(labels, batch_size, whole)


def sorted_classes(labels: list[int], batch_size: int, whole: int) -> Iterator[Finding]:
    """Labels in the order of training: each class in one block that is longer than a batch."""
    kinds = sorted(set(labels))
    number = len(labels)
    if len(kinds) < 2 or number < 4 * len(kinds) or number < 8 or batch_size < 2:
        return
    changes = sum(one != other for one, other in itertools.pairwise(labels))
    if changes > len(kinds) - 1:
        return
    # `labels` may be a sample of all labels; a batch covers so many of it.
    share = max(1, round(batch_size * number / whole))
    batches = [labels[start : start + share] for start in range(0, number, share)]
    seen = sum(len(set(batch)) for batch in batches) / len(batches)
    counts = [labels.count(kind) / number for kind in kinds]
    wanted = sum(1 - (1 - share_of) ** batch_size for share_of in counts)
    if share > 1 and seen > 0.6 * wanted:
        return
    if share == 1 and batch_size * len(kinds) > 1.5 * whole:
        return
    yield Finding(
        "unshuffled-classes",
        f"In the order of training the class changes {changes} times over {number} samples of {len(kinds)} classes: "
        f"they come sorted. A batch of {batch_size} holds {seen if share > 1 else 1:.1f} classes on average; "
        "shuffled it "
        f"would hold {wanted:.1f}.",
    )


def _labels_in_order(setup: Setup, dataset: Any) -> tuple[list[int], int, int] | None:
    """(labels, batch size, number of samples), in the order in which the loader gives them."""
    loader = setup.loader
    if dataset is not None and loader.batch_sampler is not None:
        batches = list(itertools.islice(iter(loader.batch_sampler), _MOST_ORDER))
        order = [index for batch in batches for index in batch][:_MOST_ORDER]
        if not order or not all(isinstance(index, int) for index in order):
            return None
        known = datasets.all_labels(dataset)
        if known is not None:
            return [known[index] for index in order], max(map(len, batches)), len(order)
        chosen = [order[round(k * (len(order) - 1) / 199)] for k in range(200)] if len(order) > 200 else order
        end = setup.clock.spent() + 0.08 * setup.clock.budget
        read = datasets.read(dataset, list(dict.fromkeys(chosen)), lambda: setup.clock.spent() < end)
        if len(read) < len(set(chosen)):
            return None
        labels = [datasets.label(datasets.parts(read[index])[1]) for index in chosen]
        if any(label is None for label in labels):
            return None
        return labels, max(map(len, batches)), len(order)
    labels, sizes = [], []
    given = loader if isinstance(loader, (list, tuple)) else setup.batches
    for batch in given[:500]:
        target = datasets.parts(batch)[1]
        if not isinstance(target, Tensor) or target.ndim != 1 or target.is_floating_point() or target.numel() < 2:
            return None
        labels += [int(value) for value in target.tolist()]
        sizes.append(len(target))
    return (labels, max(sizes), len(labels)) if len(sizes) > 1 else None


# --- values -------------------------------------------------------------------------------------------------------


def _not_finite(setup: Setup, dataset: Any, samples: dict[int, Any]) -> Iterator[Finding]:
    for batch, where in _batches_with_bad_values(setup, dataset, samples):
        if _harmless(setup, batch):
            setup.note(f"{where}; the loss of its batch is finite all the same.")
            return
        yield Finding("nonfinite-data", f"{where}.")
        return


def _batches_with_bad_values(setup: Setup, dataset: Any, samples: dict[int, Any]) -> Iterator[tuple[Any, str]]:
    for number, batch in enumerate(setup.batches):
        if (where := _bad_values(batch)) is not None:
            yield batch, f"Batch {number + 1} of the loader has {where}"
            return
    if isinstance(setup.loader, (list, tuple)):
        for number, batch in enumerate(setup.loader[len(setup.batches) : 500]):
            if (where := _bad_values(batch)) is not None:
                yield batch, f"Batch {len(setup.batches) + number + 1} of the loader has {where}"
                return
    for index, sample in samples.items():
        if (where := _bad_values(sample)) is not None:
            try:
                batch = setup.loader.collate_fn([sample, sample])
            except Exception:
                return
            yield batch, f"Sample {index} of the dataset has {where}"
            return
    if isinstance(dataset, TensorDataset) and setup.loader.collate_fn is default_collate:
        for tensor in dataset.tensors:
            if tensor.is_floating_point() and not torch.isfinite(tensor).all():
                rows = (~torch.isfinite(tensor)).flatten(1).any(1) if tensor.ndim > 1 else ~torch.isfinite(tensor)
                row = int(rows.nonzero()[0])
                where = _bad_values(dataset[row])
                if where is not None:
                    found = f"{int(rows.sum())} of {len(dataset)} samples are not finite; sample {row} has {where}"
                    yield default_collate([dataset[row], dataset[row]]), found
                    return


def _bad_values(batch: Any) -> str | None:
    inputs, target = datasets.parts(batch)
    for name, part in (("inputs", inputs), ("targets", target)):
        for tensor in datasets.arrays(part):
            if not tensor.is_floating_point() or not tensor.numel():
                continue
            bad = ~torch.isfinite(tensor)
            count = int(bad.sum())
            # A mask that is added to attention scores is made of 0 and minus infinity.
            if not count or (not torch.isnan(tensor).any() and not tensor[~bad].any()):
                continue
            nan = int(torch.isnan(tensor).sum())
            return f"{nan} NaN and {count - nan} infinite values among {tensor.numel()} numbers of its {name}"
    return None


def _harmless(setup: Setup, batch: Any) -> bool:
    """Whether a step with this batch ends with a finite loss and finite parameters: what is missing is masked."""
    if setup.training is None:
        return False
    try:
        with setup.scratch():
            train = setup.step or setup.train_step
            loss = running.summary(train(setup.to_device(batch)))
            if isinstance(loss, float) and not math.isfinite(loss):
                return False
            return all(bool(torch.isfinite(parameter).all()) for parameter in setup.parameters.values())
    except Exception:
        return False


def _labels_out_of_range(setup: Setup, dataset: Any) -> Iterator[Finding]:
    """Labels anywhere in the dataset that the outputs have no class for; the first batches may be without them."""
    recording = setup.training
    calls = [] if recording is None else [e for e in recording.of("loss") if e.name in ("cross_entropy", "nll_loss")]
    if not calls or dataset is None or not isinstance(calls[0].input, Tensor) or calls[0].input.ndim != 2:
        return
    event = calls[0]
    if not isinstance(event.target, Tensor) or event.target.ndim != 1 or event.target.is_floating_point():
        return
    labels = datasets.all_labels(dataset)
    first = datasets.parts(setup.batches[0])[1] if setup.batches else None
    # Only where the loss gets the labels as the dataset has them.
    if not labels or not isinstance(first, Tensor) or not torch.equal(first.cpu().long(), event.target.cpu().long()):
        return
    number, ignored = event.input.shape[1], event.options.get("ignore_index", -100)
    wrong = [label for label in labels if not 0 <= label < number and label != ignored]
    if wrong:
        yield Finding(
            "class-index-out-of-range",
            f"`{event.name}` gets {number} outputs for each sample, and the labels of the dataset go from "
            f"{min(labels)} "
            f"to {max(labels)}: {len(wrong)} of {len(labels)} lie outside 0 to {number - 1}.",
        )
