"""Lesson 01: a tensor that shares nothing with the NumPy array it came from."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from course.checking import Exercise

exercise = Exercise(
    "tensors.independent_tensor",
    title="An independent tensor from an array",
    task="""
        `independent_tensor(array)` takes a NumPy array of numbers and returns a float32 tensor with the same shape
        and the same numbers. The two are independent: a later write into one never shows in the other.

        The array may be anything that NumPy hands out:

        - float64, float32 or integers, with any number of rows, also none;
        - flipped, such as `a[:, ::-1]`, which has negative strides;
        - read-only, such as the result of `np.frombuffer`. The tensor can be written to all the same.

        Example: `independent_tensor(np.array([[1.5, 2.0]])[:, ::-1])` is `[[2.0, 1.5]]`, float32.
        """,
    hints=(
        "from_numpy, as_tensor and .float() copy only if they must; an array that is already float32 comes through "
        "without a copy. And no tensor has negative strides. Which library can deal with both?",
        "Let NumPy make a copy in the dtype that you want, then wrap the copy: nobody else knows about that memory, "
        "so it may be shared.",
    ),
    compare=("value", "shape", "dtype", "sharing"),
)


@exercise.stub
def independent_tensor(array: np.ndarray) -> Tensor:
    """Return the numbers of array, any shape, dtype and strides, as a float32 tensor.

    The tensor shares no memory with array and can be written to."""
    raise NotImplementedError


@exercise.reference
def by_wrapping_a_copy(array):
    return torch.from_numpy(np.array(array, dtype=np.float32))


@exercise.alternative
def by_astype(array):
    return torch.from_numpy(array.astype("float32"))


@exercise.alternative
def by_tensor_of_a_copy(array):
    return torch.tensor(array.copy(), dtype=torch.float32)


@exercise.wrong(
    "This copies only where the dtype has to change. An array that is float32 already is wrapped as it is: array and "
    "tensor use one buffer, and a write into one shows in the other. (as_tensor, from_numpy(...).float(), "
    "torch.Tensor and np.asarray are alike in this. Nor does any of them change negative strides.)",
    fault="numpy-shared-memory",
)
def by_as_tensor(array):
    return torch.as_tensor(array, dtype=torch.float32)


@exercise.wrong(
    "Nothing is shared, but a flipped array fails: it is read with its own strides, and those are negative. PyTorch "
    "has no negative strides and refuses, in torch.tensor as in from_numpy, before anything is copied. NumPy can put "
    "the numbers in order first.",
    fault="numpy-negative-stride",
)
def by_tensor(array):
    return torch.tensor(array, dtype=torch.float32)


@exercise.wrong(
    "A flipped array works here, because making it contiguous copies it. An array that is contiguous and float32 "
    "already comes through without any copy, so its memory is shared, for a read-only array as well. A copy has to "
    "be made in every case.",
    fault="numpy-shared-memory",
)
def by_contiguous_array(array):
    return torch.from_numpy(np.ascontiguousarray(array)).to(torch.float32)


@exercise.wrong(
    "Nothing is shared, but the tensor has the dtype of the array: NumPy's numbers are float64 or int64 unless told "
    "otherwise, and layers hold float32. Say which dtype you want. (A conversion such as tensor.float() returns a "
    "new tensor, which has to be used.)",
    fault="float64-input",
)
def dtype_of_the_array(array):
    return torch.from_numpy(array.copy())


@exercise.wrong(
    "from_numpy neither copies nor converts: the tensor has the dtype of the array and uses its memory, and a "
    "flipped array is refused. (A conversion on a line of its own, such as tensor.float(), does not help: it returns "
    "a new tensor, which has to be used.)",
    fault="numpy-shared-memory",
)
def wrapped_as_it_is(array):
    return torch.from_numpy(array)


@exercise.wrong(
    "Read-only arrays are copied and the others are not. A writable array of float32 is shared just the same; "
    "read-only is only the case in which PyTorch warns. A copy has to be made in every case.",
    fault="numpy-shared-memory",
)
def copying_what_is_read_only(array):
    if not array.flags.writeable or min(array.strides, default=0) < 0:
        array = array.copy()
    return torch.from_numpy(array).float()


@exercise.probe
def float64_matrix():
    return np.array([[1.5, -2.0, 3.25], [0.0, 7.0, -0.5]])


@exercise.probe
def integers():
    return np.array([3, -1, 12], dtype=np.int64)


@exercise.probe
def float32_matrix():
    return np.arange(6, dtype=np.float32).reshape(3, 2)


@exercise.probe
def flipped_columns():
    return np.arange(8, dtype=np.float32).reshape(2, 4)[:, ::-1]


@exercise.probe
def no_rows():
    return np.zeros((0, 3))


@exercise.probe
def array_changes_later(answer):
    array = np.array([1.0, 2.5, -3.0], dtype=np.float32)
    tensor = answer(array)
    array[1] = 99.0
    return tensor


@exercise.probe
def tensor_changes_later(answer):
    array = np.array([[1.0, 2.5], [-3.0, 8.0]], dtype=np.float32)
    answer(array).add_(10)
    return array


@exercise.probe
def read_only_bytes(answer):
    array = np.frombuffer(bytes(range(1, 9)), dtype=np.float32)
    tensor = answer(array)
    tensor[0] = 99.0
    return tensor, array
