# %% [markdown]
# # 09 torch.compile
# `torch.compile` runs a function once with tensors that have shapes and no values, notes the operations as a **graph**, and
# hands the graph to a compiler. Later calls run the compiled graph, as long as the **guards** hold: the conditions under
# which it is right. Every surprise of this lesson is about what is in the graph, and what is in the guards.
#
# **Goals.** You can say of a call whether it compiles, recompiles, breaks or falls back, and prove it by counting; remove graph
# breaks; choose a shape policy; time compiled code honestly; keep hooks, methods and checkpoints right; and leave it out
# where it does not pay. **Prerequisites.** Lessons 02, 03 and 05. **Time.** About 120 minutes, half of them for exercises.
#
# **What it measures.** "20-40 % faster with one line", "the first step takes seconds to minutes", "no gain for a tiny MLP"
# and "varying shapes make it slower". Speed on a CPU needs a C++ compiler, and says so where there is none. All counts are
# exact, and need none.

# %%
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._dynamo.exc import Unsupported

from course import begin, check, choose_device, claim, hint, pitfall, seed_everything, solution
from course.environment.tools import compiler
from course.figures.calls import draw_calls
from course.training.compilation import CompileLog, CountingBackend, without_cuda_notice
from course.training.networks import reference_network
from course.training.timing import compare_times

begin("09")

# %% tags=["parameters"]
device = "auto"  # "auto", "cpu", "cuda" or "mps"
profile = "quick"  # "smoke", "quick" or "full" (which also compiles a training step, some minutes)

# %%
run_device = choose_device(device)
if run_device.type != "cuda":
    run_device = torch.device("cpu")  # times are taken on CUDA or the CPU
min_run_time = {"smoke": 0.001, "quick": 0.02, "full": 0.2}[profile]
can_compile = run_device.type == "cuda" or compiler().state == "ok"
speed_backend, no_compiler = ("inductor", None) if can_compile else ("aot_eager", "no C++ compiler here")
ratio = {"unit": "x", "reason": no_compiler}
gain = {"stated": "20-40 % faster", "low": 1.2, "high": 1.4, **ratio}
# What inductor compiles goes to a folder of its own, so that each run of this lesson starts with nothing.
cache = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache.name
torch._inductor.config.compile_threads = 1  # compile in this process, not in others that it starts
without_cuda_notice()


def show(*expressions: str) -> None:
    """Print each expression and its value."""
    for expression in expressions:
        print(f"{expression:<85} {eval(expression, globals())!s}")


def graphs_after(function: Callable[..., Any], *calls: tuple, **options: Any) -> list[int]:
    """How many graphs were made after each of the calls; calls are tuples of arguments."""
    torch.compiler.reset()
    backend = CountingBackend()
    compiled = torch.compile(function, backend=backend, **options)
    return [(compiled(*arguments), backend.graphs)[1] for arguments in calls]


# %% [markdown]
# ## Capture: one graph, kept for later
# A **backend** gets each captured graph and returns what is called in its place. Anyone may write one. `CountingBackend`
# compiles nothing: it counts, and runs the graph as it is. So everything but speed can be seen in milliseconds.
# > **Predict.** `blend` is called three times. How often is the backend called, and how many operations has the graph?


# %%
def blend(x: Tensor, y: Tensor) -> Tensor:
    z = x * 0.25 + y * 0.75
    return z.relu() if x.shape[0] > 2 else z


counting = CountingBackend()
compiled_blend = torch.compile(blend, backend=counting)
for _ in range(3):
    result = compiled_blend(torch.ones(4), torch.full((4,), -1.0))
show("counting.graphs, counting.runs", "counting.operations", "result")
claim("graphs after three calls", counting.graphs, equals=1)

# %% [markdown]
# **Explain.** One graph, run three times. The graph holds the operations on tensors and nothing else. The `if` is gone: a shape
# is a Python number while the graph is captured, so the branch was decided then. What was decided has to be guarded. This is
# the guard on `x`, as torch.compile logs it:

# %%
with CompileLog("guards") as log:
    graphs_after(blend, (torch.ones(4), torch.ones(4)))
