# %% [markdown]
# # 01 Tensors and strides
#
# A tensor is a flat strip of memory and a few integers that say how to read it. Most surprises of this lesson, and
# many of the errors that people report, follow from that sentence.
#
# **Goals.** You can say of a tensor operation whether it copies, and read shape, stride and offset; choose between
# `view`, `reshape`, `contiguous`, `permute`, `expand` and `as_strided`; predict broadcasting, reductions and mixed
# dtypes; and hand data between NumPy, the CPU and an accelerator without accidents.
#
# **Prerequisites.** Python, and a little NumPy. **Time.** About 120 minutes, most of them for exercises.
#
# **What it measures.** Three sayings: "transpose is free, contiguous is not", "reshape hides copies that slow a loop"
# and "moving data in the loop halves GPU use". The price of an operation, of a Python loop and of `.item()`. Bytes,
# strides and shared memory are checked exactly; times are those of the machine that ran the cell.
#
# **Predict** before you run a cell, and write your guess down. A wrong guess teaches most.

# %%
import io
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from course import begin, check, claim, draw_strides, hint, pitfall, solution, stride_explorer
from course.training.device import choose_device
from course.training.timing import compare_times

begin("01")

# %% tags=["parameters"]
device = "auto"  # "auto", "cpu", "cuda" or "mps"
profile = "quick"  # how long each time is measured: "smoke", "quick" or "full" (under a minute more)

# %%
run_device = choose_device(device)
min_run_time = {"smoke": 0.001, "quick": 0.02, "full": 0.2}[profile]


