from __future__ import annotations

from torch.utils.data import DataLoader

from course.data.splits import Transformed

PAIRS = [(i, i * i) for i in range(5)]


def test_only_x_is_transformed_and_anew_at_each_access():
    calls = []

    def counted(x):
        calls.append(x)
        return x + 10 * len(calls)

    dataset = Transformed(PAIRS, counted)
    assert not calls
    assert dataset[2] == (12, 4)
    assert dataset[2] == (22, 4)
    assert len(dataset) == 5


def test_without_a_transform():
    assert list(Transformed(PAIRS, None)) == PAIRS
    xs, ys = next(iter(DataLoader(Transformed(PAIRS, None), batch_size=5)))
    assert xs.tolist() == [0, 1, 2, 3, 4]
    assert ys.tolist() == [0, 1, 4, 9, 16]
