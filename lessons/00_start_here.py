# %% [markdown]
# # 00 Start here
#
# How this course works, whether your machine is ready for it, and three habits that save most of the time that people
# lose with PyTorch: pick the device once, restart and run all, and a smoke test before any real run.
#
# **Goals.** You can take a lesson, an exercise and a verdict apart; say why a GPU is not used, and what to install; tell
# what a notebook remembers from what its page shows; look into a forward pass while it runs; and find a broken
# training set-up in five steps instead of after five hours.
#
# **Prerequisites.** Python. **Time.** About 75 minutes.
#
# **What it measures.** What this machine can do, and how long a smoke test takes. All else is checked exactly.
#
# Run the cells from the top, one by one, with Shift+Enter.

# %%
import io
import linecache
import math
import pdb
import time
import traceback
import warnings
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course import begin, check, claim, hint, pitfall, show_environment, solution
from course.environment.accelerator import TorchBuild, judge_cuda, parse_version
from course.environment.picture import draw_driver_and_runtime
from course.training.device import choose_device

begin("00")

# %% tags=["parameters"]
device = "auto"  # "auto", "cpu", "cuda" or "mps"
profile = "quick"  # "smoke", "quick" or "full"; this lesson trains nothing long, so it makes no difference here

# %%
run_device = choose_device(device)


def show(*expressions: str) -> None:
    """Print each expression and its value."""
    for expression in expressions:
        print(f"{expression:<50} {eval(expression, globals())!s}")


# %% [markdown]
# ## How a lesson works
#
# A question comes first, then the cell that answers it, then why. **Predict**, write your guess down, **run**, and only
# then read on. A wrong guess is worth more than a right one: it shows what you believed.
# > **Predict.** Is `torch.tensor(0.1).item() == 0.1`? What about 0.5?

# %%
show("torch.tensor(0.1).item()", "torch.tensor(0.5).item()", "torch.tensor(0.1).dtype")
kept = sum(torch.tensor(number).item() == number for number in (0.1, 0.5))
claim("of 0.1 and 0.5, float32 keeps exactly", kept, equals=1)

# %% [markdown]
# **Explain.** A float tensor keeps 32 bits a number, Python keeps 64. A half has an exact binary form, a tenth has not,
# and is rounded differently at each length.
#
# The framed line is a **claim**: a fact that the lesson states and this cell has just checked. When an exact one is
# false, the cell fails. A *measured* one, such as a time, cannot fail: it shows what was stated, what a recorded run
# found, and what your machine finds. A frame that begins with **Pitfall** shows an error or a silent mistake on
# purpose, with its reason and its cure; the lesson goes on after it.
#
# **Exercises** come in three cells: the task, a stub to fill in, and a check. Here is the first.

# %%
# exercise: start.count_parameters

# %% [markdown]
# Until you write something, the verdict is *not attempted*. Below is what it says of a first attempt that is wrong:
# which misunderstanding it shows, what was seen in the smallest case, and what was expected. The cell after it asks for
# a hint.


# %%
def first_attempt(model: nn.Module) -> int:
    return len([p for p in model.parameters() if p.requires_grad])


check("start.count_parameters", first_attempt)

# %%
hint("start.count_parameters")

# %% [markdown]
# - `hint(id)` gives the next hint at each call, `solution(id)` shows our answer and others that are right too. Any
#   answer that does what the task says passes; it need not look like ours.
# - The check calls your function on inputs that you do not see. On Linux it does so in a process of its own, so an
#   endless loop is stopped and your notebook's variables stay as they are. Elsewhere there is no such deadline:
#   interrupt the kernel.
# - In JupyterLab, buttons under a verdict check again, give the next hint and show the solution. They do what the
#   functions do, and work from the keyboard.
# - **Start again:** `course reset 00 start.count_parameters` in a terminal puts the stub back, and `course reset 00` the
#   whole lesson. Both keep a dated copy of what was there.
# - **Progress** is kept in a file of your own: which exercise was checked, hinted or solved, when, and with which
#   verdict; never your code. Nothing is sent anywhere. `course status` shows it for all lessons, the last cell for this one. The
#   two cells above count as an attempt and a hint of yours.
# - No later cell depends on your answers. You may leave out any exercise.
#
# ## Is this machine ready
#
# One call looks at everything that matters. In a terminal, `course env` says the same, and its exit code is not 0 when
# the course cannot run. ✓ is well, ○ is a note: it runs, with less than it could. ✗ has to be mended first.