print(*log.lines(r"TENSOR_MATCH.*L\['x'\]"), sep="\n")

# %% [markdown]
# Type, dtype, device, `requires_grad`, size, stride: one glance at these before each call, some microseconds.
#
# `CompileLog` collects what `TORCH_LOGS="guards"` prints, without process ids and paths. The variable and its Python form
# `torch._logging.set_logs` are documented, and in beta: their texts change with the version. What this lesson counts on is
# `torch.compile` with its own backend, `torch.compiler.reset`, `set_stance` and `disable`; those are the public interface.
#
# ## Graph breaks
# What cannot be captured runs in Python. The graph ends before it, and another begins after it: a **graph break**.
# > **Predict.** How many graphs has this function, and what does it return?


# %%
def noisy(x: Tensor) -> Tensor:
    y = x + 1
    print("shape", tuple(y.shape))
    return y * 2


with pitfall("graph-break") as p:
    (graphs,) = graphs_after(noisy, (torch.ones(3),))
    p.shows(seen=f"{graphs} graphs", wanted="1 graphs")
show("noisy(torch.ones(3))")

# %% [markdown]
# **Explain.** Right values, two graphs. Nothing fuses across the break, and nothing was said. `fullgraph=True` makes a break an
# error that names the line. Put it into a test. It asks of the code what you believe of it anyway.

# %%
with pitfall("graph-break", Unsupported):
    torch.compile(noisy, backend="eager", fullgraph=True)(torch.ones(3))


def quiet(x: Tensor) -> tuple[Tensor, tuple]:
    y = x + 1
    return y * 2, tuple(y.shape)


claim("graphs of the quiet function", graphs_after(quiet, (torch.ones(3),), fullgraph=True), equals=[1])

# %% [markdown]
# `torch._dynamo.explain` counts breaks and gives the reason for each. It is not in the public interface, but the documentation
# uses it; `TORCH_LOGS="graph_breaks"` prints the same, with a page to read for each kind of break.

# %%
explanation = torch._dynamo.explain(noisy)(torch.ones(3))
show("explanation.graph_count, explanation.graph_break_count")
show("explanation.break_reasons[0].reason.splitlines()[0]")

# %% [markdown]
# Which calls break depends on the version. Pages from the years of torch 2.0 name many that have been captured since, such as
# `append`. Do not learn them by heart; count. Where a break is wanted, `torch.compiler.disable` marks a function.

# %%
# exercise: compilation.remove_breaks

# %% [markdown]
# ## Branches on values
# > **Predict.** A Python `if` on a shape was no problem. Here is one on a sum. How many graphs are there after a call with a
# > positive and a call with a negative tensor?


