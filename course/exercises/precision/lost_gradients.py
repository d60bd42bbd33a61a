"""Lesson 08: gradients that float16 loses."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from course.checking import Exercise

exercise = Exercise(
    "precision.lost_gradients",
    title="What a loss scale saves and what it breaks",
    task="""
        `lost_gradients(gradients, scale)` says what float16 would make of gradients under a loss scale. `gradients` is
        an iterable of float32 tensors of any shape, perhaps an empty one: the true gradients, not scaled, all finite.
        `scale` is a positive float.

        Return two `int`s, counted over all tensors together:

        1. **vanished**: elements that are not 0, and are 0 once they are multiplied by `scale` in float32 and stored
           as float16;
        2. **overflowed**: elements that are infinite after the same.

        Leave the tensors as they are. Example: `[1e-9, 0.0, -3.0]` loses one element at scale 1, none at scale 1024,
        and one overflows at scale 65536.
        """,
    hints=(
        "Do what training does: scale first, then store. Which thresholds does the conversion itself use? You need not "
        "know them.",
        "Multiply in float32, convert with `.to(torch.float16)`, and look at the result: an element has vanished where "
        "the result is 0 and the gradient itself is not. isinf() finds both signs.",
    ),
)


@exercise.stub
def lost_gradients(gradients: Iterable[Tensor], scale: float) -> tuple[int, int]:
    """Return how many non-zero elements float16 makes 0, and how many it makes infinite, under this loss scale."""
    raise NotImplementedError


@exercise.reference
def by_conversion(gradients, scale):
    vanished = overflowed = 0
    for gradient in gradients:
        half = (gradient * scale).to(torch.float16)
        vanished += int(((half == 0) & (gradient != 0)).sum())
        overflowed += int(half.isinf().sum())
    return vanished, overflowed


@exercise.alternative
def by_thresholds(gradients, scale):
    sizes = torch.cat([torch.zeros(0), *(g.detach().flatten().abs() for g in gradients)])
    scaled = sizes * scale
    vanished = (sizes > 0) & (scaled <= 2.0**-25)
    return vanished.count_nonzero().item(), (scaled >= 65520).count_nonzero().item()


@exercise.wrong(
    "The gradient was stored first and scaled then. What float16 has made 0 stays 0 under any scale: that is why the "
    "loss is scaled before backward, not the gradient after it.",
    fault="gradient-underflow",
)
def scaled_too_late(gradients, scale):
    vanished = overflowed = 0
    for gradient in gradients:
        half = gradient.to(torch.float16)
        vanished += int(((half == 0) & (gradient != 0)).sum())
        overflowed += int((half.float() * scale).to(torch.float16).isinf().sum())
    return vanished, overflowed


@exercise.wrong("Elements that were 0 before are counted as vanished. float16 has lost nothing there.")
def zeros_count(gradients, scale):
    halves = [(gradient * scale).to(torch.float16) for gradient in gradients]
    return sum(int((h == 0).sum()) for h in halves), sum(int(h.isinf().sum()) for h in halves)


@exercise.wrong(
    "Everything below the smallest *normal* number is counted as vanished. Between 2^-24 and 2^-14 float16 still has "
    "subnormal numbers, with fewer and fewer bits."
)
def below_the_normal_numbers(gradients, scale):
    vanished = overflowed = 0
    for gradient in gradients:
        size = (gradient * scale).abs()
        vanished += int(((size > 0) & (size < torch.finfo(torch.float16).tiny)).sum())
        overflowed += int(size.to(torch.float16).isinf().sum())
    return vanished, overflowed


@exercise.wrong(
    "The scale was divided by, not multiplied with. Scaling makes small gradients larger; the division comes after "
    "backward, in float32."
)
def divided(gradients, scale):
    vanished = overflowed = 0
    for gradient in gradients:
        half = (gradient / scale).to(torch.float16)
        vanished += int(((half == 0) & (gradient != 0)).sum())
        overflowed += int(half.isinf().sum())
    return vanished, overflowed


@exercise.wrong("Only +inf was looked for. A large negative gradient becomes -inf.")
def positive_infinity_only(gradients, scale):
    vanished = overflowed = 0
    for gradient in gradients:
        half = (gradient * scale).to(torch.float16)
        vanished += int(((half == 0) & (gradient != 0)).sum())
        overflowed += int((half == torch.inf).sum())
    return vanished, overflowed


@exercise.wrong(
    "Everything above 65504 is counted as infinite. Numbers up to halfway to the next step, 65520, still round down to "
    "65504; the conversion knows that."
)
def above_the_largest(gradients, scale):
    vanished = overflowed = 0
    for gradient in gradients:
        scaled = gradient * scale
        vanished += int(((scaled.to(torch.float16) == 0) & (gradient != 0)).sum())
        overflowed += int((scaled.abs() > torch.finfo(torch.float16).max).sum())
    return vanished, overflowed


@exercise.wrong("This counts tensors that hold such an element. The task asks for elements.")
def counts_tensors(gradients, scale):
    vanished = overflowed = 0
    for gradient in gradients:
        half = (gradient * scale).to(torch.float16)
        vanished += int(((half == 0) & (gradient != 0)).any())
        overflowed += int(half.isinf().any())
    return vanished, overflowed


@exercise.wrong(
    "Zeros are told apart after the product, in which a small scale can already have made some. The question is which "
    "true gradients were not 0."
)
def zeros_of_the_product(gradients, scale):
    vanished = overflowed = 0
    for gradient in gradients:
        product = gradient * scale
        half = product.to(torch.float16)
        vanished += int(((half == 0) & (product != 0)).sum())
        overflowed += int(half.isinf().sum())
    return vanished, overflowed


@exercise.wrong(
    "The gradients were scaled in place (`mul_`). Whoever passed them now trains with gradients that are too large."
)
def scaled_in_place(gradients, scale):
    vanished = overflowed = 0
    for gradient in gradients:
        zero = gradient == 0
        half = gradient.mul_(scale).to(torch.float16)
        vanished += int(((half == 0) & ~zero).sum())
        overflowed += int(half.isinf().sum())
    return vanished, overflowed


@exercise.probe
def the_example():
    return [torch.tensor([1e-9, 0.0, -3.0])], 1.0


@exercise.probe
def the_example_scaled():
    return [torch.tensor([1e-9, 0.0, -3.0])], 1024.0


@exercise.probe
def overflow_of_both_signs():
    return [torch.tensor([[1e-9, -3.0], [2.0, 0.5]])], 65536.0


@exercise.probe
def subnormals_are_kept():
    return [torch.tensor([1e-5, -1e-6, 1e-7, 3e-8, 2e-8])], 1.0


@exercise.probe
def just_beyond_the_largest():
    return [torch.tensor([65504.0, 65519.0, 65520.0, -65521.0])], 1.0


@exercise.probe
def several_tensors():
    return (torch.full((2, 3), 1e-8), torch.full((4,), 40.0), torch.zeros(5), torch.tensor(1e-12)), 2048.0


@exercise.probe
def the_smallest_that_survives():
    return [torch.tensor([2.0**-25, 2.0**-24, 1.5 * 2.0**-25, 2.0**-26])], 1.0


@exercise.probe
def a_scale_that_makes_zeros_in_float32():
    return [torch.tensor([1e-20, 0.0, 1e-30]), torch.tensor(-1e-25)], 1e-25


@exercise.probe
def no_tensors():
    return [], 1024.0


@exercise.probe
def from_a_generator(answer):
    return answer((g for g in (torch.tensor([1e-9]), torch.tensor([1e5, 1.0]))), 2.0)


@exercise.probe
def parameters_that_need_gradients(answer):
    return answer([torch.tensor([1e-9, 1.0], requires_grad=True)], 2.0)
