"""Choosing the device a lesson runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

KINDS = ("cpu", "cuda", "mps")


class DeviceUnavailable(RuntimeError):
    """A device that was asked for and is not there; the message says which are."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


def choose_device(wanted: str | torch.device = "auto") -> torch.device:
    """The device to use, in one line.

    wanted: ``"auto"`` takes CUDA where there is a usable GPU, else MPS (Apple), else the CPU; or ``"cpu"``,
        ``"cuda"``, ``"cuda:1"``, ``"mps"``. Raises DeviceUnavailable (a RuntimeError) when that device is not
        there, ValueError for another name.
    """
    import torch

    there = available_devices()
    if str(wanted) == "auto":
        return torch.device(next(kind for kind in ("cuda", "mps", "cpu") if kind in there))
    try:
        device = torch.device(wanted)
    except RuntimeError:
        device = None
    if device is None or device.type not in KINDS:
        raise ValueError(f"unknown device {str(wanted)!r}; use auto, {', '.join(KINDS)} or cuda:0, cuda:1, ...")
    if device.type not in there:
        raise DeviceUnavailable(
            f"{device} was asked for; this machine offers {', '.join(there)}. {_reason(device.type)}"
        )
    count = torch.cuda.device_count() if device.type == "cuda" else 1
    if device.index is not None and device.index >= count:
        raise DeviceUnavailable(f"{device} was asked for; the {device.type} devices here are 0 to {count - 1}")
    return device


def available_devices() -> tuple[str, ...]:
    """The kinds of device that can be used here; the CPU always comes first."""
    import torch

    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    return tuple(kind for kind in KINDS if there[kind])


def _reason(kind: str) -> str:
    import torch

    built = torch.backends.cuda.is_built() if kind == "cuda" else torch.backends.mps.is_built()
    if not built:
        return f"This build of torch ({torch.__version__}) has no {kind} support."
    return f"This build of torch ({torch.__version__}) supports {kind}, but found no usable device or driver."
