# %% [markdown]
# # 07 Checkpoints, resuming, reproducibility
# Long runs stop: a queue ends, a disk fills up, a machine restarts. This lesson finds out what a run consists of, by
# leaving out one part after the other, and writes it to disk so that no moment leaves half a file. **Goals.** You can
# say what a file holds and what `torch.load` refuses; load weights with other names, heads and devices; resume a run so
# that every bit is equal; say what a seed governs; write atomically. **Prerequisites.** Lessons 02 to 05. **Time.**
# About 150 minutes, most of them for 11 exercises. **What it measures.** "Save the seed and you can reproduce", "old
# checkpoints do not load", safetensors beside `torch.save`, the cost of deterministic algorithms.

# %%
import argparse
import copy
import dataclasses
import io
import os
import pickle
import random
import re
import tempfile
import warnings
import zipfile
from contextlib import suppress
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader

from course import begin, check, claim, hint, pitfall, seed_everything, solution
from course.data.workers import GlobalGenerator
from course.figures.divergence import draw_divergence
from course.training import checkpoint
from course.training.history import History
from course.training.timing import compare_times

begin("07")

# %% tags=["parameters"]
device = "auto"  # all of it runs on the CPU, where every bit can be compared
profile = "quick"  # "smoke", "quick" or "full": how often times are measured and kernels repeated

# %%
min_run_time, repeats = {"smoke": (0.001, 5), "quick": (0.02, 40), "full": (0.2, 400)}[profile]
place = tempfile.TemporaryDirectory()
folder = Path(place.name)  # a new folder, removed by the last cell


def show(*expressions: str) -> None:
    for expression in expressions:
        print(f"{expression:<75} {eval(expression, globals())!s}")


def file_of(state: object, **options: object) -> io.BytesIO:
    torch.save(state, file := io.BytesIO(), **options)
    file.seek(0)
    return file


# %% [markdown]
# ## A file of names and tensors
# `model.state_dict()` is a dict from names to tensors: parameters and buffers. `torch.save` writes it as a zip archive:
# one record for the structure (a pickle), one for the bytes of each tensor.
# > **Predict.** What is in the file of a linear layer, beside its 6 weights and 2 biases? How many bytes hold numbers?

# %%
records = {info.filename: info.file_size for info in zipfile.ZipFile(file_of(nn.Linear(3, 2).state_dict())).infolist()}
print(*records, sep="\n")
numbers = sum(size for name, size in records.items() if "/data/" in name)
claim("bytes of numbers in the file", numbers, equals=4 * (6 + 2), unit="bytes")

# %% [markdown]
# **Explain.** Names, shapes and dtypes are in `data.pkl`. A pickle is a small program: it can name any function, and
# reading it calls that function. So `torch.load` reads with `weights_only=True`: tensors and plain values, no more.
# > **Predict.** Three files: a module, a number from NumPy, an object from a stranger. Which are refused?


# %%
class Stranger:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("with weights_only=False the file runs code",)  # any function, with any arguments


with pitfall("weights-only-refused", pickle.UnpicklingError):
    torch.load(file_of({"best accuracy": np.float64(0.9)}))
for kept in (nn.Linear(1, 1), Stranger()):
    try:
        torch.load(file_of(kept))
    except pickle.UnpicklingError:
        print(f"{type(kept).__name__}: refused")
torch.load(file_of(Stranger()), weights_only=False)
show('torch.load(file_of({"best accuracy": float(np.float64(0.9))}))')

# %% [markdown]
# **Explain.** All three. The number from NumPy is the common accident: `accuracies.max()` makes one, and it prints like
# a float. A whole module has a second fault: the file holds the *name* of its class, not the class. Move or rename it,
# and the file ends in an `AttributeError`. Keep state dicts and plain values, and build the model by code.

# %%
# exercise: checkpoints.plain_values

# %% [markdown]
# > **Predict.** `best` is kept, and an optimizer loads the dict `given`. A step: which of the two has changed?

# %%
unit = nn.Linear(1, 1)
optimizer = torch.optim.Adam(unit.parameters(), lr=0.1)
unit(torch.ones(1, 1)).sum().backward()
optimizer.step()
best, given = unit.state_dict()["weight"], copy.deepcopy(optimizer.state_dict())
before = copy.deepcopy([best, given["state"][0]["exp_avg"]])
optimizer.load_state_dict(given)
optimizer.step()
with pitfall("state-dict-aliased") as p:
    p.shows(seen=f"best is as before: {torch.equal(best, before[0])}", wanted="best is as before: True")
