"""Lesson 05: stop when the held-out loss no longer falls."""

from __future__ import annotations

import math

from course.checking import Exercise

exercise = Exercise(
    "training.early_stopping",
    title="Early stopping",
    task="""
        `EarlyStopping(patience, min_delta)` watches a held-out loss. Call `should_stop(loss)` once after each epoch; it
        returns a `bool`.

        - An epoch is an improvement when its loss is smaller than the best loss so far by **more** than `min_delta`.
          Then it becomes the best loss. The first finite loss is an improvement.
        - `should_stop` returns True when this epoch and those before it, `patience` or more in a row, were no
          improvements. It goes on returning True until an improvement comes.
        - A loss of NaN or infinity is no improvement.

        Example: with `patience=2, min_delta=0` the losses 3, 2, 2, 1, 4, 1 give False five times, then True.
        """,
    hints=(
        "Keep two things between calls: the best loss so far, and how many epochs in a row brought no improvement.",
        "Start with the best loss at math.inf. In an improvement, set it and set the count to 0; else add 1 to the "
        "count. Comparisons with NaN are False: put the improvement into the if, not into the else.",
    ),
)


@exercise.stub
class EarlyStopping:
    """Tells when a loss has not improved for `patience` epochs in a row."""

    def __init__(self, patience: int, min_delta: float) -> None:
        raise NotImplementedError

    def should_stop(self, loss: float) -> bool:
        """Note the loss of an epoch; return whether it is time to stop."""
        raise NotImplementedError


@exercise.reference
class CountingBadEpochs:
    def __init__(self, patience, min_delta):
        self.patience = patience
        self.min_delta = min_delta
        self.best = math.inf
        self.bad = 0

    def should_stop(self, loss):
        if loss < self.best - self.min_delta:
            self.best = loss
            self.bad = 0
        else:
            self.bad += 1
        return self.bad >= self.patience


@exercise.alternative
class KeepingAllLosses:
    def __init__(self, patience, min_delta):
        self.patience, self.min_delta = patience, min_delta
        self.losses = []

    def should_stop(self, loss):
        self.losses.append(loss)
        best, last_good = math.inf, -1
        for epoch, value in enumerate(self.losses):
            if best - value > self.min_delta:
                best, last_good = value, epoch
        return len(self.losses) - 1 - last_good >= self.patience


@exercise.wrong(
    "The count is not set back when the loss improves. Bad epochs need not come in a row any more, so a long run with "
    "an occasional bad epoch is stopped while it still improves."
)
class NeverForgives:
    def __init__(self, patience, min_delta):
        self.patience, self.min_delta, self.best, self.bad = patience, min_delta, math.inf, 0

    def should_stop(self, loss):
        if loss < self.best - self.min_delta:
            self.best = loss
        else:
            self.bad += 1
        return self.bad >= self.patience


@exercise.wrong(
    "Each loss is compared with the one before. After a jump upwards every small fall counts as an improvement, "
    "although the best loss is far below. Compare with the best."
)
class ComparesWithTheLast:
    def __init__(self, patience, min_delta):
        self.patience, self.min_delta, self.last, self.bad = patience, min_delta, math.inf, 0

    def should_stop(self, loss):
        self.bad = 0 if loss < self.last - self.min_delta else self.bad + 1
        self.last = loss
        return self.bad >= self.patience


@exercise.wrong(
    "This stops one epoch late: it waits until more than `patience` epochs were bad. The task says at `patience`."
)
class OneEpochLate:
    def __init__(self, patience, min_delta):
        self.patience, self.min_delta, self.best, self.bad = patience, min_delta, math.inf, 0

    def should_stop(self, loss):
        if loss < self.best - self.min_delta:
            self.best, self.bad = loss, 0
        else:
            self.bad += 1
        return self.bad > self.patience


@exercise.wrong("Larger counts as better here. That is right for an accuracy; a loss should fall.")
class LargerIsBetter:
    def __init__(self, patience, min_delta):
        self.patience, self.min_delta, self.best, self.bad = patience, min_delta, -math.inf, 0

    def should_stop(self, loss):
        if loss > self.best + self.min_delta:
            self.best, self.bad = loss, 0
        else:
            self.bad += 1
        return self.bad >= self.patience


@exercise.wrong(
    "A NaN loss counts as an improvement: every comparison with NaN is False, so asking whether the loss is *not "
    "better* says no. After that nothing can be compared with the best loss, which is NaN."
)
class NanIsAnImprovement:
    def __init__(self, patience, min_delta):
        self.patience, self.min_delta, self.best, self.bad = patience, min_delta, math.inf, 0

    def should_stop(self, loss):
        if loss >= self.best - self.min_delta:
            self.bad += 1
        else:
            self.best, self.bad = loss, 0
        return self.bad >= self.patience


@exercise.wrong(
    "min_delta is not used: any improvement counts, however small. A loss that creeps down in the fifth digit keeps "
    "the run alive for ever."
)
class AnyImprovementCounts:
    def __init__(self, patience, min_delta):
        self.patience, self.best, self.bad = patience, math.inf, 0

    def should_stop(self, loss):
        if loss < self.best:
            self.best, self.bad = loss, 0
        else:
            self.bad += 1
        return self.bad >= self.patience


