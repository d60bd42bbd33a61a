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

        - float64, float32 or integers, with any number of axes and of rows, also none;
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
    "A copy was made only where the dtype had to change. An array that is float32 already was wrapped as it is: array "
    "and tensor use one buffer, and a write into one shows in the other. (as_tensor, from_numpy(...).float(), "
    "torch.Tensor and np.asarray are alike in this. Nor does any of them change negative strides.)",
    fault="numpy-shared-memory",
)
def by_as_tensor(array):
    return torch.as_tensor(array, dtype=torch.float32)


@exercise.wrong(
    "Nothing is shared, but a flipped array fails: its strides are negative. PyTorch has no negative strides and "
    "refuses such an array before anything is copied. NumPy can put the numbers in order first.",
    fault="numpy-negative-stride",
)
def by_tensor(array):
    return torch.tensor(array, dtype=torch.float32)


@exercise.wrong(
    "A flipped array works here, because putting its numbers in order copies them. An array that is in order and "
    "float32 already comes through without any copy, so its memory is shared, that of a read-only array as well. A "
    "copy has to be made in every case.",
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
    "Nothing was copied and nothing was converted: the tensor has the dtype of the array and uses its memory, and a "
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


@exercise.wrong(
    "Some flipped arrays fail: PyTorch refuses negative strides when it is handed the array. A copy that depends on "
    "the dtype comes too seldom, and the copy that a conversion by PyTorch would make comes too late. NumPy can put "
    "the numbers in order first, in every case.",
    fault="numpy-negative-stride",
)
def copying_only_float32(array):
    if array.dtype == np.float32:
        array = array.copy()
    return torch.from_numpy(array).float()


@exercise.wrong(
    "An array without axes came back with one. np.ascontiguousarray and np.atleast_1d make one axis at least; the "
    "other ways of copying keep the shape as it is."
)
def one_axis_at_least(array):
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32).copy())


@exercise.wrong(
    "The numbers went through a Python list. A list of no rows does not know how long its rows would have been, so "
    "an array of shape (0, 3) comes back with the shape (0,). A list also takes a Python object for every number."
)
def through_a_list(array):
    return torch.tensor(array.tolist(), dtype=torch.float32)


@exercise.probe
def float64_matrix():
    return np.array([[1.5, -2.0, 0.1], [0.0, 70000.0, -0.5]])


@exercise.probe
def integers():
    return np.array([3, -1, 100_003], dtype=np.int64)


@exercise.probe
def float32_matrix():
    return np.arange(6, dtype=np.float32).reshape(3, 2)


@exercise.probe
def flipped_columns():
    return np.arange(8, dtype=np.float32).reshape(2, 4)[:, ::-1]


@exercise.probe
def flipped_rows_of_float64():
    return np.array([[1.5, -2.0], [0.25, 4.0], [3.0, 9.0]])[::-1]


@exercise.probe
def flipped_integers():
    return np.arange(5, dtype=np.int64)[::-1]


@exercise.probe
def no_axes():
    return np.array(2.5)


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
