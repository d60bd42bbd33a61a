from __future__ import annotations

import ctypes
import subprocess
import sys
import warnings
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement

from course.environment import accelerator
from course.environment.accelerator import (
    TorchBuild,
    TorchUnusable,
    decode_version,
    driver_is_new_enough,
    judge_cuda,
    judge_device,
    judge_mps,
    judge_torch,
    parse_version,
)

CPU = TorchBuild("2.14.1+cpu")
CUDA = TorchBuild("2.14.1+cu130", cuda="13.0")
CUDA_WITH_GPU = TorchBuild("2.14.1+cu130", cuda="13.0", gpus=1)
ROCM = TorchBuild("2.14.1+rocm7.0", hip="7.0.51831", gpus=2)
APPLE = TorchBuild("2.14.1", mps_built=True, mps_available=True)


@pytest.mark.parametrize(
    ("driver", "runtime", "enough"),
    [((13, 0), (13, 0), True), ((13, 1), (12, 8), True), ((12, 8), (13, 0), False), ((10, 2), (9, 2), True)],
)
def test_the_driver_must_not_be_the_smaller(driver, runtime, enough):
    assert driver_is_new_enough(driver, runtime) is enough


def test_versions_are_numbers():
    assert parse_version("12.10") > parse_version("12.9")
    assert parse_version("10.2") > parse_version("9.2")
    assert parse_version("12.8.1") == (12, 8)
    assert [decode_version(number) for number in (12080, 13000, 11010)] == [(12, 8), (13, 0), (11, 1)]


@pytest.mark.parametrize(
    ("build", "driver", "state", "words"),
    [
        (CPU, None, "ok", "asks for none"),
        (CPU, (13, 0), "note", "this build of torch has no CUDA"),
        (ROCM, None, "ok", "asks for none"),
        (CUDA, None, "note", "there is no NVIDIA driver"),
        (CUDA_WITH_GPU, (13, 0), "ok", "up to 13.0, torch brings 13.0: they fit"),
        (CUDA_WITH_GPU, (13, 1), "ok", "they fit"),
        (CUDA, (13, 1), "note", "but torch sees no GPU"),
        (CUDA, (12, 8), "note", "the driver is too old for this build"),
        (TorchBuild("2.12.0+cu128", cuda="12.8"), (12, 4), "note", "works within one major version, with limits"),
        (TorchBuild("1.8.0+cu102", cuda="10.2"), (10, 1), "note", "the driver is too old"),
    ],
)
def test_driver_against_runtime(build, driver, state, words):
    finding = judge_cuda(build, driver)
    assert (finding.state, bool(finding.remedy)) == (state, state != "ok")
    assert words in finding.value


def test_the_remedy_names_the_version_to_install():
    assert "CUDA 12.8 or lower" in judge_cuda(CUDA, (12, 8)).remedy
    assert "CUDA 12.4 or lower" in judge_cuda(CPU, (12, 4)).remedy
    assert "CUDA_VISIBLE_DEVICES is set to ''" in judge_cuda(CUDA, (13, 0), "").remedy


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (CPU, "a build for the CPU alone"),
        (CUDA, "NVIDIA GPUs, with the CUDA 13.0"),
        (ROCM, "AMD GPUs, with ROCm 7.0"),
        (APPLE, "Apple's GPU (MPS)"),
        (TorchBuild("2.14.1+xpu", xpu=True), "Intel GPUs"),
    ],
)
def test_builds_are_told_apart(build, words):
    assert words in judge_torch(build, None).value


@pytest.mark.parametrize(
    ("version", "state"),
    [("2.14.1+cpu", "ok"), ("2.11.0", "ok"), ("2.15.0a0+git123", "ok"), ("2.6.0+cu124", "problem")],
)
def test_an_old_torch_is_a_problem(version, state):
    finding = judge_torch(TorchBuild(version), Requirement("torch>=2.11"))
    assert (finding.state, "torch>=2.11" in finding.remedy) == (state, state == "problem")


def test_devices():
    assert judge_device(CPU).value.startswith("cpu")
    assert judge_device(APPLE).value.startswith("mps")
    assert judge_device(ROCM).value == "cuda: 2 GPU(s)"
    assert judge_device(CUDA_WITH_GPU, ("NVIDIA H200, 143771 MiB",)).value == "cuda: NVIDIA H200, 143771 MiB"


@pytest.mark.parametrize(
    ("build", "system", "machine", "state", "words"),
    [
        (CPU, "Linux", "x86_64", "ok", "no Mac"),
        (APPLE, "Darwin", "arm64", "ok", "available"),
        (TorchBuild("2.2.2", mps_built=True), "Darwin", "x86_64", "note", "arm64 Python"),
        (TorchBuild("2.14.1", mps_built=True), "Darwin", "arm64", "note", "Update macOS"),
        (CPU, "Darwin", "arm64", "note", "for macOS"),
    ],
)
def test_mps(build, system, machine, state, words):
    finding = judge_mps(build, system, machine)
    assert finding.state == state
    assert words in finding.value + finding.remedy


def test_the_installed_torch_is_read():
    import torch

    build = accelerator.read_torch()
    assert (build.version, build.cuda) == (torch.__version__, torch.version.cuda)
    assert accelerator.torch().state == accelerator.torchvision().state == "ok"
    assert not torch.cuda.is_initialized()
    for probe in (accelerator.cuda, accelerator.device, accelerator.mps):
        assert probe().state in ("ok", "note")


