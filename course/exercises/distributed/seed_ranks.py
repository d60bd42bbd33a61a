"""Lesson 11: one seed for the weights, another for each rank's noise."""

from __future__ import annotations

import random
from collections.abc import Callable
from unittest import mock

import torch
from torch import nn

from course.checking import Exercise

exercise = Exercise(
    "distributed.seed_ranks",
    title="Equal weights, different noise",
    task="""
        Every rank calls `start_rank(build, seed, rank, ranks)` once, at its start. `build()` returns a new `nn.Module`
        whose weights it draws from torch's global generator. Return that module, so that

        - the initial weights are the same on every rank, and another `seed` gives other weights;
        - what a rank draws from torch's **global** generator afterwards (dropout, augmentation) differs from what every
          other rank draws, and from what any rank of a run with **another seed** draws: ranks 0 and 1 of a run with
          seed 7 share nothing with ranks 0 and 1 of a run with seed 8;
        - the same seed and rank give the same weights and the same draws again, whatever was drawn before the call.

        All runs have `ranks` ranks. `seed` is 0 or a small positive number.
        """,
    hints=(
        "There are two moments: before build(), and after it. Which of them may know the rank?",
        "Seed with the run's seed, build, seed again. For the second you need one number for each pair (seed, rank): "
        "think of rows of `ranks` numbers. seed + rank gives (7, 1) and (8, 0) the same.",
    ),
)


@exercise.stub
def start_rank(build: Callable[[], nn.Module], seed: int, rank: int, ranks: int) -> nn.Module:
    """Return a module with the run's initial weights, and leave the global generator seeded for this rank."""
    raise NotImplementedError


@exercise.reference
def seeded_twice(build, seed, rank, ranks):
    torch.manual_seed(seed)
    model = build()
    torch.manual_seed(seed * ranks + rank)
    return model


@exercise.alternative
def a_number_drawn_for_each_rank(build, seed, rank, ranks):
    draws = random.Random(seed)
    numbers = [draws.getrandbits(60) for _ in range(ranks + 1)]
    torch.manual_seed(numbers[-1])
    model = build()
    torch.manual_seed(numbers[rank])
    return model


@exercise.alternative
def far_apart(build, seed, rank, ranks):
    torch.manual_seed(seed)
    model = build()
    torch.random.default_generator.manual_seed((seed + 1) * 1_000_003 + rank)
    return model


@exercise.wrong(
    "Every rank draws the same noise: the seed does not know the rank. Eight ranks then see one augmentation and one "
    "dropout mask, eight times.",
    fault="same-seed-on-all-ranks",
)
def one_seed_for_all(build, seed, rank, ranks):
    torch.manual_seed(seed)
    return build()


@exercise.wrong(
    "The rank enters the seed before the model is built, so each rank starts from other weights. DDP hides it by "
    "sending rank 0's weights to all; FSDP, or averaging by hand, does not."
)
def rank_before_build(build, seed, rank, ranks):
    torch.manual_seed(seed * ranks + rank)
    return build()


@exercise.wrong(
    "Rank 1 of a run draws what rank 0 of the run with the next seed draws. Runs that are repeated with seeds 0, 1, 2 "
    "to measure their spread then share most of their noise."
)
def seed_plus_rank(build, seed, rank, ranks):
    torch.manual_seed(seed)
    model = build()
    torch.manual_seed(seed + rank)
    return model


@exercise.wrong("Only the rank is in the second seed: runs with different seeds have the same noise.")
def only_the_rank(build, seed, rank, ranks):
    torch.manual_seed(seed)
    model = build()
    torch.manual_seed(rank)
    return model


@exercise.wrong(
    "torch.seed() takes its number from the operating system. The ranks differ, but no run can be repeated."
)
def seeded_by_the_system(build, seed, rank, ranks):
    torch.manual_seed(seed)
    model = build()
    torch.seed()
    return model


@exercise.wrong(
    "The seed for the weights is fixed, so the run's seed does not reach them: every run starts from the same network."
)
def weights_always_the_same(build, seed, rank, ranks):
    torch.manual_seed(0)
    model = build()
    torch.manual_seed(seed * ranks + rank)
    return model


@exercise.wrong(
    "The factor is fixed, and a job may have more ranks than that: rank 100 of a run with seed 0 draws what rank 0 of "
    "a run with seed 1 draws. Multiply by `ranks`."
)
def a_fixed_factor(build, seed, rank, ranks):
    torch.manual_seed(seed)
    model = build()
    torch.manual_seed(100 * seed + rank)
    return model