# %%
def step_to_zero(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x - 1
    return x + 1


one = torch.ones(3)
show("graphs_after(step_to_zero, (one,), (-one,), (2 * one,))")
with pitfall("data-dependent-branch", Unsupported):
    torch.compile(step_to_zero, backend="eager", fullgraph=True)(one)

# %% [markdown]
# **Explain.** One graph computes the sum. Then Python decides, and each branch gets a graph when it is first taken. Two ways keep
# the branch inside. `torch.where` computes both sides and chooses. `torch.cond` (a prototype, says its documentation) runs one.

# %%
ways = {
    "torch.where": lambda x: torch.where(x.sum() > 0, x - 1, x + 1),
    "torch.cond": lambda x: torch.cond(x.sum() > 0, lambda x: x - 1, lambda x: x + 1, (x,)),
}
for name, way in ways.items():
    claim(f"{name}: same values", all(torch.equal(way(x), step_to_zero(x)) for x in (one, -one, 0 * one)), equals=True)
    claim(f"{name}: graphs", graphs_after(way, (one,), (-one,), fullgraph=True), equals=[1, 1])

# %% [markdown]
# With gradients there is a trap in `torch.where`: zero times the derivative of the branch not taken, which may be infinite.

# %%
# exercise: compilation.branch

# %% [markdown]
# ## Guards and recompiles
# When a guard fails, the function is compiled again, and the old graph stays. Each line below calls `2 * x`, or `x * k`, several
# times, and shows the number of graphs after each call.
# > **Predict.** Where does the number grow? Lengths 3, 4, 5, 3, then 1; a tensor that requires a gradient, then one that does
# > not; a transposed one; another dtype; the numbers 2, 3, 4; floats; four strings; a list that each call makes longer.


# %%
def double(x: Tensor) -> Tensor:
    return 2 * x


ones = torch.ones
show("graphs_after(double, *[(ones(n),) for n in (3, 4, 5, 3, 1)])")
show("graphs_after(double, *[(ones(n),) for n in (3, 4, 5, 3, 1)], dynamic=False)")
show("graphs_after(double, *[(ones(n),) for n in (3, 4, 5, 3, 1)], dynamic=True)")
show("graphs_after(double, (ones(3),), (ones(3, requires_grad=True),), (ones(3),))")
show("graphs_after(double, (ones(3, 4),), (ones(4, 3).t(),), (ones(3, 4),))")
show("graphs_after(double, (ones(3),), (ones(3, dtype=torch.float64),), (ones(3),))")
show("graphs_after(lambda x, k: x * k, *[(one, k) for k in (2, 3, 4)])")
show("graphs_after(lambda x, k: x * k, *[(one, k) for k in (0.2, 0.3, 0.4)])")
show("graphs_after(lambda x, name: x * len(name), *[(one, name) for name in ('a', 'bb', 'cc', 'dd')])")
seen = []
show("graphs_after(lambda x: (seen.append(1), 2 * x)[1], (one,), (one,), (one,))", "seen")

# %% [markdown]
# **Explain.** Three rules cover it.
# - **Sizes and numbers in arguments** are fixed at first. The second value makes a graph for any value: **dynamic**. Size 1 (and
#   0) keeps a graph of its own, because size 1 broadcasts. `dynamic=True` starts with the general graph, `dynamic=False` never
#   makes it.
# - **Dtype, device, strides, `requires_grad`, `no_grad`** are guarded exactly.
# - **Other Python values**, such as strings and the length of a list, are fixed for ever: a graph for each. (The list got its
#   entries: torch.compile replays a simple side effect. A tracer that you write below will not.)
#
# An integer attribute of a module is such a value, too. Here it counts steps.
# > **Predict.** How many graphs are there after 12 calls, and how many of the calls run one?


# %%
class Decayed(nn.Module):
    def __init__(self, step: int | Tensor) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        if isinstance(step, int):
            self.step = step
        else:
            self.register_buffer("step", step)

    def forward(self, x: Tensor) -> Tensor:
        self.step += 1
        return self.layer(x) / self.step


backend = CountingBackend()
with CompileLog("recompiles") as log, pitfall("recompiles") as p:
    torch.compiler.reset()
    decayed = torch.compile(Decayed(0), backend=backend)
    for _ in range(12):
        decayed(torch.ones(1, 2))
    p.shows(seen=f"{backend.graphs} graphs", wanted="1 graphs")
show("backend.runs", "decayed.step", "log.recompiles")
print(*log.lines("^- 0/")[:2], *log.lines("recompile_limit"), sep="\n")

# %% [markdown]
# **Explain.** Each call saw another number. The log names the guard. At `recompile_limit`, torch.compile gives the function up:
# it **falls back** to eager for what no graph fits, with one warning in the log. Values stay right; speed is gone.
#
# The cure is to make the number a tensor. And in a test or a service a recompile can be an error, by a **stance**.

# %%
torch.compiler.reset()  # the limit holds for the code, so for every object of the class
backend = CountingBackend()
decayed = torch.compile(Decayed(torch.tensor(0)), backend=backend)
for _ in range(12):
    decayed(torch.ones(1, 2))
claim("graphs with the count in a buffer", backend.graphs, equals=1)
with pitfall("recompiles", RuntimeError), torch.compiler.set_stance("fail_on_recompile"):
    decayed(torch.ones(1, 2, dtype=torch.float64))
with torch.compiler.set_stance("force_eager"):  # for a debugger, a print, or to see whether torch.compile is to blame
    decayed(torch.ones(1, 2))
show("backend.graphs, backend.runs")

# %%
# exercise: compilation.count_compilations

# %% [markdown]
# ## Shape policies
# Sequences have many lengths. Four policies:
# - **default**: the first length, then one graph for any. Usually enough.
# - **`dynamic=True`**: general from the start. One compilation less, and all sizes are general, those that never change, too.
# - **`torch._dynamo.mark_dynamic(x, 0)`**: one axis is general. If the code makes that impossible, it raises;
#   `maybe_mark_dynamic` is a wish. Documented, in spite of the underscore.
# - **padding to a few lengths**, for what runs best with fixed sizes. The mask is yours to handle (lesson 04).
#
# The last batch of an epoch is a new shape, too. `drop_last=True` saves a compilation.


# %%
def gram(x: Tensor) -> Tensor:
    return x @ x.t()


batches, marked = ([(ones(length, 4),) for length in (5, 8, 3, 8)] for _ in range(2))
for (batch,) in marked:
    torch._dynamo.mark_dynamic(batch, 0)
show("graphs_after(gram, *batches)", "graphs_after(gram, *batches, dynamic=True)", "graphs_after(gram, *marked)")

# %%
# exercise: compilation.shape_policy

# %% [markdown]
# ## What a compiled call costs
# Now the real compiler. `inductor`, the default backend, writes C++ for a CPU and Triton for a GPU. Its main trick is to **fuse**:
# `wave` makes eight passes over memory in eager mode, each with a new tensor.
# > **Predict.** How many functions does inductor write for it? How long does the first call take, and a later one?


# %%
def wave(x: Tensor) -> Tensor:
    y = (x - 0.5) * 2
    return (y.clamp(-1, 1) * 0.75 + x.relu()) * y - 0.125


seed_everything(0)
x = torch.randn(1_000_000 if can_compile and profile != "smoke" else 1000, device=run_device)
torch.compiler.reset()
backend = CountingBackend(speed_backend)
compiled_wave = torch.compile(wave, backend=backend)
seconds = []
with CompileLog("output_code") as log:
    for _ in range(10):
        start = time.perf_counter()
        compiled_wave(x).sum().item()  # item() waits for an accelerator
        seconds.append(time.perf_counter() - start)
claim("same values as eager", torch.allclose(compiled_wave(x), wave(x), atol=1e-6), equals=True)
show("backend.graphs", "backend.operations")
functions = len(log.lines(r"= async_compile\.(cpp|triton)"))
claim("functions that inductor wrote", functions if can_compile else None, equals=1, reason=no_compiler)

# %% [markdown]
# **Explain.** One function, one pass: each number is read once, goes through all eight operations in registers, and is written once.
# A convolution or a large matrix product is not rewritten on a CPU: inductor calls the same library as eager mode, and fuses what
# lies around it.
# > **Predict.** The loop timed ten calls, the first among them. By which factor is the mean above the median?

# %%
with pitfall("warmup-in-timing") as p:
    factor = statistics.mean(seconds) / statistics.median(seconds)
    p.shows(seen=f"mean above 3 medians: {factor > 3}", wanted="mean above 3 medians: False")

# %% tags=["measured"]
timed = compare_times({"eager": lambda: wave(x), "compiled": lambda: compiled_wave(x)}, min_run_time=min_run_time)
faster = timed.ratio("eager", "compiled") if can_compile else None
saved = timed["eager"].median - timed["compiled"].median
first = seconds[0] if can_compile else None
claim("first call", first, stated="seconds to minutes", low=1, high=300, unit="s", reason=no_compiler)
claim("speed of a chain of operations", faster, **gain)
print(timed)
print(
    f"calls until the first one is paid back: {seconds[0] / saved:,.0f}" if saved > 0 else "no call pays anything back"
)

# %% [markdown]
# **Explain.** The first call of a process also starts the compiler and builds what all later ones share. On disk, inductor keeps
# what it has compiled (`TORCHINDUCTOR_CACHE_DIR`): a second process is faster. This lesson starts with an empty folder each time.
# A chain of cheap operations on large tensors gains most, more than the saying promises.

# %%
# exercise: compilation.honest_timer

# %% [markdown]
# **Sayings: "20-40 % faster with one line", "no gain for a tiny MLP".** A network for images, and a tiny one for tables.
# > **Predict** both ratios.

# %% tags=["measured"]
images = torch.randn({"smoke": 2}.get(profile, 32), 3, 32, 32, device=run_device)
rows = torch.randn(32, 16, device=run_device)
convolutional = nn.Sequential(nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32), nn.SiLU(), nn.Conv2d(32, 32, 3))
tiny = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))


