"""Lesson 05: a cosine schedule with warm-up."""

from __future__ import annotations

import math

from course.checking import Exercise

exercise = Exercise(
    "training.warmup_cosine",
    title="Cosine with warm-up",
    task="""
        `warmup_cosine_factor(step, warmup, total)` returns what the learning rate is multiplied with at step 0, 1, 2,
        ...

        - During the first `warmup` steps it rises in a straight line: 1/warmup at step 0, 2/warmup at step 1, up to 1
          at step `warmup` - 1.
        - From there it falls along half a cosine: 1 at step `warmup`, 0 at step `total`. It stays 0 after that.
        - `warmup` may be 0; `total` is larger than `warmup`. Return a Python `float`.

        Example: with `warmup=2, total=6` the factors of the steps 0 to 6 are 0.5, 1, 1, 0.854, 0.5, 0.146, 0.
        """,
    hints=(
        "Two formulas, one condition. What share of the falling part is done at a given step: 0 at step warmup, 1 at "
        "step total?",
        "With that share s the factor is (1 + cos(pi * s)) / 2. Keep s from growing beyond 1, or the cosine rises "
        "again.",
    ),
)


@exercise.stub
def warmup_cosine_factor(step: int, warmup: int, total: int) -> float:
    """Return the factor of the learning rate at a step: a straight rise, then half a cosine down to 0."""
    raise NotImplementedError


@exercise.reference
def by_two_pieces(step, warmup, total):
    if step < warmup:
        return (step + 1) / warmup
    share = min(((step - warmup) / (total - warmup), 1.0))
    return (1 + math.cos(math.pi * share)) / 2


@exercise.alternative
def by_half_angle(step, warmup, total):
    if step >= total:
        return 0.0
    if step < warmup:
        return (1 + step) / warmup
    return math.cos(0.5 * math.pi * (step - warmup) / (total - warmup)) ** 2


@exercise.alternative
def by_clamping(step, warmup, total):
    rise = (step + 1) / warmup if warmup else 1.0
    left = max(0.0, min(1.0, (total - step) / (total - warmup)))
    return rise if rise < 1.0 else math.sin(math.pi / 2 * left) ** 2


@exercise.wrong(
    "The rise starts at 0, so the first step changes nothing: a batch is computed and thrown away. Step 0 should have "
    "the factor 1/warmup."
)
def first_step_wasted(step, warmup, total):
    if step < warmup:
        return step / warmup
    share = min(1.0, (step - warmup) / (total - warmup))
    return (1 + math.cos(math.pi * share)) / 2


@exercise.wrong(
    "The cosine counts from step 0, although it starts at step `warmup`: after the rise the factor jumps down. The "
    "share that is done has to be 0 where the cosine begins."
)
def cosine_from_step_zero(step, warmup, total):
    if step < warmup:
        return (step + 1) / warmup
    return (1 + math.cos(math.pi * min(1.0, step / total))) / 2


@exercise.wrong(
    "After `total` the cosine goes on, and the learning rate rises again. Then the last epochs of a run that is longer "
    "than planned undo what was learned."
)
def rises_again(step, warmup, total):
    if step < warmup:
        return (step + 1) / warmup
    return (1 + math.cos(math.pi * (step - warmup) / (total - warmup))) / 2


@exercise.wrong(
    "The falling part is as long as the whole run here, so that at step `total` the factor is not yet 0. It has total "
    "- warmup steps."
)
def too_long_a_fall(step, warmup, total):
    if step < warmup:
        return (step + 1) / warmup
    return (1 + math.cos(math.pi * min(1.0, (step - warmup) / total))) / 2


@exercise.wrong("The fall is a straight line here. The task asks for half a cosine: flat at both ends, steep between.")
def straight_fall(step, warmup, total):
    if step < warmup:
        return (step + 1) / warmup
    return max(0.0, 1 - (step - warmup) / (total - warmup))


@exercise.wrong(
    "The cosine itself runs from 1 to -1. A negative learning rate climbs. Move it and scale it to run from 1 to 0."
)
def cosine_below_zero(step, warmup, total):
    if step < warmup:
        return (step + 1) / warmup
    return math.cos(math.pi * min(1.0, (step - warmup) / (total - warmup)))


@exercise.wrong(
    "Without a case for warmup = 0 this divides by zero. A run without warm-up starts at the factor 1.",
    fault="division-by-zero",
)
def warmup_of_zero_fails(step, warmup, total):
    rise = (1.0 + step) / warmup
    if rise <= 1:
        return rise
    return (1 + math.cos(math.pi * min(1.0, (step - warmup) / (total - warmup)))) / 2


def factors(answer, warmup, total, steps):
    return [answer(step, warmup, total) for step in range(steps)]


@exercise.probe
def a_whole_run(answer):
    return factors(answer, 3, 10, 11)


@exercise.probe
def longer_than_planned(answer):
    return factors(answer, 2, 6, 15)


@exercise.probe
def no_warmup(answer):
    return factors(answer, 0, 5, 7)


@exercise.probe
def one_step_of_warmup(answer):
    return factors(answer, 1, 4, 6)


@exercise.probe
def nearly_all_warmup(answer):
    return factors(answer, 7, 8, 10)