@exercise.wrong(
    "All ranks stay in one stream of numbers, each a few further on: what rank 0 draws second is what rank 1 draws "
    "first. Give each rank a seed of its own."
)
def a_few_numbers_ahead(build, seed, rank, ranks):
    torch.manual_seed(seed * ranks)
    model = build()
    for _ in range(rank):
        torch.rand(1)
    return model


@exercise.wrong(
    "`hash` of text differs from one process to the next, so the same seed and rank draw something else when the job "
    "starts again. Hash with hashlib, or compute with the numbers themselves."
)
def by_the_hash_of_text(build, seed, rank, ranks):
    torch.manual_seed(seed)
    model = build()
    torch.manual_seed(hash(f"{seed}/{rank}") % 2**31)
    return model


@exercise.wrong(
    "Nothing is seeded before build(): the weights depend on what was drawn earlier, and on separate processes each "
    "rank gets its own."
)
def weights_not_seeded(build, seed, rank, ranks):
    model = build()
    torch.manual_seed(seed * ranks + rank)
    return model


def _network():
    return nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2))


def _start(answer, seed, rank, ranks, before=0):
    """Weights and noise of a rank that was at some other place of the global generator before."""
    torch.manual_seed(1_000_000_007 + 101 * before + rank)
    random.seed(before)
    model = answer(_network, seed, rank, ranks)
    return torch.cat([p.detach().flatten() for p in model.parameters()]), torch.rand(8)


def _all_differ(draws):
    return len({tuple(draw.tolist()) for draw in draws}) == len(draws)


@exercise.probe
def weights_are_equal_on_all_ranks(answer):
    weights = [_start(answer, 5, rank, 4)[0] for rank in range(4)]
    return [torch.equal(weights[0], other) for other in weights]


@exercise.probe
def another_seed_gives_other_weights(answer):
    return _all_differ([_start(answer, seed, 1, 2)[0] for seed in range(6)])


@exercise.probe
def ranks_draw_different_noise(answer):
    return _all_differ([_start(answer, 3, rank, 6)[1] for rank in range(6)])


@exercise.probe
def neighbouring_runs_share_nothing(answer):
    return _all_differ([_start(answer, seed, rank, 4)[1] for seed in range(6) for rank in range(4)])


@exercise.probe
def runs_differ_on_rank_0(answer):
    return _all_differ([_start(answer, seed, 0, 3)[1] for seed in (0, 1, 2, 3, 10, 100, 12_345)])


@exercise.probe
def two_ranks_and_many_runs(answer):
    return _all_differ([_start(answer, seed, rank, 2)[1] for seed in range(40) for rank in range(2)])


@exercise.probe
def a_thousand_ranks(answer):
    """A seed times 10, 100 or 1000 plus the rank comes twice."""
    pairs = [(0, 0), (1, 0), (2, 0), (3, 0), (0, 10), (0, 16), (0, 32), (0, 64), (0, 100), (0, 128), (0, 256), (0, 512)]
    return _all_differ([_start(answer, seed, rank, 1024)[1] for seed, rank in [*pairs, (0, 1000), (1, 1000), (2, 100)]])


@exercise.probe
def no_rank_is_ahead_in_the_stream_of_another(answer):
    draws = [torch.cat([_start(answer, 3, rank, 6)[1], torch.rand(12)]).tolist() for rank in range(6)]
    return len({tuple(draw[i : i + 4]) for draw in draws for i in range(16)})


def _another_salt(value, hashed=hash):
    """What hash might give in another process, where text has another salt and numbers have the same hash."""
    parts = value if isinstance(value, tuple) else (value,)
    return hashed(("salt", value)) if any(isinstance(part, (str, bytes)) for part in parts) else hashed(value)


@exercise.probe
def the_same_in_another_process(answer):
    here = _start(answer, 2, 1, 2)
    with mock.patch("builtins.hash", _another_salt):
        there = _start(answer, 2, 1, 2)
    return [torch.equal(one, other) for one, other in zip(here, there)]


@exercise.probe
def weights_come_again(answer):
    return torch.equal(_start(answer, 2, 1, 2, before=1)[0], _start(answer, 2, 1, 2, before=2)[0])


@exercise.probe
def noise_comes_again(answer):
    return torch.equal(_start(answer, 2, 1, 2, before=1)[1], _start(answer, 2, 1, 2, before=2)[1])


@exercise.probe
def the_module_is_the_one_that_was_built(answer):
    built = []

    def build():
        built.append(_network())
        return built[-1]

    return answer(build, 1, 0, 2) is built[-1], len(built)
