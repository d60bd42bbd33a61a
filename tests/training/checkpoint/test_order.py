from __future__ import annotations

import random
from collections import Counter

import numpy
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset

from course.training.checkpoint import CheckpointError, ResumableBatches, sample_seed
from course.training.checkpoint.order import seeded_globals


class Numbers(Dataset):
    def __init__(self, count=10):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index >= self.count:
            raise IndexError
        return torch.tensor(float(index)), index


class Drawing(Numbers):
    """Draws from all global generators, as transforms of torchvision and of others do."""

    def __getitem__(self, index):
        return torch.rand(2) + random.random() + float(numpy.random.rand()), index


def jitter(sample, generator):
    value, index = sample
    return value + torch.rand(2, generator=generator), index


def make(dataset=None, **options):
    options = {"seed": 5, **options}
    return ResumableBatches(Numbers() if dataset is None else dataset, 4, **options)


def seen(batches, epochs=1):
    return [[value.tolist() for value in batch] for _ in range(epochs) for batch in batches]


def test_each_epoch_has_all_samples_once_in_an_order_of_its_own():
    batches = make()
    epochs = [[index for _, indices in seen(batches) for index in indices] for _ in range(3)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    assert (batches.epoch, batches.position, len(batches)) == (3, 0, 3)
    assert [batches.indices(epoch).tolist() for epoch in range(3)] == epochs
    assert [len(indices) for _, indices in seen(make())] == [4, 4, 2]


def test_the_order_depends_on_the_seed_alone():
    first = seen(make(), 2)
    torch.manual_seed(99)
    assert seen(make(), 2) == first
    assert seen(make(seed=6), 2) != first


def test_without_shuffling():
    assert [indices for _, indices in seen(make(shuffle=False))] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


@pytest.mark.parametrize("count", [8, 10])
def test_the_last_batch_may_be_dropped(count):
    batches = make(Numbers(count), drop_last=True)
    assert len(batches) == len(seen(batches)) == 2
    assert len(make(Numbers(count))) == (2 if count == 8 else 3)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("done", [0, 1, 2, 3, 4])
@pytest.mark.parametrize(
    ("dataset", "options"),
    [(Numbers, {"transform": jitter}), (Drawing, {"seed_globals": True})],
    ids=["generator", "globals"],
)
def test_resumed_batches_are_those_of_the_uninterrupted_run(workers, done, dataset, options):
    whole = seen(make(dataset(), **options), 2)
    first = make(dataset(), num_workers=workers, **options)
    got = []
    while len(got) < done:
        for batch in first:
            got.append([value.tolist() for value in batch])
            if len(got) == done:
                state = first.state_dict()
                break
    state = first.state_dict()
    second = make(dataset(), num_workers=2 - workers, **options)
    second.load_state_dict(state)
    while second.epoch < 2:
        got += seen(second)
    assert got == whole


def test_a_state_saved_after_the_last_batch_still_ends_that_epoch():
    """What comes after the loop, such as the evaluation, has not been done yet."""
    batches = make()
    for _ in batches:
        state = batches.state_dict()
    assert (state["epoch"], state["position"]) == (0, 3)
    other = make()
    other.load_state_dict(state)
    assert list(other) == []
    assert (other.epoch, other.position) == (1, 0)


def test_augmentation_differs_by_sample_and_by_epoch():
    batches = make(transform=lambda sample, generator: torch.rand(1, generator=generator).item())
    drawn = [value for _ in range(3) for batch in batches for value in batch.tolist()]
    assert len(set(drawn)) == 30


def test_the_augmentation_of_a_sample_does_not_depend_on_its_batch():
    draws = {}
    for size in (1, 3, 10):
        batches = ResumableBatches(Numbers(), size, seed=5, transform=jitter)
        draws[size] = sorted(
            (index, value) for values, indices in seen(batches) for value, index in zip(values, indices, strict=True)
        )
    assert draws[1] == draws[3] == draws[10]


@pytest.mark.parametrize("options", [{}, {"num_workers": 2}, {"seed_globals": True}, {"transform": jitter}])
def test_iterating_draws_nothing_from_the_global_generators(options):
    def states():
        return random.getstate(), numpy.random.get_state()[1].tolist(), torch.get_rng_state().tolist()

    before = states()
    seen(make(Numbers(), **options))
    assert states() == before


def test_global_draws_without_seeding_are_not_restored():
    """What the documentation says is not restored, really is not."""
    assert seen(make(Drawing())) != seen(make(Drawing()))
    assert seen(make(Drawing(), seed_globals=True)) == seen(make(Drawing(), seed_globals=True))


def test_global_generators_are_set_back_after_an_error():
    torch.manual_seed(1)
    wanted = torch.get_rng_state()
    with pytest.raises(ZeroDivisionError), seeded_globals(2**64 - 1):
        torch.rand(1 // 0)
    assert torch.equal(torch.get_rng_state(), wanted)


def test_tensors_and_other_options_of_the_loader():
    images, targets = torch.arange(12).reshape(6, 2), torch.arange(6)
    batches = ResumableBatches((images, targets), 2, seed=0, collate_fn=lambda items: [t.item() for _, t in items])
    assert sorted(item for batch in batches for item in batch) == list(range(6))
    for rows, numbers in ResumableBatches([images, targets], 4, seed=0):
        assert torch.equal(rows, images[numbers])


def test_an_empty_dataset_has_no_batches():
    batches = make(Numbers(0))
    assert seen(batches, 2) == []
    assert (len(batches), batches.epoch) == (0, 2)


def test_what_cannot_be_iterated_in_order_is_refused():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(3))

    with pytest.raises(TypeError, match="items by number; Stream has not"):
        make(Stream())
    with pytest.raises(ValueError, match=r"equal length; they have \[3, 2\]"):
        make((torch.zeros(3), torch.zeros(2)))
    with pytest.raises(ValueError, match="at least 1, not 0"):
        ResumableBatches(Numbers(), 0, seed=1)
    with pytest.raises(TypeError, match="generator, sampler cannot be given"):
        make(sampler=None, generator=None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 6}, "seed 5 in the file, 6 here"),
        ({"shuffle": False}, "shuffle True in the file, False here"),
        ({"drop_last": True}, "drop_last False in the file, True here"),
        ({"dataset": Numbers(11)}, "length 10 in the file, 11 here"),
    ],
)
def test_another_order_is_refused(changes, message):
    batches = make()
    next(iter(batches))
    other = make(**changes)
    with pytest.raises(CheckpointError, match=message):
        other.load_state_dict(batches.state_dict())
    assert (other.epoch, other.position) == (0, 0)


def test_seeds_are_fixed_for_all_time_and_differ():
    assert sample_seed(0, 0, 0) == 11684132067157788011
    assert len({sample_seed(s, e, i) for s in range(5) for e in range(5) for i in range(-2, 40)}) == 5 * 5 * 42
    assert all(0 <= sample_seed(s, 1, 2) < 2**64 for s in (-1, 2**70))
    low = Counter(sample_seed(0, 0, i) % 2 for i in range(1000))
    assert 400 < low[0] < 600
