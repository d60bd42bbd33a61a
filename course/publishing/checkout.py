"""Where the things lie that publishing reads and writes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from course import curriculum
from course.curriculum import Lesson
from course.exercises import load_exercise
from course.publishing import PublishingError


@dataclass(frozen=True)
class Checkout:
    """A repository: `lessons/`, `notebooks/`, `course/exercises/` under `root`, and the manifest's lessons."""

    root: Path
    lessons: tuple[Lesson, ...] = curriculum.LESSONS
    load_exercise: Callable = load_exercise

    @classmethod
    def here(cls) -> Checkout:
        """Return the repository that this package lies in.

        Raises PublishingError for an installed package, which has notebooks but no lesson sources.
        """
        root = curriculum.checkout()
        if root is None:
            raise PublishingError(
                "The lesson sources are not here: this is an installed package. Work in a clone of the repository."
            )
        return cls(root)

    def source(self, lesson: Lesson) -> Path:
        """Return the path of a lesson's text source."""
        return self.root / "lessons" / f"{lesson.name}.py"

    def notebook(self, lesson: Lesson) -> Path:
        """Return the path of a lesson's built notebook."""
        return self.root / "notebooks" / f"{lesson.name}.ipynb"

    def exercise_file(self, exercise_id: str) -> Path:
        """Return the path of the file that defines an exercise: `tensors.flatten` is `tensors/flatten.py`."""
        return self.root.joinpath("course", "exercises", *exercise_id.split(".")).with_suffix(".py")

    def digest(self, lesson: Lesson, exercise_ids: Iterable[str]) -> str:
        """Return 16 hexadecimal digits of the SHA-256 of a lesson's source and its exercises' files."""
        digest = hashlib.sha256()
        for path in (self.source(lesson), *map(self.exercise_file, exercise_ids)):
            text = path.read_text(encoding="utf-8").encode()
            digest.update(f"{path.name} {len(text)}\n".encode() + text)
        return digest.hexdigest()[:16]

    def display(self, path: Path) -> str:
        """Return `path` as people read it: relative to the root where it lies below."""
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)