def speed_up(model: nn.Module, batch: Tensor, *, train: bool = False) -> float | None:
    """Time of an eager call over that of a compiled one, after the first; a training step has a backward pass."""

    def call(m: nn.Module) -> object:
        return m(batch).square().mean().backward() if train else m(batch)

    model.to(run_device).train(train)
    compiled = torch.compile(model, backend=speed_backend)
    with torch.inference_mode(not train):
        start = time.perf_counter()
        call(compiled)
        print(f"first call: {time.perf_counter() - start:.2f} s")
        cases = {"eager": lambda: call(model), "compiled": lambda: call(compiled)}
        timed = compare_times(cases, min_run_time=min_run_time)
    print(timed, end="\n\n")
    return timed.ratio("eager", "compiled") if can_compile else None


claim("speed of a convolutional network", speed_up(convolutional, images), **gain)
claim("speed of a tiny MLP", speed_up(tiny, rows), stated="no gain", high=1.1, **ratio)

# %% [markdown]
# **Explain.** The tiny MLP does little work. Before each call the guards are checked and arguments handed over; that costs as much as
# a layer. In a convolutional network most time goes into convolutions, which are the same function either way.
#
# A training step captures the backward pass as well, and compiles twice as much. The full profile measures it, for the network of
# lesson 05. On a CPU it may well lose: the generated code for pooling and its gradient can be slower than the library's.