with pitfall("state-dict-aliased") as p:
    moments = given["state"][0]["exp_avg"]
    p.shows(seen=f"given is as before: {torch.equal(moments, before[1])}", wanted="given is as before: True")

# %% [markdown]
# **Explain.** Neither copies. `state_dict()` hands out the live tensors. `Module.load_state_dict` copies values into
# the parameters; `Optimizer.load_state_dict` keeps the tensors that it is given.
#
# Often the best weights are a running mean of many: a state of its own, which is saved beside the model.

# %%
# exercise: checkpoints.ema

# %% [markdown]
# ## Names that do not match
# A wrapper holds the model as a submodule, and the submodule's name goes in front of every key.
# > **Predict.** Which keys has a linear layer inside DataParallel, inside AveragedModel, compiled, both?

# %%
layer = nn.Linear(2, 2)
parallel, compiled = nn.DataParallel(layer), torch.compile(layer)
wrappers = {"DataParallel": parallel, "AveragedModel": torch.optim.swa_utils.AveragedModel(layer), "compiled": compiled}
wrappers["DataParallel, compiled"] = torch.compile(parallel)
for name, wrapper in wrappers.items():
    print(f"{name:<23}", *wrapper.state_dict())
with pitfall("wrapper-prefix", RuntimeError):
    layer.load_state_dict(compiled.state_dict())
show("layer.load_state_dict(parallel.module.state_dict())")

# %%
# exercise: checkpoints.strip_prefixes

# %% [markdown]
# **Explain.** Save the model inside, and no file ever has a prefix; `model.compile()` compiles in place and adds none.
# The quick remedy for the error is another: `strict=False`.
# > **Predict.** The same file, with `strict=False`. How many of the layer's entries were loaded?

# %%
before = copy.deepcopy(layer.state_dict())
result = layer.load_state_dict(nn.DataParallel(nn.Linear(2, 2)).state_dict(), strict=False)
changed = sum(not torch.equal(before[name], value) for name, value in layer.state_dict().items())
with pitfall("nothing-loaded") as p:
    p.shows(seen=f"{changed} of 2 entries changed", wanted="2 of 2 entries changed")
show("result")

# %% [markdown]
# **Explain.** None. Not every difference of names is a fault, so `strict=False` forgives, and forgives everything. What
# it returns is the only trace: print it, and stop where nothing matched.

# %%
# exercise: checkpoints.load_report

# %% [markdown]
# A checkpoint for 10 classes, a problem with 3: the body fits, the head has another shape.
# > **Predict.** Does `strict=False` forgive the shape? If it raises, is the body loaded or not?

# %%
ten = nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 10))
three = nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 3))
with pitfall("shape-mismatch-on-load", RuntimeError):
    three.load_state_dict(ten.state_dict(), strict=False)
claim("the body was loaded all the same", torch.equal(three[0].weight, ten[0].weight), equals=True)
own = three.state_dict()
fitting = {name: value for name, value in ten.state_dict().items() if name in own and value.shape == own[name].shape}
show("three.load_state_dict(fitting, strict=False).missing_keys")

# %% [markdown]
# **Explain.** A name that is missing can be forgiven; values of another shape have no place to go. What fits has been
# copied by the time the error comes: after a caught error the model is a mixture. Filter first, and say what is left.

# %%
# exercise: checkpoints.partial_load

# %% [markdown]
# ## From another device
# The bytes of a tensor know no device; the file notes one beside them, and `torch.load` puts the tensor there. This
# course has no GPU to rely on, so the next cell writes that note itself: `location_tag` is the function that
# `torch.save` asks for it, and for one call it answers `cuda:0`. The file is then what a GPU machine writes.
# > **Predict.** What does `torch.load` do with it on a machine without a GPU?

# %%
with mock.patch.object(torch.serialization, "location_tag", return_value="cuda:0"):
    from_a_gpu = file_of({"weight": torch.ones(2)})
no_gpu = mock.patch.object(torch.cuda, "is_available", return_value=False)  # wherever this runs
with no_gpu, pitfall("cuda-checkpoint-on-cpu", RuntimeError):
    torch.load(from_a_gpu)
from_a_gpu.seek(0)
show('torch.load(from_a_gpu, map_location="cpu")')

