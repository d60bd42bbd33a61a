# %% [markdown]
# # 12 Export
# A checkpoint holds numbers and needs your Python code. An **exported program** holds the numbers and the computation, as a
# graph of operators, and needs neither your class nor your file. What the graph holds was decided when it was captured: one
# mode, one path through the code, and every size that nobody declared free.
#
# **Goals.** You can say what `torch.export` captured; make the batch and other axes dynamic, and read a violated constraint;
# keep a branch in the graph; write an ONNX file, prove its parity with the model, and feed it what it takes; put preprocessing
# inside. **Prerequisites.** Lessons 02, 03 and 05. **Time.** About 120 minutes, half of them for exercises.
#
# **What it measures.** No times: shapes, dtypes, files, opsets and differences. The sayings "set dynamic_axes or batch 1 is frozen"
# and "trace for static, script for control flow" are put to the test.

# %%
import contextlib
import io
import logging
import math
import shutil
import tempfile
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
from torch import Tensor, nn
from torch.export import Dim, export

from course import begin, check, claim, hint, pitfall, seed_everything, solution
from course.deployment.parity import TrainingMode, parity
from course.deployment.runtime import InputMismatch, OnnxModel, check_input, external_files
from course.environment.tools import compiler
from course.figures.artefacts import draw_artefacts
from course.training.compilation import without_cuda_notice

begin("12")

# %% tags=["parameters"]
device = "auto"  # not used here: everything that this lesson exports runs on the CPU
profile = "quick"  # "smoke", "quick" or "full" (which also compiles a package, minutes)

# %%
folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
home = Path(folder.name)


def show(*expressions: str) -> None:
    """Print each expression and its value."""
    for expression in expressions:
        print(f"{expression:<75} {eval(expression, globals())!s}")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what exporters log and print out of this page. Errors and warnings come all the same."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(before)


def refusal(call: Callable[[], Any]) -> None:
    """Print the lines of an error that say what is wrong; it has to come."""
    try:
        with quiet():
            call()
    except Exception as error:
        first, *more = str(error).splitlines()
        print(f"{type(error).__name__}: {textwrap.shorten(first, 110, placeholder=' ...')}")
        for line in more:
            if line.startswith(("  - ", "Suggested", "  batch =", "  features =", "  other =")):
                print("   ", textwrap.shorten(line, 150, placeholder=" ..."))
    else:
        raise AssertionError("this was expected to be refused")


# %% [markdown]
# ## What torch.export captures
# `export(model, example_inputs)` calls `forward` once, with tensors that have shapes and no values, and writes down the operators.
# > **Predict.** Which inputs has the graph of this model? Is the class `Scorer` needed to run it?