# %% tags=["measured"]
faster = speed_up(reference_network(), images, train=True) if profile == "full" else None
claim("speed of a training step of lesson 05", faster, **gain | {"reason": no_compiler or "the full profile does it"})

# %% [markdown]
# **Saying: "varying shapes make it slower".** Twelve calls with four lengths, under three policies. `centred` subtracts the mean of
# each column. The padded form needs a mask, so that the padding is not counted.
# > **Predict.** At which calls does each policy compile?


# %%
def centred(x: Tensor) -> Tensor:
    return (x - x.mean(0)).tanh()


def centred_masked(x: Tensor, mask: Tensor) -> Tensor:
    return (x - (x * mask).sum(0) / mask.sum()).tanh()


lengths = [48, 64, 80, 96] * 3
sequences = [torch.randn(length, 64, device=run_device) for length in lengths]
masks = [(torch.arange(96, device=run_device) < length).float()[:, None] for length in lengths]
padded = [nn.functional.pad(sequence, (0, 0, 0, 96 - len(sequence))) for sequence in sequences]
whole = centred_masked(padded[0], masks[0])
claim("padding changes no value", torch.allclose(whole[:48], centred(sequences[0]), atol=1e-5), equals=True)
policies = {
    "dynamic=False": (centred, {"dynamic": False}, [(s,) for s in sequences]),
    "default": (centred, {}, [(s,) for s in sequences]),
    "padded to 96, with a mask": (centred_masked, {}, list(zip(padded, masks, strict=True))),
}
timeline = {}
for name, (function, options, calls) in policies.items():
    torch.compiler.reset()
    backend = CountingBackend(speed_backend)
    compiled, timeline[name] = torch.compile(function, backend=backend, **options), []
    for arguments in calls:
        graphs, start = backend.graphs, time.perf_counter()
        compiled(*arguments).sum().item()
        timeline[name].append((time.perf_counter() - start, backend.graphs > graphs))
for name, calls in timeline.items():
    print(f"{name:<26} compiles at call {[number for number, (_, compiles) in enumerate(calls, 1) if compiles]}")

# %% tags=["measured"]
draw_calls(lengths, timeline, title="Twelve calls, four lengths: where the time goes")
totals = {name: sum(seconds for seconds, _ in calls) for name, calls in timeline.items()}
slower = totals["dynamic=False"] / totals["padded to 96, with a mask"] if can_compile else None
claim("four lengths against one, twelve calls", slower, stated="slower", low=1.5, **ratio)
general, fixed = (statistics.median(seconds for seconds, _ in timeline[n][4:]) for n in ("default", "dynamic=False"))
slower = general / fixed if can_compile else None
claim("general graph against fixed, later calls", slower, stated="slower", low=1.1, **ratio)

