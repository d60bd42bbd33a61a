"""Lesson 07: an order that can be found again at any position."""

from __future__ import annotations

import random
from unittest import mock

import numpy as np
import torch

from course.checking import Exercise

exercise = Exercise(
    "checkpoints.ordered_batches",
    title="An order that can be found again",
    task="""
        `batches_from(size, batch_size, seed, epoch, position)` returns the batches of an epoch that are still to come,
        as lists of indices: those after the first `position` batches.

        - An epoch holds each index from 0 to `size` - 1 once, shuffled. The last batch may be shorter.
        - The order depends on `(seed, epoch)` and on nothing else: not on the generators of the process, and not on
          `position`. The global generators of torch, NumPy and `random` stay as they are.
        - Another epoch has another order, and so has another seed. Pairs are told apart: (0, 1) and (1, 0) differ, and
          so do (0, 1000) and (1, 0).

        Which orders you draw is yours; the check looks at these properties.
        """,
    hints=(
        "Shuffle all indices with a generator of its own, cut them into batches, and leave out the first ones. How do "
        "two numbers become one seed? `seed + epoch` makes (0, 1) and (1, 0) the same.",
        "np.random.default_rng takes a sequence of integers as its seed, and has a permutation(size) method. (On the "
        "CPU torch.Generator uses only the low 32 bits of the number that manual_seed is given.)",
    ),
    random=True,
)


@exercise.stub
def batches_from(size: int, batch_size: int, seed: int, epoch: int, position: int) -> list[list[int]]:
    """Return the batches of the epoch from number `position` on, each a list of indices."""
    raise NotImplementedError


@exercise.reference
def order_of_a_pair(size, batch_size, seed, epoch, position):
    order = np.random.default_rng((seed, epoch)).permutation(size).tolist()
    return [order[start : start + batch_size] for start in range(position * batch_size, size, batch_size)]


@exercise.alternative
def by_a_text_as_seed(size, batch_size, seed, epoch, position):
    order = list(range(size))
    random.Random(f"seed {seed}, epoch {epoch}").shuffle(order)
    batches = [order[start : start + batch_size] for start in range(0, size, batch_size)]
    return batches[position:]


@exercise.alternative
def by_a_torch_generator(size, batch_size, seed, epoch, position):
    mixed = random.Random(f"{seed}/{epoch}").getrandbits(32)
    order = torch.randperm(size, generator=torch.Generator().manual_seed(mixed))
    return [batch.tolist() for batch in order.split(batch_size)][position:] if size else []


@exercise.wrong(
    "`seed + epoch` gives epoch 1 of seed 0 the order of epoch 0 of seed 1. Runs with neighbouring seeds, made to be "
    "compared, then see the same orders.",
    fault="seed-incomplete",
)
def seed_plus_epoch(size, batch_size, seed, epoch, position):
    generator = torch.Generator().manual_seed(seed + epoch)
    order = torch.randperm(size, generator=generator).tolist()
    return [order[start : start + batch_size] for start in range(position * batch_size, size, batch_size)]


@exercise.wrong(
    "The epoch is not used: every epoch has the same order. The network meets the same batches again and again."
)
def same_order_each_epoch(size, batch_size, seed, epoch, position):
    order = np.random.default_rng(seed).permutation(size).tolist()
    return [order[start : start + batch_size] for start in range(position * batch_size, size, batch_size)]


@exercise.wrong(
    "The seed goes high into the bits of a number for torch.Generator.manual_seed, which uses only the low 32 bits on "
    "the CPU: every seed has the same orders.",
    fault="seed-incomplete",
)
def seed_in_the_high_bits(size, batch_size, seed, epoch, position):
    generator = torch.Generator().manual_seed((seed << 32) + epoch)
    order = torch.randperm(size, generator=generator).tolist()
    return [order[start : start + batch_size] for start in range(position * batch_size, size, batch_size)]


@exercise.wrong(
    "The order is drawn from torch's global generator. It depends on whatever was drawn before, and a resumed run has "
    "another one.",
    fault="seed-incomplete",
)
def from_the_global_generator(size, batch_size, seed, epoch, position):
    order = torch.randperm(size).tolist()
    return [order[start : start + batch_size] for start in range(position * batch_size, size, batch_size)]


@exercise.wrong(
    "The global generator is seeded to draw the order. Dropout and augmentation draw from it too: they now repeat the "
    "same numbers after each call.",
    fault="seed-incomplete",
)
def seeds_the_global_generator(size, batch_size, seed, epoch, position):
    torch.manual_seed(1_000_003 * seed + epoch)
    order = torch.randperm(size).tolist()
    return [order[start : start + batch_size] for start in range(position * batch_size, size, batch_size)]


@exercise.wrong(
    "`position` counts batches, and here it skips samples: after a restart most of the epoch comes a second time."
)
def position_in_samples(size, batch_size, seed, epoch, position):
    order = np.random.default_rng((seed, epoch)).permutation(size).tolist()[position:]
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]


