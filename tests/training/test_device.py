from __future__ import annotations

import pytest
import torch

from course.training.device import DeviceUnavailable, available_devices, choose_device


@pytest.fixture
def machine(monkeypatch):
    """Pretend which accelerators there are."""

    def pretend(cuda: int = 0, mps: bool = False) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    return pretend


@pytest.mark.parametrize(
    ("cuda", "mps", "expected"), [(0, False, "cpu"), (0, True, "mps"), (1, False, "cuda"), (2, True, "cuda")]
)
def test_auto_takes_cuda_then_mps_then_cpu(machine, cuda, mps, expected):
    machine(cuda, mps)
    assert choose_device() == choose_device("auto") == torch.device(expected)


def test_named_devices(machine):
    machine(cuda=2)
    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device("cuda") == torch.device("cuda")
    assert choose_device("cuda:1") == torch.device("cuda:1")
    assert choose_device(torch.device("cuda", 0)) == torch.device("cuda:0")
    assert available_devices() == ("cpu", "cuda")


@pytest.mark.parametrize("wanted", ["cuda", "cuda:0", "mps"])
def test_absent_device_says_what_is_there(machine, wanted):
    machine()
    with pytest.raises(DeviceUnavailable, match=f"^{wanted} was asked for; this machine offers cpu"):
        choose_device(wanted)


def test_index_beyond_the_last(machine):
    machine(cuda=2)
    with pytest.raises(DeviceUnavailable, match="the cuda devices here are 0 to 1"):
        choose_device("cuda:2")


@pytest.mark.parametrize("wanted", ["gpu", "banana", "", "meta"])
def test_unknown_names_list_the_valid_ones(wanted):
    with pytest.raises(ValueError, match="use auto, cpu, cuda, mps"):
        choose_device(wanted)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_where_there_is_one():
    assert choose_device("auto").type == "cuda"
    assert torch.zeros(1, device=choose_device("cuda")).is_cuda