# %%
class Scorer(nn.Module):
    """Scores for rows of four features."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.register_buffer("mean", torch.tensor([1.0, 2.0, 3.0, 4.0]))

    def forward(self, features: Tensor) -> Tensor:
        return self.layer(features - self.mean).relu()


seed_everything(0)
scorer = Scorer().eval()
two_rows = torch.randn(2, 4)
program = export(scorer, (two_rows,))
for node in program.graph.nodes:
    print(f"{node.op:<14} {node.name:<16} {node.target}")
show("[spec.kind.name for spec in program.graph_signature.input_specs]", "list(program.state_dict)")
claim("the program gives the model's values", torch.equal(program.module()(two_rows), scorer(two_rows)), equals=True)

# %% [markdown]
# **Explain.** Parameters and buffers are inputs of the graph, and the signature says which input is which. Modules are gone: a
# linear layer is a call of `aten.linear`. Python is gone as well: every loop is unrolled, every `if` decided.
#
# `torch.export.save` writes graph and weights to one `.pt2` file. Here the class is deleted before it is loaded.

# %%
torch.export.save(program, home / "scorer.pt2")
expected = scorer(two_rows)
kept_class = Scorer
del Scorer
loaded = torch.export.load(home / "scorer.pt2")
claim("loaded without the class", torch.equal(loaded.module()(two_rows), expected), equals=True)
Scorer = kept_class

# %% [markdown]
# The documentation calls this format under active development: a newer torch may not read the file. It is for delivery, and the
# state dict of lesson 07 stays the format for keeping. Load only files from sources that you trust.
#
# ## Shapes are the example's
# > **Predict.** The program was made with two rows. Now it gets seven.

# %%
with pitfall("static-shape-export", AssertionError):
    program.module()(torch.zeros(7, 4))

# %% [markdown]
# **Explain.** Each size became a constant, and each call is checked against it. A free axis has to be declared, with a name.

# %%
dynamic = export(scorer, (two_rows,), dynamic_shapes=({0: Dim("batch")},))
(linear,) = [node for node in dynamic.graph.nodes if node.name == "linear"]
show("linear.meta['val'].shape", "dynamic.range_constraints")
sizes = (1, 2, 7, 64)
calls = [(torch.randn(n, 4),) for n in sizes]
claim("batch 1, 2, 7 and 64 agree", bool(parity(scorer, dynamic, calls)), equals=True)
refusal(lambda: dynamic.module()(torch.zeros(2, 5)))

# %% [markdown]
# The batch is a symbol now, and what follows from it is computed with symbols. The features are still checked, as they should be. Now the trap: the most natural example is a single row.
# > **Predict.** What happens with an example of batch size 1 and a named Dim? And with `Dim.AUTO`?

# %%
one_row = torch.randn(1, 4)
refusal(lambda: export(scorer, (one_row,), dynamic_shapes=({0: Dim("batch")},)))
with quiet():
    automatic = export(scorer, (one_row,), dynamic_shapes=({0: Dim.AUTO},))
with pitfall("static-shape-export", AssertionError):
    automatic.module()(two_rows)

# %% [markdown]
# **Explain.** **0/1 specialisation**: a size of 0 or 1 in the example is taken for a constant, since size 1 broadcasts. The named Dim
# is a promise, and breaking it is an error. `Dim.AUTO` is a wish, and the batch is frozen with one line in the log. So: an example
# of size 2 or more, a name, and a run at batch 1. The program made from two rows took one row above.
#
# A Dim has a range, too. It is good for a check of the largest batch that you tested.

# %%
ranged = export(scorer, (two_rows,), dynamic_shapes=({0: Dim("batch", min=1, max=64)},))
show("list(ranged.range_constraints.values())", "tuple(ranged.module()(torch.zeros(64, 4)).shape)")
refusal(lambda: ranged.module()(torch.zeros(65, 4)))

# %%
# exercise: export.dynamic_batch

# %% [markdown]
# ## Constraints, read and mended
# Declaring a Dim is a claim about your code, and `export` proves it or refuses. Three refusals:
# > **Predict.** For each one: is the declaration wrong, or the code?


# %%
class Paired(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x[:, 1:] + y


class Halves(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - 1 if x.shape[0] > 3 else x + 1


batch = Dim("batch")
long, short = torch.zeros(2, 6), torch.zeros(2, 5)
refusal(lambda: export(scorer, (two_rows,), dynamic_shapes=({0: batch, 1: Dim("features")},)))
refusal(lambda: export(Paired(), (long, short), dynamic_shapes=({0: batch}, {0: Dim("other")})))
refusal(lambda: export(Halves(), (torch.zeros(5, 4),), dynamic_shapes=({0: batch},)))

# %% [markdown]
# **Explain.**
# 1. A linear layer of four features takes four. The declaration is wrong: drop it.
# 2. Two arguments are added, so their batches are equal. Say so: use one `Dim` in both places. Sizes that differ by a constant
#    are related as well: `steps` and `steps + 1`.
# 3. `if x.shape[0] > 3` was decided by the example. The graph is right from 4 rows on. Either accept that range, or write code
#    without that branch. The suggested fix mends the disagreement; whether it gives you the program you wanted is yours to ask.

# %%
steps = Dim("steps", max=1000)
related = export(Paired(), (long, short), dynamic_shapes=({0: batch, 1: steps + 1}, {0: batch, 1: steps}))
show("tuple(related.module()(torch.zeros(3, 9), torch.zeros(3, 8)).shape)")
refusal(lambda: related.module()(torch.zeros(3, 9), torch.zeros(3, 9)))

# %%
# exercise: export.read_violation

# %%
# exercise: export.two_axes

# %% [markdown]
# ## Control flow
# > **Predict.** A branch on a shape was decided in silence. Here the branch hangs on a value.


# %%
class Steps(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            return x - 1
        return x + 1


class CondSteps(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: x - 1, lambda x: x + 1, (x,))


refusal(lambda: export(Steps(), (two_rows,)))
kept = export(CondSteps(), (two_rows,), dynamic_shapes=({0: Dim("batch")},))
both = [(torch.ones(3, 4),), (-torch.ones(5, 4),)]
claim("torch.cond keeps both branches", parity(Steps().eval(), kept, both).largest, equals=0.0)
show("[node.name for node in kept.graph.nodes]")

# %% [markdown]
# **Explain.** There is no value to decide by, and export does not guess. `torch.cond` puts both branches into the graph, as graphs of
# their own, and `torch.where` computes both and chooses (lesson 09). Loops over a fixed number of layers need nothing.

# %%
# exercise: export.control_flow

# %% [markdown]
# ## The mode is captured
# > **Predict.** A model in training mode is exported. Is there an error? Can the program be put into evaluation mode?

# %%
with_dropout = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).train()
in_training = export(with_dropout, (two_rows,))
show("[node.args[1:] for node in in_training.graph.nodes if node.name == 'dropout']")
refusal(lambda: in_training.module().eval())
try:
    parity(with_dropout, in_training, two_rows)
except TrainingMode as error:
    print(f"parity refuses: {error}")
with_dropout.eval()
claim(
    "exported in evaluation mode", parity(with_dropout, export(with_dropout, (two_rows,)), two_rows).largest, equals=0.0
)

# %% [markdown]
# **Explain.** The mode is a constant of the graph: `(0.5, True)` are the arguments of dropout, and there is no way to turn it. Call
# `eval()` first. `parity` asks each module of the model before it compares anything.
#
# ## ONNX and its runtime
# ONNX is a file format with operators of its own, and runtimes that know nothing of torch. `torch.onnx.export` takes the path that you
# know: `torch.export`, then a translation of each operator. So `dynamic_shapes` means the same; names may be plain strings.
# > **Predict.** How large is the relative difference between the model and the file in ONNX Runtime? What sets its size?

# %%
seed_everything(0)
network = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1),
    nn.BatchNorm2d(16),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1),
    nn.BatchNorm2d(32),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(32, 10),
).eval()
images = torch.randn(2, 3, 32, 32)
options = {"dynamo": True, "verbose": False, "external_data": False}
torch.onnx.export(
    network,
    (images,),
    home / "network.onnx",
    input_names=["images"],
    output_names=["logits"],
    dynamic_shapes=({0: "batch"},),
    **options,
)
run = OnnxModel(home / "network.onnx")
show("run.inputs", "run.outputs")
report = parity(network, run, [(torch.randn(n, 3, 32, 32),) for n in sizes])
claim("ONNX Runtime agrees at batch 1, 2, 7 and 64", bool(report), equals=True)

# %% tags=["measured"]
report

# %% [markdown]
# **Explain.** Sums in another order are rounded otherwise, so equality is the wrong question. A tolerance follows from the dtype:
# float32 keeps 24 bits, and the sums of a few layers lose some of them; float16 and bfloat16 need wider ones. It is relative to the
# largest output, since single values near zero have no relative accuracy. Look at four batch sizes, real inputs, every output.

# %%
# exercise: export.parity_report

# %% [markdown]
# **Saying: "set dynamic_axes or batch 1 is frozen".** Half of it holds. Without any declaration, the sizes of the example are in the
# file. But `dynamic_axes` belongs to the exporter of old; today's takes it with a warning and converts it to `dynamic_shapes`.

# %%
line = nn.Linear(4, 3).eval()
torch.onnx.export(line, (one_row,), home / "frozen.onnx", **options)
frozen = OnnxModel(home / "frozen.onnx").inputs[0][2]
claim("without a declaration batch 1 is frozen", frozen, equals=(1, 4))
with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    axes = {"input_names": ["x"], "dynamic_axes": {"x": {0: "batch"}}}
    torch.onnx.export(line, (two_rows,), home / "axes.onnx", **axes, **options)
claim("dynamic_axes still works", OnnxModel(home / "axes.onnx").inputs[0][2], equals=("batch", 4))
claim("and is deprecated", DeprecationWarning in {warning.category for warning in heard}, equals=True)

# %% [markdown]
# ## What a runtime refuses
# > **Predict.** ONNX Runtime gets float64, as NumPy makes it, and then an image with its channels last. Is either converted?

# %%
session = onnxruntime.InferenceSession(home / "network.onnx", providers=["CPUExecutionProvider"])
picture = np.random.default_rng(0).random((1, 32, 32, 3))
with pitfall("runtime-input-dtype", InvalidArgument):
    session.run(None, {"images": picture.transpose(0, 3, 1, 2)})
with pitfall("runtime-input-dtype", InvalidArgument):
    session.run(None, {"images": picture.astype(np.float32)})
right = picture.astype(np.float32).transpose(0, 3, 1, 2)
show("session.run(None, {'images': right})[0].shape")

# %% [markdown]
# **Explain.** Nothing is converted. These were the lucky cases: where the sizes happen to fit, a wrong layout passes, and the answer is
# a number like any other. `OnnxModel` asks the session for names, dtypes and shapes, and checks every call in words of your program:

# %%
for value in (torch.from_numpy(picture), torch.zeros(1, 32, 32, 3), torch.zeros(3, 32, 32)):
    try:
        check_input("images", value, torch.float32, ("batch", 3, 32, 32))
    except InputMismatch as error:
        print(error)

# %% [markdown]
# ## Preprocessing inside the graph
# Most wrong answers of a deployed model are not wrong graphs. They are images that were scaled, ordered or normalised in another way than
# in training. What is inside the graph cannot be forgotten. So let the model take what the decoder delivers: bytes, channels last.

# %%
# exercise: export.normalise_inside

# %% [markdown]
# ## One file or two
# > **Predict.** A model with a 64 x 64 layer is written with the default settings. How many files are there? One is copied.

# %%
wide = nn.Linear(64, 64).eval()
torch.onnx.export(wide, (torch.zeros(2, 64),), home / "wide.onnx", dynamo=True, verbose=False)
show("sorted(path.name for path in home.glob('wide*'))", "external_files(home / 'wide.onnx')")
(home / "elsewhere").mkdir()
shutil.copy(home / "wide.onnx", home / "elsewhere")
with pitfall("external-weights-missing", FileNotFoundError):
    OnnxModel(home / "elsewhere" / "wide.onnx")

# %%
torch.onnx.export(wide, (torch.zeros(2, 64),), home / "single.onnx", **options)
alone = OnnxModel(shutil.copy(home / "single.onnx", home / "elsewhere"))
claim("a single file moves alone", bool(parity(wide, alone, torch.randn(2, 64))), equals=True)

# %% [markdown]
# **Explain.** One ONNX file holds at most 2 GB (a limit of its encoding), so the default keeps weights apart. For a small model,
# `external_data=False`. For a large one, move both, without renaming: the model holds the name of the other file.

# %%
# exercise: export.single_file

# %% [markdown]
# ## The opset
# ONNX operators come in numbered sets. An old runtime reads old ones, so people ask for a low number.
# > **Predict.** Opset 11 is asked for. Which opset has the file?

# %%
with pitfall("opset-not-honoured") as p, quiet():
    activated = nn.Sequential(nn.Linear(4, 3), nn.ReLU()).eval()
    torch.onnx.export(activated, (two_rows,), home / "old.onnx", opset_version=11, **options)
    (entry,) = [entry for entry in onnx.load(home / "old.onnx").opset_import if entry.domain == ""]
    p.shows(seen=f"opset {entry.version}", wanted="opset 11")
torch.onnx.export(activated, (two_rows,), home / "new.onnx", opset_version=20, **options)
claim("opset 20 is honoured", onnx.load(home / "new.onnx").opset_import[0].version, equals=20)

# %% [markdown]
# **Explain.** No error and no warning: two messages in the log. Look at `opset_import` of the file, always. It is cheaper to bring the
# runtime up to date than to bring the operators down.
#
# ## Ahead of time, without Python
# `torch._inductor.aoti_compile_and_package` compiles an exported program to a library in a `.pt2` package. It needs a C++ compiler once;
# whoever loads it needs torch, and neither compiler nor model code. The interface has an underscore, and may change.
#
# One warning goes with it: such a package does not check its inputs unless it is told to. Sizes that fit the arithmetic give numbers. So
# check them yourself, with the shape that was exported.

# %%
if profile == "full" and compiler().state == "ok":
    without_cuda_notice()
    torch._inductor.config.compile_threads = 1
    torch._inductor.aoti_compile_and_package(dynamic, package_path=str(home / "compiled.pt2"))
    package = torch._inductor.aoti_load_package(str(home / "compiled.pt2"))

    def checked(features: Tensor) -> Tensor:
        check_input("features", features, torch.float32, ("batch", 4))
        return package(features)

    claim("the package agrees", bool(parity(scorer, checked, calls)), equals=True)
    refusal(lambda: checked(torch.zeros(2, 5)))
else:
    print('not run here: it compiles for minutes; profile "full" does it where there is a C++ compiler')

# %% [markdown]
# ## TorchScript, for the record
# `torch.jit.trace` recorded one run; `torch.jit.script` translated the source of Python functions. Both are deprecated. You meet them in
# old code, and their traps in old bug reports.
# > **Predict.** `Steps` from above is traced with positive numbers. What does the trace return for negative ones?

# %%
ones = torch.ones(3)
deprecation = DeprecationWarning if torch.__version__.startswith("2.11.") else FutureWarning
with pitfall("trace-loses-branch", torch.jit.TracerWarning, deprecation):
    traced = torch.jit.trace(Steps(), ones, check_trace=False)
with pitfall("trace-loses-branch") as p:
    p.shows(seen=traced(-ones), wanted=Steps()(-ones))
claim("the exported torch.cond", torch.equal(export(CondSteps(), (ones,)).module()(-ones), Steps()(-ones)), equals=True)

# %% [markdown]
# **Explain.** The trace is `x - 1`, for ever. The warning came when it was made, not when it is wrong. And as in export, the mode is
# recorded. The difference: a trace lets you call `eval()`, and nothing happens.

# %%
dropout, row = nn.Dropout(0.5).train(), torch.ones(1, 1000)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    baked = torch.jit.trace(dropout, row, check_trace=False).eval()
with pitfall("trace-in-train-mode") as p:
    p.shows(seen=f"zeros in the output: {bool((baked(row) == 0).any())}", wanted="zeros in the output: False")
dropout.eval()
claim("dropout exported after eval()", torch.equal(export(dropout, (row,)).module()(row), row), equals=True)

# %% [markdown]
# **Saying: "trace for static, script for control flow".** That was the advice of its time. Today both raise a deprecation warning, and
# one exporter serves for both: it refuses what it cannot keep, and keeps `torch.cond`.

# %%
with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    torch.jit.script(nn.ReLU())
    torch.jit.trace(nn.ReLU(), ones)
told = {
    str(warning.message).split(" is deprecated")[0].strip("`") for warning in heard if warning.category is deprecation
}
claim("trace and script are deprecated", {"torch.jit.script", "torch.jit.trace"} <= told, equals=True)

# %% [markdown]
# ## What each file carries

# %%
draw_artefacts(
    {
        "checkpoint (state dict, .pt)": ["-needed", "+inside", "-not checked", " torch"],
        "exported program (torch.export, .pt2)": ["+not needed", "+inside", "+checked", " torch"],
        "compiled package (AOTInductor, .pt2)": [
            "+not needed",
            "+inside",
            "-not unless told to",
            " torch, no compiler",
        ],
        "ONNX file (.onnx)": ["+not needed", " inside, or in .onnx.data", "+checked", "+any ONNX runtime, no torch"],
        "TorchScript (.pt)": ["+not needed", "+inside", "-not checked", "-torch; deprecated"],
    },
    ["Python code of the network", "weights", "sizes of the inputs", "runs with"],
)

# %% [markdown]
# ## Build it: an exporter
# Everything above in sixty lines: stand-ins that write down what is done to them, a list of nodes as plain data, and a loop that computes
# it. After this, "a Python branch is lost" is no rule to remember: you see that there is nothing to record it with.

# %%
# exercise: export.tiny_exporter

# %% [markdown]
# ## A table to keep
#
# | you see | it is | do |
# | --- | --- | --- |
# | `Guard failed: x.size()[0] == 2` | a size of the example | a named `Dim`, an example of size 2 or more |
# | `Constraints violated` | a Dim that the code does not allow | ask which of the two is wrong |
# | `Could not guard on data-dependent expression` | a Python branch on a value | `torch.where`, `torch.cond` |
# | two calls differ | exported in training mode | `eval()` before the export |
# | `Unexpected input data type`, `invalid dimensions` | dtype or layout of the caller | `check_input`; preprocessing inside |
# | `External data path` | the weights' file is not there | `external_data=False`, or move both |
# | an old runtime cannot read the file | the opset is another one | read `opset_import`; update the runtime |
#
# Before you ship: evaluation mode, batch 1, 2, 7 and 64, every output within the tolerance of its dtype, a refused input, one move of the
# file to an empty folder.
#
# ## Read on
#
# - [torch.export](https://docs.pytorch.org/docs/stable/export.html): programs, dynamic shapes, control flow
# - [torch.onnx](https://docs.pytorch.org/docs/stable/onnx.html) and its default exporter
# - [torch.cond](https://docs.pytorch.org/docs/stable/cond.html)
# - [AOTInductor](https://docs.pytorch.org/docs/stable/torch.compiler_aot_inductor.html)
# - [ONNX Runtime, Python API](https://onnxruntime.ai/docs/api/python/api_summary.html)

# %%
folder.cleanup()