@exercise.wrong(
    "The best loss moves down also by steps smaller than min_delta, without counting as an improvement. A loss that "
    "falls slowly but steadily then never beats it by enough; the task keeps the best loss until an improvement comes."
)
class BestMovesWithoutImprovement:
    def __init__(self, patience, min_delta):
        self.patience, self.min_delta, self.best, self.bad = patience, min_delta, math.inf, 0

    def should_stop(self, loss):
        self.bad = 0 if loss < self.best - self.min_delta else self.bad + 1
        self.best = min(self.best, loss)
        return self.bad >= self.patience


@exercise.wrong(
    "True comes once, in the epoch in which the patience ends, and False again after it. A loop that looks a little "
    "later never stops."
)
class OnlyOnce:
    def __init__(self, patience, min_delta):
        self.patience, self.min_delta, self.best, self.bad = patience, min_delta, math.inf, 0

    def should_stop(self, loss):
        if loss < self.best - self.min_delta:
            self.best, self.bad = loss, 0
        else:
            self.bad += 1
        return self.bad == self.patience


@exercise.wrong(
    "A best loss of 0 counts as none: `not 0.0` is True. Every loss after it is then an improvement. Compare with "
    "None, or start at infinity."
)
class ZeroCountsAsNone(CountingBadEpochs):
    def should_stop(self, loss):
        if not math.isnan(loss) and math.isfinite(loss) and (not self.best or loss < self.best - self.min_delta):
            self.best, self.bad = loss, 0
        else:
            self.bad += 1
        return self.bad >= self.patience


@exercise.wrong(
    "The best loss starts at a number that is thought to be large. A loss can be larger, such as a sum over many "
    "samples, and then nothing is ever an improvement. Infinity is larger than all."
)
class StartsAtALargeNumber(CountingBadEpochs):
    def __init__(self, patience, min_delta):
        super().__init__(patience, min_delta)
        self.best = 1e6


@exercise.wrong(
    "The first loss that is not NaN counts as an improvement, even if it is infinite. A run that overflows from the "
    "start gets an epoch more than `patience` allows."
)
class InfinityIsAnImprovement(CountingBadEpochs):
    def __init__(self, patience, min_delta):
        super().__init__(patience, min_delta)
        self.best = None

    def should_stop(self, loss):
        if not math.isnan(loss) and (self.best is None or loss < self.best - self.min_delta):
            self.best, self.bad = loss, 0
        else:
            self.bad += 1
        return self.bad >= self.patience


@exercise.wrong(
    "A NaN epoch is passed over: it counts neither as an improvement nor as a bad epoch. A run whose loss is NaN from "
    "some epoch on is then never stopped. No improvement means that it counts."
)
class NanNotCounted(CountingBadEpochs):
    def should_stop(self, loss):
        if not math.isnan(loss):
            super().should_stop(loss)
        return self.bad >= self.patience


def decisions(answer, patience, min_delta, losses):
    stopping = answer(patience, min_delta)
    return [stopping.should_stop(loss) for loss in losses]


@exercise.probe
def bad_epochs_in_a_row(answer):
    return decisions(answer, 2, 0.0, [3.0, 2.0, 2.0, 1.0, 4.0, 1.0, 1.5, 0.5, 0.6])


@exercise.probe
def a_jump_upwards(answer):
    return decisions(answer, 3, 0.0, [1.0, 5.0, 4.0, 3.0, 2.0, 0.5])


@exercise.probe
def improvements_that_are_too_small(answer):
    return decisions(answer, 2, 0.25, [1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25])


@exercise.probe
def exactly_min_delta(answer):
    return decisions(answer, 1, 0.5, [2.0, 1.5, 0.75, 0.25])


@exercise.probe
def nan_in_between(answer):
    return decisions(answer, 2, 0.0, [2.0, math.nan, 1.0, math.nan, math.nan, 3.0])


@exercise.probe
def nan_from_the_start(answer):
    return decisions(answer, 2, 0.0, [math.nan, math.nan, 4.0, 5.0])


@exercise.probe
def losses_below_zero(answer):
    return decisions(answer, 1, 0.0, [-1.0, -2.0, -1.5, -3.0])


@exercise.probe
def two_watchers(answer):
    first, second = answer(1, 0.0), answer(3, 0.0)
    return [(first.should_stop(loss), second.should_stop(2 * loss)) for loss in (1.0, 2.0, 3.0, 4.0)]


@exercise.probe
def down_to_zero(answer):
    return decisions(answer, 2, 0.0, [1.0, 0.0, 0.5, 0.25, 0.125])


@exercise.probe
def very_large_losses(answer):
    return decisions(answer, 2, 0.0, [4e12, 3e12, 2e12, 3e12, 3e12])


@exercise.probe
def infinite_from_the_start(answer):
    return decisions(answer, 2, 0.0, [math.inf, math.inf, 4.0, math.inf, 5.0])


@exercise.probe
def nan_among_bad_epochs(answer):
    return decisions(answer, 3, 0.0, [2.0, 3.0, math.nan, 3.0, 3.0])
