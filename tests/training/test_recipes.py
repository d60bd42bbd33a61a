from __future__ import annotations

import pytest
import torch
from torch import nn

from course.data import ImageTensors
from course.data.alternating import AlternatingBatches
from course.training.recipes import RECIPES, Recipe, accuracy_with_mirror, train_recipe


def images(count=20, seed=0):
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (count, 3, 32, 32), dtype=torch.uint8, generator=generator)
    return ImageTensors(pixels, torch.arange(count) % 10)


class Brightness(nn.Module):
    """Logits that depend on which half of an image is brighter: of class 0, or of class 1 with twice the weight."""

    def forward(self, x):
        left, right = x[..., :16].mean((1, 2, 3)), x[..., 16:].mean((1, 2, 3))
        return torch.stack([left, 1.5 * right], dim=1)


def test_accuracy_counts_the_sum_of_both_sides():
    pixels = torch.zeros(6, 3, 32, 32, dtype=torch.uint8)
    pixels[..., :16] = 200  # alone: class 0; together with the mirror image: class 1
    data = ImageTensors(pixels, torch.tensor([1, 1, 1, 1, 0, 0]))
    network = Brightness().train()
    assert accuracy_with_mirror(network, data.batches(4, transform=torch.Tensor.float)) == pytest.approx(4 / 6)
    assert network.training


def train(recipe, data, **options):
    def prepare(batch):
        return (batch.float() - 128) / 64

    generator = torch.Generator().manual_seed(recipe.seed)
    batches = AlternatingBatches(data, recipe.batch_size, recipe.padding, generator, prepare)
    return train_recipe(recipe, batches, data.batches(32, transform=prepare), prepare(data.images), **options)


def test_a_recipe_learns_reports_each_epoch_and_repeats():
    data = images(64)
    data.images[data.targets < 5] //= 8  # dark classes and light ones
    data.targets.copy_(data.targets // 5)
    recipe = Recipe(goal=0.9, widths=(24, 24, 24), epochs=3, batch_size=16, seed=4)
    said = []
    network, epochs = train(recipe, data, after_epoch=said.append)
    assert epochs == said
    assert [epoch.number for epoch in epochs] == [1, 2, 3]
    assert epochs[-1].accuracy > 0.9
    assert 0 < epochs[0].cpu < epochs[1].cpu < epochs[2].cpu
    assert 0 < epochs[0].seconds < epochs[1].seconds < epochs[2].seconds
    again, others = train(recipe, data)
    assert [epoch.accuracy for epoch in others] == [epoch.accuracy for epoch in epochs]
    for key, value in network.state_dict().items():
        assert torch.equal(value, again.state_dict()[key])


def test_autocast_reaches_the_network_and_not_the_weights():
    data = images(32)
    seen = []
    recipe = Recipe(goal=0.9, widths=(24, 24, 24), epochs=1, batch_size=32)
    hook = torch.nn.modules.module.register_module_forward_hook(
        lambda module, _, out: seen.append((type(module), out.dtype))
    )
    try:
        network, _ = train(recipe, data, autocast=torch.bfloat16)
    finally:
        hook.remove()
    assert (nn.Conv2d, torch.bfloat16) in seen
    assert {parameter.dtype for parameter in network.parameters()} == {torch.float32}


def test_recipes_say_what_they_are_for():
    for name, recipe in RECIPES.items():
        assert name == f"{100 * recipe.goal:.0f} %"