def test_torch_can_be_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    finding = accelerator.torch()
    assert (finding.state, finding.value) == ("problem", "torch is not installed")
    assert "pytorch.org/get-started" in finding.remedy
    for probe in (accelerator.cuda, accelerator.device, accelerator.mps, accelerator.torchvision):
        with pytest.raises(TorchUnusable):
            probe()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ImportError("libcudnn.so.9: cannot open shared object file\nmore"), "cannot be loaded (libcudnn.so.9: cannot"),
        (OSError(), "cannot be loaded (OSError)"),
        (RuntimeError("module compiled against another NumPy"), "cannot be loaded (module compiled"),
        (ModuleNotFoundError("no sympy", name="sympy"), "torch needs sympy, which is not installed"),
    ],
)
def test_torch_can_be_broken(monkeypatch, error, words):
    class Broken:
        def find_spec(self, name, *_):
            if name == "torch":
                raise error

    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    finding = accelerator.torch()
    assert finding.state == "problem"
    assert words in finding.value


def test_a_torch_of_long_ago(monkeypatch):
    old = SimpleNamespace(
        __version__="1.8.0+cu102",
        version=SimpleNamespace(cuda="10.2"),
        cuda=SimpleNamespace(is_available=lambda: False),
        backends=SimpleNamespace(),
    )
    monkeypatch.setitem(sys.modules, "torch", old)
    finding = accelerator.torch()
    assert finding.state == "problem"
    assert "1.8.0+cu102" in finding.value
    assert accelerator.mps().state == "ok"


def test_an_old_driver_s_warning_is_not_an_error(monkeypatch):
    import torch

    def is_available():
        warnings.warn("CUDA initialization: The NVIDIA driver on your system is too old", UserWarning, stacklevel=2)
        return False

    monkeypatch.setattr(torch.cuda, "is_available", is_available)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert accelerator.read_torch().gpus == 0


def test_torchvision_can_be_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.setattr(accelerator, "installed_versions", lambda names: dict.fromkeys(names))
    finding = accelerator.torchvision()
    assert (finding.state, finding.value) == ("problem", "torchvision is not installed")


def test_torchvision_can_be_made_for_another_torch(monkeypatch):
    class Unfit:
        def find_spec(self, name, *_):
            if name == "torchvision":
                raise RuntimeError("operator torchvision::nms does not exist")

    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Unfit(), *sys.meta_path])
    finding = accelerator.torchvision()
    assert finding.state == "problem"
    assert "operator torchvision::nms does not exist" in finding.value
    assert "torch torchvision" in finding.remedy


def test_torchvision_can_be_too_old(monkeypatch):
    monkeypatch.setattr(accelerator, "installed_versions", lambda names: dict.fromkeys(names, "0.15.0"))
    assert accelerator.torchvision().value == "0.15.0 does not meet >=0.26"


def planted_driver(monkeypatch, status: int, number: int) -> None:
    def get(pointer):
        pointer._obj.value = number
        return status

    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(cuDriverGetVersion=get))


def no_driver_library(monkeypatch) -> None:
    def missing(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)


def planted_smi(monkeypatch, output: str | Exception, code: int = 0) -> list[list[str]]:
    calls = []

    def run(command, **_):
        calls.append(command)
        if isinstance(output, Exception):
            raise output
        return SimpleNamespace(stdout=output, returncode=code)

    monkeypatch.setattr(accelerator.shutil, "which", lambda name: name)
    monkeypatch.setattr(accelerator.subprocess, "run", run)
    return calls


SMI = "| NVIDIA-SMI 550.144.03   Driver Version: 550.144.03   CUDA Version: 12.4     |\n"


def test_the_driver_is_asked_itself(monkeypatch):
    planted_driver(monkeypatch, 0, 12080)
    calls = planted_smi(monkeypatch, SMI)
    assert accelerator.driver_version() == (12, 8)
    assert calls == []


@pytest.mark.parametrize(("status", "number"), [(34, 12080), (0, 0)])
def test_a_library_that_is_a_stub_does_not_count(monkeypatch, status, number):
    planted_driver(monkeypatch, status, number)
    planted_smi(monkeypatch, SMI)
    assert accelerator.driver_version() == (12, 4)


@pytest.mark.parametrize(
    ("output", "code"),
    [("", 0), (SMI, 9), (OSError("no"), 0), (subprocess.TimeoutExpired("nvidia-smi", 20), 0)],
)
def test_no_driver(monkeypatch, output, code):
    no_driver_library(monkeypatch)
    planted_smi(monkeypatch, output, code)
    assert accelerator.driver_version() is None
    assert accelerator.gpu_names() == ()


def test_no_nvidia_smi(monkeypatch):
    no_driver_library(monkeypatch)
    monkeypatch.setattr(accelerator.shutil, "which", lambda name: None)
    assert accelerator.driver_version() is None


def test_names_of_gpus(monkeypatch):
    planted_smi(monkeypatch, "NVIDIA A, 10 MiB\nNVIDIA B, 20 MiB\n")
    assert accelerator.gpu_names() == ("NVIDIA A, 10 MiB", "NVIDIA B, 20 MiB")
