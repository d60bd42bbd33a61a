"""Run all probes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from course.environment import accelerator, data, hardware, installation, tools
from course.environment.accelerator import TorchUnusable
from course.environment.report import Finding, Report

Probe = Callable[[], Finding]

PROBES: tuple[tuple[str, Probe], ...] = (
    ("Python", installation.python),
    ("PyTorch", accelerator.torch),
    ("torchvision", accelerator.torchvision),
    ("device", accelerator.device),
    ("driver and CUDA", accelerator.cuda),
    ("MPS", accelerator.mps),
    ("C++ compiler", tools.compiler),
    ("cores", hardware.cores),
    ("memory", hardware.memory),
    ("disk", hardware.disk),
    ("data", data.cifar10),
    ("packages", installation.packages),
    ("kernel", tools.kernel),
    ("notebooks", tools.front_end),
)


def examine(probes: Sequence[tuple[str, Probe]] = PROBES) -> Report:
    """What every probe finds. A probe that cannot look gives a note that says why; none raises."""
    return Report(tuple(_finding(name, probe) for name, probe in probes))


def show_environment() -> Report:
    """What this machine can do for the course, as a table: the same as the command ``course env``.

    As the last expression of a cell it shows itself; ``print`` gives the text form.
    """
    return examine()


def _finding(name: str, probe: Probe) -> Finding:
    try:
        return probe()
    except TorchUnusable:
        return Finding(name, "cannot be told without torch", "note", "Install torch first (see PyTorch above).")
    except ModuleNotFoundError as error:
        package = str(error.name).replace("_", "-")
        remedy = f"`python -m pip install {package}`, then restart Python."
        return Finding(name, f"cannot be told: {package} is not installed", "note", remedy)
    except Exception as error:
        return Finding(name, f"cannot be told ({type(error).__name__}: {error})", "note")
