"""The checks play worker processes in one process. Here the same datasets meet real workers, and agree."""

from __future__ import annotations

import itertools
import multiprocessing
import random

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from course.exercises import load_exercise
from course.exercises.data import _workers
from course.exercises.data._workers import OpenedFiles, as_worker, copied, epoch, forked

pytestmark = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="these classes cannot be spawned"
)
flipped, stream, files = (
    load_exercise(f"data.{name}") for name in ("randomly_flipped", "sharded_stream", "record_file")
)


def in_real_workers(dataset, **options):
    return DataLoader(dataset, num_workers=2, multiprocessing_context="fork", **options)


def candidates(exercise):
    return [exercise.answer_reference, *exercise.alternatives, *exercise.wrong_answers]


class Draws(Dataset):
    """One number of each global generator, and who draws."""

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return torch.rand(()).item(), random.random(), np.random.rand(), get_worker_info().id


def test_seeds_are_those_of_real_workers():
    generator = torch.Generator().manual_seed(5)
    base_seed = torch.empty((), dtype=torch.int64).random_(generator=generator).item()
    real = list(in_real_workers(Draws(), batch_size=None, generator=torch.Generator().manual_seed(5)))
    for number, (torch_draw, python_draw, _, worker) in enumerate(real):
        with as_worker(None, number, base_seed=base_seed):
            # NumPy's seed is made from the same numbers in another way; what counts is that it differs.
            assert (torch.rand(()).item(), random.random(), get_worker_info().id) == (torch_draw, python_draw, worker)
    assert real[0][2] != real[1][2]


def test_as_worker_leaves_everything_as_it_was():
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    with as_worker(None, 1):
        torch.rand(3), random.random(), np.random.rand()
    assert (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()) == before
    assert get_worker_info() is None


@pytest.mark.parametrize("candidate", candidates(flipped), ids=lambda c: c.name)
@pytest.mark.parametrize("look", [False, True], ids=["at once", "after a look"])
def test_repeated_flips(candidate, look):
    dataset = candidate.obj(torch.arange(32 * 12).reshape(32, 1, 3, 4).repeat(2, 1, 1, 1), 0.5)
    if look:
        dataset[0]
    indices = list(range(32))

    def flips(samples):
        return [bool(image[0, 0, 0] > image[0, 0, -1]) for image in samples]

    first, second = (flips(batch) for batch in in_real_workers(dataset, batch_size=32))
    played_first, played_second = (flips(read) for read in epoch(dataset, indices))
    # The second batch of the real loader holds the same images again, under other indices.
    if candidate.name not in ("SeededByTheIndex", "DecidedOnce", "UpsideDown"):
        assert (first == second) == (played_first == played_second)


@pytest.mark.parametrize("candidate", candidates(stream), ids=lambda c: c.name)
def test_shares_of_a_stream(candidate):
    dataset = candidate.obj(list(range(7)))
    real = sorted(int(i) for i in in_real_workers(dataset, batch_size=None))
    played = []
    for number in range(2):
        mine = copied(dataset)
        with as_worker(mine, number):
            played += list(mine)
    assert sorted(played) == real


@pytest.mark.parametrize("candidate", candidates(files), ids=lambda c: c.name)
def test_shared_files(candidate, tmp_path):
    """Where the check sees one worker disturb another, real workers do so too; where it does not, they do not."""
    path = tmp_path / "records.bin"
    path.write_bytes(bytes(itertools.chain.from_iterable([i] * 3 for i in range(200))))
    dataset = candidate.obj(str(path), 3)
    dataset[199]
    right = [bytes([i] * 3) for i in range(200)]
    try:
        real = list(in_real_workers(dataset, batch_size=None)) == right
    except Exception:
        real = False
    seen = expected_reads(candidate.obj, path)
    if candidate.name in ("OpenedAtOnce", "OpenedAtFirstUse", "PicklableButShared"):
        assert not seen  # a race decides whether real workers show it in 200 samples
    else:
        assert seen == real


def expected_reads(kind, path):
    with OpenedFiles(path).watched() as opened:
        dataset = kind(str(path), 3)
        dataset[199]
        first, second = forked(dataset), forked(dataset)
        with as_worker(first, 0):
            first[0]

        def other():
            with as_worker(second, 1):
                second[7]

        opened.after_seek = other
        with as_worker(first, 0):
            return first[20] == bytes([20] * 3)


def test_the_module_is_no_exercise():
    assert _workers.__doc__
    with pytest.raises(LookupError):
        load_exercise("data._workers")