# %% tags=["measured"]
show_environment()

# %% [markdown]
# | line | what it means | when it is not ✓ |
# | --- | --- | --- |
# | Python | version, 64 bit, in an environment of its own | make an environment (below) |
# | PyTorch | its version and what it was **built** for | install the right build (below) |
# | torchvision | is compiled against one torch; others fail at import | install both in one command |
# | device | what the lessons will compute on | the CPU is enough for this course |
# | driver and CUDA | the two numbers that follow | update the driver, or take another build |
# | MPS | Apple's GPU | an arm64 Python, a recent macOS |
# | C++ compiler | `torch.compile` writes C++ and needs it, and Python's headers | only for `torch.compile` |
# | cores, memory | what *this process* may use, often less in a container | close programs, smaller batches |
# | disk, data | room, and where CIFAR-10 would come from; else a drawn stand-in | free space; `COURSE_DATA` |
# | packages | versions against what the course needs | the command that it prints |
# | kernel, notebooks | which Python a notebook starts, and in what | register this one |
#
# **Two CUDA numbers.** `nvidia-smi` prints "CUDA Version: 12.8", torch says 13.0, and nothing is wrong with either. The
# first is the highest version that the *driver* supports; the driver comes with the system. The second is the *runtime*
# inside the torch wheel. A CUDA toolkit that you installed yourself, with `nvcc`, is a third one: torch's wheels do not
# use it.
# > **Predict.** The runtime calls the driver. Which of the two numbers must not be the smaller one?

# %%
draw_driver_and_runtime(("13.1", "13.0"), ("12.8", "13.0"))

# %% [markdown]
# **Explain.** The driver's. Drivers run what was made for older versions, not for newer ones. There is one exception:
# from CUDA 11 on, a driver of the *same major* version also runs a later minor one, with some limits.
# > **Predict** for five machines what `course env` says.

# %%
machines = {
    "CPU build, no NVIDIA driver": (TorchBuild("2.14.1+cpu"), None),
    "CPU build, new driver": (TorchBuild("2.14.1+cpu"), "13.0"),
    "CUDA build, no driver": (TorchBuild("2.14.1+cu130", cuda="13.0"), None),
    "CUDA build, old driver": (TorchBuild("2.14.1+cu130", cuda="13.0"), "12.8"),
    "CUDA build, driver of the same major version": (TorchBuild("2.14.1+cu132", cuda="13.2", gpus=1), "13.0"),
}
for name, (build, driver) in machines.items():
    finding = judge_cuda(build, driver and parse_version(driver))
    print(f"{name}\n  {finding.state}: {finding.value}\n  device: {build.device}")

# %% [markdown]
# **Explain.** The first four compute on the CPU, and torch raises nothing there until you ask for the GPU by name. That
# is why the fault is noticed late, by its slowness. The first of them is well: nobody expects a GPU there.

# %%
with pitfall("cpu-build-installed") as p:
    build, driver = machines["CPU build, new driver"]
    p.shows(seen=build.device, wanted="cuda")

# %% [markdown]
# What does this machine say when it is asked for CUDA by name? The class of the error tells the two cases apart: an
# `AssertionError` comes from a build without CUDA, a `RuntimeError` from a missing or old driver.

# %% tags=["measured"]
try:
    print(torch.zeros(1, device="cuda"))
except (AssertionError, RuntimeError) as error:
    print(f"{type(error).__name__}: {error}")

# %%
# exercise: start.driver_fits

# %% [markdown]
# ## One line picks the device
#
# `choose_device()` of this course, or in plain torch the line below. Write it once, at the top.
# > **Predict.** A machine has a GPU, and a model and a batch are made as usual. Where is the result computed?

# %%
picked = torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
accelerator = torch.device("meta") if run_device.type == "cpu" else run_device

model, batch = nn.Linear(4, 2), torch.ones(8, 4)
with pitfall("model-left-on-cpu") as p:
    p.shows(seen=model(batch).device.type, wanted=accelerator.type)

