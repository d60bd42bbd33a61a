"""Makers of variants: what they change, what they keep, and that they compute nearly what the network computes."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

from course.deployment import int8
from course.environment.tools import compiler


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(8, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)]
    network = nn.Sequential(*layers).to(memory_format=torch.channels_last)
    network[1].running_mean.uniform_(-1, 1)
    network[1].running_var.uniform_(0.5, 2)
    return network.eval().requires_grad_(False)


@pytest.fixture(scope="module")
def images():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(70, 3, 32, 32, generator=generator).contiguous(memory_format=torch.channels_last)


@pytest.fixture(scope="module")
def converted(network, images):
    return int8.pt2e_int8(int8.fold_batch_norm(network), images, reduce_range=True)


def near(seen, wanted, share):
    assert seen.shape == wanted.shape
    assert (seen - wanted).abs().max() <= share * wanted.abs().max()


def test_folded_network_computes_the_same_and_the_original_stays(network, images):
    before = [tensor.clone() for tensor in network.state_dict().values()]
    folded = int8.fold_batch_norm(network)
    torch.testing.assert_close(folded(images), network(images), rtol=1e-4, atol=1e-5)
    assert isinstance(folded[1], nn.Identity)
    assert [name for name, _ in folded.named_children()] == [name for name, _ in network.named_children()]
    assert all(torch.equal(a, b) for a, b in zip(before, network.state_dict().values(), strict=True))
    assert isinstance(network[1], nn.BatchNorm2d)


def test_folding_wants_evaluation_mode():
    with pytest.raises(ValueError, match=r"network.eval\(\) first"):
        int8.fold_batch_norm(nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1)))


def test_folded_variant_names_the_norms_and_is_smaller(network):
    variant = int8.folded_float(network)
    assert variant.changed == ("1",)
    assert 0 < variant.size < int8.eager_float(network).size


def test_converted_graph_names_its_layers_and_takes_any_batch(network, images, converted):
    assert int8.int8_layers(converted) == ("0", "4", "8")
    with torch.no_grad():
        for n in (1, 5, 70):
            near(converted(images[:n]), network(images[:n]), 0.1)


def test_a_layer_can_be_left_in_float(network, images):
    skipped = int8.pt2e_int8(int8.fold_batch_norm(network), images, skip=("8",))
    assert int8.int8_layers(skipped) == ("0", "4")


def test_size_counts_what_the_graph_reads(network, converted):
    weights = sum(layer.weight.numel() for layer in (network[0], network[4], network[8]))
    assert weights < int8.graph_bytes(converted) < int8.saved_bytes(converted.state_dict())


def test_without_calibration_it_is_another_network(network, images, converted):
    blind = int8.pt2e_int8(int8.fold_batch_norm(network), None)
    wanted = network(images)
    with torch.no_grad():
        assert (blind(images) - wanted).abs().max() > 3 * (converted(images) - wanted).abs().max()


@pytest.mark.slow
def test_onnx_variants(network, images, tmp_path):
    exact = int8.onnx_float(network, tmp_path)
    small = int8.onnx_int8(network, images, tmp_path, reduce_range=True)
    assert exact.changed == ()
    assert small.changed == ("0", "4", "8")
    assert (tmp_path / "int8.onnx").stat().st_size == small.size
    for n in (1, 70):
        torch.testing.assert_close(exact.call(images[:n]), network(images[:n]), rtol=1e-3, atol=1e-4)
        near(small.call(images[:n]), network(images[:n]), 0.1)


@pytest.mark.slow
@pytest.mark.skipif(compiler().state != "ok", reason="inductor needs a C++ compiler")
def test_compiled_gives_what_the_graph_gives_and_stays_frozen(network, images, converted, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    variant = int8.compiled(converted)
    frozen = torch._inductor.config.freezing
    with torch.no_grad():
        wanted = converted(images[:64])
    for _ in range(2):
        near(variant.call(images[:64]), wanted, 0.05)
        torch.compiler.reset()
    assert torch._inductor.config.freezing == frozen
    assert variant.changed == ("0", "4", "8")


def test_quiet_puts_everything_back():
    import logging

    filters, disabled = list(warnings.filters), logging.root.manager.disable
    with int8.quiet():
        warnings.warn("must run observer before calling calculate_qparams. Returning default values.", stacklevel=1)
        assert logging.root.manager.disable == logging.WARNING
    assert (warnings.filters, logging.root.manager.disable) == (filters, disabled)


def test_errors_of_the_deprecated_api_are_one_sentence():
    def fails():
        warnings.warn("deprecated", DeprecationWarning, stacklevel=1)
        raise NotImplementedError("Could not run it. This could be because. And so on")

    with pytest.raises(NotImplementedError) as caught:
        int8.deprecated(fails)
    assert str(caught.value) == "Could not run it"
    assert int8.deprecated(lambda: 3) == 3
