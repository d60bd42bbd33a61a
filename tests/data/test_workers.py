"""The datasets that show what workers do: each is wrong, or right, in the way that it says."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from itertools import chain

import pytest
import torch
from torch.utils.data import DataLoader

from course.data import workers

forks = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system has no fork")


def test_ids_and_lost_counts():
    dataset = workers.WorkerIds(4)
    assert {int(i) for i in DataLoader(dataset)} == {os.getpid()}
    assert dataset.calls == 4
    others = {int(i) for i in DataLoader(dataset, num_workers=2)}
    assert len(others) == 2
    assert os.getpid() not in others
    assert dataset.calls == 4


def test_a_stored_generator_repeats_itself_and_a_global_one_does_not():
    (own, from_numpy), (own_again, from_numpy_again) = DataLoader(workers.StoredGenerator(8), 4, num_workers=2)
    assert torch.equal(own, own_again)
    assert not torch.equal(from_numpy, from_numpy_again)
    (own, _), (own_again, _) = DataLoader(workers.GlobalGenerator(8), 4, num_workers=2)
    assert not torch.equal(own, own_again)


def test_a_stream_that_nobody_divides():
    assert sorted(DataLoader(workers.WholeStream(3), batch_size=None, num_workers=2)) == [0, 0, 1, 1, 2, 2]


@pytest.fixture
def records(tmp_path):
    path = tmp_path / "records.bin"
    path.write_bytes(bytes(range(60)))
    return path


def test_a_shared_file_is_right_in_one_process(records):
    dataset = workers.SharedHandle(records, pause=0)
    assert [dataset[i] for i in (7, 3, 59)] == [7, 3, 59]
    assert len(dataset) == 60
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(dataset)
    dataset.close()


@forks
def test_a_shared_file_is_wrong_in_two(records):
    dataset = workers.SharedHandle(records, pause=0.002)
    read = chain(*DataLoader(dataset, batch_size=3, num_workers=2, multiprocessing_context="fork"))
    assert [int(i) for i in read] != list(range(60))
    dataset.close()


def test_rows_of_a_database(tmp_path):
    rows = workers.SqliteRows.create(tmp_path / "samples.db", ["a", "b", "c", "d"])
    assert len(rows) == 4
    assert rows[2] == (2, "c")
    assert pickle.loads(pickle.dumps(rows))[3] == (3, "d")
    with pytest.raises(IndexError):
        rows[4]
    batches = list(DataLoader(rows, batch_size=2, num_workers=2))  # after a first sample in this process
    assert [text for _, texts in batches for text in texts] == ["a", "b", "c", "d"]
    rows.close()
    assert rows[0] == (0, "a")
    rows.close()
    rows.close()
