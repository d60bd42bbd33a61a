"""Faults of torch.compile."""

from __future__ import annotations

from course.faults.fault import Fault

FAULTS = (
    Fault(
        "recompiles",
        "each call compiles again (guards on ints, shapes, objects)",
        "compile",
        "09",
        section="Guards and recompiles",
        why=(
            "A graph is good for what its guards name: shapes, dtypes, gradient mode, and every Python value that was "
            "read while it was captured. An attribute that counts steps, a string, a list that grows, is another value "
            "at each call. After eight graphs `torch.compile` gives up and runs the function eagerly."
        ),
        fix=(
            'Find the guard with `TORCH_LOGS="recompiles"`. Keep what changes in a tensor, or out of the compiled '
            "function; for lengths use `dynamic=True`, or pad to a few. "
            '`torch.compiler.set_stance("fail_on_recompile")` turns a recompile into an error.'
        ),
    ),
    Fault(
        "warmup-in-timing",
        "compile time counted as run time",
        "compile",
        "09",
        section="What a compiled call costs",
        why=(
            "The first call captures and compiles, which takes thousands of times as long as the call itself. A later "
            "call with a new length may do so again. In a mean over a few calls nothing else is seen."
        ),
        fix=(
            "Time the first call apart and report it. Make some calls of every shape that will come, then take the "
            "median of many. On an accelerator synchronise before each reading of the clock."
        ),
    ),
    Fault(
        "graph-break",
        "an untraceable call splits the graph",
        "compile",
        "09",
        section="Graph breaks",
        why=(
            "What cannot be captured, such as `print`, has to run in Python between two graphs. The parts are compiled "
            "apart: nothing fuses across the break, and every call crosses from one to the other through Python."
        ),
        fix=(
            "Compile with `fullgraph=True` in a test: a break becomes an error that names the line. Move the call out "
            "of the function and return what it needs, or wrap it as an operator with `torch.library.custom_op`."
        ),
    ),
    Fault(
        "data-dependent-branch",
        "Python branch on a tensor value under compile or export",
        "compile",
        "09",
        section="Branches on values",
        why=(
            "`if x.sum() > 0` needs a number, and while a graph is captured tensors have shapes and no values. Without "
            "`fullgraph=True` the graph breaks there, and each branch gets a graph of its own; export refuses."
        ),
        fix=(
            "`torch.where(condition, a, b)` computes both and chooses; give the branch not taken harmless numbers "
            "where its gradient could be nan. `torch.cond(condition, f, g, (x,))` runs one. A branch on a shape or a "
            "Python number needs nothing: it is guarded."
        ),
    ),
    Fault(
        "method-not-compiled",
        "only forward is compiled",
        "compile",
        "09",
        section="What is compiled, and what is not",
        why=(
            "`torch.compile(model)` and `model.compile()` compile calls of the model, `model(x)`. Any other method, "
            "such as `encode` or `generate`, runs as it is written, and nothing says so."
        ),
        fix=(
            "Compile that method: `model.encode = torch.compile(model.encode)`. Count graphs, or look at the log, "
            "before you believe that something is compiled."
        ),
    ),
    Fault(
        "hook-after-compile",
        "hook added after the first compiled call",
        "compile",
        "09",
        section="What is compiled, and what is not",
        why=(
            "Hooks of the modules inside are captured with their graph. Empty lists of hooks are not guarded, because "
            "looking at them at each call takes time. A hook registered after the first compiled call is never called."
        ),
        fix=(
            "Register hooks before the first call, or call `torch.compiler.reset()` afterwards, which compiles anew. "
            "`torch._dynamo.config.skip_nnmodule_hook_guards = False` guards them; it has to be set before compiling."
        ),
    ),
)
