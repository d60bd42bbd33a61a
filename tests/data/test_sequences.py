from __future__ import annotations

import pickle

import pytest
import torch
from torch.utils.data import DataLoader

from course.data.padding import pad_collate
from course.data.sequences import FeatureSequences, TokenSequences


def test_samples_are_what_they_say():
    dataset = TokenSequences(60, shortest=2, longest=9, vocabulary=7)
    assert len(dataset) == len(dataset.lengths) == 60
    for index, (tokens, label) in enumerate(dataset):
        assert tokens.shape == (dataset.lengths[index],)
        assert tokens.dtype == torch.int64
        assert 2 <= len(tokens) <= 9
        assert 1 <= tokens.min() <= tokens.max() <= 6
        assert label == int(tokens[0] in tokens[1:])


def test_both_labels_and_all_lengths_occur():
    dataset = TokenSequences(400, shortest=3, longest=12)
    assert {label for _, label in dataset} == {0, 1}
    assert set(dataset.lengths) == set(range(3, 13))
    assert sorted(dataset.lengths)[200] < 7.5  # short ones are in the majority


def test_a_sample_depends_on_seed_and_index_alone():
    first, other = TokenSequences(5, seed=1), TokenSequences(5, seed=2)
    backwards = [first[i][0] for i in (4, 3, 2, 1, 0)][::-1]
    torch.manual_seed(7)
    before = torch.get_rng_state()
    again = TokenSequences(5, seed=1)
    assert all(torch.equal(again[i][0], backwards[i]) for i in range(5))
    assert torch.equal(before, torch.get_rng_state())
    assert not all(torch.equal(first[i][0], other[i][0]) for i in range(5))


@pytest.mark.parametrize("index", [3, -1])
def test_indices_outside(index):
    with pytest.raises(IndexError):
        TokenSequences(3)[index]


@pytest.mark.parametrize("options", [{"shortest": 0}, {"shortest": 5, "longest": 4}, {"vocabulary": 1}])
def test_impossible_options(options):
    with pytest.raises(ValueError, match="asked for"):
        TokenSequences(3, **options)


def test_features_belong_to_tokens():
    tokens, features = TokenSequences(4, seed=3), FeatureSequences(4, seed=3, features=5)
    for (ids, label), (vectors, same) in zip(tokens, features, strict=True):
        assert vectors.shape == (len(ids), 5)
        assert vectors.dtype == torch.float32
        assert label == same
        assert torch.equal(vectors[0], features.table[ids[0]])


@pytest.mark.parametrize("kind", [TokenSequences, FeatureSequences])
def test_workers_can_load_it(kind):
    dataset = kind(6, longest=8)
    copy = pickle.loads(pickle.dumps(dataset))
    assert all(torch.equal(dataset[i][0], copy[i][0]) for i in range(6))
    here = list(DataLoader(dataset, batch_size=3, collate_fn=pad_collate))
    there = list(DataLoader(dataset, batch_size=3, collate_fn=pad_collate, num_workers=2))
    assert all(torch.equal(a.padded, b.padded) for a, b in zip(here, there, strict=True))
