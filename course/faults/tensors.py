"""Faults of shapes, strides, dtypes and devices."""

from __future__ import annotations

from course.faults.fault import Fault

FAULTS = (
    Fault(
        "view-of-noncontiguous",
        "view() on a tensor whose memory layout cannot be re-labelled (after transpose, permute or slicing)",
        "tensors",
        "01",
        section="view, reshape and contiguous",
        why=(
            "`view` never moves an element: it only writes a new shape and new strides over the same "
            "memory. After `t()`, `permute` or a slice, the elements in row-major order are no longer "
            "evenly spaced in memory, so no strides describe the shape that was asked for."
        ),
        fix=(
            "`reshape` gives a view where one exists and copies where none does. `contiguous().view(...)` "
            "says the same with the copy made visible. Keep `view` where a copy would be a mistake that you"
            " want to hear about."
        ),
    ),
    Fault(
        "reshape-instead-of-permute",
        "view/reshape used to move axes, so elements are scrambled although the shape is right",
        "tensors",
        "01",
        section="view, reshape and contiguous",
        why=(
            "`reshape` and `view` read the elements in row-major order and pour them into the new shape; "
            "they know nothing of axes. Reshaping (H, W, C) to (C, H, W) gives the right shape, and "
            "channels that are mixtures of all colours."
        ),
        fix=(
            "To change the order of axes use `permute`, `transpose` or `movedim`; use `reshape` only to "
            "split or merge neighbouring axes. Test with sizes that are all different and one element that "
            "you can follow."
        ),
    ),
    Fault(
        "write-into-expanded",
        "in-place write into a stride-0 view made by expand/broadcast_to",
        "tensors",
        "01",
        section="Views: new strides, same memory",
        why=(
            "`expand` repeats nothing: the new axis has stride 0, so many elements share one memory cell. "
            "An in-place operation on the whole tensor is refused, but a write to one row passes the check,"
            " because that row alone does not overlap, and shows in every row."
        ),
        fix=(
            "Call `clone()` after `expand`, or use `repeat`, when the rows are to be written. Leave it "
            "expanded when it is only read: that costs no memory."
        ),
    ),
    Fault(
        "write-into-index-copy",
        "assignment into the copy that advanced indexing returns; the original is unchanged",
        "tensors",
        "01",
        section="Indexing with a tensor copies",
        why=(
            "Indexing with a list, an integer tensor or a mask gathers the elements into new memory. A "
            "second index or an in-place method then changes that copy, which is thrown away: `x[mask][0] ="
            " 1` and `x[rows].add_(1)` leave `x` as it was."
        ),
        fix=(
            "Write with a single index on the left: `x[mask] = 1`, `x[rows, 0] = 1`, `x[rows] += 1`. For "
            "repeated indices that must add up use `index_add_`."
        ),
    ),
    Fault(
        "float64-input",
        "float64 data (NumPy, pandas) meets float32 weights",
        "tensors",
        "01",
        section="Dtypes: inferred, promoted, wrapped",
        why=(
            "NumPy and pandas compute in float64 and `torch.from_numpy` keeps it; layers hold float32. "
            "Element-wise operations promote float32 to float64 in silence, but matrix products and "
            "convolutions want one dtype and raise."
        ),
        fix=(
            "Convert once, where the data enter: `torch.as_tensor(array, dtype=torch.float32)`. Turning the"
            " model to `double()` also silences the error, at twice the memory."
        ),
    ),
    Fault(
        "integer-tensor-arithmetic",
        "an integer tensor where a floating dtype is needed (mean, std, requires_grad)",
        "tensors",
        "01",
        section="Dtypes: inferred, promoted, wrapped",
        why=(
            "`torch.tensor([1, 2])` and `torch.arange(4)` infer int64 from Python integers. A mean, a "
            "standard deviation or a gradient is not an integer, and torch does not choose a floating dtype"
            " for you; an in-place operation cannot change the dtype of its tensor either."
        ),
        fix=(
            "Make it floating at the source (`torch.arange(4.0)`, `dtype=torch.float32`), or convert where "
            "it is needed: `x.float().mean()`, `x.mean(dtype=torch.float32)`."
        ),
    ),
    Fault(
        "legacy-tensor-constructor",
        "torch.Tensor(n) read as a size, not a value",
        "tensors",
        "01",
        section="Five ways to make a tensor",
        why=(
            "`torch.Tensor` is the class. Called with integers it takes them as a size and returns that "
            "many uninitialised float32 elements; called with a list it takes the values, as float32 "
            "whatever they were."
        ),
        fix=(
            "`torch.tensor(5)` for a value, `torch.zeros(5)` or `torch.empty(5)` for a size. Leave capital "
            "`torch.Tensor` to type annotations and `isinstance`."
        ),
    ),
    Fault(
        "broadcast-outer-product",
        "(N,) against (N,1) broadcasts to (N,N) in a comparison, loss or metric",
        "tensors",
        "01",
        section="Broadcasting starts at the right",
        why=(
            "Shapes are aligned at the right and axes of size 1 are stretched, so (N, 1) against (N,) "
            "compares every row with every column: an (N, N) result. Its mean is a plausible number, and a "
            "wrong one. `mse_loss` only warns; `==` says nothing."
        ),
        fix=(
            "Give both sides one shape before they meet: `output.squeeze(1)` or `targets.unsqueeze(1)`. In "
            "a loss or metric of your own, first check that `output.shape == targets.shape`."
        ),
    ),
    Fault(
        "device-mismatch",
        "operands on different devices",
        "tensors",
        "01",
        section="Devices: move once",
        why=(
            "An operation runs where its tensors are, and torch moves nothing between devices by itself: a "
            "hidden copy would cost more than most operations. The one exception is a CPU tensor without "
            "axes (0-dim), which counts as a number."
        ),
        fix=(
            "Choose one device, move the model once and each batch as it arrives. Make new tensors where "
            "they are used: `torch.zeros(n, device=x.device)`, `torch.zeros_like(x)`; register constants of"
            " a module as buffers."
        ),
    ),
    Fault(
        "discarded-to-result",
        "Tensor.to()/float()/cuda() returns a new tensor that is thrown away",
        "tensors",
        "01",
        section="Dtypes: inferred, promoted, wrapped",
        why=(
            "A tensor never changes its dtype or device: `x.to(...)`, `x.float()` and `x.cuda()` return "
            "another tensor. Only `Module.to` works in place, by replacing the parameters inside the "
            "module, hence the habit."
        ),
        fix=(
            "Keep what it returns: `x = x.to(device)`. A line that only says `x.to(device)` does nothing for a tensor."
        ),
    ),
    Fault(
        "squeeze-drops-batch",
        "squeeze() without dim removes a batch axis of size 1",
        "tensors",
        "01",
        section="Reductions remove an axis",
        why=(
            "Without a `dim`, `squeeze` removes every axis of size 1. All goes well until one batch, "
            "usually the last, holds a single sample: then the batch axis goes too."
        ),
        fix=("Name the axis: `output.squeeze(1)` or `squeeze(-1)`. `flatten(1)` also leaves the batch axis alone."),
    ),
    Fault(
        "uint8-overflow",
        "uint8 arithmetic wraps modulo 256",
        "tensors",
        "01",
        section="Dtypes: inferred, promoted, wrapped",
        why=(
            "A Python integer does not widen an integer tensor: the result of uint8 plus a number is uint8,"
            " and counts modulo 256. So 250 + 10 is 4, and 5 - 10 is 251: bright pixels turn black, "
            "differences turn large."
        ),
        fix=(
            "Convert before the arithmetic, clamp, and convert back: `(image.to(torch.int16) + 10).clamp(0,"
            " 255).to(torch.uint8)`; for networks `image.float() / 255`. `sum` is safe: it accumulates in "
            "int64."
        ),
    ),
    Fault(
        "tensor-truth-value",
        "if/and/or on a tensor of several elements",
        "tensors",
        "01",
        section="Reductions remove an axis",
        why=(
            "`if`, `and`, `or` and `not` need one truth value. A comparison of tensors gives one for each "
            "element, and which of them should count cannot be guessed."
        ),
        fix=(
            "Element by element: `(x > 0) & (x < 2)`, with parentheses, and `~` for not. One answer for "
            "all: `.any()` or `.all()`. To choose values: `torch.where`."
        ),
    ),
)
