from __future__ import annotations

import random

import numpy
import torch

from course.training.seed import seed_everything


def draws(generator):
    return random.random(), numpy.random.rand(), torch.rand(1).item(), torch.rand(1, generator=generator).item()


def test_equal_seeds_give_equal_numbers_everywhere():
    first, second, other = draws(seed_everything(3)), draws(seed_everything(3)), draws(seed_everything(4))
    assert first == second
    assert all(a != b for a, b in zip(first, other, strict=True))


def test_the_order_of_the_data_does_not_depend_on_what_the_model_drew():
    generator = seed_everything(0)
    alone = torch.randperm(10, generator=generator)
    generator = seed_everything(0)
    torch.rand(1000)
    assert torch.equal(torch.randperm(10, generator=generator), alone)


def test_large_seeds_fit_numpy():
    seed_everything(2**40 + 1)
