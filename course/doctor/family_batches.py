"""The last batch, and what validation shares with training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils.data import Subset

from course.doctor import datasets
from course.doctor.report import Finding

if TYPE_CHECKING:
    from course.doctor.setup import Setup

_NORMS = (nn.modules.batchnorm._BatchNorm, nn.modules.instancenorm._InstanceNorm, nn.SyncBatchNorm)
_SAMPLES = 200


def examine(setup: Setup) -> Iterator[Finding]:
    """A batch of one sample, rows in both parts, augmentation and scales of validation data."""
    yield from _single(setup)
    if setup.val_loader is not None and setup.loader is not None:
        with setup.scratch():
            yield from _augmented(setup)
        with setup.scratch():
            yield from _leaked(setup)
        yield from _scales(setup)


# --- batches of one -----------------------------------------------------------------------------------------------


def _single(setup: Setup) -> Iterator[Finding]:
    found = _batch_of_one(setup)
    if found is None or setup.training is None or setup.training.error is not None:
        return
    batch, where = found
    norms = [module for _, module in setup.reached(_NORMS)]
    squeezes = setup.training.of("squeeze")
    if not norms and not squeezes:
        return
    try:
        with setup.scratch():
            if setup.model is not None:
                setup.model.train()
            setup.train_step(setup.to_device(batch))
    except Exception as error:
        text = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        if "more than 1 value per channel" in text or "more than 1 spatial element" in text:
            yield Finding("batchnorm-single-sample", f"{where}. A training step with one sample raises {text}.")
            return
        effect = f"goes too, and a training step raises {text}"
    else:
        effect = "goes too"
    if squeezes:
        yield Finding(
            "squeeze-drops-batch",
            f"{where}. `squeeze()` without an axis is applied to {squeezes[0].shape}; with one sample the batch axis "
            f"{effect}.",
            severity="warning",
        )


def _batch_of_one(setup: Setup) -> tuple[Any, str] | None:
    loader = setup.loader
    dataset = datasets.dataset_of(loader)
    if dataset is not None and loader.batch_sampler is not None:
        try:
            if len(loader) > 20_000:
                return None
            with setup.scratch():
                sizes = [(len(batch), batch[0]) for batch in loader.batch_sampler]
                ones = [(number, index) for number, (length, index) in enumerate(sizes) if length == 1]
                if not ones or len(sizes) == 1:
                    return None
                number, index = ones[0]
                batch = loader.collate_fn([dataset[index]])
        except Exception:
            return None
        return batch, f"Batch {number + 1} of {len(sizes)} holds one sample (of {len(dataset)} in all)"
    if isinstance(loader, (list, tuple)):
        for number, batch in enumerate(loader):
            found = datasets.arrays(batch)
            if found and all(tensor.ndim and tensor.shape[0] == 1 for tensor in found) and len(loader) > 1:
                return batch, f"Batch {number + 1} of {len(loader)} holds one sample"
    return None


# --- validation ---------------------------------------------------------------------------------------------------


def _augmented(setup: Setup) -> Iterator[Finding]:
    train, held_out = datasets.dataset_of(setup.loader), datasets.dataset_of(setup.val_loader)
    if train is None or held_out is None or not len(held_out):
        return
    reads = []
    for seed in range(5):
        with datasets.seeded(seed):
            sample = datasets.read(held_out, [0], lambda: True)
        if not sample:
            return
        reads.append(datasets.copied(datasets.parts(sample[0])[0]))
    different = sum(not datasets.same(reads[0], read) for read in reads[1:])
    if not different or not reads[0]:
        return
    shared = datasets.base_of(train) is datasets.base_of(held_out)
    transform = getattr(datasets.base_of(held_out), "transform", None)
    same = transform is not None and transform is getattr(datasets.base_of(train), "transform", None)
    if not shared and not same and not (transform is not None and "Random" in repr(transform)):
        return
    how = "the two loaders share one dataset, with its transform" if shared else "its transform is random"
    worst = max(
        float((a.double() - b.double()).abs().max()) if a.shape == b.shape and a.numel() else float("inf")
        for read in reads[1:]
        for a, b in zip(reads[0], read, strict=False)
    )
    yield Finding(
        "augmented-validation",
        f"Sample 0 of `val_loader` was read five times; {different} readings differ from the first one, by up to "
        f"{worst:.3g}: {how}.",
    )


def _leaked(setup: Setup) -> Iterator[Finding]:
    train, held_out = datasets.dataset_of(setup.loader), datasets.dataset_of(setup.val_loader)
    if train is None or held_out is None or setup.loader is setup.val_loader:
        return
    if train is held_out:
        yield Finding(
            "split-leakage",
            f"`loader` and `val_loader` read one and the same dataset of {len(train)} samples.",
            severity="warning",
        )
        return
    if isinstance(train, Subset) and isinstance(held_out, Subset) and train.dataset is held_out.dataset:
        both = set(map(int, train.indices)) & set(map(int, held_out.indices))
        if both:
            yield Finding(
                "split-leakage",
                f"{len(both)} of {len(held_out)} validation samples are training samples as well: the two subsets "
                f"share indices such as {sorted(both)[:3]}.",
            )
            return
    end = setup.clock.spent() + 0.12 * setup.clock.budget
    few = datasets.read(held_out, datasets.spread(len(held_out), _SAMPLES), lambda: setup.clock.spent() < end)
    wide = datasets.spread(len(train), 4000)
    many = datasets.read(train, wide, lambda: setup.clock.spent() < end)
    kept = {_row(sample) for sample in many.values()} - {None}
    rows = [_row(sample) for sample in few.values()]
    rows = [row for row in rows if row is not None]
    common = sum(row in kept for row in rows)
    if len(rows) >= 8 and common >= max(3, 0.05 * len(rows)):
        yield Finding(
            "split-leakage",
            f"{common} of {len(rows)} validation samples that were compared occur, bit for bit, among {len(many)} "
            "training samples.",
        )


def _row(sample: Any) -> bytes | None:
    """The bytes of a sample's inputs; None for what may be equal by chance."""
    found = datasets.arrays(datasets.parts(sample)[0])
    if not found:
        return None
    first = found[0]
    fine = first.is_floating_point() and first.numel() >= 3 and bool((first != first.round()).any())
    large = first.numel() >= 32 and first.unique().numel() > 3
    if not fine and not large:
        return None
    return first.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()


