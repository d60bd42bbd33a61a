"""What is kept of a value, and what two observations are compared by."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support import demo
from torch import nn

from course.checking import Exercise
from course.checking.compare import first_difference, numberless
from course.checking.observation import (
    Encoder,
    ErrorSeen,
    ModuleSeen,
    ObjectSeen,
    Observation,
    TensorSeen,
    dump_message,
    load_message,
)


def difference(seen, expected, compare=("value", "shape", "dtype"), inputs=(), **options):
    exercise = Exercise("x.y", **demo.text("X"), compare=compare, **options)
    encoded = [Observation(Encoder(inputs)(value)) for value in (seen, expected)]
    return first_difference(exercise, *encoded)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool, torch.complex64]
)
def test_tensors_survive_the_journey(dtype):
    x = torch.tensor([[0, 1, 1], [1, 0, 1]]).to(dtype).t()
    seen = load_message(dump_message(Encoder()(x)))
    assert torch.equal(seen.tensor(), x)
    assert (seen.shape, seen.stride) == ((3, 2), (1, 3))


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 0, 3)])
def test_small_and_empty_tensors(shape):
    assert Encoder()(torch.zeros(shape)).tensor().shape == shape


def test_one_element_with_a_wide_stride():
    x = torch.arange(12)[2:].as_strided((1,), (7,))
    assert Encoder()(x).tensor().tolist() == x.tolist()


def test_plain_values_and_containers():
    value = {"a": [1, 2.5, None, ...], "b": ("x", b"y", 1j), 3: True}
    assert load_message(dump_message(Encoder()(value))) == value
    assert Encoder()(torch.Size([2, 3])) == (2, 3)
    assert Encoder()(torch.float32) == ObjectSeen("dtype", "torch.float32")
    assert Encoder()({2, 1}) == ("set", ["1", "2"])


def test_modules_are_their_mode_and_state():
    seen = Encoder()(nn.Linear(2, 1).eval())
    assert isinstance(seen, ModuleSeen)
    assert list(seen.state) == ["weight", "bias"]
    assert not seen.training


def test_too_much_is_not_kept():
    assert Encoder()(torch.zeros(1).expand(2**40)).data is None
    assert Encoder()(torch.zeros(3, device="meta")).data is None
    deep = []
    for _ in range(50):
        deep = [deep]
    assert "deeply nested" in str(Encoder()(deep))
    assert "too many" in str(Encoder()([[0] * 50] * 50)[-1])


def test_sharing_is_seen_through_views_and_arrays():
    x, array = torch.arange(6), np.arange(6.0)
    encoder = Encoder((x, [array]))
    assert encoder(x[2:]).shares == (0,)
    assert encoder(torch.from_numpy(array[1:3])).shares == (1,)
    assert encoder(array.reshape(2, 3).T).shares == (1,)
    assert encoder(x.clone()).shares == ()


def test_equal_values_agree():
    assert difference(torch.tensor([1.0, float("nan")]), torch.tensor([1.0, float("nan")])) is None
    assert difference([1, 2], (1, 2)) is None
    assert difference(0.1 + 0.2, 0.3) is None


@pytest.mark.parametrize(
    ("seen", "expected", "aspect"),
    [
        (torch.zeros(2, 3), torch.zeros(3, 2), "shape"),
        (torch.zeros(3), torch.zeros(3, 1), "shape"),
        (torch.zeros(3), torch.zeros(3, dtype=torch.float64), "dtype"),
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0]), "value"),
        (torch.tensor(3), 3, "type"),
        (np.zeros(3), torch.zeros(3, dtype=torch.float64), "type"),
        (True, 1, "type"),
        (2.0, 2, "dtype"),
        (3, 4, "value"),
        (0.5, 0.25, "value"),
        ([1], [1, 2], "value"),
        ({"a": 1}, {"b": 1}, "value"),
        (None, torch.zeros(1), "type"),
        (torch.zeros(2, device="meta"), torch.zeros(2), "type"),
    ],
)
def test_differences_are_found(seen, expected, aspect):
    assert difference(seen, expected).aspect == aspect


def test_a_large_tensor_shows_the_first_element_that_differs():
    x = torch.arange(20.0).reshape(4, 5)
    y = x.clone()
    y[2, 1] = -1
    found = difference(y, x)
    assert (found.seen, found.expected) == ("element [2, 1] is -1.0", "element [2, 1] is 11.0")


def test_types_are_named_where_they_differ():
    assert difference(None, 3).seen == "None (nothing was returned)"
    assert difference("3", 3).seen == "the Python str '3'"
    assert difference([1], [1, 2]).expected == "2 items"


def test_only_the_asked_aspects_count():
    x = torch.arange(6.0).reshape(2, 3)
    copied = x.t().contiguous()
    assert difference(x.t(), copied) is None
    assert difference(x.t(), copied, compare=("value", "strides")).aspect == "strides"
    assert difference(x.t(), copied, compare=("value", "sharing"), inputs=(x,)).aspect == "sharing"
    assert difference(x.double(), x, compare=("value", "shape")) is None
    assert difference(x.double() + 1e-12, x, compare=("value", "shape")) is None


def test_strides_of_single_and_empty_axes_do_not_count():
    one = torch.zeros(4, 4)[:1]
    assert difference(one, torch.zeros(1, 4), compare=("value", "strides")) is None
    assert difference(torch.zeros(0, 3).t(), torch.zeros(3, 0), compare=("value", "strides")) is None


def test_tolerances_are_those_of_the_exercise():
    assert difference(torch.tensor(1.01), torch.tensor(1.0)) is not None
    assert difference(torch.tensor(1.01), torch.tensor(1.0), rtol=0.1, atol=0.0) is None


def test_an_expected_exception_may_be_a_subclass():
    exercise = Exercise("x.y", **demo.text("X"))
    key = Observation(ErrorSeen("KeyError", ("KeyError", "LookupError", "Exception"), "a"))
    lookup = Observation(ErrorSeen("LookupError", ("LookupError", "Exception"), "b"))
    assert first_difference(exercise, key, lookup) is None
    assert first_difference(exercise, lookup, key).aspect == "exception"
    assert first_difference(exercise, lookup, Observation(3)).aspect == "exception"
    assert first_difference(exercise, Observation(3), lookup).expected == "LookupError raised"


def test_numbers_in_messages_do_not_count():
    assert numberless("size 3 and 40") == numberless("size 7 and 5")


def test_tensor_seen_is_immutable():
    with pytest.raises(AttributeError):
        TensorSeen((1,), "float32", b"").shape = (2,)