# %% [markdown]
# **Explain.** It refuses, and so does a machine with two GPUs for a file from `cuda:3`. `map_location="cpu"` always
# works; then `load_state_dict` copies the values to where the parameters are.

# %%
# exercise: checkpoints.cross_device

# %% [markdown]
# ## Go on as if nothing had happened
# The usual checkpoint holds the model. The next step reads more than that.
# > **Predict.** Adam has seen 50 gradients of +1 and -1. Now comes one of 0.1. How far does it step? And a new Adam?

# %%
w = torch.zeros(1, requires_grad=True)


def move(optimizer: torch.optim.Optimizer, gradient: float) -> float:
    before, w.grad = w.item(), torch.tensor([gradient])
    optimizer.step()
    return round(before - w.item(), 3)


adam, restored, new = (torch.optim.Adam([w], lr=0.1) for _ in range(3))
for step in range(50):
    move(adam, (-1.0) ** step)
restored.load_state_dict(copy.deepcopy(adam.state_dict()))
with pitfall("optimizer-not-restored") as p:
    p.shows(seen=move(new, 0.1), wanted=(would_be := move(adam, 0.1)))
claim("restored: the step that would have come", move(restored, 0.1) == would_be, equals=True)

# %% [markdown]
# **Explain.** Adam divides the mean gradient by the mean size. A new one knows one gradient, so it moves by the whole
# rate, as in the first step of all. No error, only a jump of the loss.
# > **Predict.** The optimizer's state holds the learning rate. Then a scheduler is built on it. What is the rate?


# %%
def schedule(descent: torch.optim.Optimizer) -> lr_scheduler.LRScheduler:
    return lr_scheduler.LambdaLR(descent, lambda step: 0.5**step)


first, late, right = (torch.optim.SGD([w], lr=0.1) for _ in range(3))
halving, restored_halving = schedule(first), schedule(right)
for _ in range(3):
    first.step()
    halving.step()
for built in (late, right):
    built.load_state_dict(first.state_dict())
schedule(late)  # built after the state was loaded
restored_halving.load_state_dict(halving.state_dict())
with pitfall("scheduler-not-restored") as p:
    p.shows(seen=late.param_groups[0]["lr"], wanted=first.param_groups[0]["lr"])
show("right.param_groups[0]['lr']", "restored_halving.last_epoch")

# %% [markdown]
# **Explain.** Building a scheduler can write a rate: `LambdaLR`, `LinearLR` and `OneCycleLR` do. Build everything
# first, then load everything. A function inside a `LambdaLR` is not in its state; it comes from your code.
# > **Predict.** It is built again, once with one more parameter, once with the same in another order. Which raises?

# %%
with pitfall("optimizer-groups-mismatch", ValueError):
    torch.optim.Adam([*unit.parameters(), w]).load_state_dict(optimizer.state_dict())
with pitfall("optimizer-groups-mismatch") as p:
    turned = torch.optim.Adam([unit.bias, unit.weight])
    turned.load_state_dict(optimizer.state_dict())
    shape = tuple(turned.state[unit.weight]["exp_avg"].shape)
    p.shows(seen=f"moments of the weight: {shape}", wanted=f"moments of the weight: {tuple(unit.weight.shape)}")

# %% [markdown]
# **Explain.** Only the count is compared. In another order each parameter gets the moments of another, and nothing is
# said; between two layers of one shape nothing would show. Build the same groups in the same order.

# %%
# exercise: checkpoints.what_to_save

# %% [markdown]
# ## Leave one out
# A run with everything: dropout, Adam, a schedule per step, float16 with a gradient scaler, shuffled data, a history.
# It stops after step 8, in the middle of its second epoch. A new process builds everything afresh and loads a file.
# > **Predict.** Leave out one of the seven parts, and go on to step 18. Which change the weights? At which step?

# %%
images = torch.randn(44, 8, generator=torch.Generator().manual_seed(0))
labels = (images[:, 0] > 0).long() + (images[:, 1] > 0).long()