@exercise.wrong(
    "The remaining indices are those of an order that was not shuffled: after a restart some samples come twice in the "
    "epoch and others never."
)
def reshuffles_the_rest(size, batch_size, seed, epoch, position):
    rest = torch.arange(position * batch_size, size).tolist()
    random.Random(f"{seed}/{epoch}").shuffle(rest)
    return [rest[start : start + batch_size] for start in range(0, len(rest), batch_size)]


@exercise.wrong(
    "`hash` of text differs from one process to the next. Within this one the orders repeat; after a restart the "
    "resumed run gets other orders. Hash with hashlib, or seed `random.Random` with the text itself.",
    fault="seed-incomplete",
)
def by_the_hash_of_text(size, batch_size, seed, epoch, position):
    order = list(range(size))
    random.Random(hash(f"{seed}/{epoch}")).shuffle(order)
    return [order[start : start + batch_size] for start in range(position * batch_size, size, batch_size)]


@exercise.wrong("The last, shorter batch is left out. Its samples are never seen in this epoch.")
def drops_the_last(size, batch_size, seed, epoch, position):
    order = np.random.default_rng((seed, epoch)).permutation(size).tolist()
    full = size - size % batch_size
    return [order[start : start + batch_size] for start in range(position * batch_size, full, batch_size)]


@exercise.wrong("The indices are not shuffled: each epoch runs through the data in the order in which they lie.")
def unshuffled(size, batch_size, seed, epoch, position):
    order = list(range(size))
    return [order[start : start + batch_size] for start in range(position * batch_size, size, batch_size)]


def batches(answer, *arguments):
    """The answer's batches as lists of ints, from generators that hold other numbers each time."""
    batches.calls += 1
    torch.manual_seed(batches.calls)
    random.seed(batches.calls)
    np.random.seed(batches.calls)
    return [[int(i) for i in batch] for batch in answer(*arguments)]


batches.calls = 0


@exercise.probe
def each_index_once(answer):
    result = batches(answer, 10, 3, 1, 2, 0)
    flat = sorted(i for batch in result for i in batch)
    return flat, [len(batch) for batch in result]


@exercise.probe
def batches_of_equal_size(answer):
    return [len(batch) for batch in batches(answer, 12, 4, 1, 2, 0)], [len(b) for b in batches(answer, 3, 8, 0, 0, 0)]


@exercise.probe
def it_is_shuffled(answer):
    flat = [i for batch in batches(answer, 40, 8, 1, 2, 0) for i in batch]
    return flat != sorted(flat), flat != sorted(flat, reverse=True)


@exercise.probe
def the_same_each_time(answer):
    return batches(answer, 40, 8, 1, 2, 0) == batches(answer, 40, 8, 1, 2, 0)


def another_salt(value, hashed=hash):
    """What hash might give in another process, where text has another salt and numbers have the same hash."""
    parts = value if isinstance(value, tuple) else (value,)
    return hashed(("salt", value)) if any(isinstance(part, (str, bytes)) for part in parts) else hashed(value)


@exercise.probe
def the_same_in_another_process(answer):
    whole = batches(answer, 40, 8, 1, 2, 0)
    with mock.patch("builtins.hash", another_salt):
        return batches(answer, 40, 8, 1, 2, 0) == whole


@exercise.probe
def later_positions(answer):
    whole = batches(answer, 22, 4, 1, 2, 0)
    return [batches(answer, 22, 4, 1, 2, position) == whole[position:] for position in range(7)]


@exercise.probe
def at_the_end(answer):
    return batches(answer, 22, 4, 1, 2, 6), batches(answer, 20, 4, 1, 2, 5), batches(answer, 0, 4, 1, 2, 0)


@exercise.probe
def other_epochs(answer):
    orders = [str(batches(answer, 40, 40, 1, epoch, 0)) for epoch in range(8)]
    return len(set(orders))


@exercise.probe
def other_seeds(answer):
    orders = [str(batches(answer, 40, 40, seed, 1, 0)) for seed in range(8)]
    return len(set(orders))


@exercise.probe
def pairs_are_told_apart(answer):
    pairs = [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1), (0, 1000), (3, 5), (5, 3), (12, 3), (1, 23)]
    pairs += [(0, 8), (8, 0), (0, 32), (0, 40), (0, 64), (0, 100), (0, 128), (0, 256), (0, 1024), (0, 10_000)]
    return len({str(batches(answer, 40, 40, *pair, 0)) for pair in pairs})


@exercise.probe
def generators_stay_as_they_are(answer):
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    answer(40, 8, 1, 2, 1)
    drawn = [torch.rand(1).item(), random.random(), np.random.rand()]
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    return [one == other for one, other in zip(drawn, [torch.rand(1).item(), random.random(), np.random.rand()])]
