"""Lesson 10: two loops against each other, on a machine that changes its pace."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from course.checking import Exercise

exercise = Exercise(
    "throughput.honest_timer",
    title="How many times as fast",
    task="""
        `speed_up(old, new, warmup, rounds, clock, wait)` compares two loops. `old()` and `new()` each work through some
        batches and return **how many images** these held; the number may differ between the two, and from call to call.
        Both may be the same function. Return three numbers: the **median**, the smallest and the largest **ratio** of
        the rounds.

        - First come `warmup` calls of `old` and `warmup` calls of `new`, in any order. No number contains them.
        - Then come `rounds` rounds. A round times each of the two once. The first round times `old` before `new`, the
          second `new` before `old`, and so on in turn, so that a machine which gets slower favours neither.
        - The ratio of a round is the images per second of `new`, divided by those of `old` in the same round. 2.0 says:
          twice as many images in the same time.
        - `clock()` returns the seconds now. Read no other clock.
        - The device works through a queue: `old()` and `new()` return before their work is done, `wait()` returns when
          the queue is empty. A time starts with an empty queue, and ends when the work of that call is done. There may
          be earlier work in the queue when `speed_up` is called.

        `warmup` may be 0; `rounds` is at least 1.
        """,
    hints=(
        "Write a small function that times one call and returns its images per second. Where does it have to wait so "
        "that the time holds the whole work of this call, and no other work?",
        "The rounds are a loop over range(rounds); in odd rounds swap which of the two is timed first, not which one "
        "is divided by the other. Collect one ratio a round, and take median, min and max of these.",
    ),
)


@exercise.stub
def speed_up(
    old: Callable[[], int],
    new: Callable[[], int],
    warmup: int,
    rounds: int,
    clock: Callable[[], float],
    wait: Callable[[], object],
) -> tuple[float, float, float]:
    """Return median, smallest and largest ratio: images per second of new over those of old, within each round."""
    raise NotImplementedError


@exercise.reference
def in_turn(old, new, warmup, rounds, clock, wait):
    def images_per_second(loop):
        wait()
        start = clock()
        images = loop()
        wait()
        return images / (clock() - start)

    for _ in range(warmup):
        old()
        new()
    ratios = []
    for number in range(rounds):
        if number % 2 == 0:
            before = images_per_second(old)
            after = images_per_second(new)
        else:
            after = images_per_second(new)
            before = images_per_second(old)
        ratios.append(after / before)
    return statistics.median(ratios), min(ratios), max(ratios)


@exercise.alternative
def one_list_of_calls(old, new, warmup, rounds, clock, wait):
    for loop in (new, old):
        for _ in range(warmup):
            loop()
            wait()
    order = ["old", "new", "new", "old"] * rounds
    rates = {"old": [], "new": []}
    for name in order[: 2 * rounds]:
        wait()
        begin = clock()
        images = old() if name == "old" else new()
        wait()
        end = clock()
        rates[name].append(images / (end - begin))
    ratios = sorted(rates["new"][i] / rates["old"][i] for i in range(rounds))
    middle = rounds // 2
    median = ratios[middle] if rounds % 2 else (ratios[middle - 1] + ratios[middle]) / 2
    return median, ratios[0], ratios[-1]


@exercise.alternative
def one_clock_between_two(old, new, warmup, rounds, clock, wait):
    for _ in range(2 * warmup):
        old()
        old, new = new, old
    wait()
    before, ratios, swapped = clock(), [], False
    for _ in range(rounds):
        first, second = (new, old) if swapped else (old, new)
        counts, stamps = [], [before]
        for loop in (first, second):
            counts.append(loop())
            wait()
            stamps.append(clock())
        before = stamps[-1]
        ratio = (counts[1] / (stamps[2] - stamps[1])) / (counts[0] / (stamps[1] - stamps[0]))
        ratios.append(1 / ratio if swapped else ratio)
        swapped = not swapped
    return statistics.median(ratios), min(ratios), max(ratios)


# What the wrong answers have in common.


def rate(loop, clock, wait):
    """Images per second of one call, as they should be measured."""
    wait()
    start = clock()
    images = loop()
    wait()
    return images / (clock() - start)


def rates(old, new, warmup, rounds, clock, wait, measure=rate):
    """What ``measure`` says of ``old`` and of ``new``, a list each, with warm-up and in turn as the task asks."""
    for _ in range(warmup):
        old()
        new()
    seen = [], []
    for number in range(rounds):
        for which in (1, 0) if number % 2 else (0, 1):
            seen[which].append(measure((old, new)[which], clock, wait))
    return seen


def summary(before, after):
    ratios = [b / a for a, b in zip(before, after, strict=True)]
    return statistics.median(ratios), min(ratios), max(ratios)


@exercise.wrong(
    "Nothing waits between the call and the second reading of the clock. The call returns when its work is in the "
    "queue: this is the rate of asking, not that of the work.",
    fault="clock-without-synchronise",
)
def never_waits(old, new, warmup, rounds, clock, wait):
    return summary(*rates(old, new, warmup, rounds, clock, lambda: None))


@exercise.wrong(
    "It waits at the end of a time only. Work that is in the queue at its start, earlier work or that of the warm-up, "
    "is then counted as this call's.",
    fault="clock-without-synchronise",
)
def waits_only_after(old, new, warmup, rounds, clock, wait):
    def images_per_second(loop, clock, wait):
        start = clock()
        images = loop()
        wait()
        return images / (clock() - start)

    return summary(*rates(old, new, warmup, rounds, clock, wait, images_per_second))


@exercise.wrong(
    "There is no warm-up: the first calls, which set up what later ones use again, are in the first ratios.",
    fault="warm-up-timed",
)
def no_warmup(old, new, warmup, rounds, clock, wait):
    return summary(*rates(old, new, 0, rounds, clock, wait))


@exercise.wrong(
    "The warm-up is timed along with the rest: its rounds are among the ratios. No number may contain it.",
    fault="warm-up-timed",
)
def warmup_among_the_rounds(old, new, warmup, rounds, clock, wait):
    return summary(*rates(old, new, 0, warmup + rounds, clock, wait))


@exercise.wrong(
    "Only `old` is warmed up. The first calls of `new` are slow for reasons that pass, and they count against it.",
    fault="warm-up-timed",
)
def only_the_old_is_warm(old, new, warmup, rounds, clock, wait):
    for _ in range(warmup):
        old()
    return summary(*rates(old, new, 0, rounds, clock, wait))


@exercise.wrong(
    "All rounds of `old` come first, then all of `new`. A machine that gets warm, or another program that starts "
    "meanwhile, slows down only one of them."
)
def one_after_the_other(old, new, warmup, rounds, clock, wait):
    for _ in range(warmup):
        old()
        new()
    before = [rate(old, clock, wait) for _ in range(rounds)]
    return summary(before, [rate(new, clock, wait) for _ in range(rounds)])


@exercise.wrong(
    "`old` comes first in every round. On a machine that gets slower `new` always meets the slower one of the two "
    "moments. The order changes from round to round, so that this falls on both."
)
def always_the_same_order(old, new, warmup, rounds, clock, wait):
    for _ in range(warmup):
        old()
        new()
    pairs = [(rate(old, clock, wait), rate(new, clock, wait)) for _ in range(rounds)]
    return summary(*zip(*pairs, strict=True))


@exercise.wrong(
    "With the order in time the fraction is turned, too: every other ratio is that of `old` over `new`. Which one is "
    "timed first must not decide which one stands above the line."
)
def the_fraction_turns_too(old, new, warmup, rounds, clock, wait):
    before, after = rates(old, new, warmup, rounds, clock, wait)
    before[1::2], after[1::2] = after[1::2], before[1::2]
    return summary(before, after)


@exercise.wrong(
    "The medians of the two loops are taken first and then divided. They may come from different rounds, and so from "
    "different phases of the machine. Divide within each round, and take the median of the ratios."
)
def ratio_of_medians(old, new, warmup, rounds, clock, wait):
    before, after = rates(old, new, warmup, rounds, clock, wait)
    return statistics.median(after) / statistics.median(before), *summary(before, after)[1:]


@exercise.wrong(
    "The best rate of each loop is taken, whenever it came. That compares two lucky moments, which need not be equally "
    "lucky."
)
def best_against_best(old, new, warmup, rounds, clock, wait):
    before, after = rates(old, new, warmup, rounds, clock, wait)
    return max(after) / max(before), *summary(before, after)[1:]


@exercise.wrong(
    "This is the mean of the ratios. One round in which another program ran moves it; the median stays where it is."
)
def mean_of_ratios(old, new, warmup, rounds, clock, wait):
    before, after = rates(old, new, warmup, rounds, clock, wait)
    return statistics.mean(b / a for a, b in zip(before, after, strict=True)), *summary(before, after)[1:]


@exercise.wrong(
    "All images are divided by all seconds, for each of the two. One disturbed call is then most of the seconds, and "
    "decides about the result."
)
def totals(old, new, warmup, rounds, clock, wait):
    images = {old: [], new: []}

    def counted(loop, clock, wait):
        return rate(lambda: images[loop].append(loop()) or images[loop][-1], clock, wait)

    before, after = rates(old, new, warmup, rounds, clock, wait, counted)
    total = [
        sum(images[loop]) / sum(n / each for n, each in zip(images[loop], seen, strict=False))
        for loop, seen in ((old, before), (new, after))
    ]
    return total[1] / total[0], *summary(before, after)[1:]


@exercise.wrong(
    "Seconds a call are compared, and the images are not looked at. A call with larger batches takes longer and does "
    "more: what counts is images per second."
)
def seconds_per_call(old, new, warmup, rounds, clock, wait):
    def calls_per_second(loop, clock, wait):
        return rate(lambda: loop() and 1, clock, wait)

    return summary(*rates(old, new, warmup, rounds, clock, wait, calls_per_second))


@exercise.wrong(
    "The fraction stands on its head: it is `old` over `new`. A loop that does twice as much would be called half as "
    "fast."
)
def upside_down(old, new, warmup, rounds, clock, wait):
    before, after = rates(old, new, warmup, rounds, clock, wait)
    return summary(after, before)


@exercise.wrong(
    "What was measured is kept in a dict by function. A loop that is compared with itself is one key: its two times "
    "of a round become one, and each ratio is 1."
)
def kept_by_function(old, new, warmup, rounds, clock, wait):
    last, before, after = {}, [], []
    for _ in range(warmup):
        old()
        new()
    for number in range(rounds):
        for loop in (new, old) if number % 2 else (old, new):
            last[loop] = rate(loop, clock, wait)
        before.append(last[old])
        after.append(last[new])
    return summary(before, after)


class Machine:
    """A clock, a queue and two loops whose calls cost what is given; no second of it is real.

    old, new: seconds of work, for each call in turn; the last one stays. images: of each loop, for each call in turn.
    pace: what the work is multiplied by, for each call of either loop in turn. pending: seconds of work in the queue
    at the start. asking: seconds until a call returns."""

    def __init__(self, old, new, images=((64,), (64,)), pace=(1.0,), pending=0.0, asking=(0.125, 0.0625)):
        self.work, self.images, self.pace, self.asking = (old, new), images, pace, asking
        self.now, self.done, self.calls = 1000.0, 1000.0 + pending, [0, 0]

    def clock(self):
        return self.now

    def wait(self):
        self.now = max(self.now, self.done)

    def call(self, which):
        number, total = self.calls[which], sum(self.calls)
        self.calls[which] += 1
        self.now += self.asking[which]
        work = in_turn_of(self.work[which], number) * in_turn_of(self.pace, total)
        self.done = max(self.done, self.now) + work
        return in_turn_of(self.images[which], number)


def in_turn_of(values, number):
    return values[min(number, len(values) - 1)]


def run(answer, machine, warmup, rounds):
    ratios = answer(lambda: machine.call(0), lambda: machine.call(1), warmup, rounds, machine.clock, machine.wait)
    return *(float(ratio) for ratio in ratios), f"{machine.calls[0]} and {machine.calls[1]} calls"


@exercise.probe
def a_single_round(answer):
    return run(answer, Machine([4.0], [2.0]), 0, 1)


@exercise.probe
def two_rounds(answer):
    return run(answer, Machine([4.0, 5.0], [2.0, 1.0]), 0, 2)


@exercise.probe
def slow_first_calls(answer):
    return run(answer, Machine([64.0, 16.0, 4.0], [90.0, 30.0, 2.0, 2.5, 1.5]), 2, 3)


@exercise.probe
def a_queue_with_earlier_work(answer):
    return run(answer, Machine([4.0, 3.0, 5.0], [2.0, 1.5], pending=64.0), 0, 3)


@exercise.probe
def larger_batches(answer):
    return run(answer, Machine([1.0], [3.0], images=((64,), (256,))), 1, 2)


@exercise.probe
def the_last_batch_is_smaller(answer):
    return run(answer, Machine([1.0, 1.0, 0.3], [0.75, 0.8, 0.3], images=((64, 64, 16), (128, 128, 40))), 0, 3)


@exercise.probe
def a_disturbed_round(answer):
    return run(answer, Machine([2.0, 2.1, 1.9, 20.0, 2.2], [1.6, 1.5, 1.7, 1.65, 1.4]), 0, 5)


@exercise.probe
def a_machine_that_gets_slower(answer):
    pace = [1.0, 1.0, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5]
    return run(answer, Machine([2.0], [1.0], pace=pace), 1, 4)


@exercise.probe
def slow_and_fast_phases(answer):
    pace = [1.0, 1.0, 3.0, 3.0, 1.2, 1.2, 5.0, 5.0, 2.0, 2.0]
    return run(answer, Machine([2.0, 2.4, 2.0, 2.2, 1.8], [1.5, 1.2, 1.75, 1.25, 1.3], pace=pace), 0, 5)


@exercise.probe
def a_loop_against_itself(answer):
    machine = Machine([1.0, 1.25, 1.0, 1.5, 0.75, 1.0], [1.0])

    def loop():
        return machine.call(0)

    ratios = answer(loop, loop, 0, 3, machine.clock, machine.wait)
    return *(float(ratio) for ratio in ratios), f"{machine.calls[0]} calls"