class Run:
    """A small run whose parts can be saved one by one; `weights`: all parameters in a vector, after each step."""

    def __init__(self, seed: int = 0) -> None:
        seed_everything(seed)
        self.model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.05)
        self.scheduler = lr_scheduler.OneCycleLR(self.optimizer, max_lr=0.05, total_steps=40)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**18, growth_interval=4)
        self.order = checkpoint.ResumableBatches((images, labels), 8, seed=0)
        self.history = History()
        self.weights: list[Tensor] = []

    def parts(self) -> dict[str, Any]:
        return {name: part for name, part in vars(self).items() if hasattr(part, "load_state_dict")}

    def steps(self, count: int) -> "Run":
        for x, y in islice(chain.from_iterable(repeat(self.order)), count):
            with torch.autocast("cpu", torch.float16):
                loss = F.cross_entropy(self.model(x), y)
            self.optimizer.zero_grad()
            self.scaler.scale(loss).backward()
            scale = self.scaler.get_scale()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            if self.scaler.get_scale() >= scale:  # the step was not skipped
                self.scheduler.step()
            self.history.append(loss=loss.item())
            self.weights.append(self.parameters())
        return self

    def parameters(self) -> Tensor:
        return nn.utils.parameters_to_vector(self.model.parameters()).detach()


uninterrupted, stopped = Run().steps(18), Run().steps(8)
states = {name: part.state_dict() for name, part in stopped.parts().items()} | {"generator": torch.get_rng_state()}
file = file_of(states)
show("list(states)", "stopped.order.state_dict()")


# %% tags=["measured"]
def resumed(left_out: str) -> Run:
    """A new process: other random numbers, everything built afresh, then all parts loaded but one."""
    file.seek(0)
    saved, run = torch.load(file), Run(seed=1)
    for name, part in run.parts().items():
        if name != left_out:
            part.load_state_dict(saved[name])
    if left_out != "generator":
        torch.set_rng_state(saved["generator"])
    run.weights.append(run.parameters())
    return run.steps(10)


left_out = {"everything restored": "", **{f"without {name}": name for name in states}}
without = {row: resumed(part) for row, part in left_out.items()}
differences = {}
for name, run in without.items():
    pairs = zip(run.weights, uninterrupted.weights[7:], strict=True)  # on resuming, and after each step
    differences[name] = [(mine - theirs).abs().max().item() for mine, theirs in pairs]
draw_divergence(differences, first_step=8, title="One part left out at step 8", against="the uninterrupted run")

# %%
claim("everything restored: every bit equal to the end", max(differences["everything restored"]), equals=0.0)
for name in states:
    claim(f"without {name}: other weights", any(differences[f"without {name}"]), equals=name != "history")
claim("losses that are left without history", len(without["without history"].history["loss"]), equals=10)

# %% [markdown]
# **Explain.** Read the picture by its first coloured cell. Without the **model** the run is another one at once. The
# **order**, the **generator** (dropout masks), the **scaler** and the **optimizer** change the first steps. Only the
# **history** changes no weight: what is lost is the record. Small differences grow.

# %%
# exercise: checkpoints.resume

# %% [markdown]
# ## Randomness has many sources
# > **Predict.** `torch.manual_seed(0)`, three draws; again `torch.manual_seed(0)`, three draws. Which are equal?


# %%
def draws(seed: Any) -> Tensor:
    seed(0)
    return torch.tensor([torch.rand(1).item(), random.random(), np.random.rand()])


with pitfall("seed-incomplete") as p:
    p.shows(seen=draws(torch.manual_seed) == draws(torch.manual_seed), wanted=torch.tensor([True, True, True]))
show("draws(seed_everything) == draws(seed_everything)")

# %% [markdown]
# **Explain.** Each library has a generator of its own; each GPU, each worker and each `np.random.default_rng()` one
# more. Seed those that you use. (`PYTHONHASHSEED` orders sets of strings; it has to be set before Python starts.)
#
# **Saying: "save the seed and you can reproduce".** From the beginning, with one program, yes. In the middle?

# %%
again = torch.equal(Run().steps(4).weights[3], uninterrupted.weights[3])
claim("the same seed, from the beginning", again, equals=True)
seed_everything(0)
torch.rand(100)  # the run goes on ...
state, would_come = torch.get_rng_state(), torch.rand(1)
torch.manual_seed(0)
claim("the seed again, in the middle", torch.equal(torch.rand(1), would_come), equals=False)
torch.set_rng_state(state)
claim("the generator's state instead", torch.equal(torch.rand(1), would_come), equals=True)