# %% [markdown]
# **Explain.** What makes varying shapes slow is compiling. Once the general graph is there, look at the last claim: whether general
# code is slower than code for a fixed size is a question to measure, and small beside a compilation.
#
# ## Modes
# `torch.compile(model, mode=...)` chooses between compile time and speed. This is what each mode sets:

# %%
for mode in ("default", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune"):
    print(f"{mode:<30} {torch._inductor.list_mode_options(mode)}")

# %% [markdown]
# `reduce-overhead` records CUDA graphs, for a GPU that waits for Python. It wants fixed shapes, and the next call overwrites its
# results: clone what you keep. `max-autotune` tries several kernels for each matrix product. On a CPU take the default.
#
# ## What is compiled, and what is not
# > **Predict.** The whole model is compiled, but only `encode` is called. How many graphs are there?


# %%
class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(2, 3), nn.Linear(3, 1)

    def encode(self, x: Tensor) -> Tensor:
        return self.body(x).relu()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encode(x))


backend, model = CountingBackend(), Encoder()
with pitfall("method-not-compiled") as p:
    torch.compile(model, backend=backend).encode(torch.ones(1, 2))
    p.shows(seen=backend.graphs, wanted=1)
torch.compile(model.encode, backend=backend)(torch.ones(1, 2))
show("backend.graphs")

# %%
# exercise: compilation.compile_method

# %% [markdown]
# **Explain.** A compiled model is a wrapper around `forward`. Other attributes are looked up in the model inside, and run as written.
#
# Hooks (lesson 03) are captured with the rest.
# > **Predict.** A hook is registered after the first compiled call. How often is it called in the next one?

# %%
heard = []
torch.compiler.reset()
model = Encoder()
compiled_model = torch.compile(model, backend="eager")
compiled_model(torch.ones(1, 2))
with pitfall("hook-after-compile") as p:
    handle = model.body.register_forward_hook(lambda module, inputs, output: heard.append(tuple(output.shape)))
    compiled_model(torch.ones(1, 2))
    p.shows(seen=len(heard), wanted=1)
torch.compiler.reset()  # the next call compiles anew, with the hook
compiled_model(torch.ones(1, 2))
claim("calls of the hook after a reset", len(heard), equals=1)
handle.remove()

# %% [markdown]
# **Explain.** To guard every empty list of hooks would slow every call down, so torch.compile does not. Register first.
#
# And the names of the weights? The wrapper is a module, with the model as its submodule.

# %%
show("list(compiled_model.state_dict())", "list(model.state_dict())")
with pitfall("wrapper-prefix", RuntimeError):
    Encoder().load_state_dict(compiled_model.state_dict())
in_place = Encoder()
in_place.compile(backend="eager")
in_place(torch.ones(1, 2))
show("list(in_place.state_dict())", "type(in_place).__name__, type(compiled_model).__name__")

# %% [markdown]
# **Explain.** `model.compile()` compiles in place: the same object, the same names. Prefer it for modules. For a checkpoint that was
# already saved from a wrapper, see lesson 07 and the exercise.

# %%
# exercise: compilation.load_weights

# %% [markdown]
# ## An operator of your own
# A call that cannot be captured and cannot be moved out can be made an **operator**: a name in the graph, with two functions. One
# does the work. The other, the **fake**, says what shape, dtype and device come out, without values: it runs while capturing.
# > **Predict.** `np.interp` looks numbers up in a table. How many graphs without and with an operator?

# %%
TABLE = np.linspace(0.0, 1.0, 5)


@torch.library.custom_op("course::look_up", mutates_args=())
def look_up(x: Tensor) -> Tensor:
    return torch.from_numpy(np.interp(x.numpy(force=True), TABLE, TABLE**2)).to(x)


@look_up.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def with_numpy(x: Tensor) -> Tensor:
    return torch.from_numpy(np.interp((x * 2).numpy(), TABLE, TABLE**2)).to(x) + 1


