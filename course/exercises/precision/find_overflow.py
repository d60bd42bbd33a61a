"""Lesson 08: where a forward pass first leaves the range."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from course.checking import Exercise

exercise = Exercise(
    "precision.find_overflow",
    title="Find the overflow",
    task="""
        `first_not_finite(model, x)` runs `model(x)` once and returns the name of the module whose output is the first,
        in the order in which the modules **run**, to hold an `inf` or a `nan`; `None` if there is none.

        - The name is the one of `model.named_modules()`. Only modules without children count.
        - The output of each of them is one floating tensor. A module that raises is not your concern, but see below.
        - Run the forward pass as you find the modes: the caller has set the dtype, `autocast` and train or eval.
        - Leave no hooks behind, not even if the forward pass raises.

        Example: for `nn.Sequential(nn.Linear(2, 2), nn.ReLU())` in float16, with weights of 300 and inputs of 300, the
        answer is `"0"`. ReLU passes the infinity on, but it did not make it.
        """,
    hints=(
        "A forward hook sees each output when it is made: `module.register_forward_hook(hook)` calls `hook(module, "
        "inputs, output)` and returns a handle with `remove()` (lesson 03).",
        "Register a hook on each module of named_modules() that has no children; it notes its own name if "
        "`output.isfinite().all()` is false. The first note is the answer; remove the handles in a `finally`.",
    ),
)


@exercise.stub
def first_not_finite(model: nn.Module, x: Tensor) -> str | None:
    """Return the name of the first module without children whose output holds inf or nan, or None."""
    raise NotImplementedError


@exercise.reference
def by_hooks(model, x):
    found = []

    def note(name):
        def hook(module, inputs, output):
            if not output.isfinite().all():
                found.append(name)

        return hook

    leaves = [(name, module) for name, module in model.named_modules() if not list(module.children())]
    handles = [module.register_forward_hook(note(name)) for name, module in leaves]
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found[0] if found else None


@exercise.alternative
def by_a_global_hook(model, x):
    names = {module: name for name, module in model.named_modules()}
    first = None

    def hook(module, inputs, output):
        nonlocal first
        is_leaf = next(module.children(), None) is None
        if first is None and is_leaf and module in names and bool((output.isnan() | output.isinf()).any()):
            first = names[module]

    handle = nn.modules.module.register_module_forward_hook(hook)
    try:
        model(x)
    finally:
        handle.remove()
    return first


@exercise.wrong(
    "This names the last module whose output is not finite. Infinity is handed on by most modules after it; the cause "
    "is the first."
)
def the_last_one(model, x):
    found = []

    def note(name):
        return lambda module, inputs, output: found.append(name) if not output.isfinite().all() else None

    leaves = [(name, module) for name, module in model.named_modules() if not list(module.children())]
    handles = [module.register_forward_hook(note(name)) for name, module in leaves]
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found[-1] if found else None


@exercise.wrong(
    "The hooks stay on the model: each later forward pass runs them again. Keep the handles and remove them."
)
def hooks_left(model, x):
    found = []

    def note(name):
        return lambda module, inputs, output: found.append(name) if not output.isfinite().all() else None

    for name, module in model.named_modules():
        if not list(module.children()):
            module.register_forward_hook(note(name))
    model(x)
    return found[0] if found else None


@exercise.wrong("Where the forward pass raises, the hooks stay. `remove()` belongs into a `finally`.")
def hooks_left_after_an_error(model, x):
    found = []

    def note(name):
        return lambda module, inputs, output: found.append(name) if not output.isfinite().all() else None

    leaves = [(name, module) for name, module in model.named_modules() if not list(module.children())]
    handles = [module.register_forward_hook(note(name)) for name, module in leaves]
    model(x)
    for handle in handles:
        handle.remove()
    return found[0] if found else None


@exercise.wrong("Only infinity was looked for. `0 * inf`, `inf - inf` and the root of a negative number give nan.")
def only_infinity(model, x):
    found = []

    def note(name):
        return lambda module, inputs, output: found.append(name) if output.isinf().any() else None

    leaves = [(name, module) for name, module in model.named_modules() if not list(module.children())]
    handles = [module.register_forward_hook(note(name)) for name, module in leaves]
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found[0] if found else None


@exercise.wrong("Only nan was looked for. In float16 nearly every nan was an infinity a few operations earlier.")
def only_nan(model, x):
    found = []

    def note(name):
        return lambda module, inputs, output: found.append(name) if output.isnan().any() else None

    leaves = [(name, module) for name, module in model.named_modules() if not list(module.children())]
    handles = [module.register_forward_hook(note(name)) for name, module in leaves]
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found[0] if found else None


@exercise.wrong(
    "The children of the model were called one after the other, as if it were a Sequential. A forward method may call "
    "them in another order, and modules may lie deeper."
)
def as_if_sequential(model, x):
    for name, module in model.named_children():
        x = module(x)
        if not x.isfinite().all():
            return name
    return None


@exercise.wrong(
    "This is the first in the order of named_modules(), the order in which the modules were made. They may run in "
    "another one."
)
def in_order_of_definition(model, x):
    found = set()

    def note(name):
        return lambda module, inputs, output: found.add(name) if not output.isfinite().all() else None

    leaves = [(name, module) for name, module in model.named_modules() if not list(module.children())]
    handles = [module.register_forward_hook(note(name)) for name, module in leaves]
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return next((name for name, _ in leaves if name in found), None)


@exercise.wrong(
    "The outputs were recomputed in float32. Its range is that of bfloat16, and what overflows in float16 fits well."
)
def in_float32(model, x):
    found = []

    def note(name):
        return lambda module, inputs, output: found.append(name) if not output.isfinite().all() else None

    leaves = [(name, module) for name, module in model.named_modules() if not list(module.children())]
    handles = [module.register_forward_hook(note(name)) for name, module in leaves]
    dtypes = [p.dtype for p in model.parameters()]
    try:
        model.float()(x.float())
    finally:
        for handle in handles:
            handle.remove()
        for parameter, dtype in zip(model.parameters(), dtypes):
            parameter.data = parameter.data.to(dtype)
    return found[0] if found else None


@exercise.wrong(
    "Modules with children are noted as well. Where such a module computes something itself, its name comes, and the "
    "task asks for modules without children."
)
def containers_too(model, x):
    found = []

    def note(name):
        return lambda module, inputs, output: found.append(name) if not output.isfinite().all() else None

    handles = [module.register_forward_hook(note(name)) for name, module in model.named_modules()]
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found[0] if found else None


@exercise.wrong(
    "The sum of an output is looked at, not its numbers: a sum of large finite numbers overflows in float16 all by "
    "itself."
)
def by_the_sum(model, x):
    found = []

    def note(name):
        return lambda module, inputs, output: found.append(name) if not output.sum().isfinite() else None

    leaves = [(name, module) for name, module in model.named_modules() if not list(module.children())]
    handles = [module.register_forward_hook(note(name)) for name, module in leaves]
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found[0] if found else None


@exercise.wrong(
    "The model was put into evaluation mode. In that mode BatchNorm and Dropout compute something else than the "
    "training that went wrong."
)
def in_eval_mode(model, x):
    found = []

    def note(name):
        return lambda module, inputs, output: found.append(name) if not output.isfinite().all() else None

    leaves = [(name, module) for name, module in model.named_modules() if not list(module.children())]
    handles = [module.register_forward_hook(note(name)) for name, module in leaves]
    modes = [module.training for module in model.modules()]
    try:
        model.eval()(x)
    finally:
        for handle in handles:
            handle.remove()
        for module, mode in zip(model.modules(), modes):
            module.training = mode
    return found[0] if found else None


class Scale(nn.Module):
    """Multiplies by a factor."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor


class Root(nn.Module):
    def forward(self, x):
        return x.sqrt()


class Backwards(nn.Module):
    """Runs its modules in another order than it made them, one of them twice."""

    def __init__(self):
        super().__init__()
        self.late = Scale(1000.0)
        self.early = nn.Sequential(Scale(100.0), nn.ReLU())
        self.twice = Scale(30.0)

    def forward(self, x):
        return self.late(self.twice(self.twice(self.early(x))))


class Doubled(nn.Module):
    """Multiplies what its part returns by 2: what overflows here is no module's without children."""

    def __init__(self, part):
        super().__init__()
        self.part = part

    def forward(self, x):
        return 2 * self.part(x)


class Counts(nn.Module):
    """Counts its calls."""

    calls = 0

    def forward(self, x):
        self.calls += 1
        return x


class Fails(nn.Module):
    def forward(self, x):
        raise ValueError("this module does not work")


def hooks(model):
    """What is registered on a model; hooks for all modules count too."""
    everywhere = nn.modules.module._global_forward_hooks
    return len(everywhere) + sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def state(model):
    return hooks(model), [module.training for module in model.modules()], {str(p.dtype) for p in model.parameters()}


def asked(answer, model, x):
    name = answer(model, x)
    return name, state(model)


def heavy_linear(dtype):
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(300.0)
    return model.to(dtype)