# %% [markdown]
# **Explain.** A seed says where a generator began, a state says where it is. To reproduce, save states; and the code,
# the data, the augmentation policy, the configuration, the versions. The order of data need not be a state: let it be a
# **function** of seed and epoch, and the number of batches that are done is enough.
# > **Predict.** `manual_seed` takes 64 bits. Which of these orders are equal: seeds 5, 2³² + 5, 2³³ + 5?

# %%
for seed in (5, 2**32 + 5, 2**33 + 5):
    print(f"{seed:>11}", torch.randperm(8, generator=torch.Generator().manual_seed(seed)).tolist())

# %% [markdown]
# **Explain.** All of them: on the CPU the generator takes the low 32 bits. A seed in the high bits beside an epoch in
# the low ones gives every run the same orders. With `seed + epoch`, run 0 at epoch 1 has the order of run 1 at epoch 0.

# %%
# exercise: checkpoints.ordered_batches

# %% [markdown]
# **Workers** have generators of their own, seeded by a number that each pass of a `DataLoader` draws in the main
# process. Restoring torch's generator *between* epochs restores what workers draw. In the *middle* of an epoch it does
# not: new workers begin at their first number. `ResumableBatches` seeds each sample by (seed, epoch, index).


# %%
def from_position(position: int, workers: int) -> Tensor:
    batches = checkpoint.ResumableBatches(GlobalGenerator(8), 2, seed=0, seed_globals=True, num_workers=workers)
    batches.load_state_dict(batches.state_dict() | {"position": position})
    return torch.cat([torch.stack(batch) for batch in batches], dim=1)


drawn = []
for workers in (2, 2, 0):
    drawn.append(str(list(DataLoader(GlobalGenerator(8), num_workers=workers, generator=seed_everything(0)))))
claim("2 workers, twice, seeded before the epoch: equal", drawn[0] == drawn[1], equals=True)
claim("2 workers and none, seeded before the epoch: equal", drawn[0] == drawn[2], equals=False)
whole = from_position(0, workers=2)
claim("ResumableBatches, 0 and 2 workers: equal", torch.equal(from_position(0, workers=0), whole), equals=True)
claim("ResumableBatches, from batch 3 on: equal", torch.equal(from_position(3, workers=2), whole[:, 6:]), equals=True)

# %% [markdown]
# ## The same program, other bits
# One thing is left: the arithmetic. Floats are rounded after each addition, so a sum depends on its order.
# > **Predict.** The same million numbers are added with 1, 2, ..., 8 threads. How many different results?

# %%
million = torch.randn(1_000_000, generator=torch.Generator().manual_seed(0))
threads, sums = torch.get_num_threads(), []
for count in range(1, 9):
    torch.set_num_threads(count)
    sums.append(million.sum().item())
torch.set_num_threads(threads)
with pitfall("nondeterministic-kernel") as p:
    p.shows(seen=f"one result: {len(set(sums)) == 1}", wanted="one result: True")

# %% [markdown]
# **Explain.** Each thread adds a part, and the parts are other ones. That is repeatable: the same number of threads
# gives the same bits. Worse is an operation where threads add to *one place*, in any order:
# `index_put_(accumulate=True)` on the CPU; on a GPU many, such as `index_add_` and `scatter_add_`.

# %% tags=["measured"]
one_place = torch.zeros(100_000, dtype=torch.int64)
places = torch.randint(1000, (1_000_000,), generator=torch.Generator().manual_seed(0))


def add_up(deterministic: bool, places: Tensor) -> Tensor:
    torch.use_deterministic_algorithms(deterministic)
    return torch.zeros(1000).index_put_((places,), million[: len(places)], accumulate=True)


torch.set_num_threads(4)
results = {flag: len({add_up(flag, one_place)[0].item() for _ in range(repeats)}) for flag in (False, True)}
torch.set_num_threads(threads)
cases = {"free": lambda: add_up(False, places), "deterministic": lambda: add_up(True, places)}
cost = compare_times(cases, min_run_time=min_run_time)
torch.use_deterministic_algorithms(False)
claim("results of one sum on four threads", results[False], stated="the same each time", high=1, unit="results")
claim("with deterministic algorithms", results[True], stated="the same each time", high=1, unit="results")
why = "cuDNN needs a CUDA device, and this lesson runs on the CPU"
claim("time of a deterministic convolution of cuDNN", None, stated="slower", low=1.1, unit="x", reason=why)
claim("time of a deterministic index_put_", cost.ratio("deterministic"), stated="slower", low=1.1, unit="x")
cost