def shares(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors read the same storage."""
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def layouts(base: Tensor, *expressions: str) -> None:
    """Print how the tensor of each expression reads memory, and whether it shares the storage of base."""
    for expression in expressions:
        y = eval(expression, globals())
        memory = "shared memory" if shares(y, base) else "OWN MEMORY"
        layout = f"shape {tuple(y.shape)!s:<14} stride {y.stride()!s:<19} offset {y.storage_offset()}"
        print(f"{expression:<30} {layout}  {memory}")


def show(*expressions: str) -> None:
    """Print each expression and its value."""
    for expression in expressions:
        print(f"{expression:<59} {eval(expression, globals())!s}")


# %% [markdown]
# ## One strip of memory, many shapes
#
# The numbers lie in a **storage**: one strip of bytes. The tensor adds a dtype, a **shape**, a **storage offset** and,
# for each axis, a **stride**: the number of elements to move along the strip for one step along the axis. The element
# at index `(i, j)` lies at offset + `i` · stride[0] + `j` · stride[1], counted in elements.
# > **Predict.** Seven tensors are made from twelve numbers. How many hold numbers of their own?

# %%
x = torch.arange(12).reshape(3, 4)
layouts(x, "x", "x[1]", "x[1:, ::2]", "x.t()", "x.reshape(2, 6)", "x[:, None]", "x.unsqueeze(0)[0]")

# %% [markdown]
# **Explain.** None. Each is a new set of integers over the same twelve numbers. Starting at row 1 changed the offset,
# every second column doubled a stride, and transposing swapped two strides. No number moved.
#
# Real addresses follow the formula. `y = x[1:, ::2]` has offset 4 and strides (4, 2). So `y[1, 1]` lies at 4 + 1 · 4 +
# 1 · 2 = 10, which is 80 bytes from the start, because an `int64` takes 8 bytes.

# %%
y = x[1:, ::2]
claim("bytes from x[0, 0] to y[1, 1]", y[1, 1].data_ptr() - x.data_ptr(), equals=80, unit="bytes")
draw_strides(y, highlight=(1, 1), title="y = x[1:, ::2]")
stride_explorer()

# %% [markdown]
# > **Predict.** `big` holds a million `float32`, and `head` is `big[:10]`. After `del big`, how many bytes stay?

# %%
big = torch.zeros(1_000_000)
head = big[:10]
del big
claim("bytes kept by a slice of 10 numbers", head.untyped_storage().nbytes(), equals=4_000_000, unit="bytes")
claim("bytes kept by its clone", head.clone().untyped_storage().nbytes(), equals=40, unit="bytes")
torch.save(head, file := io.BytesIO())
claim("torch.save writes more than 4,000,000 bytes", len(file.getvalue()) > 4_000_000, equals=True)

# %% [markdown]
# **Explain.** A view keeps its whole storage alive, and `torch.save` writes all of it. Clone a small slice to keep it.

# %%
# exercise: tensors.read_strides

# %%
# exercise: tensors.element_address

# %% [markdown]
# ## Five ways to make a tensor
# > **Predict.** Five tensors are made from one NumPy array. Then the array changes. Which tensors show the 7?

# %%
array = np.zeros(3, dtype=np.float32)
by_tensor, by_as_tensor = torch.tensor(array), torch.as_tensor(array)
by_as_tensor_float64 = torch.as_tensor(array, dtype=torch.float64)
by_from_numpy, by_clone = torch.from_numpy(array), torch.from_numpy(array).clone()
array[0] = 7
show("by_tensor", "by_as_tensor", "by_as_tensor_float64", "by_from_numpy", "by_clone")

# %% [markdown]
# **Explain.** `torch.tensor` always copies. `torch.from_numpy` never does. `torch.as_tensor` shares where it can;
# another dtype or device forces a copy. `clone` copies a tensor and passes gradients on, `x.detach().clone()` not.
#
# The fifth way is a trap. `torch.Tensor`, with a capital T, is the class. Called as a constructor, it takes an integer
# for a *size*, leaves the memory uninitialised, and turns a list of integers into floating point.

# %%
with pitfall("legacy-tensor-constructor") as p:
    p.shows(seen=tuple(torch.Tensor(3).shape), wanted=tuple(torch.tensor(3).shape))
show("torch.tensor(3)", "torch.zeros(3)", "torch.tensor([3]).dtype", "torch.Tensor([3]).dtype")

# %% [markdown]
# ## Views: new strides, same memory
#
# A **view** is a new shape, stride and offset over an old storage. Making one costs the same for ten numbers as for
# ten million. `as_strided`, in the last line, lets you name all three.

# %%
cube = torch.arange(24).reshape(2, 3, 4)
layouts(cube, "cube", "cube[:, 1]", "cube.transpose(0, 2)", "cube.permute(2, 0, 1)", "cube[:1].expand(5, 3, 4)")
layouts(cube, "cube.unfold(2, 3, 1)", "cube.as_strided((3,), (5,), 1)")

# %% [markdown]
# - `permute` re-orders the strides exactly as it re-orders the shape; `transpose` swaps two.
# - `expand` repeats an axis of size 1 by **stride 0**: every step stays where it is.
# - `unfold(dim, size, step)` makes windows that may overlap in memory. Axis `dim` now counts windows, `step` old
#   strides apart; a new last axis walks inside a window.
# - `as_strided(size, stride, offset)` addresses the *storage*. It ignores shape and strides of the tensor it is called
#   on (without `offset` it keeps that tensor's). It refuses negative strides and places outside the storage.
#
# PyTorch has no negative strides: where NumPy's `a[::-1]` is a view, `x.flip(0)` copies.
# > **Predict.** A row of 4 `float32` is expanded to a million rows. How many bytes hold its numbers?

# %%
row = torch.tensor([1.0, 2.0, 3.0, 4.0])
tall = row.expand(1_000_000, 4)
claim("bytes that hold the expanded row", tall.untyped_storage().nbytes(), equals=16, unit="bytes")
claim("flip shares memory", shares(row.flip(0), row), equals=False)
show("tall.numel()", "x.as_strided((2,), (5,)).tolist()", "x.t().as_strided((2,), (5,)).tolist()")
draw_strides(row.expand(3, 4), title="row.expand(3, 4)")

# %% [markdown]
# > **Predict.** Stride 0 means that all rows are one row. `m += 1` is refused. What does `m[1] = 7` do?

# %%
m = torch.zeros(1, 3).expand(4, 3)
with pitfall("write-into-expanded", RuntimeError):
    m += 1

with pitfall("write-into-expanded") as p:
    m[1] = 7
    p.shows(seen=m[:, 0].tolist(), wanted=[0.0, 7.0, 0.0, 0.0])
m = torch.zeros(1, 3).expand(4, 3).clone()
m[1] = 7
show("m[:, 0].tolist()")

# %% [markdown]
# **Explain.** PyTorch refuses to write to a tensor that has an axis of stride 0. All of `m` has one. The single row
# `m[1]` has not, so the write goes through and shows in every row. Overlap of another kind, as in the windows of
# `unfold`, it does not even notice. Write to no overlapping view: expand to read; `clone()` or `repeat()` to write.

# %%
# exercise: tensors.sliding_windows

# %%
# exercise: tensors.main_diagonal

# %%
# exercise: tensors.anti_diagonal

# %% [markdown]
# ## view, reshape and contiguous
#
# A tensor is **contiguous** when its elements, read in row-major order, lie one after another in memory.
#
# - `view` never copies. It raises when no strides describe the new shape.
# - `reshape` is `view` where that works. Elsewhere it copies and says nothing.
# - `contiguous` returns the tensor itself when it is contiguous. Otherwise it copies.
# > **Predict.** Three of these lines copy. Which?

# %%
layouts(x, "x.view(-1)", "x[:2].reshape(-1)", "x[:, :2].reshape(-1)", "x.t().reshape(-1)", "x.t().reshape(2, 2, 3)")
layouts(x, "x.contiguous()", "x.t().contiguous()", "x.view(-1)[::2].view(2, 3)")
claim("x.view(-1)[::2] is contiguous", x.view(-1)[::2].is_contiguous(), equals=False)

# %% [markdown]
# **Explain.** An axis can always be split. Two neighbouring axes merge when the outer stride is the inner stride times
# the inner size: then one stride describes both. In `x[:, :2]` 4 is not 1 · 2. `view` worked in the last line,
# although its tensor is not contiguous; "`view` needs a contiguous tensor" is too strict.
#
# The error's classic place is an old top-k accuracy helper, whose `correct` is transposed. The opposite mistake raises
# nothing: `reshape` keeps the order of the elements, only `permute` moves axes. Below, an image of a red and a yellow
# pixel is stored as (height, width, channel); red is 255 in both.

# %%
correct = torch.tensor([[True, False, False], [False, True, False]]).t()
with pitfall("view-of-noncontiguous", RuntimeError):
    correct[:2].view(-1).sum()
image = torch.tensor([[[255, 0, 0], [255, 255, 0]]], dtype=torch.uint8)
with pitfall("reshape-instead-of-permute") as p:
    p.shows(seen=image.reshape(3, 1, 2)[0].tolist(), wanted=[[255, 255]])
show("correct[:2].reshape(-1).sum()", "image.permute(2, 0, 1).tolist()")

# %% [markdown]
# **Explain.** `reshape` cut the strip R G B R G B into pairs: "red" got the first pixel's R and G. The shape is right
# either way, so no shape check finds this. Test with numbers that you can tell apart.
#
# **Saying: "transpose is free, contiguous is not".** Which bytes are new is exact. The rest is time.

# %%
large = torch.zeros(1000, 1000)
copied = large.t().contiguous()
claim("transpose shares its storage", shares(large.t(), large), equals=True)
claim("contiguous shares its storage", shares(copied, large), equals=False)
claim("bytes of the copy", copied.untyped_storage().nbytes(), equals=4_000_000, unit="bytes")

# %% tags=["measured"]
small = torch.zeros(10, 10)
cases = {"small.t()": small.t, "large.t()": large.t, "copy": lambda: large.t().contiguous()}
times = compare_times(cases, min_run_time=min_run_time)
free = times.ratio("large.t()", "small.t()")
claim("transpose of a matrix 10,000 times larger", free, stated="free", low=0.5, high=2.0, unit="x")
claim("contiguous against transpose", times.ratio("copy", "large.t()"), stated="not free", low=10.0, unit="x")
times

# %% [markdown]
# **Explain.** "Free" means that size does not matter. The fixed price of a call remains; the last section measures it.
#
# **Saying: "reshape hides copies that slow a loop".**
# > **Predict.** Three loops sum a transposed matrix 20 times. Order them by time.

# %% tags=["measured"]
matrix = torch.ones(500, 500).t()
flat = matrix.reshape(-1)
cases = {
    "reshape before": lambda: [flat.sum() for _ in range(20)],
    "reshape inside": lambda: [matrix.reshape(-1).sum() for _ in range(20)],
    "no reshape": lambda: [matrix.sum() for _ in range(20)],
}
times = compare_times(cases, min_run_time=min_run_time)
slower = times.ratio("reshape inside", "reshape before")
claim("reshape inside a loop against before it", slower, stated="slows a loop", low=1.5, unit="x")
times

# %% [markdown]
# **Explain.** `reshape` of a transposed matrix copies at each call. Of a contiguous one it makes a view, and the code
# looks the same. Where a copy would be a mistake, write `view`: it raises instead. Often no reshape is needed.

# %%
# exercise: tensors.flatten

# %%
# exercise: tensors.channels_first

# %% [markdown]
# ## Indexing with a tensor copies
#
# Integers, slices, `None` and `...` take regular steps. Strides describe those, so the result is a view. A list, an
# index tensor or a mask picks any elements in any order. Such **advanced indexing** copies.
# > **Predict.** Which changes `v`: `v[picked].mul_(10)` or `v[picked] *= 10`? And what becomes of `counts`?

# %%
v, picked = torch.ones(4), torch.tensor([0, 2])
with pitfall("write-into-index-copy") as p:
    v[picked].mul_(10)
    p.shows(seen=v.tolist(), wanted=[10.0, 1.0, 10.0, 1.0])
v[picked] *= 10
counts, repeated = torch.zeros(3), torch.tensor([1, 1, 2])
counts[repeated] += 1
show("v", "counts", "torch.zeros(3).index_add_(0, repeated, torch.ones(3))")
layouts(x, "x[1]", "x[torch.tensor(1)]", "x[[1]]", "x[x > 3]")

# %% [markdown]
# **Explain.** `v[picked]` builds a copy, and `mul_` changes the copy. `v[picked] *= 10` ends with an assignment into
# `v`. An index may stand on the left of `=`, once; two brackets, as in `v[picked][0] = 5`, write into a copy again.
# `counts` was read once, with element 1 twice, and both copies were written back as 1; `index_add_` accumulates. A
# 0-dimensional integer tensor counts as an integer: `x[torch.tensor(1)]` is a view.

# %%
# exercise: tensors.copy_or_view

# %% [markdown]
# ## channels_last is a stride order
#
# Batches of images are (N, C, H, W). `channels_last` keeps that shape but stores the channels of a pixel side by side.
# > **Predict.** What are shape and stride of a `channels_last` batch of 8 RGB images of 32 x 32?

# %%
images = torch.zeros(8, 3, 32, 32)
last = images.contiguous(memory_format=torch.channels_last)
from_files = torch.zeros(8, 32, 32, 3).permute(0, 3, 1, 2)
layouts(last, "last", "last.permute(0, 2, 3, 1)", "last.flatten(1)")
layouts(from_files, "from_files", "from_files.permute(0, 2, 3, 1)")
convolved = F.conv2d(last, torch.zeros(4, 3, 3, 3))
claim("the batch is contiguous in the default sense", last.is_contiguous(), equals=False)
claim("the convolved batch's channel stride", convolved.stride(1), equals=1)
claim("the permuted batch has the same strides", from_files.stride() == last.stride(), equals=True)

# %% [markdown]
# **Explain.** Only the strides differ; index by (N, C, H, W) as ever. Decoded images mostly are (H, W, C) in memory: a
# batch of them is `channels_last` after a `permute`, without a copy. `last.view(8, -1)` raises; `last.flatten(1)` copies.
#
# ## Broadcasting starts at the right
#
# Write the two shapes under each other, **right-aligned**. Sizes fit when they are equal, when one is 1, or when one
# is missing. Missing and 1 are expanded with stride 0, so the operands are not copied. The result is a full tensor.
# > **Predict.** Three of these pairs fit. Which, and what is the result's shape?

# %%
for left, right in [((3, 1), (4,)), ((5, 4), (4,)), ((5, 4), (5,)), ((8, 1), (8,))]:
    try:
        print(left, right, "->", tuple(torch.broadcast_shapes(left, right)))
    except RuntimeError:
        print(left, right, "do not fit")

# %% [markdown]
# **Explain.** (5, 4) and (5,) do not fit, because the 5 stands under the 4; `b[:, None]` makes a column of it. The
# last pair fits, alas: a model with one output returns (N, 1), targets come as (N,), and all meet all.
# > **Predict.** These predictions are perfect. What accuracy and what squared error come out?

# %%
targets = torch.tensor([0.0, 1.0, 2.0, 3.0])
outputs = targets[:, None].clone()  # (4, 1), as from a model with one output
with pitfall("broadcast-outer-product") as p:
    p.shows(seen=(outputs == targets).float().mean().item(), wanted=1.0)

with pitfall("broadcast-outer-product", UserWarning):
    wrong_loss = F.mse_loss(outputs, targets)
outputs = outputs.squeeze(1)
show("wrong_loss", "F.mse_loss(outputs, targets)", "(outputs == targets).float().mean()")

# %% [markdown]
# **Explain.** Over all pairs the squared error is smallest when every prediction is the *mean* target. So the loss
# falls, and the model learns to ignore its input. The loss warns; the metric does not. Compare shapes first.

# %%
# exercise: tensors.pairwise_distances

# %% [markdown]
# ## Reductions remove an axis
#
# `z.sum()` reduces everything to a 0-dimensional tensor. `dim` names the axis that disappears; `keepdim=True` leaves
# it with size 1, ready to broadcast against `z`.
# > **Predict.** Each row of `w` is to sum to 1. What do its rows sum to without `keepdim`? Do NumPy and PyTorch agree
# > on the standard deviation of 1, 2, 3?

# %%
z = torch.arange(6.0).reshape(2, 3)
w = torch.tensor([[1.0, 7.0], [2.0, 2.0]])
show("z.sum()", "z.sum(dim=0)", "z.sum(dim=1)", "z.sum(dim=1, keepdim=True).shape", "z.argmax()", "(z > 1).sum()")
show("(w / w.sum(dim=1)).sum(dim=1)", "(w / w.sum(dim=1, keepdim=True)).sum(dim=1)")
show("np.std([1.0, 2.0, 3.0]).round(4)", "torch.tensor([1.0, 2.0, 3.0]).std()")

# %% [markdown]
# **Explain.** The row sums have shape (2,), and broadcasting lays them along the *columns*; only a square matrix hides
# this. NumPy's standard deviation divides by n, PyTorch's by n - 1. `argmax` without `dim` counts flattened elements.
#
# Two traps wait nearby. `squeeze()` without `dim` removes every axis of size 1, so also the batch axis of a last batch
# of one sample. And `if`, `and`, `or` want one truth value where a comparison gives many.

# %%
output_layer = torch.nn.Linear(4, 1)
with pitfall("squeeze-drops-batch") as p:
    p.shows(seen=tuple(output_layer(torch.ones(1, 4)).squeeze().shape), wanted=(1,))
losses = torch.tensor([0.5, 1.5, -1.0])
with pitfall("tensor-truth-value", RuntimeError):
    plausible = losses > 0 and losses < 1
plausible = (losses > 0) & (losses < 1)
show("output_layer(torch.ones(1, 4)).squeeze(1).shape", "plausible", "plausible.any()", "plausible.all()")

# %%
# exercise: tensors.masked_mean

# %%
# exercise: tensors.accuracy

# %%
# exercise: tensors.standardise

# %%
# exercise: tensors.scores

# %% [markdown]
# ## Dtypes: inferred, promoted, wrapped
# > **Predict.** Name each dtype before you run the cell. Lines 3, 5 and 8 surprise most people.

# %%
double, double_axis = torch.tensor(2.0, dtype=torch.float64), torch.tensor([2.0], dtype=torch.float64)
show("torch.tensor([1, 2]).dtype", "torch.tensor([1, 2.5]).dtype", "torch.tensor([np.float64(2.5)]).dtype")
show("(torch.arange(3) / 2).dtype", "(torch.arange(3) + 1.5).dtype", "(torch.ones(2) * double_axis).dtype")
show("(torch.ones(2) * double).dtype", "(torch.arange(3) * double).dtype")

# %% [markdown]
# **Explain.** `torch.tensor` makes `float32`, the default dtype, of Python floats; NumPy numbers keep theirs, mostly
# `float64`.
#
# Where dtypes meet, the higher *category* wins: bool, integer, floating, complex. Within a category, numbers (Python's
# and NumPy's) and 0-dimensional tensors give way to tensors with axes. In the last line the category decides.
#
# Matrix products and layers do not promote. Convert once, where the data come in. `Tensor.to` leaves the old tensor as
# it is and returns another; only `Module.to` works in place.

# %%
table = torch.from_numpy(np.ones((8, 4)))
with pitfall("float64-input", RuntimeError):
    output_layer(table)

with pitfall("discarded-to-result") as p:
    table.to(torch.float32)
    p.shows(seen=table.dtype, wanted=torch.float32)
table = table.to(torch.float32)
show("table.dtype", "output_layer(table).shape")

# %% [markdown]
# > **Predict.** What is the mean of an integer tensor? A `uint8` pixel of 250 becomes brighter by 10: what is it then?

# %%
ages, pixels = torch.tensor([31, 44, 60]), torch.tensor([250, 100], dtype=torch.uint8)
with pitfall("integer-tensor-arithmetic", RuntimeError):
    ages.mean()

with pitfall("uint8-overflow") as p:
    p.shows(seen=(pixels + 10).tolist(), wanted=[255, 110])
show("torch.tensor([10], dtype=torch.uint8) - 20", "ages.mean(dtype=torch.float32)")
show("(pixels.to(torch.int16) + 10).clamp(0, 255).to(torch.uint8)")

# %% [markdown]
# **Explain.** A mean of integers is rarely an integer, so PyTorch asks for a floating dtype. `uint8` counts modulo
# 256, and the Python number 10 does not widen it. Differences wrap too: 10 - 20 is 246. Widen, compute, clamp, narrow.

# %%
# exercise: tensors.brighten

# %% [markdown]
# ## The NumPy bridge
#
# On the CPU, `from_numpy`, `as_tensor` and `.numpy()` let both sides use one buffer: fast, and a trap when one writes.
# > **Predict.** An environment updates its observation in place. What does the history hold after three steps?

# %%
observation, history, copies = np.zeros(1, dtype=np.float32), [], []
with pitfall("numpy-shared-memory") as p:
    for _ in range(3):
        observation += 1
        history.append(torch.from_numpy(observation))
        copies.append(torch.tensor(observation))
    p.shows(seen=torch.cat(history).tolist(), wanted=[1.0, 2.0, 3.0])
show("torch.cat(copies)")

# %% [markdown]
# Not every array can cross. Read-only memory can, but tensors have no read-only flag, and writing through one is
# undefined. Negative strides cannot: PyTorch has none. Ragged data make an array of Python objects, which no tensor
# holds. And an array cannot record gradients: `detach()` first; the array still shares the tensor's memory.

# %%
received, flipped = np.frombuffer(bytes([1, 2, 3]), dtype=np.uint8), np.arange(4)[::-1]
ragged = np.array([[1, 2], [3]], dtype=object)
with pitfall("numpy-readonly-alias", UserWarning):
    torch.from_numpy(received)

with pitfall("numpy-negative-stride", ValueError):
    torch.from_numpy(flipped)

show("torch.tensor(received)", "torch.from_numpy(flipped.copy())")

# %% [markdown]
# Copies mended both. Ragged rows become one padded tensor; a tensor that records gradients is detached first.

# %%
with pitfall("numpy-object-array", TypeError):
    torch.tensor(ragged)

with pitfall("numpy-of-grad-tensor", RuntimeError):
    output_layer.bias.numpy()
padded = torch.nn.utils.rnn.pad_sequence([torch.tensor(numbers) for numbers in ragged], batch_first=True)
show("padded.tolist()", "output_layer.bias.detach().numpy().shape")

# %% [markdown]
# > **Predict.** A thousand arrays become one tensor. How much slower is `torch.tensor(arrays)` than `np.stack`?

# %% tags=["measured"]
arrays = [np.ones(64, dtype=np.float32) for _ in range(1000)]
with pitfall("tensor-of-list-of-arrays", UserWarning):
    torch.tensor(arrays)
cases = {"np.stack": lambda: torch.from_numpy(np.stack(arrays)), "torch.tensor": lambda: torch.tensor(arrays)}
with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)  # shown above
    times = compare_times(cases, min_run_time=min_run_time)
times

# %% [markdown]
# **Explain.** `torch.tensor` reads 64,000 Python objects one by one, `np.stack` copies 1000 blocks.
#
# | NumPy | PyTorch | mind |
# | --- | --- | --- |
# | `a.std()` | `x.std(correction=0)` | the defaults differ |
# | `a.transpose(2, 0, 1)` | `x.permute(2, 0, 1)` | `x.transpose` swaps two axes |
# | `np.tile(a, 2)`, `np.repeat(a, 2)` | `x.repeat(2)`, `x.repeat_interleave(2)` | same word, other meaning |

# %%
# exercise: tensors.independent_tensor

# %% [markdown]
# ## Devices: move once
#
# A tensor lives on one device, and operands must share it. In arithmetic a 0-dimensional CPU tensor may mix with an
# accelerator's tensors; nothing else may. `x.to(device)` returns `x` itself where it is already there, else a copy.
# The device `meta` holds shapes and no data. Every machine has it, so it shows the rule where there is no accelerator.

# %%
other = torch.device("meta") if run_device.type == "cpu" else run_device
batch = torch.ones(3, device=other)
with pitfall("device-mismatch", RuntimeError):
    torch.ones(3) + batch
moved = torch.ones(3).to(other) + batch
show("moved.device == batch.device", "(batch * torch.tensor(2.0)).device == batch.device", "batch.to(other) is batch")

# %% [markdown]
# With a GPU the message reads "Expected all tensors to be on the same device". Create tensors where you need them,
# `torch.zeros(3, device=run_device)`, and move model and batches at one place in the code.
#
# **Saying: "moving data in the loop halves GPU use".** This cell needs CUDA; without it the claim says so. A copy from
# the CPU to CUDA overlaps with computation only from **pinned** memory and with `non_blocking=True`. On the way back,
# `non_blocking=True` may return before the numbers have arrived: synchronise before you read them.

# %% tags=["measured"]
slower = None
if run_device.type == "cuda":
    layer, on_cpu = torch.nn.Linear(1024, 1024, device=run_device), torch.ones(64, 256, 1024)
    on_device, pinned = on_cpu.to(run_device), on_cpu.pin_memory()
    cases = {
        "moved once": lambda: [layer(b) for b in on_device],
        "moved in the loop": lambda: [layer(b.to(run_device)) for b in on_cpu],
        "pinned, non_blocking": lambda: [layer(b.to(run_device, non_blocking=True)) for b in pinned],
    }
    times = compare_times(cases, min_run_time=min_run_time)
    slower = times.ratio("moved in the loop", "moved once")
    print(times)
claim("moved in the loop", slower, stated="halves GPU use", low=1.5, high=3.0, unit="x", reason="no CUDA device here")

# %% [markdown]
# ## What one operation costs
#
# An operation pays a fixed price before it touches a number: Python, dispatch, a new tensor.
# > **Predict** two ratios: adding 1 to a million numbers against one; 1024 samples through a layer one by one against
# > all at once.

# %% tags=["measured"]
one, thousand, million = (torch.zeros(n, device=run_device) for n in (1, 1000, 1_000_000))
samples, losses = torch.ones(1024, 4, device=run_device), list(thousand)
scorer = torch.nn.Linear(4, 1, device=run_device)
adding = {"1 number": lambda: one + 1, "1000": lambda: thousand + 1, "1,000,000": lambda: million + 1}
batches = {"1024 at once": lambda: scorer(samples), "one by one": lambda: [scorer(s) for s in samples.split(1)]}
for cases in (adding, batches):
    print(compare_times(cases, min_run_time=min_run_time), end="\n\n")

# %% [markdown]
# **Explain.** For small tensors the call is nearly the whole price. Batches of one pay it for each sample.
# > **Predict** two more: Python's `sum` of a thousand numbers against the tensor's; `.item()` at each step against once.

# %% tags=["measured"]
sums = {"tensor": thousand.sum, "Python": lambda: sum(thousand), "tolist() first": lambda: sum(thousand.tolist())}
reading = {"one item()": lambda: sum(losses).item(), "1000 item()": lambda: sum(loss.item() for loss in losses)}
for cases in (sums, reading):
    print(compare_times(cases, min_run_time=min_run_time), end="\n\n")

# %% [markdown]
# **Explain.** A Python loop over a tensor pays the price for each element. If you need Python numbers, call `tolist()`
# once.
#
# `.item()` hands one number to Python. On the CPU that is cheap, cheaper than adding a tensor. An accelerator works
# through a queue, and `.item()` waits for the result, so for all that was queued before it. So do `print(loss)`,
# `float(loss)` and `if loss > 1`. There, keep losses as tensors (detached: lesson 02) and read them now and then.
#
# ## A table to keep
#
# | operation | memory | mind |
# | --- | --- | --- |
# | `x[1:3]`, `t`, `transpose`, `permute`, `unsqueeze`, `squeeze`, `unfold` | view | keeps all the storage alive |
# | `expand`, broadcasting | view, stride 0 | clone before you write |
# | `as_strided` | view | addresses count the storage |
# | `view` | view or error | merges axes that one stride describes |
# | `reshape`, `flatten`, `contiguous` | view or `x` itself, else a silent copy | |
# | `x[[0, 2]]`, `x[mask]`, `flip`, `repeat`, `clone` | copy | `x[mask] = 0` does write to `x` |
# | `torch.tensor(a)` | copy | infers the dtype |
# | `torch.from_numpy(a)`, `x.numpy()` | shares | a write shows on both sides |
# | `torch.as_tensor(a)`, `x.to(...)`, `x.float()` | shares where nothing changes, else copy | keep the result |
#
# ## Read on
#
# - [Tensor views](https://docs.pytorch.org/docs/stable/tensor_view.html)
# - [Tensor attributes](https://docs.pytorch.org/docs/stable/tensor_attributes.html): dtypes and promotion
# - [Broadcasting semantics](https://docs.pytorch.org/docs/stable/notes/broadcasting.html)
# - [Channels last](https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html)
# - [Pinned memory and non_blocking](https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html)
# - [Performance tuning guide](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
