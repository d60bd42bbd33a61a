"""Faults of the bridge between tensors and NumPy arrays."""

from __future__ import annotations

from course.faults.fault import Fault

_SECTION = "The NumPy bridge"

FAULTS = (
    Fault(
        "numpy-shared-memory",
        "a tensor and a NumPy array share one buffer; a write shows in both",
        "numpy",
        "01",
        section=_SECTION,
        why=(
            "`torch.from_numpy`, `torch.as_tensor` and `Tensor.numpy` wrap the same memory where the dtype "
            "allows it, so a write on either side shows on the other. A loop that fills one array again and"
            " again and stores `from_numpy` of it stores the last state many times."
        ),
        fix=(
            "Copy where the two must part: `torch.tensor(array)`, `torch.from_numpy(array).clone()`, "
            "`x.numpy().copy()`."
        ),
    ),
    Fault(
        "numpy-readonly-alias",
        "a writable tensor made over read-only memory",
        "numpy",
        "01",
        section=_SECTION,
        why=(
            "An array over bytes or a read-only memory map cannot be written, but tensors have no read-only"
            " flag: the tensor over the same memory can. Then data that nobody should change do change, or "
            "the process dies. torch warns of it, only once in a process."
        ),
        fix="Copy first: `torch.tensor(array)` or `torch.from_numpy(array.copy())`.",
    ),
    Fault(
        "numpy-negative-stride",
        "a flipped NumPy array has negative strides",
        "numpy",
        "01",
        section=_SECTION,
        why=(
            "`array[::-1]` and `np.flip` are views that walk backwards through memory. Strides of a tensor "
            "are never negative, so such an array cannot be wrapped; `torch.tensor(array)` refuses it as "
            "well."
        ),
        fix=(
            "`torch.from_numpy(array.copy())` lays it out afresh; or convert first and flip then: "
            "`torch.flip(x, dims=(0,))`."
        ),
    ),
    Fault(
        "numpy-of-grad-tensor",
        ".numpy() on a tensor that is part of a graph",
        "numpy",
        "01",
        section=_SECTION,
        why=(
            "NumPy does not record operations, so what it computes from a tensor that requires grad would "
            "be missing from the graph. torch asks you to say that this is meant."
        ),
        fix=(
            "`x.detach().cpu().numpy()` for plotting and metrics; the array still shares memory with a CPU "
            "tensor. For a single number `x.item()`. A loss has to stay in torch."
        ),
    ),
    Fault(
        "numpy-object-array",
        "ragged or mixed data give an object array",
        "numpy",
        "01",
        section=_SECTION,
        why=(
            "Rows of different length, None or text among numbers: NumPy can hold them only as references "
            "to Python objects (dtype object). A tensor is one block of numbers of one dtype, so there is "
            "nothing to convert."
        ),
        fix=(
            "Find the odd entries, then give the data one numeric dtype and shape: drop or fill missing "
            "values, encode text as integers, pad rows to one length (`torch.nn.utils.rnn.pad_sequence`)."
        ),
    ),
    Fault(
        "tensor-of-list-of-arrays",
        "torch.tensor(list of arrays) walks Python objects; slow",
        "numpy",
        "01",
        section=_SECTION,
        why=(
            "`torch.tensor` of a list looks at the arrays' elements one by one, as Python numbers, instead "
            "of copying each array as a block. torch warns of it, only once in a process."
        ),
        fix="Join the arrays first: `torch.from_numpy(np.stack(arrays))`, or `torch.stack` of tensors.",
    ),
)
