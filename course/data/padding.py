"""Sequences of different length in one batch: padding, and the mask and lengths that tell it from data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence


class PaddedBatch(NamedTuple):
    """A batch of B sequences, padded at the end to the length T of the longest.

    padded: (B, T, ...), the dtype of the sequences. mask: bool (B, T), True where an element is real.
    lengths: int64 (B,). targets: (B,), or padded like the sequences where a sample's target is itself a sequence.
    """

    padded: Tensor
    mask: Tensor
    lengths: Tensor
    targets: Tensor


def length_mask(lengths: Tensor, size: int | None = None) -> Tensor:
    """The mask of a padded batch, bool (B, size): True at the first lengths[b] positions of row b.

    lengths: integers (B,), at least one. size: the padded length, by default the largest of the lengths.
    Raises ValueError where a length is negative or exceeds the size.
    """
    longest = int(lengths.max())
    size = longest if size is None else size
    if longest > size or int(lengths.min()) < 0:
        raise ValueError(
            f"lengths from {int(lengths.min())} to {longest} were given; they must lie between 0 and {size}"
        )
    return torch.arange(size, device=lengths.device) < lengths[:, None]


def pad_collate(
    samples: Sequence[tuple[Tensor, Any]], padding_value: float = 0.0, target_padding: float = -100
) -> PaddedBatch:
    """Collate samples (sequence, target) for a DataLoader, in the order in which they come.

    samples: at least one; sequences of shape (T_i, ...) that agree in all but T_i. Targets are numbers, tensors of one
        shape, or sequences of their own: tensors with an axis of different lengths, padded with `target_padding`, whose
        default cross_entropy ignores.
    Raises ValueError for an empty list.
    """
    if not samples:
        raise ValueError("pad_collate was given no samples; a batch needs at least one")
    sequences, targets = zip(*samples, strict=True)
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    padded = pad_sequence(list(sequences), batch_first=True, padding_value=padding_value)
    return PaddedBatch(padded, length_mask(lengths, padded.shape[1]), lengths, _targets(targets, target_padding))


def _targets(targets: Sequence[Any], padding: float) -> Tensor:
    if isinstance(targets[0], Tensor) and targets[0].ndim:
        return pad_sequence(list(targets), batch_first=True, padding_value=padding)
    return torch.as_tensor(targets)