model = model.to(accelerator)
batch = batch.to(accelerator)
claim("the result is on the accelerator", model(batch).device.type == accelerator.type, equals=True)

# %% [markdown]
# **Explain.** New tensors and modules live on the CPU, on every machine. Model and batch fit together there, so nothing
# complains. Both have to be moved: the model before its optimizer is made, each batch inside the loop. `Module.to` moves
# in place, `Tensor.to` returns another tensor, so keep its result.
#
# Without a GPU this cell uses the device `meta`, which every machine has: it computes shapes and holds no numbers. What
# it shows of *where* things are is the same.

# %%
with pitfall("device-mismatch", RuntimeError):
    torch.ones(3) + torch.ones(3, device=accelerator)

# %% [markdown]
# If only one of the two was moved, you hear of it at once. So a silent GPU means that *neither* was.

# %%
# exercise: start.choose_device

# %% [markdown]
# ## A notebook has hidden state
#
# The page shows cells. The kernel behind it holds variables, and knows only which cells ran, in which order, how often.
# Three cells are given as text here, so that we can run them in any order, each time in a fresh kernel.
# > **Predict** `steps` for the four orders.

# %%
cells = {"A": "rate = 0.1", "B": "rate = rate / 10", "C": "steps = round(1 / rate)"}


def kernel(order: str) -> object:
    """Run cells in this order in a fresh kernel and return what steps is then."""
    memory: dict[str, object] = {}
    try:
        for name in order:
            exec(cells[name], memory)
    except NameError as error:
        return error
    return memory["steps"]


show("kernel('ABC')", "kernel('ABBC')", "kernel('ACB')", "kernel('BC')")

# %% [markdown]
# **Explain.** Running B twice divides twice, and nothing on the page shows it. In the third order C came too early. The
# last is what somebody else meets who opens your notebook when cell A was deleted long ago: with you, the kernel still
# remembers it.
#
# The commonest form of this in PyTorch: a cell that calls `backward()` is run once more.

# %%
weight = torch.tensor(3.0, requires_grad=True)
loss = weight**2

# %%
loss.backward()
show("weight.grad")

# %% [markdown]
# Run the cell above a second time yourself. The same happens here:

# %%
with pitfall("backward-twice", RuntimeError):
    loss.backward()

# %% [markdown]
# **Explain.** `backward` frees what the forward pass had kept for it. The message proposes `retain_graph=True`, which
# is hardly ever what you want. Compute the loss anew instead: forward and backward belong into one cell.
# > **Predict.** The gradient of `weight**2` at 3 is 6. The cell below does forward and backward, once. What does
# > `weight.grad` show?

# %%
loss = weight**2
loss.backward()
show("weight.grad")

# %%
weight.grad = None  # what optimizer.zero_grad() does for all parameters
loss = weight**2
loss.backward()
show("weight.grad")
claim("the gradient of weight**2 at 3", weight.grad.item(), equals=6.0)

# %% [markdown]
# **Explain.** 12: gradients *add up* until somebody clears them, here 6 from two cells earlier. A cell that clears, goes
# forward and goes backward gives the same result however often it runs. Write cells like that one.
#
# **The habit:** before you believe a result, before you ask for help and before you hand a notebook on, *Restart kernel
# and run all cells*. A notebook that does not survive it has no result.

# %%
# exercise: start.hidden_state

# %% [markdown]
# ## The code is the graph
#
# PyTorch **defines the graph by running**. `forward` is Python, executed line by line, at each call, with real numbers.
# So you may print, branch, loop and stop in it, and the graph of this call is what this call did.
# > **Predict.** `Halving` divides by 2 until all numbers are small, and prints. How often for 1.0, and how often for
# > 100.0? What is the gradient?


