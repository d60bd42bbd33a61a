"""Lesson 11: one prediction for each sample, whatever the sampler repeated."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from course.checking import Exercise

exercise = Exercise(
    "distributed.merge_predictions",
    title="Each sample counted once",
    task="""
        An evaluation ran under `DistributedSampler(dataset, shuffle=False)`, so rank r predicted the samples r, r +
        ranks, r + 2 · ranks and so on, and to make all shares equally long the sampler went on with the first samples
        of the dataset. `parts[r]` holds rank r's predictions, in this order: every part of one shape, `(share, ...)`.

        `merge_predictions(parts, count)` returns the predictions in the order of the dataset, each of its `count`
        samples once: shape `(count, ...)`, dtype as in the parts.
        """,
    hints=(
        "Write down, for 5 samples on 2 ranks, which sample each entry of each part belongs to. Where in this table "
        "are neighbouring samples?",
        "Step after step, the ranks take turns: torch.stack along axis 1 puts them side by side, flatten(0, 1) makes "
        "one axis of both, and what stands behind the first count entries are repetitions.",
    ),
)


@exercise.stub
def merge_predictions(parts: Sequence[Tensor], count: int) -> Tensor:
    """Return the predictions (count, ...) in the order of the dataset; parts holds one tensor (share, ...) a rank."""
    raise NotImplementedError


@exercise.reference
def side_by_side(parts, count):
    return torch.stack(tuple(parts), 1).flatten(0, 1)[:count]


@exercise.alternative
def written_to_their_places(parts, count):
    merged = parts[0].new_empty((count, *parts[0].shape[1:]))
    for rank, part in enumerate(parts):
        places = range(rank, count, len(parts))
        merged[rank :: len(parts)] = part[: len(places)]
    return merged


@exercise.alternative
def one_after_another(parts, count):
    return torch.stack([parts[sample % len(parts)][sample // len(parts)] for sample in range(count)])


@exercise.wrong(
    "Rank after rank: all of rank 0's samples come first. Compared with the dataset's labels, most predictions meet "
    "another sample's label."
)
def rank_after_rank(parts, count):
    return torch.cat(tuple(parts))[:count]


@exercise.wrong(
    "The order is right, but the repeated samples are still there, at the end. They count twice in every metric.",
    fault="sampler-duplicates-in-metric",
)
def repetitions_kept(parts, count):
    return torch.stack(tuple(parts), 1).flatten(0, 1)


@exercise.wrong(
    "Equal predictions are taken for repetitions. Two samples may well have the same prediction; what is repeated is "
    "known from the positions alone."
)
def only_different_ones(parts, count):
    return torch.stack(tuple(parts), 1).flatten(0, 1)[:count].unique(dim=0)


@exercise.wrong(
    "Everything after a whole number of rounds is cut off, which takes the last samples of the dataset along with the "
    "repetitions. Cut at the number of samples."
)
def the_last_round_dropped(parts, count):
    return torch.stack(tuple(parts), 1).flatten(0, 1)[: count // len(parts) * len(parts)]


@exercise.wrong(
    "Stacking along axis 0 and flattening keeps each rank's samples together, as concatenating does; the repetitions "
    "that belong to the earlier ranks stay, and the last rank loses samples. (Also where the predictions have axes of "
    "their own, these were flattened.)"
)
def stacked_the_other_way(parts, count):
    return torch.stack(tuple(parts)).flatten()[:count]


@exercise.wrong("Only rank 0's predictions are returned: every `ranks`-th sample.", fault="metric-not-reduced")
def rank_0_alone(parts, count):
    return parts[0]


@exercise.wrong(
    "The repetitions are cut from the front. The sampler appends them at the end: it is the first samples that come a "
    "second time there."
)
def cut_from_the_front(parts, count):
    merged = torch.stack(tuple(parts), 1).flatten(0, 1)
    return merged[len(merged) - count :]


def _parts(predictions, ranks):
    """What the ranks of a padded evaluation hold, of the predictions for the whole dataset."""
    count = len(predictions)
    each = -(-count // ranks)
    return [predictions[[(rank + step * ranks) % count for step in range(each)]] for rank in range(ranks)], count


@exercise.probe
def five_samples_on_two_ranks():
    return _parts(torch.tensor([50, 51, 52, 53, 54]), 2)


@exercise.probe
def seven_samples_on_four_ranks():
    return _parts(torch.arange(7) * 10, 4)


@exercise.probe
def equal_predictions():
    return _parts(torch.tensor([1, 0, 0, 1, 1, 0, 2]), 3)


@exercise.probe
def logits_of_four_classes():
    return _parts(torch.linspace(-1, 1, 20).reshape(5, 4), 3)


@exercise.probe
def without_repetitions():
    return _parts(torch.arange(6.0), 3)


@exercise.probe
def one_rank():
    return _parts(torch.arange(4), 1)


@exercise.probe
def fewer_samples_than_ranks():
    return _parts(torch.tensor([True, False]), 5)


@exercise.probe
def images_as_predictions():
    return _parts(torch.arange(5 * 2 * 3, dtype=torch.float64).reshape(5, 2, 3), 2)


@exercise.probe
def parts_in_a_tuple():
    parts, count = _parts(torch.arange(9), 2)
    return tuple(parts), count