# %% [markdown]
# `torch.use_deterministic_algorithms(True)` chooses kernels with a fixed order; where there are none it **raises**.

# %%
torch.use_deterministic_algorithms(True)
with pitfall("nondeterministic-kernel", RuntimeError):
    torch.zeros(5).put_(torch.tensor([0, 0]), torch.tensor([1.0, 2.0]))  # which of the two stays?
torch.use_deterministic_algorithms(False)

# %% [markdown]
# On CUDA more switches belong to it. `torch.backends.cudnn.deterministic = True` takes deterministic convolutions,
# `torch.backends.cudnn.benchmark = False` stops cuDNN from choosing a kernel by trying, which may choose another one
# next time, and the environment variable `CUBLAS_WORKSPACE_CONFIG=:4096:8` makes matrix products repeatable.
#
# **Explain.** Bits are equal for one program, machine, number of threads and version of torch; no more is promised.
# Across machines compare with a tolerance, or by the spread of several seeds.
#
# ## Half a file
# A run can end while it writes: a kill, a full disk. Here a value that cannot be pickled does the same.
# > **Predict.** `last.pt` holds a good checkpoint. Saving a new one as `last.pt` fails midway. Can it be read?


# %%
def failing_save(name: str) -> bool:
    torch.save({"w": torch.ones(5000)}, folder / "last.pt")
    with suppress(AttributeError, pickle.PicklingError):
        torch.save({"w": torch.zeros(5000), "then": lambda: 0}, folder / name)
    try:
        return len(torch.load(folder / "last.pt")) == 1
    except RuntimeError:
        return False


claim("written over the old file: last.pt can be read", failing_save("last.pt"), equals=False)
claim("written beside it: last.pt can be read", failing_save("last.part"), equals=True)

# %% [markdown]
# **Explain.** Opening a file for writing empties it. From then on the old checkpoint is gone, and the new one is not
# there yet. Written beside it, the old one lives until `os.replace`, and that changes a name in one step. `os.fsync`
# before it: a system may write a name to the disk before the bytes.

# %%
# exercise: checkpoints.atomic_save

# %% [markdown]
# ## Formats, versions, names
# **safetensors** is a format for tensors alone: the length of a header (8 bytes), the header (JSON: names, dtypes,
# shapes, places), the bytes. It can hold no code, and no nested state either: no optimizer, numbers only as text.
# > **Predict.** How many bytes does it need for 10 layers of 256 x 256? And `torch.save`? Which loads faster?

# %%
ten_layers = {f"{i}.weight": torch.full((256, 256), float(i)) for i in range(10)}
data, as_safetensors = 10 * 256 * 256 * 4, safetensors.torch.save(ten_layers)
header = 8 + int.from_bytes(as_safetensors[:8], "little")
claim("safetensors: header and numbers, nothing else", len(as_safetensors) - header, equals=data, unit="bytes")
zipped = len(file_of(ten_layers).getvalue()) - data
claim("torch.save needs more beside the numbers", header < zipped < data / 100, equals=True)

# %% tags=["measured"]
torch.save(ten_layers, one := folder / "ten.pt")
safetensors.torch.save_file(ten_layers, other := folder / "ten.safetensors")
cases = {"torch.load": lambda: torch.load(one), "safetensors": lambda: safetensors.torch.load_file(other)}
loading = compare_times(cases, min_run_time=min_run_time)
claim("time to load with safetensors", loading.ratio("safetensors"), stated="faster", high=0.9, unit="x")
loading

# %% [markdown]
# **Saying: "old checkpoints do not load".** Before torch 1.6 (2020) files were no zip archives.
# > **Predict.** Does this torch load it, with `weights_only=True`?

# %%
old = file_of({"weight": torch.ones(2)}, _use_new_zipfile_serialization=False)
claim("entries that load, a zip archive", (len(torch.load(old)), zipfile.is_zipfile(old)), equals=(1, False))

# %% [markdown]
# **Explain.** It loads. What does not load after years is what was pickled around the tensors: a module whose class has
# moved, NumPy scalars; or keys whose code was changed. Before an upgrade, write a copy of the **parameters only**. And
# let a file say what wrote it: `save_atomically` of the course puts the versions into it, and `load` compares.

