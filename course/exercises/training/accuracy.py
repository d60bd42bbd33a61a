"""Lesson 05: top-k accuracy."""

from __future__ import annotations

import torch
from torch import Tensor

from course.checking import Exercise, no_python_loop

exercise = Exercise(
    "training.accuracy",
    title="Top-k accuracy",
    task="""
        A prediction is in the top k when the right class is among the k largest scores of its row.
        `topk_accuracy(logits, targets, k)` takes `logits` `(N, C)`, `targets` int64 `(N,)` and 1 <= k <= C, and returns
        the share of rows in the top k as a Python `float`. No scores are equal, and N is at least 1. Work on the whole
        batch at once.

        Example: the row `[0.1, 0.7, 0.2]` with target 2 is wrong for k = 1 and right for k = 2.
        """,
    hints=(
        "logits.topk(k, dim=...) returns values and indices. Which axis holds the classes, and what is the shape of "
        "the indices?",
        "Compare indices (N, k) with the targets as a column (N, 1), and ask for each row whether any of the k "
        "matches.",
    ),
    requires=(no_python_loop,),
)


@exercise.stub
def topk_accuracy(logits: Tensor, targets: Tensor, k: int) -> float:
    """Return the share of rows of logits (N, C) whose target, (N,), is among their k largest scores."""
    raise NotImplementedError


@exercise.reference
def by_topk(logits, targets, k):
    hits = logits.topk(k).indices == targets[:, None]
    return hits.sum().item() / len(targets)


@exercise.alternative
def by_rank(logits, targets, k):
    own = logits.gather(1, targets[:, None])
    rank = (logits > own).sum(1)
    return (rank < k).double().mean().item()


@exercise.alternative
def by_sorting(logits, targets, k):
    best = logits.argsort(dim=-1, descending=True)[:, :k]
    return best.eq(targets.unsqueeze(1)).any(dim=1).float().mean().item()


@exercise.wrong(
    "topk runs over axis 0 here, which is the batch: it tells for each class which rows score highest.",
    fault="argmax-wrong-axis",
)
def topk_over_the_batch(logits, targets, k):
    hits = logits.topk(min(k, len(logits)), dim=0).indices[0] == targets[0]
    return hits.sum().item() / len(targets)


@exercise.wrong("k is not used: only the largest score counts here. For k above 1 more predictions are right.")
def top_one_whatever_k(logits, targets, k):
    return (logits.argmax(1) == targets).sum().item() / len(targets)


@exercise.wrong(
    "The mean runs over all N * k comparisons, but only one of the k can match. A row is right as soon as one of its k "
    "matches: divide by the number of rows."
)
def mean_over_all_comparisons(logits, targets, k):
    return (logits.topk(k, dim=1).indices == targets[:, None]).double().mean().item()


@exercise.wrong(
    "The targets stay a row here. (N, k) against (N,) lines up the k best classes with k *different samples*, where "
    "the sizes happen to fit. Make the targets a column.",
    fault="broadcast-outer-product",
)
def targets_as_a_row(logits, targets, k):
    hits = logits.topk(k, dim=1).indices == targets
    return hits.sum().item() / len(targets)


@exercise.wrong("These are the k smallest scores. topk takes the largest unless it is told otherwise.")
def smallest_scores(logits, targets, k):
    hits = logits.topk(k, dim=1, largest=False).indices == targets[:, None]
    return hits.sum().item() / len(targets)


@exercise.wrong("Only the k-th largest score is compared. Being among the first k is enough, at any place.")
def only_the_kth_place(logits, targets, k):
    hits = logits.topk(k, dim=1).indices[:, -1] == targets
    return hits.sum().item() / len(targets)


@exercise.wrong("This is the number of rows in the top k. Their share is that number divided by N.")
def count_instead_of_share(logits, targets, k):
    return float((logits.topk(k, dim=1).indices == targets[:, None]).sum())


@exercise.wrong("The number is right, but it is still a tensor. The task asks for a Python float.")
def still_a_tensor(logits, targets, k):
    return (logits.topk(k, dim=1).indices == targets[:, None]).sum() / len(targets)


@exercise.wrong(
    "Hits are averaged in the dtype of the scores. With float16 or bfloat16 only a few digits of the share are left. "
    "Count the hits as integers, or average them in float32."
)
def mean_in_the_dtype_of_the_scores(logits, targets, k):
    hits = (logits.topk(k, dim=1).indices == targets[:, None]).any(dim=1)
    return hits.to(logits.dtype).mean().item()


@exercise.wrong(
    "The scores go through softmax before they are compared. It keeps their order, but scores that lie far apart come "
    "out as exactly 0 or 1, and equal ones cannot be ranked any more. Compare the scores as they are."
)
def compared_after_softmax(logits, targets, k):
    shares = logits.softmax(dim=1)
    last = shares.topk(k, dim=1).values[:, -1]
    return (shares.gather(1, targets[:, None])[:, 0] >= last).double().mean().item()


def scores(rows, classes):
    """Scores without ties, in a fixed order that looks random."""
    torch.manual_seed(4)
    return torch.randperm(rows * classes).reshape(rows, classes).float()


@exercise.probe
def top_two_of_five():
    return scores(6, 5), torch.tensor([0, 1, 2, 3, 4, 0]), 2


@exercise.probe
def top_one():
    logits = scores(7, 4)
    targets = logits.argmax(1)
    targets[:3] = (targets[:3] + 1) % 4
    return logits, targets, 1


@exercise.probe
def as_many_rows_as_places():
    return scores(3, 6), torch.tensor([4, 5, 1]), 3


@exercise.probe
def all_places():
    return scores(4, 3), torch.tensor([2, 0, 1, 1]), 3


@exercise.probe
def one_row():
    return torch.tensor([[0.1, 0.7, 0.2]]), torch.tensor([2]), 2


@exercise.probe
def right_ones_at_every_place():
    logits = scores(8, 5)
    order = logits.argsort(dim=1, descending=True)
    places = torch.tensor([0, 1, 2, 3, 4, 0, 2, 1])
    return logits, order.gather(1, places[:, None]).flatten(), 3


@exercise.probe
def scores_in_half_precision():
    return scores(7, 4).half(), torch.tensor([0, 3, 2, 1, 3, 0, 2]), 2


@exercise.probe
def scores_far_apart():
    return scores(6, 5) * 500, torch.tensor([0, 1, 2, 3, 4, 0]), 2
