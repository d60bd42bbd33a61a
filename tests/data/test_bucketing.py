from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import DataLoader

from course.data.bucketing import BucketBatchSampler, padding_share
from course.data.padding import pad_collate

LENGTHS = [1 + (i * 37) % 101 for i in range(500)]


def test_share_of_padding():
    assert padding_share([2, 4, 3], [[0, 1], [2]]) == pytest.approx(2 / 11)
    assert padding_share([5, 5], [[0, 1]]) == 0
    assert padding_share([], []) == 0


@pytest.mark.parametrize(("count", "batch_size", "pool"), [(500, 8, 20), (23, 4, 2), (5, 8, 1), (0, 3, 2), (12, 1, 5)])
def test_every_index_comes_once(count, batch_size, pool):
    sampler = BucketBatchSampler(LENGTHS[:count], batch_size, pool)
    batches = list(sampler)
    assert sorted(itertools.chain(*batches)) == list(range(count))
    assert len(batches) == len(sampler)
    assert all(len(batch) <= batch_size for batch in batches)
    assert sum(len(batch) < batch_size for batch in batches) <= 1


def test_little_padding_and_a_larger_pool_pads_less():
    shares = [padding_share(LENGTHS, BucketBatchSampler(LENGTHS, 8, pool)) for pool in (1, 5, 60)]
    assert shares[0] > 0.3
    assert shares[0] > shares[1] > shares[2]
    assert shares[2] < 0.03


def test_short_batches_do_not_come_first():
    longest = [max(LENGTHS[i] for i in batch) for batch in BucketBatchSampler(LENGTHS, 4, pool=200)]
    rises = sum(a < b for a, b in itertools.pairwise(longest)) / (len(longest) - 1)
    assert abs(rises - 0.5) < 0.2


def test_epochs_differ_and_seeds_repeat_them():
    def two_epochs(seed):
        sampler = BucketBatchSampler(LENGTHS, 8, generator=torch.Generator().manual_seed(seed))
        return [list(sampler), list(sampler)]

    first, second = two_epochs(3)
    assert {frozenset(batch) for batch in first}.isdisjoint({frozenset(batch) for batch in second})
    assert [first, second] == two_epochs(3)
    assert [first, second] != two_epochs(4)


def test_in_a_loader():
    samples = [(torch.ones(n), n) for n in LENGTHS[:30]]
    loader = DataLoader(samples, batch_sampler=BucketBatchSampler(LENGTHS[:30], 4), collate_fn=pad_collate)
    assert len(loader) == 8
    assert sorted(torch.cat([batch.lengths for batch in loader]).tolist()) == sorted(LENGTHS[:30])


@pytest.mark.parametrize("wrong", [{"batch_size": 0}, {"batch_size": 2, "pool": 0}])
def test_sizes_that_make_no_sense(wrong):
    with pytest.raises(ValueError, match="at least 1"):
        BucketBatchSampler(LENGTHS, **wrong)


def test_the_lengths_are_kept_as_they_were():
    mine = SimpleNamespace(lengths=[3, 1, 2])
    sampler = BucketBatchSampler(mine.lengths, 2)
    mine.lengths.append(9)
    assert len(sampler) == 2
