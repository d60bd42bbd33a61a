"""Read a few samples of a dataset, take them apart and compare them."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset

from course.doctor import reach

_LABEL_NAMES = ("labels", "label", "targets", "target", "y", "class", "classes")
_MOST_LABELS = 200_000


def dataset_of(loader: Any) -> Any:
    """The map-style dataset of a DataLoader; None for anything else."""
    if isinstance(loader, DataLoader) and not isinstance(loader.dataset, IterableDataset):
        dataset = loader.dataset
        if hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"):
            return dataset
    return None


def base_of(dataset: Any) -> Any:
    """The dataset inside Subset and other wrappers that have it as `dataset`."""
    for _ in range(8):
        inner = getattr(dataset, "dataset", None)
        if inner is None or not hasattr(inner, "__getitem__"):
            return dataset
        dataset = inner
    return dataset


def held(dataset: Any, kinds: type | tuple[type, ...], limit: int = 5000) -> list[tuple[str, Any]]:
    """(path, object) of what the attributes of a dataset hold of some types, however deep."""
    parts = reach.walk([("dataset", dataset)], set(), limit=limit)
    return [(p.path, p.thing) for p in parts if p.path.startswith("dataset") and isinstance(p.thing, kinds)]


def spread(number: int, most: int) -> list[int]:
    """Indices all over 0 .. number - 1, half of them in a row at the beginning, in order."""
    if number <= most:
        return list(range(number))
    wide = most // 2
    step = number / wide
    return sorted({*range(most - wide), *(int(step * i) for i in range(wide)), number - 1})


def read(dataset: Any, indices: Sequence[int], goes_on: Callable[[], bool]) -> dict[int, Any]:
    """Samples by index, as many as time allows; ends quietly where one raises."""
    found: dict[int, Any] = {}
    for index in indices:
        if found and not goes_on():
            break
        try:
            found[index] = dataset[index]
        except Exception:
            break
    return found


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Inside the block the global generators start from a seed; they are put back after it."""
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    try:
        yield
    finally:
        torch.set_rng_state(before[0])
        random.setstate(before[1])
        np.random.set_state(before[2])


def parts(sample: Any) -> tuple[Any, Any]:
    """(inputs, target) of a sample or a batch; target is None where it cannot be told."""
    if isinstance(sample, dict):
        name = next((key for key in _LABEL_NAMES if key in sample), None)
        return {k: v for k, v in sample.items() if k != name}, sample.get(name) if name else None
    if isinstance(sample, (tuple, list)) and len(sample) >= 2:
        return (sample[0] if len(sample) == 2 else tuple(sample[:-1])), sample[-1]
    if isinstance(sample, (tuple, list)) and len(sample) == 1:
        return sample[0], None
    return sample, None


def arrays(value: Any, depth: int = 4) -> list[Tensor]:
    """Tensors and NumPy arrays in nested containers, as tensors; other images as arrays."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        try:
            return [torch.from_numpy(np.ascontiguousarray(value))]
        except (TypeError, ValueError):
            return []
    if depth and isinstance(value, dict):
        return list(itertools.chain.from_iterable(arrays(item, depth - 1) for item in value.values()))
    if depth and isinstance(value, (tuple, list)) and len(value) <= 64:
        return list(itertools.chain.from_iterable(arrays(item, depth - 1) for item in value))
    if type(value).__module__.startswith("PIL."):
        return [torch.from_numpy(np.array(value))]
    return []


def copied(sample: Any) -> list[Tensor]:
    """The arrays of a sample as copies of their own; numbers too."""
    found = [array.detach().clone() for array in arrays(sample)]
    flat = (
        sample if isinstance(sample, (tuple, list)) else list(sample.values()) if isinstance(sample, dict) else [sample]
    )
    found += [torch.tensor(item, dtype=torch.float64) for item in flat if isinstance(item, (int, float))]
    return found


def same(one: Sequence[Tensor], other: Sequence[Tensor]) -> bool:
    """Whether two lists of tensors are equal, NaN to NaN."""
    return len(one) == len(other) and all(
        a.shape == b.shape and a.dtype == b.dtype and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
        if a.is_floating_point()
        else a.shape == b.shape and torch.equal(a, b)
        for a, b in zip(one, other, strict=True)
    )


def label(target: Any) -> int | None:
    """A class index; None for anything else."""
    if isinstance(target, Tensor):
        if target.numel() != 1 or target.is_complex():
            return None
        target = target.item()
    elif isinstance(target, np.ndarray):
        if target.size != 1:
            return None
        target = target.item()
    if isinstance(target, (bool, int, np.integer, np.bool_)):
        return int(target)
    if isinstance(target, float) and target.is_integer():
        return int(target)
    return None


def all_labels(dataset: Any) -> list[int] | None:
    """The class indices of a dataset where it keeps them at hand; None where samples would have to be read."""
    if isinstance(dataset, Subset):
        inner = all_labels(dataset.dataset)
        return None if inner is None else [inner[index] for index in dataset.indices]
    if isinstance(dataset, TensorDataset):
        kept: Any = dataset.tensors[-1] if len(dataset.tensors) > 1 else None
    else:
        kept = next((getattr(dataset, name) for name in ("targets", "labels") if hasattr(dataset, name)), None)
    if kept is None or isinstance(kept, (str, dict)) or not hasattr(kept, "__len__"):
        return None
    if (not isinstance(dataset, Sequence) and len(kept) != len(dataset)) or len(kept) > _MOST_LABELS:
        return None
    if isinstance(kept, (Tensor, np.ndarray)):
        values = torch.as_tensor(kept)
        if values.is_complex() or values.numel() != len(kept):
            return None
        values = values.flatten()
        if values.is_floating_point() and not bool((values == values.round()).all()):
            return None
        return [int(value) for value in values.tolist()]
    labels = [label(item) for item in kept]
    return None if any(item is None for item in labels) else [item for item in labels if item is not None]