# %%
class Halving(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        steps = 0
        while x.abs().max() > 1:
            x = x / 2
            steps += 1
        print(f"{steps} halvings, now {x.tolist()}")
        return x.sum()


for number in (1.0, 100.0):
    x = torch.tensor([number], requires_grad=True)
    Halving()(x).backward()
    print("gradient", x.grad)

# %% [markdown]
# **Explain.** The loop ran no time, and then seven times. Each gradient is that of its own run: 1, and 1/2 seven times
# over, 0.0078125. There is no special operator for loops or branches. (`torch.compile` records a graph in advance, and
# has something to say about such loops; that is a later lesson.)
#
# A debugger works too. Write `breakpoint()` where you want to stop. In Jupyter a line to type in opens: `p x.shape`
# prints, `n` goes one line on, `u` and `d` go up and down the calls, `c` continues. Here the commands are typed by the
# cell.


# %%
class Network(nn.Module):
    def __init__(self, stop: Callable[[], None] | None = None) -> None:
        super().__init__()
        self.conv, self.pool, self.head = nn.Conv2d(3, 8, 3), nn.MaxPool2d(2), nn.Linear(1024, 10)
        self.stop = stop

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.conv(x).relu())
        x = x.flatten(1)
        if self.stop is not None:
            self.stop()  # breakpoint()
        return self.head(x)


commands = ["p tuple(x.shape)", "p self.head.in_features", "p x.min().item() >= 0", "c"]
screen = io.StringIO()
debugger = pdb.Pdb(stdin=io.StringIO("\n".join(commands)), stdout=screen, nosigint=True, readrc=False)
images = torch.ones(8, 3, 32, 32)
try:
    Network(debugger.set_trace)(images)
except RuntimeError as error:
    mistake = error
answers = [line.partition("> ")[2] for line in screen.getvalue().splitlines() if line.startswith("ipdb>")]
for command, answer in zip(commands, answers, strict=True):
    print(f"ipdb> {command:<25} {answer}")

# %% [markdown]
# **Explain.** 1800 features arrive, the layer wants 1024. The error itself would have told that as well, and where. An
# error of a forward pass comes from the line that made it: read the traceback from its end upwards, and stop at the first
# line that is *yours*.

# %%
for frame, number in traceback.walk_tb(mistake.__traceback__):
    if frame.f_globals is globals():
        print("yours:", linecache.getline(frame.f_code.co_filename, number).strip())
print(mistake)

# %% [markdown]
# In two cases the line of the error is not that of the mistake. Errors that `backward()` raises come from a line of the
# forward pass; `torch.autograd.set_detect_anomaly(True)` names it (lesson 02). And a GPU works through a queue, so
# its errors may show up some lines late; the environment variable `CUDA_LAUNCH_BLOCKING=1` makes it wait.

# %%
# exercise: start.read_the_error

# %%
# exercise: start.guarded_forward

# %% [markdown]
# ## A smoke test before any real run
#
# A new device is switched on for a second, to see whether smoke comes out. Do the same with a model: **eight samples,
# five steps**. That finds wrong shapes and dtypes, a forgotten step or a bad learning rate before the first epoch.
#
# First the shapes, layer by layer.


# %%
def network() -> nn.Sequential:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(392, 10)]
    return nn.Sequential(*layers).to(run_device)


samples, labels = torch.rand(8, 3, 32, 32, device=run_device), torch.arange(8, device=run_device)
x = samples
for layer in network():
    x = layer(x)
    print(f"{type(layer).__name__:<10} {tuple(x.shape)}")
claim("rows of scores for eight samples", x.shape[0], equals=8)

# %% [markdown]
# > **Predict.** Ten classes, and an untrained network that prefers none of them: what is the cross-entropy of its first
# > guess? And how do five steps go with learning rates of 0.1, 0 and 1000?


# %% tags=["measured"]
def losses_of(learning_rate: float, steps: int = 5) -> list[float]:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    losses = [F.cross_entropy(model(samples), labels).item()]
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(model(samples), labels).backward()
        optimizer.step()
        losses.append(F.cross_entropy(model(samples), labels).item())
    return losses


start = time.perf_counter()
runs = {rate: losses_of(rate) for rate in (0.1, 0.0, 1000.0)}
seconds = (time.perf_counter() - start) / len(runs)
for rate, losses in runs.items():
    print(f"learning rate {rate:<7g}", "  ".join(f"{loss:.3g}" for loss in losses))
claim("the first loss of ten classes", runs[0.1][0], stated="ln 10 = 2.30", low=2.1, high=2.5)
claim("one smoke test", seconds, stated="a second", high=1.0, unit="s")

