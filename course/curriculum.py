"""The manifest: which lessons exist, in which order, what they need and where their files are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

NOTEBOOKS_VARIABLE = "COURSE_NOTEBOOKS"
PROFILES = ("smoke", "quick", "full")
DEVICES = ("auto", "cpu", "cuda", "mps")


@dataclass(frozen=True)
class Lesson:
    """One lesson.

    `number` is two digits ("01"), `minutes` what a learner needs, `prerequisites` the numbers of lessons that come
    first. `parameters` holds names and defaults of the cell tagged `parameters`; `hardware` says what the lesson
    runs on ("cpu", "gpu optional"); `cpu_seconds` is the budget of a run at one thread. `exercises` names the folder
    of `course/exercises` whose exercises belong to this lesson.
    """

    number: str
    slug: str
    title: str
    minutes: int
    exercises: str
    prerequisites: tuple[str, ...] = ()
    parameters: Mapping[str, object] = field(
        default_factory=lambda: MappingProxyType({"device": "auto", "profile": "quick"})
    )
    hardware: str = "cpu"
    cpu_seconds: float = 40

    @property
    def name(self) -> str:
        """The stem of the lesson's files, "01_tensors_and_strides"."""
        return f"{self.number}_{self.slug}"


LESSONS: tuple[Lesson, ...] = (
    Lesson(
        number="00",
        slug="start_here",
        title="Start here",
        minutes=75,
        exercises="start",
        hardware="gpu optional",
    ),
    Lesson(
        number="01",
        slug="tensors_and_strides",
        title="Tensors and strides",
        minutes=120,
        exercises="tensors",
        hardware="gpu optional",
    ),
    Lesson(
        number="02",
        slug="autograd",
        title="Autograd pitfalls",
        minutes=180,
        exercises="autograd",
        prerequisites=("01",),
        hardware="gpu optional",
    ),
    Lesson(
        number="03",
        slug="modules",
        title="nn.Module registration",
        minutes=180,
        exercises="modules",
        prerequisites=("01", "02"),
        hardware="gpu optional",
    ),
    Lesson(
        number="04",
        slug="data",
        title="Datasets, DataLoader and padding collate",
        minutes=150,
        exercises="data",
        prerequisites=("01",),
        parameters=MappingProxyType({"device": "auto", "profile": "quick", "data": ""}),
        hardware="gpu optional",
    ),
    Lesson(
        number="05",
        slug="cifar10_loop",
        title="The CIFAR-10 loop",
        minutes=180,
        exercises="training",
        prerequisites=("01", "02", "03", "04"),
        parameters=MappingProxyType({"device": "auto", "profile": "quick", "data": ""}),
        hardware="gpu optional",
    ),
    Lesson(
        number="06",
        slug="debugging_clinic",
        title="Debugging clinic",
        minutes=180,
        exercises="clinic",
        prerequisites=("01", "02", "03", "04", "05"),
        hardware="gpu optional",
    ),
    Lesson(
        number="07",
        slug="checkpoints",
        title="Checkpoints, resuming, reproducibility",
        minutes=150,
        exercises="checkpoints",
        prerequisites=("02", "03", "04", "05"),
        hardware="gpu optional",
    ),
    Lesson(
        number="08",
        slug="mixed_precision",
        title="Mixed precision",
        minutes=120,
        exercises="precision",
        prerequisites=("01", "02", "05"),
        hardware="gpu optional",
    ),
    Lesson(
        number="09",
        slug="compile",
        title="torch.compile",
        minutes=120,
        exercises="compilation",
        prerequisites=("02", "03", "05"),
        hardware="gpu optional",
        cpu_seconds=120,
    ),
    Lesson(
        number="10",
        slug="throughput",
        title="Profiling and throughput",
        minutes=150,
        exercises="throughput",
        prerequisites=("02", "04", "05"),
        parameters=MappingProxyType({"device": "auto", "profile": "quick", "data": ""}),
        hardware="gpu optional",
    ),
    Lesson(
        number="11",
        slug="scaling_out",
        title="Scaling out",
        minutes=150,
        exercises="distributed",
        prerequisites=("04", "05", "07"),
        hardware="gpu optional",
        cpu_seconds=120,
    ),
    Lesson(
        number="12",
        slug="export",
        title="Export",
        minutes=120,
        exercises="export",
        prerequisites=("02", "03", "05"),
        cpu_seconds=120,
    ),
    Lesson(
        number="13",
        slug="quantization",
        title="Quantization",
        minutes=150,
        exercises="quantization",
        prerequisites=("03", "05", "12"),
        cpu_seconds=120,
    ),
    Lesson(
        number="14",
        slug="inference",
        title="From checkpoint to answer",
        minutes=120,
        exercises="inference",
        prerequisites=("07", "12", "13"),
        cpu_seconds=120,
    ),
)


class UnknownLesson(LookupError):
    """No lesson answers to the given name; the message lists those that exist."""

    def __init__(self, name: object, lessons: tuple[Lesson, ...] = LESSONS) -> None:
        self.name = str(name)
        valid = ", ".join(lesson.name for lesson in lessons) or "none yet"
        super().__init__(f"There is no lesson {self.name!r}. The lessons are: {valid}.")


def lesson(name: str, lessons: tuple[Lesson, ...] = LESSONS) -> Lesson:
    """Return the lesson called `name`: its number ("01" or "1"), its slug, or both ("01_tensors_and_strides").

    Raises UnknownLesson, which lists the valid names.
    """
    wanted = str(name)
    for candidate in lessons:
        if (wanted and wanted.zfill(2) == candidate.number) or wanted in (candidate.slug, candidate.name):
            return candidate
    raise UnknownLesson(name, lessons)


def checkout() -> Path | None:
    """Return the root of the repository this package lies in, or None for an installed package."""
    root = Path(__file__).resolve().parents[1]
    return root if (root / "lessons").is_dir() and (root / "pyproject.toml").is_file() else None


def notebooks_folder() -> Path:
    """Return where the built notebooks are: `notebooks/` in a checkout, `course/_notebooks/` when installed.

    The environment variable COURSE_NOTEBOOKS names another folder; a build sets it for the kernel that executes a
    notebook which is not there yet.
    """
    if NOTEBOOKS_VARIABLE in os.environ:
        return Path(os.environ[NOTEBOOKS_VARIABLE])
    root = checkout()
    return root / "notebooks" if root else Path(__file__).resolve().parent / "_notebooks"


def notebook_path(lesson: Lesson) -> Path:
    """Return the path of a lesson's built notebook."""
    return notebooks_folder() / f"{lesson.name}.ipynb"


def recorded_path() -> Path:
    """Return the path of the recorded claims (the file may not exist yet)."""
    root = checkout()
    return (
        root / "lessons" / "recorded.json" if root else Path(__file__).resolve().parent / "_notebooks" / "recorded.json"
    )