@exercise.probe
def linear_in_float16(answer):
    return asked(answer, heavy_linear(torch.float16), torch.full((1, 2), 300.0, dtype=torch.float16))


@exercise.probe
def linear_in_bfloat16(answer):
    return asked(answer, heavy_linear(torch.bfloat16), torch.full((1, 2), 300.0, dtype=torch.bfloat16))


@exercise.probe
def under_autocast(answer):
    with torch.autocast("cpu", dtype=torch.float16):
        return asked(answer, heavy_linear(torch.float32), torch.full((1, 2), 300.0))


@exercise.probe
def scales(answer):
    model = nn.Sequential(Scale(2.0), Scale(200.0), Scale(200.0), nn.ReLU(), Scale(0.5))
    return asked(answer, model, torch.full((3,), 10.0, dtype=torch.float16))


@exercise.probe
def infinity_that_vanishes_again(answer):
    model = nn.Sequential(Scale(70.0), nn.Sequential(Scale(1000.0), nn.Hardtanh()), Scale(2.0))
    return asked(answer, model, torch.full((2,), 1.0, dtype=torch.float16))


@exercise.probe
def nan_without_infinity(answer):
    return asked(answer, nn.Sequential(Scale(-1.0), Root(), nn.ReLU()), torch.tensor([0.0, 4.0], dtype=torch.float16))


@exercise.probe
def run_backwards(answer):
    return asked(answer, Backwards(), torch.tensor([1.0], dtype=torch.float16))


@exercise.probe
def another_module_is_too_large(answer):
    model = Backwards()
    model.twice.factor = 0.25
    return asked(answer, model, torch.tensor([20.0], dtype=torch.float16))


@exercise.probe
def the_model_is_a_leaf(answer):
    return asked(answer, Scale(7.0), torch.tensor([1e4], dtype=torch.float16))


@exercise.probe
def one_element_of_many(answer):
    x = torch.ones(4, 5, dtype=torch.float16)
    x[2, 3] = -400.0
    return asked(answer, nn.Sequential(Scale(100.0), Scale(2.0), nn.Identity()), x)


@exercise.probe
def large_numbers_in_many_places(answer):
    """Each is finite; their sum in float16 is not."""
    return asked(answer, nn.Sequential(Scale(1.0), nn.ReLU()), torch.full((4,), 6e4, dtype=torch.float16))


@exercise.probe
def an_overflow_of_a_module_with_children(answer):
    model = nn.Sequential(Doubled(Scale(100.0)), nn.ReLU())
    return asked(answer, model, torch.tensor([400.0], dtype=torch.float16))


@exercise.probe
def and_no_module_without_children(answer):
    return asked(answer, Doubled(Scale(100.0)), torch.tensor([400.0], dtype=torch.float16))


@exercise.probe
def run_once(answer):
    model = nn.Sequential(Counts(), Scale(2.0))
    return asked(answer, model, torch.tensor([40_000.0], dtype=torch.float16)), model[0].calls


@exercise.probe
def dropout_in_training_mode(answer):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Dropout(0.5), nn.Identity())
    return asked(answer, model, torch.full((64,), 40_000.0, dtype=torch.float16))


@exercise.probe
def a_model_that_has_hooks_of_its_own(answer):
    model = nn.Sequential(Scale(300.0), Scale(2.0))
    model[1].register_forward_hook(lambda module, inputs, output: None)
    return asked(answer, model, torch.tensor([300.0], dtype=torch.float16))


@exercise.probe
def a_forward_pass_that_raises(answer):
    model = nn.Sequential(Scale(300.0), Fails())
    try:
        answer(model, torch.tensor([1.0], dtype=torch.float16))
    except ValueError:
        return "raised", state(model)
    return "not raised", state(model)