def with_operator(x: Tensor) -> Tensor:
    return look_up(x * 2) + 1


quarter = torch.tensor([0.125, 0.25])
show("graphs_after(with_numpy, (quarter,))")
claim("graphs with an operator", graphs_after(with_operator, (quarter,), fullgraph=True), equals=[1])
claim("values agree", with_operator(quarter), equals=with_numpy(quarter))
show("torch.library.opcheck(look_up, (quarter,), test_utils=('test_schema', 'test_faketensor'))")

# %% [markdown]
# **Explain.** The compiler does not look inside the operator, and fuses nothing with it. `opcheck` compares the fake with the real
# function. `mutates_args` has to be true: what is declared untouched may be moved. Gradients need `register_autograd`.
#
# ## A smoke compile
# Compile a small batch of made-up data before you queue for a large machine. `fullgraph=True` finds breaks, a comparison with eager
# finds wrong values and gradients, and the stance finds recompiles. `aot_eager` captures forward and backward as inductor does
# and generates no code, so it takes a moment and needs no C++ compiler.


# %%
def smoke_compile(model: nn.Module, batch: Tensor) -> bool:
    """Whether outputs and gradients of one training step agree, compiled as one graph and eager; errors pass through."""
    torch.compiler.reset()
    compiled, outputs, gradients = torch.compile(model, backend="aot_eager", fullgraph=True), [], []
    for call in (model, compiled):
        model.zero_grad()
        outputs.append(call(batch))
        outputs[-1].square().mean().backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
    with torch.compiler.set_stance("fail_on_recompile"):
        compiled(batch + 1)
    torch.testing.assert_close(outputs[1], outputs[0])
    torch.testing.assert_close(gradients[1], gradients[0])
    return True


seed_everything(0)
claim("the network of lesson 05 compiles", smoke_compile(reference_network(), torch.randn(2, 3, 32, 32)), equals=True)

# %% [markdown]
# ## Build it: a tracer with guards
# Everything above in thirty lines: stand-ins that note what is done to them, a list of operations to replay, and a dict of traces
# by shape and dtype. Yours runs no Python on a replay. torch.compile replays simple side effects, and breaks the graph for others.

# %%
# exercise: compilation.tracer

# %% [markdown]
# ## When not to bother
# - The program is short: a script that runs for less than the compilation.
# - The model is tiny, or the time goes elsewhere: into data loading (lesson 10), or into a few large matrix products.
# - Every call has another structure, such as trees or lists of changing length.
# - You are still looking for an error. `set_stance("force_eager")` turns all of it off.
#
# It pays for long training and steady serving: many calls, few shapes, many small operations between the large ones.
#
# ## A table to keep
#
# | you see | look for | do |
# | --- | --- | --- |
# | the first call takes long | nothing: it compiles | warm up each shape; keep the cache folder |
# | some later calls take long | `TORCH_LOGS="recompiles"` | dynamic shapes, padding, tensors for counters |
# | no speed-up | graph breaks; a method that is not compiled | `fullgraph=True` in a test; compile the method |
# | `Unsupported` | a Python branch or call on values | `torch.where`, `torch.cond`, `custom_op` |
# | "hit config.recompile_limit" | a Python value that changes | `set_stance("fail_on_recompile")` shows where |
# | a hook is silent | registered after the first call | register first, or `torch.compiler.reset()` |
# | `_orig_mod.` in a checkpoint | `torch.compile(model)` | `model.compile()`; strip the part |
#
# ## Read on
#
# - [torch.compile](https://docs.pytorch.org/docs/stable/generated/torch.compile.html) and its modes
# - [torch.compiler](https://docs.pytorch.org/docs/stable/torch.compiler_api.html): reset, disable, set_stance
# - [Programming model](https://docs.pytorch.org/docs/stable/compile/programming_model.html): graph breaks, guards, recompilations
# - [Logging](https://docs.pytorch.org/docs/stable/logging.html): TORCH_LOGS
# - [Custom operators in Python](https://docs.pytorch.org/tutorials/advanced/python_custom_ops.html)
# - [torch.cond](https://docs.pytorch.org/docs/stable/cond.html)
