"""Lesson 12: how far apart a model and its export are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from course.checking import Exercise

exercise = Exercise(
    "export.parity_report",
    title="A report of differences",
    task="""
        `parity_report(model, exported, inputs)` calls the model and what was exported from it with the same tensors
        and returns a list with one tuple `(largest, relative)` of two Python floats for each output.

        - `inputs` is a tuple of tensors. Both return a tensor or a tuple of tensors. Either may change its inputs in
          place: each gets copies of its own, and `inputs` stay as they are.
        - `largest` is max |a - b|, computed in float64; a is the model's output, b the other.
        - `relative` is `largest` divided by the largest magnitude among the *finite* numbers of a, or by 1 where that
          is 0 or there is none.
        - Where both are NaN, or both the same infinity, the difference is 0. Where only one is NaN or infinite, both
          floats are `math.inf`.
        - If any module of the model is in training mode, raise ValueError before anything is called. Raise ValueError
          as well if the numbers of outputs or the shapes of two outputs differ.
        """,
    hints=(
        "A comparison with NaN is False, and inf - inf is NaN. First find the places that are the same, then look at "
        "the others. model.training tells of the outermost module only.",
        "a == b, or NaN in both, marks the places that are the same; masked_fill makes the difference 0 there. What is "
        "left and not finite counts as infinite: nan_to_num(nan=math.inf, posinf=math.inf). model.modules() gives "
        "all modules.",
    ),
)


@exercise.stub
def parity_report(
    model: nn.Module, exported: Callable[..., Tensor | tuple[Tensor, ...]], inputs: Sequence[Tensor]
) -> list[tuple[float, float]]:
    """Return (largest, relative) for each output; ValueError for a model in training mode or outputs unlike."""
    raise NotImplementedError


@exercise.reference
def places_that_differ(model, exported, inputs):
    if any(module.training for module in model.modules()):
        raise ValueError("the model is in training mode; call model.eval() first")
    with torch.no_grad():
        wanted, seen = (run(*[x.clone() for x in inputs]) for run in (model, exported))
    if isinstance(wanted, Tensor):
        wanted = (wanted,)
    if isinstance(seen, Tensor):
        seen = (seen,)
    if [a.shape for a in wanted] != [b.shape for b in seen]:
        raise ValueError("the outputs differ in number or shape")
    report = []
    for a, b in zip(wanted, seen):
        a, b = a.double(), b.double()
        same = (a == b) | (a.isnan() & b.isnan())
        off = (a - b).abs().masked_fill(same, 0.0)
        largest = off.nan_to_num(nan=math.inf, posinf=math.inf).max().item()
        scale = a.masked_fill(~a.isfinite(), 0.0).abs().max().item()
        report.append((largest, largest / (scale or 1.0)))
    return report


@exercise.alternative
def only_what_differs(model, exported, inputs):
    for module in model.modules():
        if module.training:
            raise ValueError(f"{type(module).__name__} is in training mode")
    outputs = []
    for call in (model, exported):
        result = call(*(x.detach().clone() for x in inputs))
        outputs.append([result] if torch.is_tensor(result) else list(result))
    if len(outputs[0]) != len(outputs[1]):
        raise ValueError("another number of outputs")
    rows = []
    for a, b in zip(*outputs):
        if a.size() != b.size():
            raise ValueError("another shape")
        a, b = a.detach().to(torch.float64).flatten(), b.detach().to(torch.float64).flatten()
        left = ~torch.isclose(a, b, rtol=0, atol=0, equal_nan=True)
        largest = max([0.0, *[math.inf if math.isnan(d) else d for d in (a - b)[left].abs().tolist()]])
        scale = max([0.0, *a[a.isfinite()].abs().tolist()])
        rows.append((largest, largest / scale if scale > 0 else largest))
    return rows


def judged(model, exported, inputs, *, modes=None, scale=None, copies=True, difference=None):
    """The reference with one part exchanged, for the wrong answers below."""
    if modes is None:
        modes = any(module.training for module in model.modules())
    if modes:
        raise ValueError("the model is in training mode; call model.eval() first")
    with torch.no_grad():
        wanted, seen = (run(*[x.clone() if copies else x for x in inputs]) for run in (model, exported))
    wanted = (wanted,) if isinstance(wanted, Tensor) else wanted
    seen = (seen,) if isinstance(seen, Tensor) else seen
    if [a.shape for a in wanted] != [b.shape for b in seen]:
        raise ValueError("the outputs differ in number or shape")
    report = []
    for a, b in zip(wanted, seen):
        wide = a.double()
        if difference is None:
            same = (a == b) | (a.isnan() & b.isnan())
            off = (wide - b.double()).abs().masked_fill(same, 0.0)
            largest = off.nan_to_num(nan=math.inf, posinf=math.inf).max().item()
        else:
            largest = difference(a, b)
        size = wide.masked_fill(~wide.isfinite(), 0.0).abs().max().item() if scale is None else scale(wide, b.double())
        report.append((largest, largest / (size or 1.0)))
    return report


@exercise.wrong(
    "A model in training mode is compared all the same. Dropout draws and batch norm uses the batch: the differences "
    "say nothing of the export."
)
def mode_ignored(model, exported, inputs):
    return judged(model, exported, inputs, modes=False)


@exercise.wrong(
    "`model.training` is the flag of the outermost module. A part that was put back into training mode is overlooked."
)
def outermost_mode(model, exported, inputs):
    return judged(model, exported, inputs, modes=model.training)


@exercise.wrong(
    "The model is silently put into evaluation mode. The caller's model has another mode afterwards, and never hears "
    "that it was exported in the wrong one."
)
def mode_changed(model, exported, inputs):
    model.eval()
    return judged(model, exported, inputs)


@exercise.wrong(
    "(a - b).abs().max() is NaN as soon as there is one NaN, also where both have it; and inf - inf is NaN too."
)
def plain_maximum(model, exported, inputs):
    return judged(model, exported, inputs, difference=lambda a, b: (a.double() - b.double()).abs().max().item())


@exercise.wrong(
    "nan_to_num turns every NaN into 0: an export that returns NaN where the model has a number passes, or nearly so."
)
def nan_is_zero(model, exported, inputs):
    def difference(a, b):
        return (a.double() - b.double()).abs().nan_to_num(posinf=math.inf).max().item()

    return judged(model, exported, inputs, difference=difference)


@exercise.wrong("max(a - b) without abs: a value that is too large counts as negative, and is not seen.")
def without_abs(model, exported, inputs):
    def difference(a, b):
        same = (a == b) | (a.isnan() & b.isnan())
        off = (a.double() - b.double()).masked_fill(same, 0.0)
        return off.nan_to_num(nan=math.inf, posinf=math.inf).max().item()

    return judged(model, exported, inputs, difference=difference)


@exercise.wrong(
    "The difference is computed in the dtype of the outputs. In float16 two large numbers differ by infinity, and "
    "small differences are rounded."
)
def in_the_dtype_of_the_outputs(model, exported, inputs):
    def difference(a, b):
        same = (a == b) | (a.isnan() & b.isnan())
        off = (a - b).abs().masked_fill(same, 0)
        return float(off.double().nan_to_num(nan=math.inf, posinf=math.inf).max())

    return judged(model, exported, inputs, difference=difference)


@exercise.wrong("The relative difference is taken to the largest magnitude of the export's output, not of the model's.")
def relative_to_the_export(model, exported, inputs):
    def scale(a, b):
        return b.masked_fill(~b.isfinite(), 0.0).abs().max().item()

    return judged(model, exported, inputs, scale=scale)


@exercise.wrong(
    "The largest number is not the largest magnitude: for -8 and 2 the scale is 8. A negative scale gives a negative "
    "difference."
)
def largest_number(model, exported, inputs):
    return judged(model, exported, inputs, scale=lambda a, b: a.masked_fill(~a.isfinite(), 0.0).max().item())


@exercise.wrong(
    "Infinite numbers of the model's output are part of the scale. Everything divided by infinity is 0: the relative "
    "difference of all other numbers disappears."
)
def infinite_scale(model, exported, inputs):
    return judged(model, exported, inputs, scale=lambda a, b: a.nan_to_num(posinf=math.inf).abs().max().item())


@exercise.wrong(
    "Both get the same tensors. What the first one does to them in place is what the second one starts from, and what "
    "the caller finds afterwards."
)
def shared_inputs(model, exported, inputs):
    return judged(model, exported, inputs, copies=False)


@exercise.wrong("Only the first output is compared. A model with two heads may be wrong in the second.")
def first_output(model, exported, inputs):
    return judged(model, exported, inputs)[:1]


@exercise.wrong(
    "Shapes are not compared: outputs (3, 1) and (3,) broadcast to a (3, 3) table of differences, and extra outputs "
    "are dropped by zip."
)
def shapes_ignored(model, exported, inputs):
    def as_tuple(value):
        return (value,) if isinstance(value, Tensor) else tuple(value)

    def shaped(*tensors):
        pairs = zip(as_tuple(model(*[x.clone() for x in tensors])), as_tuple(exported(*tensors)))
        return tuple(
            b.broadcast_to(torch.broadcast_shapes(a.shape, b.shape))[: len(a)].reshape(a.shape) for a, b in pairs
        )

    return judged(model, shaped, inputs)


class Twice(nn.Module):
    """Returns its input doubled; in training mode something else."""

    def __init__(self):
        super().__init__()
        self.part = nn.Dropout(0.0)

    def forward(self, x):
        return self.part(x) * 2


class Several(nn.Module):
    def forward(self, x, y):
        return x + y, (x * y).sum(dim=1), y


def tried(answer, model, exported, *inputs):
    """What comes back, as floats in a list; a ValueError in a word."""
    try:
        rows = answer(model, exported, inputs)
    except ValueError:
        return "ValueError"
    if not isinstance(rows, list):
        return f"a {type(rows).__name__}, not a list"
    return [tuple((type(number).__name__, repr(round(float(number), 9))) for number in row) for row in rows]


def off_by(*numbers):
    return lambda x: x * 2 + torch.tensor(numbers, dtype=x.dtype)


@exercise.probe
def too_large_and_too_small(answer):
    model, x = Twice().eval(), torch.tensor([-4.0, 1.0, 0.5])
    return [tried(answer, model, off_by(*off), x) for off in ((0.0, 0.25, 0.0), (0.5, -0.25, 0.0), (0.0, 0.0, 0.0))]


@exercise.probe
def larger_export(answer):
    return tried(answer, Twice().eval(), off_by(0.0, 30.0), torch.tensor([1.0, 0.5]))


@exercise.probe
def training_mode(answer):
    calls, partly = [], Twice().eval()
    partly.part.train()
    results = []
    for model in (Twice(), partly):
        before = [module.training for module in model.modules()]
        results.append(tried(answer, model, lambda x: (calls.append(1), x * 2)[1], torch.ones(2)))
        results.append(before == [module.training for module in model.modules()])
    return results, calls


@exercise.probe
def three_outputs(answer):
    def exported(x, y):
        return x + y, (x * y).sum(dim=1) - 1, y * 1.5

    return tried(answer, Several().eval(), exported, torch.ones(2, 3), torch.full((2, 3), 2.0))


@exercise.probe
def outputs_unlike(answer):
    x, y = torch.ones(2, 3), torch.full((2, 3), 2.0)
    ways = (
        lambda x, y: (x + y, (x * y).sum(dim=1)),
        lambda x, y: (x + y, (x * y).sum(dim=1), y, x),
        lambda x, y: (x + y, (x * y).sum(dim=1, keepdim=True), y),
        lambda x, y: x + y,
    )
    return [tried(answer, Several().eval(), way, x, y) for way in ways]


@exercise.probe
def nan_and_infinity(answer):
    nan, inf = math.nan, math.inf
    model = Twice().eval()
    results = []
    for a, b in (
        ([nan, 1.0], [nan, 2.5]),
        ([inf, 1.0], [inf, 2.5]),
        ([1.0, 1.0], [nan, 2.0]),
        ([nan, 1.0], [2.0, 2.0]),
        ([1.0, 1.0], [inf, 2.0]),
        ([inf, 1.0], [-inf, 2.0]),
        ([-inf, 0.0], [-inf, 0.5]),
        ([nan, nan], [nan, nan]),
        ([inf, 0.25], [inf, 0.75]),
    ):
        results.append(tried(answer, model, lambda x, b=b: torch.tensor(b), torch.tensor(a)))
    return results


@exercise.probe
def zeros(answer):
    return tried(answer, Twice().eval(), off_by(0.0, 0.125), torch.zeros(2))


@exercise.probe
def half_precision(answer):
    x = torch.tensor([30000.0, -30000.0], dtype=torch.float16)
    return tried(answer, Twice().eval(), lambda x: -x * 2, x)


@exercise.probe
def double_precision(answer):
    x = torch.tensor([2.0**29 + 0.5, 1.0], dtype=torch.float64)
    return tried(answer, Twice().eval(), off_by(3.0, 0.0), x)


@exercise.probe
def written_in_place(answer):
    class Writes(nn.Module):
        def forward(self, x):
            return x.mul_(2)

    x = torch.tensor([1.0, 2.0])
    return tried(answer, Writes().eval(), lambda x: x.mul_(2).add(1), x), x
