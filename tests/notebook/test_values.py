from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from course.notebook.values import describe, number, plain, same

NAN = float("nan")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (3, 3),
        (NAN, NAN),
        ("a", "a"),
        (torch.Size([2, 3]), (2, 3)),
        ([1, (2, NAN)], [1, (2, NAN)]),
        ({"a": torch.ones(2)}, {"a": torch.ones(2)}),
        (torch.tensor([1.0, NAN]), torch.tensor([1.0, NAN])),
        (np.array([1.0, NAN]), np.array([1.0, NAN])),
        (torch.tensor(3), 3),
        (2.5, np.array(2.5)),
        (torch.ones(2, requires_grad=True), torch.ones(2)),
        (torch.float32, torch.float32),
    ],
)
def test_same(left, right):
    assert same(left, right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (3, 4),
        (NAN, 1.0),
        ((2, 3), (2, 3, 1)),
        ({"a": 1}, {"b": 1}),
        (torch.ones(2), torch.ones(2, 1)),
        (torch.ones(2), torch.ones(2, dtype=torch.float64)),
        (torch.ones(2), torch.zeros(2)),
        (torch.tensor([1.0, NAN]), torch.tensor([1.0, 2.0])),
        (torch.ones(1), 1),
        (torch.ones(2), [1, 1]),
        (torch.ones(2), np.ones(2, dtype=np.float32)),
        (torch.tensor(3), "3"),
    ],
)
def test_different(left, right):
    assert not same(left, right)
    assert not same(right, left)


def test_describe_tensors_by_values_shape_and_dtype():
    assert describe(torch.tensor([4], dtype=torch.uint8)) == "tensor([4], dtype=torch.uint8)\nshape (1,), torch.uint8"
    assert describe(torch.zeros(50, 50)) == "a tensor of shape (50, 50), torch.float32"
    assert describe(np.zeros(2)) == "array([0., 0.])\nshape (2,), float64"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1048576, "1,048,576"),
        (0.123456, "0.123"),
        (0.0, "0"),
        (12345.6, "12,346"),
        (1.5e-7, "1.5e-07"),
        (True, "True"),
        ("as it is", "as it is"),
        ((2, 3), "(2, 3)"),
        (math.inf, "inf"),
    ],
)
def test_numbers_are_readable(value, text):
    assert number(value) == text


def test_plain_values_are_json():
    value = {
        "t": torch.tensor([1.5]),
        "n": np.float64(2),
        "nan": NAN,
        "d": torch.float32,
        "s": torch.Size([2]),
        3: None,
    }
    assert json.loads(json.dumps(plain(value), allow_nan=False)) == {
        "t": [1.5],
        "n": 2.0,
        "nan": "nan",
        "d": "torch.float32",
        "s": [2],
        "3": None,
    }


def test_plain_arrays_with_nan_are_json():
    json.dumps(plain(torch.tensor([NAN, math.inf])), allow_nan=False)
