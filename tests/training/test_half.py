from __future__ import annotations

import torch
from torch import nn

from course.training import half
from course.training.half import half_instructions, step_bytes, step_to_time, train_small


def layers():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def test_kept_bytes_are_activations_and_what_the_loss_keeps():
    # Inputs and hidden values in float32, log-probabilities, targets in int64 and the loss's total weight.
    assert step_bytes(layers(), torch.zeros(16, 4)) == 16 * 4 * 4 + 16 * 8 * 4 + 16 * 2 * 4 + 16 * 8 + 4


def test_under_autocast_activations_are_half_and_half_weights_are_kept():
    lower = step_bytes(layers(), torch.zeros(16, 4), torch.bfloat16)
    activations = 16 * 4 * 2 + 16 * 8 * 2
    assert lower == activations + 8 * 2 * 2 + 16 * 2 * 4 + 16 * 8 + 4


def test_a_step_trains_a_copy():
    model = layers()
    before = model[0].weight.clone()
    seen = []
    model.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    step = step_to_time(model, torch.ones(3, 4), torch.bfloat16)
    step()
    step_to_time(model, torch.ones(3, 4))()
    assert seen == [torch.bfloat16, torch.float32]
    assert torch.equal(model[0].weight, before)
    assert model[0].weight.grad is None


def test_instructions_come_from_the_first_cpu(monkeypatch, tmp_path):
    file = tmp_path / "cpuinfo"
    file.write_text("processor : 0\nflags : fpu amx_bf16 avx512_bf16 avx2\n\nprocessor : 1\nflags : avx512_fp16\n")
    monkeypatch.setattr(half, "CPUINFO", file)
    assert half_instructions() == ("avx512_bf16", "amx_bf16")
    file.write_text("Features : fp asimd asimdhp\n")
    assert half_instructions() == ("asimdhp",)
    file.write_text("nothing here\n")
    assert half_instructions() == ()


def test_a_system_that_does_not_tell(monkeypatch, tmp_path):
    monkeypatch.setattr(half, "CPUINFO", tmp_path / "absent")
    assert half_instructions() is None


def test_in_float32_the_size_of_the_loss_changes_nothing():
    sizes = [train_small(None, False, size, 80) for size in (1.0, 2.0**-20)]
    assert abs(sizes[0] - sizes[1]) < 1e-6
    assert sizes[0] < train_small(None, False, 1.0, 1) / 2


def test_float16_needs_the_scaler_for_a_small_loss_only():
    with_scaler, without = (train_small(torch.float16, scaled, 2.0**-20, 80) for scaled in (True, False))
    assert without > 3 * with_scaler
    assert train_small(torch.float16, False, 1.0, 80) < 1.5 * train_small(torch.float16, True, 1.0, 80)
    assert train_small(torch.bfloat16, False, 2.0**-20, 80) < 1.5 * with_scaler
