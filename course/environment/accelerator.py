"""The build of torch, and the two CUDA numbers that have to fit: the driver's and the runtime's."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import subprocess
import sys
import warnings
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from course.environment.installation import installed_versions, requirements
from course.environment.report import Finding

if TYPE_CHECKING:
    from packaging.requirements import Requirement

Version = tuple[int, int]
SELECTOR = "https://pytorch.org/get-started/locally/"
# Within one of these major versions a driver also runs runtimes of a later minor version.
FIRST_MAJOR_WITH_MINOR_COMPATIBILITY = 11


@dataclass(frozen=True)
class TorchBuild:
    """What the installed torch is.

    cuda, hip: version of the runtime it was built for, such as "13.0", or None; xpu: whether it is for Intel GPUs;
    gpus: how many NVIDIA or AMD GPUs it can use.
    """

    version: str
    cuda: str | None = None
    hip: str | None = None
    xpu: bool = False
    mps_built: bool = False
    mps_available: bool = False
    gpus: int = 0

    @property
    def kind(self) -> str:
        if self.cuda:
            return f"a build for NVIDIA GPUs, with the CUDA {self.cuda} runtime"
        if self.hip:
            return f"a build for AMD GPUs, with ROCm {self.hip}"
        if self.xpu:
            return "a build for Intel GPUs"
        return "a build for the CPU and Apple's GPU (MPS)" if self.mps_built else "a build for the CPU alone"

    @property
    def device(self) -> str:
        """What `choose_device()` takes: "cuda" (AMD GPUs too), "mps" or "cpu"."""
        return "cuda" if self.gpus else "mps" if self.mps_available else "cpu"


class TorchUnusable(Exception):
    """torch cannot be imported; the message says why."""


@cache
def read_torch() -> TorchBuild:
    """Look at the installed torch without starting CUDA. Raises TorchUnusable."""
    try:
        import torch
    except ModuleNotFoundError as error:
        missing = "torch is" if error.name == "torch" else f"torch needs {error.name}, which is"
        raise TorchUnusable(f"{missing} not installed") from error
    except Exception as error:
        raise TorchUnusable(f"torch is installed but cannot be loaded ({_first_line(error)})") from error
    with warnings.catch_warnings():  # A driver that is too old makes this warn; the finding says it in full.
        warnings.simplefilter("ignore")
        gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    # A torch that is too old for the course lacks some of these; that it is too old is for `judge_torch` to say.
    mps = getattr(torch.backends, "mps", None)
    return TorchBuild(
        version=str(torch.__version__),
        cuda=torch.version.cuda,
        hip=getattr(torch.version, "hip", None),
        xpu=getattr(torch.version, "xpu", None) is not None,
        mps_built=mps is not None and mps.is_built(),
        mps_available=mps is not None and mps.is_available(),
        gpus=gpus,
    )


def parse_version(text: str) -> Version:
    """ "12.8" -> (12, 8). Numbers compare as versions do; text ("9.2" > "10.2") and floats (12.10 = 12.1) do not."""
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def decode_version(number: int) -> Version:
    """12080, as cuDriverGetVersion has it, -> (12, 8)."""
    return number // 1000, number % 1000 // 10


def driver_is_new_enough(driver: Version, runtime: Version) -> bool:
    """Whether a driver that supports CUDA up to `driver` runs everything of a runtime: it must not be the smaller."""
    return driver >= runtime


def judge_torch(build: TorchBuild, requirement: Requirement | None) -> Finding:
    """requirement: what the course asks for, such as ``torch>=2.11``; None where that is not known."""
    value = f"{build.version}, {build.kind}"
    public = build.version.partition("+")[0]
    if requirement is not None and not requirement.specifier.contains(public, prereleases=True):
        remedy = f'`python -m pip install --upgrade "{requirement}" torchvision`, then restart Python.'
        return Finding("PyTorch", value, "problem", remedy)
    return Finding("PyTorch", value)


def judge_cuda(build: TorchBuild, driver: Version | None, visible: str | None = None) -> Finding:
    """Compare driver and runtime.

    driver: the highest CUDA version that the installed driver supports, None without an NVIDIA driver.
    visible: the environment variable CUDA_VISIBLE_DEVICES, which can hide GPUs.
    """
    name = "driver and CUDA"
    if build.cuda is None:
        if driver is None:
            return Finding(name, "no NVIDIA driver here, and this build of torch asks for none")
        value = f"the driver supports CUDA up to {_text(driver)}, but this build of torch has no CUDA"
        remedy = f"To use the NVIDIA GPU, install the build that {SELECTOR} names for CUDA {_text(driver)} or lower."
        return Finding(name, value, "note", remedy)
    if driver is None:
        value = f"torch brings CUDA {build.cuda}, but there is no NVIDIA driver: everything runs on the CPU"
        remedy = "Nothing to do without an NVIDIA GPU. With one, install its driver: pip cannot."
        return Finding(name, value, "note", remedy)
    value = f"the driver supports CUDA up to {_text(driver)}, torch brings {build.cuda}"
    runtime = parse_version(build.cuda)
    if not driver_is_new_enough(driver, runtime):
        return _older_driver(name, value, driver, runtime)
    if build.gpus:
        return Finding(name, f"{value}: they fit")
    hidden = f"CUDA_VISIBLE_DEVICES is set to {visible!r}. " if visible is not None else ""
    remedy = f"{hidden}Compare with `nvidia-smi -L`; after an update of the driver restart the machine."
    return Finding(name, f"{value}: they fit, but torch sees no GPU", "note", remedy)


def _older_driver(name: str, value: str, driver: Version, runtime: Version) -> Finding:
    same_major = driver[0] == runtime[0] >= FIRST_MAJOR_WITH_MINOR_COMPATIBILITY
    if same_major:
        value += ": the driver is older, which works within one major version, with limits"
        return Finding(name, value, "note", "Update the driver when an operation fails that should not.")
    remedy = (
        f"Update the NVIDIA driver, or install a build of torch for CUDA {_text(driver)} or lower ({SELECTOR}). "
        "Until then everything runs on the CPU."
    )
    return Finding(name, f"{value}: the driver is too old for this build", "note", remedy)


def judge_device(build: TorchBuild, names: tuple[str, ...] = ()) -> Finding:
    """names: of the GPUs, as the driver calls them."""
    if build.device == "cuda":
        return Finding("device", f"cuda: {', '.join(names) or f'{build.gpus} GPU(s)'}")
    if build.device == "mps":
        return Finding("device", "mps: Apple's GPU")
    return Finding("device", "cpu: enough for every lesson as shipped")


def judge_mps(build: TorchBuild, system: str, machine: str) -> Finding:
    """system, machine: as `platform` names them, such as "Darwin" and "arm64"."""
    if system != "Darwin":
        return Finding("MPS", "Apple's GPU interface; this is no Mac")
    if build.mps_available:
        return Finding("MPS", "available")
    if machine != "arm64":
        remedy = "On an Apple chip, install an arm64 Python: this one is made for Intel. Intel Macs use the CPU."
        return Finding("MPS", f"not available to a Python for {machine}", "note", remedy)
    remedy = "Update macOS." if build.mps_built else f"Install the build that {SELECTOR} names for macOS."
    return Finding("MPS", "not available", "note", remedy)


def torch() -> Finding:
    try:
        build = read_torch()
    except TorchUnusable as error:
        remedy = f"Install it with the command that {SELECTOR} gives for this machine, then restart Python."
        return Finding("PyTorch", str(error), "problem", remedy)
    return judge_torch(build, requirements().get("torch"))


def torchvision() -> Finding:
    """Torchvision is compiled against one version of torch; a pair that does not fit fails at its import."""
    read_torch()
    version = installed_versions(["torchvision"])["torchvision"]
    remedy = "`python -m pip install --upgrade torch torchvision`, from one place in one command."
    try:
        import torchvision  # noqa: F401
    except Exception as error:
        found = f"{version} cannot be loaded ({_first_line(error)})" if version else "torchvision is not installed"
        return Finding("torchvision", found, "problem", remedy)
    requirement = requirements().get("torchvision")
    if requirement is not None and not requirement.specifier.contains(str(version), prereleases=True):
        return Finding("torchvision", f"{version} does not meet {requirement.specifier}", "problem", remedy)
    return Finding("torchvision", f"{version}, fits the installed torch")


def cuda() -> Finding:
    return judge_cuda(read_torch(), driver_version(), os.environ.get("CUDA_VISIBLE_DEVICES"))


def device() -> Finding:
    return judge_device(read_torch(), gpu_names())


def mps() -> Finding:
    return judge_mps(read_torch(), platform.system(), platform.machine())


def driver_version() -> Version | None:
    """The highest CUDA version that the NVIDIA driver supports, from the driver itself, else from nvidia-smi."""
    library = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    number = ctypes.c_int(0)
    try:
        status = ctypes.CDLL(library).cuDriverGetVersion(ctypes.byref(number))
    except (OSError, AttributeError):
        status = None
    if status == 0 and number.value > 0:
        return decode_version(number.value)
    found = re.search(r"CUDA Version: (\d+\.\d+)", _nvidia_smi())
    return parse_version(found[1]) if found else None


def gpu_names() -> tuple[str, ...]:
    """Names and memory of the NVIDIA GPUs, from nvidia-smi; empty where there is none."""
    return tuple(_nvidia_smi("--query-gpu=name,memory.total", "--format=csv,noheader").splitlines())


def _nvidia_smi(*arguments: str) -> str:
    command = shutil.which("nvidia-smi")
    if command is None:
        return ""
    try:
        done = subprocess.run([command, *arguments], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _text(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