# %%
falling = [rate for rate, losses in runs.items() if losses[-1] < losses[0]]
staying = [rate for rate, losses in runs.items() if losses[-1] == losses[0]]
claim("learning rates at which the loss falls", falling, equals=[0.1])
claim("learning rates at which it stays", staying, equals=[0.0])
claim("ln 10, rounded", round(math.log(10), 2), equals=2.3)

# %% [markdown]
# **Explain.** A network without preference gives each class 1/10, and -ln(1/10) is 2.30. A first loss far from that
# means that labels, outputs or loss function do not fit together. A loss that stays says that nothing is trained. One that
# jumps says that the steps are too large.
#
# Then let the eight samples be learnt by heart: some hundred steps on one batch must bring the loss close to 0 (lesson
# 05). A network that cannot do that will not learn sixty thousand.

# %%
# exercise: start.smoke_test

# %% [markdown]
# ## Which build to install, and where
#
# | your machine | install | mind |
# | --- | --- | --- |
# | Linux, NVIDIA GPU | `pip install torch torchvision` | brings CUDA, several gigabytes; an older driver needs another index |
# | Linux, no GPU, or little disk | the same with `--index-url https://download.pytorch.org/whl/cpu` | a tenth of the size |
# | Windows, NVIDIA GPU | with the index that the selector names | the plain command gives the CPU build |
# | Windows, no GPU | `pip install torch torchvision` | |
# | Mac, Apple chip | `pip install torch torchvision` | MPS is built in |
# | Mac, Intel | | torch 2.2 was the last for it: too old for this course |
# | Linux, AMD GPU | with the ROCm index of the selector | it answers to the names `torch.cuda` and `"cuda"` |
# | little memory, or no machine | Binder or another hosted notebook | files there do not last: download your notebooks |
#
# The **selector** is at <https://pytorch.org/get-started/locally/>. Take torch and torchvision from *one* place in one
# command: a torchvision that was compiled for another torch fails with `operator torchvision::nms does not exist`.
# Since 2.6 there are no official conda packages; inside a conda environment use pip.
#
# **A virtual environment for each project.** `python -m venv .venv` makes a folder with a Python of its own, and
# `.venv/bin/python -m pip install ...` installs only there (on Windows `.venv\Scripts\python`). Two projects can then
# have two versions of torch; a broken environment is deleted and made again; and the system's own Python stays as the
# system needs it. `python -m pip` installs for *that* `python`; a bare `pip` may belong to another one, which is the usual
# reason for "installed, but cannot be imported".
#
# ## PyTorch beside TensorFlow
#
# | PyTorch | TensorFlow 2 | mind |
# | --- | --- | --- |
# | eager; `torch.compile` on demand | eager; `tf.function` on demand | in TensorFlow 1 the graph came first |
# | `loss.backward()` | `tf.GradientTape` | gradients gather in `.grad`: clear them |
# | `nn.Module` | `tf.Module`, `keras.Layer` | layers are told their input size |
# | a loop that you write | `model.fit` | you can see every step |
# | `Dataset`, `DataLoader` | `tf.data` | workers are processes |
# | images (N, C, H, W) | (N, H, W, C) by default | `permute`, not `reshape` |
# | `CrossEntropyLoss` takes raw scores | `from_logits=True` | no softmax in the model |
# | `model.train()`, `model.eval()` | `training=...` in the call | a mode that stays until it is changed |
# | `device` named by you | placed for you | see above |
# | `torch.export`, ONNX | SavedModel | |
#
# **Habits to drop** when you come from static graphs:
#
# - *Placeholders and feeding.* Arguments of `forward` are ordinary arguments; shapes may differ at each call.
# - *Sessions.* A line has run when it has run; `print` shows numbers.
# - *Special operators for control flow.* `if`, `for` and `while` do. `torch.cond` is only for export.
# - *Building once, with reuse and scopes.* A layer is an object: calling it twice shares its weights, making it twice
#   does not. Make layers in `__init__`.
# - *Adding everything to the graph.* Only what autograd must see has to be torch; configuration, bookkeeping and
#   input pipelines are Python.
#
# ## Versions to know
#
# Much advice on the web is older than what it advises on. Some dates to judge it by:
#
# | version | when | what changed |
# | --- | --- | --- |
# | 1.0 | December 2018 | TorchScript (`torch.jit`), a new `torch.distributed`, a C++ front end |
# | 1.8 | March 2021 | `torch.fx` (beta), `torch.fft` stable, builds for AMD GPUs |
# | 1.9 | June 2021 | `torch.linalg` stable, autograd for complex numbers stable, elastic training built in |
# | 1.10 | October 2021 | CUDA graphs (beta), `torch.fx` stable |
# | 2.0 | March 2023 | `torch.compile`, `scaled_dot_product_attention`, `torch.func`, MPS (all beta then) |
# | 2.2 | January 2024 | FlashAttention-2 in attention, `TORCH_LOGS`; the last for Intel Macs |
# | 2.6 | January 2025 | `torch.load` reads weights only, unless told otherwise; no more conda packages |
# | since | | TorchScript is deprecated in favour of `torch.export`; `torch.accelerator` speaks for any GPU |
# > **Predict.** Three lines of old tutorials meet the torch installed here. Which works, which warns, which fails?

