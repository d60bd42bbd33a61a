"""Texts that faults of the topic environment leave."""

from __future__ import annotations

import re

from course.doctor.explain.errors import ParsedError
from course.doctor.explain.rules import Rule, Seen

_BUILD = "cpu-build-installed"


def _too_old(error: ParsedError, match: re.Match[str]) -> Seen:
    found = re.search(r"found version (\d{4,5})", error.flat)
    if not found:
        return Seen(why="The driver of this machine is older than the CUDA runtime that torch brings.")
    number = int(found[1])
    return Seen(
        why=(
            f"The driver of this machine supports CUDA {number // 1000}.{number % 1000 // 10} at "
            f"most; the runtime is newer."
        )
    )


def _says(why: str):
    return lambda error, match: Seen(why=why)


_NO_CUDA = _says("This torch is built without CUDA.")
_NO_DRIVER = _says("torch finds no working NVIDIA driver.")

RULES: tuple[Rule, ...] = (
    Rule(_BUILD, r"Torch not compiled with (?:CUDA|XPU|ROCm|MPS|\w+) enabled", confidence=0.97, look=_NO_CUDA),
    Rule(_BUILD, r"PyTorch (?:is|was) not linked with support for \w+ devices", confidence=0.95, look=_NO_CUDA),
    Rule(
        _BUILD,
        r"Could not run 'aten::empty\S{0,60}' with arguments from the '(?:CUDA|HIP|XPU|MPS)' backend",
        confidence=0.9,
        look=_NO_CUDA,
    ),
    Rule(
        _BUILD,
        r"Could not run 'torchvision::\w+' with arguments from the 'CUDA' backend",
        confidence=0.85,
        look=_says("This torchvision is built without CUDA, although the tensors are on a GPU."),
    ),
    Rule(_BUILD, r"Not compiled with (?:CUDA|GPU) support", confidence=0.75, look=_NO_CUDA),
    Rule(_BUILD, r"Found no NVIDIA driver on your system", confidence=0.95, look=_NO_DRIVER),
    Rule(_BUILD, r"NVIDIA driver on your system is too old", confidence=0.97, look=_too_old),
    Rule(_BUILD, r"CUDA driver version is insufficient for CUDA runtime version", confidence=0.97, look=_too_old),
    Rule(_BUILD, r"provided PTX was compiled with an unsupported toolchain", confidence=0.9, look=_too_old),
    Rule(
        _BUILD,
        (
            r"unsupported display driver ?/ ?cuda driver combination"
            r"|forward compatibility was attempted on non supported HW"
        ),
        confidence=0.9,
        look=_says("The driver's parts and the CUDA runtime do not belong together."),
    ),
    Rule(
        _BUILD,
        (
            r"no kernel image is available for execution on the device"
            r"|is not compatible with the current PyTorch installation"
        ),
        confidence=0.75,
        look=_says("This torch holds no code for the GPU's compute capability: it is a build for other GPUs."),
    ),
    Rule(_BUILD, r"No CUDA GPUs are available|Cannot access accelerator device when none is available", confidence=0.7),
    Rule(_BUILD, r"CUDA initialization: (?!CUDA unknown error)", confidence=0.7, look=_NO_DRIVER),
    Rule(_BUILD, r"device_type of 'cuda', but CUDA is not available", confidence=0.8),
    Rule(_BUILD, r"GradScaler is enabled, but CUDA is not available", confidence=0.7),
    Rule(_BUILD, r"argument is set as true but no accelerator is found", confidence=0.6),
    Rule(
        _BUILD,
        r"lib(?:cudart|cublas|cudnn|nvrtc|cusparse|nccl)[\w.\-]{0,40}: cannot open shared object file",
        confidence=0.6,
    ),
    Rule(
        _BUILD,
        r"CUDA is not available|torch\.cuda\.is_available\(\) (?:is|returned|returns|==) False",
        confidence=0.35,
        look=lambda error, match: None if "deserialize" in error.flat else Seen(),
    ),
    Rule(_BUILD, r"compiled without GPU support|operator torchvision::nms does not exist", confidence=0.5),
)