def _scales(setup: Setup) -> Iterator[Finding]:
    """Inputs of training and validation that differ in scale far more than two samples of one source do."""
    train, held_out = _inputs(setup.batches), _inputs(setup.val_batches)
    if train is None or held_out is None or train.ndim < 2 or train.ndim != held_out.ndim:
        return
    if train.shape[1] != held_out.shape[1] or min(len(train), len(held_out)) < 8:
        return
    axes = [axis for axis in range(train.ndim) if axis != 1]
    ours, theirs = train.double().std(axes), held_out.double().std(axes)
    both = (ours > 0) & (theirs > 0)
    if not both.any():
        return
    ratio = float((theirs[both] / ours[both]).median())
    shift = (held_out.double().mean(axes) - train.double().mean(axes)).abs()[both] / torch.maximum(ours, theirs)[both]
    apart = float(shift.median())
    limit = 3.0 if train[0].numel() > 16 and len(train) >= 16 else 6.0
    if 1 / limit < ratio < limit and not (apart > 3 and not 1 / 1.5 < ratio < 1.5):
        return
    yield Finding(
        "input-scale-mismatch",
        f"Training inputs go from {float(train.min()):.3g} to {float(train.max()):.3g} with a deviation of "
        f"{float(ours.median()):.3g}, validation inputs from {float(held_out.min()):.3g} to "
        f"{float(held_out.max()):.3g} "
        f"with {float(theirs.median()):.3g}: {max(ratio, 1 / ratio):.3g} times apart.",
    )


def _inputs(batches: list[Any]) -> Tensor | None:
    """The first floating-point or byte input of all batches together, on the CPU."""
    found = []
    for batch in batches:
        arrays = datasets.arrays(datasets.parts(batch)[0])
        # Tokens and other indices have no scale.
        if arrays and (arrays[0].is_floating_point() or arrays[0].dtype == torch.uint8) and arrays[0].ndim:
            found.append(arrays[0].detach().cpu())
    shapes = {tuple(tensor.shape[1:]) for tensor in found}
    return torch.cat(found) if len(shapes) == 1 else None