# %%
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    torch.jit.script(nn.ReLU())
claim("torch.jit.script says that it is deprecated", any("deprecated" in str(w.message) for w in caught), equals=True)

torch.save(nn.Linear(2, 1), file := io.BytesIO())
file.seek(0)
try:
    torch.load(file)
except Exception as error:
    refusal = type(error).__name__
claim("torch.load of a whole model raises", refusal, equals="UnpicklingError")
claim(
    "torch.autograd.Variable(x) is a plain tensor", type(torch.autograd.Variable(torch.ones(1))) is Tensor, equals=True
)

# %% [markdown]
# **Explain.** TorchScript warns. A file that holds a whole model is refused, because loading it would run code; save the
# `state_dict` (lesson 07). `Variable`, from before 0.4, does nothing any more: leave it out.
#
# ## From error to understanding
#
# | fault | how it looks | why | what to do |
# | --- | --- | --- | --- |
# | `cpu-build-installed` | `torch.cuda.is_available()` is False, "Torch not compiled with CUDA enabled", "Found no NVIDIA driver", "driver ... too old" | the build has no CUDA, or the driver is older than the runtime | `course env`; install the build that fits the driver |
# | `model-left-on-cpu` | no error; slow, and the GPU idles | nothing was moved | `model.to(device)`, `batch = batch.to(device)` |
# | `device-mismatch` | "Expected all tensors to be on the same device" | one of the two was moved | move both, at one place |
# | `backward-twice` | "Trying to backward through the graph a second time" | a cell ran twice; the graph was freed | forward and backward in one cell |
# | gradients that grow | no error; other numbers at each run of a cell | `.grad` adds up | clear before `backward()` |
# | a name that is not defined | works with you, fails elsewhere | hidden state | restart and run all |
# | sizes in a product | "mat1 and mat2 shapes cannot be multiplied (a x b and c x d)" | b arrives, c was expected | give the layer b inputs |
#
# ## A table to keep
#
# | to find out | write |
# | --- | --- |
# | what this machine can do | `course env` |
# | version and build of torch | `torch.__version__`, `torch.version.cuda` |
# | whether a GPU can be used | `torch.accelerator.is_available()` |
# | what the driver supports | `nvidia-smi`, first line |
# | where a model is | `next(model.parameters()).device` |
# | what flows through a layer | `print(x.shape)` or `breakpoint()` in `forward` |
# | whether a set-up can learn | eight samples, five steps |
# | whether a notebook is sound | restart and run all |
#
# ## Read on
#
# - [Start locally](https://pytorch.org/get-started/locally/): the selector
# - [torch.accelerator](https://docs.pytorch.org/docs/stable/accelerator.html)
# - [Learn the basics](https://docs.pytorch.org/tutorials/beginner/basics/intro.html)
# - [Autograd mechanics](https://docs.pytorch.org/docs/stable/notes/autograd.html)
# - [CUDA semantics](https://docs.pytorch.org/docs/stable/notes/cuda.html) and NVIDIA's
#   [CUDA compatibility](https://docs.nvidia.com/deploy/cuda-compatibility/)
# - [Frequently asked questions](https://docs.pytorch.org/docs/stable/notes/faq.html)
