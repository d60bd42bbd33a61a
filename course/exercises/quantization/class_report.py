"""Lesson 13: what quantization cost each class."""

from __future__ import annotations

import torch
from torch import Tensor

from course.checking import Exercise

exercise = Exercise(
    "quantization.class_report",
    title="What it cost each class",
    task="""
        `class_report(before, after, targets, names)` compares the predictions of a float and of a quantized network
        class by class. `before`, `after` and `targets` are int64 `(N,)`: predicted and true class numbers. `names` has
        the name of each class.

        It returns a dict with an entry for each name, in their order. The entry is the tuple `(accuracy before,
        accuracy after, points)`, three Python floats: the shares of the images **of this class** that were predicted
        right, and the change in points, `100 * (after - before)`, negative for a loss. A class without images has
        `None` as its entry.

        Example: targets `[0, 0, 1, 1]`, before `[0, 0, 1, 0]`, after `[0, 1, 1, 0]`, names `["cat", "dog", "elk"]` give
        `{"cat": (1.0, 0.5, -50.0), "dog": (0.5, 0.5, 0.0), "elk": None}`.
        """,
    hints=(
        "By which of the three vectors do you choose the images of a class?",
        "`targets == number` is a mask that picks them. The mean of `before[mask] == number`, as floats, is a share. "
        "Look first whether the mask picks anything.",
    ),
)


@exercise.stub
def class_report(
    before: Tensor, after: Tensor, targets: Tensor, names: list[str]
) -> dict[str, tuple[float, float, float] | None]:
    """Return {name: (accuracy before, accuracy after, points) or None for a class without images}."""
    raise NotImplementedError


@exercise.reference
def by_mask(before, after, targets, names):
    report = {}
    for number, name in enumerate(names):
        mask = targets == number
        first, second = ((p[mask] == number).double().mean().item() for p in (before, after))
        report[name] = (first, second, 100 * (second - first)) if mask.any() else None
    return report


@exercise.alternative
def by_counting(before, after, targets, names):
    images = targets.bincount(minlength=len(names)).tolist()
    right = [targets[p == targets].bincount(minlength=len(names)).tolist() for p in (before, after)]
    return {
        name: (a / n, b / n, 100 * (b - a) / n) if n else None
        for name, n, a, b in zip(names, images, *right, strict=True)
    }


def _report(names, entry):
    return {name: entry(number) for number, name in enumerate(names)}


@exercise.wrong(
    "The images are chosen by the prediction: that is the precision, how often this class was meant when it was said. "
    "A class that is never predicted any more drops out of the report."
)
def by_prediction(before, after, targets, names):
    def entry(number):
        if not (targets == number).any():
            return None
        first, second = ((targets[p == number] == number).double().mean().nan_to_num().item() for p in (before, after))
        return first, second, 100 * (second - first)

    return _report(names, entry)


@exercise.wrong(
    "The hits are divided by all images, not by those of the class. Ten equal classes would each reach 10 %."
)
def share_of_all_images(before, after, targets, names):
    def entry(number):
        mask = targets == number
        if not mask.any():
            return None
        first, second = (((p == number) & mask).double().mean().item() for p in (before, after))
        return first, second, 100 * (second - first)

    return _report(names, entry)


@exercise.wrong(
    "A class without images gets the accuracy 0, as if the network knew nothing of it. There is nothing to say: None."
)
def zero_without_images(before, after, targets, names):
    def entry(number):
        mask = targets == number
        if not mask.any():
            return 0.0, 0.0, 0.0
        return by_mask(before, after, targets, names)[names[number]]

    return _report(names, entry)


@exercise.wrong(
    "A class without images gets NaN, the mean of nothing. Every sum and every sort of the report is then NaN as well."
)
def nan_without_images(before, after, targets, names):
    def entry(number):
        mask = targets == number
        first, second = ((p[mask] == number).double().mean().item() for p in (before, after))
        return first, second, 100 * (second - first)

    return _report(names, entry)


@exercise.wrong(
    "A class without images is left out. The task asks for an entry for each name: a table with a gap is "
    "noticed, a missing row is not."
)
def left_out(before, after, targets, names):
    return {name: entry for name, entry in by_mask(before, after, targets, names).items() if entry is not None}