# %%
with mock.patch.object(torch, "__version__", "2.1.0"):  # as if an older torch had written it
    checkpoint.save_atomically({"config": {"augmentation": "flip and crop"}}, folder / "old.pt")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print(checkpoint.load(folder / "old.pt"))
print(str(caught[0].message).replace(torch.__version__.partition("+")[0], "(the version here)"))

# %% [markdown]
# ## Build it: a checkpoint manager
# A run keeps its **last few** files, because the newest may be damaged or the run may have gone wrong some time ago,
# and the **best** one, for use. Names by epoch or step and metric let a person choose without opening a file.

# %%
# exercise: checkpoints.manager

# %% [markdown]
# The one to take home is `course.training.checkpoint`: `RunState` gathers the parts, `CheckpointManager` keeps the
# files. It checks the checksum of each record, compares the names of the parameters in each group, and restores all
# parts or none. **Not** in it: hooks, `requires_grad`, the mode, and what workers draw from their own generators.
# > **Predict.** A run saves every 3 steps up to 15. The newest file is cut short. From which step does it resume?


# %%
def run_state(run: Run) -> checkpoint.RunState:
    return checkpoint.RunState(run.model, **{name: part for name, part in run.parts().items() if name != "model"})


manager, run = checkpoint.CheckpointManager(folder / "runs", keep_last=2, keep_best=1), Run()
for step in range(3, 16, 3):
    manager.save(run_state(run.steps(3)), step=step, score=round(1 / step, 2))
print(*(path.name for path in manager.files()), sep="\n")
newest = manager.files()[-1]
newest.write_bytes(newest.read_bytes()[:1000])
run = Run(seed=9)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    step = checkpoint.CheckpointManager(folder / "runs").resume(run_state(run))
print("resumed from step", step, "-", caught[0].message)
run.steps(18 - step)
claim("past a damaged file: equal at step 18", torch.equal(run.weights[-1], uninterrupted.weights[-1]), equals=True)
place.cleanup()

# %% [markdown]
# ## From symptom to understanding
# | what you see | fault | why | fix |
# | --- | --- | --- | --- |
# | "Weights only load failed ... Unsupported global" | weights-only-refused | more than plain values | `float()`, `str()`, state dicts |
# | "Attempting to deserialize object on a CUDA device" | cuda-checkpoint-on-cpu | the file notes a device | `map_location="cpu"` |
# | "Missing key(s)", "Unexpected key(s)" with a common prefix | wrapper-prefix | the wrapper's name | strip; save `.module` |
# | chance accuracy after loading, no error | nothing-loaded | `strict=False` forgave all | print and check what it returns |
# | "size mismatch for ..." | shape-mismatch-on-load | another head | filter by shape |
# | best weights equal the last ones | state-dict-aliased | nothing was copied | `copy.deepcopy` |
# | the loss jumps on resuming | optimizer-not-restored | moments start from zero | save its state |
# | the rate is back at its first value | scheduler-not-restored | counts from 0; built last | build first, then load |
# | "parameter group that doesn't match the size" | optimizer-groups-mismatch | other parameters | same groups, same order |
# | two runs with one seed differ from the first batch on | seed-incomplete | several generators | seed each; save states |
# | two runs differ in the last digits, then more and more | nondeterministic-kernel | order of additions | deterministic algorithms |
#
# ## A table to keep
# | to go on, save | because the next step reads | written by |
# | --- | --- | --- |
# | model, averaged weights | parameters and buffers | `state_dict()` |
# | optimizer, scheduler, scaler | moments, rate and count, scale | `state_dict()` each |
# | generators | dropout, augmentation, noise | `torch.get_rng_state()`, `random.getstate()`, `torch.cuda.get_rng_state_all()` |
# | seed, epoch, position | which batch comes next | three integers |
# | history, config, augmentation policy, data version | nothing; people do | plain values |
# | versions of torch and Python | nothing; the reader of next year does | `torch.__version__`, `platform.python_version()` |
# | **to use, save** parameters and buffers alone | the model is built by code | `state_dict()` or safetensors, named by epoch and metric |
#
# **Read on:** [saving and loading](https://docs.pytorch.org/docs/stable/notes/serialization.html),
# [torch.load](https://docs.pytorch.org/docs/stable/generated/torch.load.html),
# [reproducibility](https://docs.pytorch.org/docs/stable/notes/randomness.html),
# [use_deterministic_algorithms](https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html), [safetensors](https://huggingface.co/docs/safetensors/index).
