from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader

from course.data.padding import PaddedBatch, length_mask, pad_collate


def test_padding_mask_and_lengths():
    batch = pad_collate([(torch.tensor([7, 0]), 1), (torch.tensor([9]), 0), (torch.tensor([4, 5, 6]), 2)])
    assert isinstance(batch, PaddedBatch)
    assert batch.padded.tolist() == [[7, 0, 0], [9, 0, 0], [4, 5, 6]]
    assert batch.mask.tolist() == [[True, True, False], [True, False, False], [True, True, True]]
    assert batch.lengths.tolist() == [2, 1, 3]
    assert batch.targets.tolist() == [1, 0, 2]
    assert batch.padded.dtype == batch.lengths.dtype == batch.targets.dtype == torch.int64
    assert batch.mask.dtype == torch.bool


def test_features_keep_their_axes_and_dtype():
    batch = pad_collate([(torch.ones(2, 3, dtype=torch.float64), 0), (torch.ones(4, 3, dtype=torch.float64), 1)])
    assert batch.padded.shape == (2, 4, 3)
    assert batch.padded.dtype == torch.float64
    assert batch.padded[0, 2:].eq(0).all()


def test_padding_value():
    batch = pad_collate([(torch.tensor([1, -1]), 0), (torch.tensor([2]), 0)], padding_value=-1)
    assert batch.padded.tolist() == [[1, -1], [2, -1]]
    assert batch.lengths.tolist() == [2, 1]


def test_an_empty_sequence():
    batch = pad_collate([(torch.tensor([]), 0), (torch.tensor([1.0]), 1)])
    assert batch.lengths.tolist() == [0, 1]
    assert batch.mask.tolist() == [[False], [True]]


def test_targets_that_are_sequences_are_padded_with_the_ignored_number():
    samples = [(torch.tensor([1, 2]), torch.tensor([0, 1])), (torch.tensor([3]), torch.tensor([2]))]
    assert pad_collate(samples).targets.tolist() == [[0, 1], [2, -100]]
    assert pad_collate(samples, target_padding=5).targets.tolist() == [[0, 1], [2, 5]]


def test_targets_that_are_tensors_without_axes():
    batch = pad_collate([(torch.tensor([1]), torch.tensor(3)), (torch.tensor([2]), torch.tensor(4))])
    assert batch.targets.tolist() == [3, 4]


def test_no_samples():
    with pytest.raises(ValueError, match="at least one"):
        pad_collate([])


def test_in_a_loader():
    samples = [(torch.arange(n), n) for n in (3, 1, 2)]
    batches = list(DataLoader(samples, batch_size=2, collate_fn=pad_collate))
    assert [batch.padded.shape for batch in batches] == [(2, 3), (1, 2)]


def test_length_mask():
    lengths = torch.tensor([2, 0, 3])
    assert length_mask(lengths).tolist() == [[True, True, False], [False] * 3, [True] * 3]
    assert length_mask(lengths, 4)[2].tolist() == [True, True, True, False]
    assert length_mask(torch.tensor([0])).shape == (1, 0)


@pytest.mark.parametrize(("lengths", "size"), [([2, 5], 4), ([-1, 2], None)])
def test_lengths_that_do_not_fit(lengths, size):
    with pytest.raises(ValueError, match="must lie between 0 and"):
        length_mask(torch.tensor(lengths), size)