@exercise.wrong("The entries come in the order of the alphabet. The task keeps the order of `names`.")
def in_alphabetical_order(before, after, targets, names):
    report = {}
    for name in sorted(names):
        of_class = targets == names.index(name)
        if not of_class.any():
            report[name] = None
            continue
        one, other = ((found == targets)[of_class].double().mean().item() for found in (before, after))
        report[name] = (one, other, 100 * (other - one))
    return report


@exercise.wrong(
    "A class of which nothing was predicted right is taken for one without images. It has an accuracy: 0, which is "
    "what the report is for."
)
def all_wrong_counts_as_absent(before, after, targets, names):
    report = {}
    for number, name in enumerate(names):
        of_class = targets == number
        hits = [(found == targets)[of_class].double() for found in (before, after)]
        if not any(hit.any() for hit in hits):
            report[name] = None
            continue
        one, other = (hit.mean().item() for hit in hits)
        report[name] = (one, other, 100 * (other - one))
    return report


@exercise.wrong("The change has the other sign: a loss comes out positive.")
def sign_of_the_loss(before, after, targets, names):
    whole = by_mask(before, after, targets, names)
    return {name: entry and (entry[0], entry[1], -entry[2]) for name, entry in whole.items()}


@exercise.wrong("The change is a share, not in points: a hundred times too small.")
def share_not_points(before, after, targets, names):
    whole = by_mask(before, after, targets, names)
    return {name: entry and (entry[0], entry[1], entry[2] / 100) for name, entry in whole.items()}


@exercise.wrong(
    "The change is relative to the accuracy before, in percent. Points are differences of percentages: from 50 "
    "to 40 % are 10 points, and 20 %."
)
def percent_not_points(before, after, targets, names):
    def entry(pair):
        first, second, points = pair
        return first, second, points / first if first else 0.0

    return {name: e and entry(e) for name, e in by_mask(before, after, targets, names).items()}


@exercise.wrong(
    "The predictions of the float network are taken for the truth. That is agreement, which does not tell a "
    "mended error from a new one."
)
def agreement(before, after, targets, names):
    return by_mask(before, after, before, names)


@exercise.wrong(
    "Only classes that occur in the targets are looked for, and named in that order: names and numbers no "
    "longer belong together."
)
def named_in_order_of_appearance(before, after, targets, names):
    found = [number for number in range(len(names)) if (targets == number).any()]
    entries = list(filter(None, by_mask(before, after, targets, names).values()))
    entries += [None] * (len(names) - len(found))
    return dict(zip(names, entries, strict=True))


def numbers(*values):
    return torch.tensor(values, dtype=torch.int64)


@exercise.probe
def example():
    return numbers(0, 0, 1, 0), numbers(0, 1, 1, 0), numbers(0, 0, 1, 1), ["cat", "dog", "elk"]


@exercise.probe
def gap_in_the_middle():
    return numbers(0, 2, 2, 0), numbers(2, 2, 1, 2), numbers(0, 2, 2, 2), ["cat", "dog", "elk"]


@exercise.probe
def one_class_is_never_predicted():
    return numbers(0, 0, 1, 1, 1), numbers(1, 1, 1, 1, 1), numbers(0, 0, 1, 1, 0), ["up", "down"]


@exercise.probe
def mended_errors():
    return numbers(1, 1, 1, 1), numbers(0, 0, 1, 1), numbers(0, 0, 0, 1), ["up", "down"]


@exercise.probe
def no_images():
    return numbers(), numbers(), numbers(), ["up", "down"]


@exercise.probe
def names_are_not_sorted(answer):
    report = answer(numbers(0, 1, 2), numbers(0, 1, 1), numbers(0, 1, 2), ["truck", "cat", "bird"])
    return list(report.items())


@exercise.probe
def a_class_that_is_always_wrong():
    return numbers(1, 1, 2), numbers(1, 2, 2), numbers(0, 0, 2), ["up", "down", "left"]


@exercise.probe
def quarter_of_a_class():
    return numbers(0, 0, 1, 0, 2), numbers(0, 1, 1, 2, 2), numbers(0, 0, 0, 0, 2), ["cat", "dog", "elk"]
