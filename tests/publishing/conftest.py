"""A course of one tiny lesson and one exercise, in a folder of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from course.curriculum import Lesson
from course.publishing.checkout import Checkout

SOURCE = """\
# ---
# jupyter:
#   jupytext: {}
# ---

# %% [markdown]
# # Tiny

# %% tags=["parameters"]
device = "auto"
profile = "quick"

# %%
from IPython.display import display


def begin(number, digest=None):
    display({"text/plain": f"lesson {number}"}, raw=True)


def check(exercise, answer):
    try:
        verdict = "PASSED" if answer(2) == 4 else "WRONG"
    except NotImplementedError:
        verdict = "NOT_ATTEMPTED"
    payload = {"exercise": exercise, "verdict": verdict}
    display({"text/plain": verdict, "application/vnd.course.verdict+json": payload}, raw=True)


def claim(name, value):
    payload = {"name": name, "kind": "measured", "stated": "2 x", "low": 1, "high": 3, "value": value, "unit": "x"}
    display({"text/plain": name, "application/vnd.course.claim+json": payload | {"verdict": "holds"}}, raw=True)


begin("01")

# %%
# exercise: tiny.double

# %% tags=["measured"]
import time

claim("clock", time.time())

# %%
print("the end, profile", profile)
"""

DOUBLE = SimpleNamespace(
    id="tiny.double",
    title="Double",
    name="double",
    task="Return twice `x`.",
    stub_source=lambda: "def double(x):\n    raise NotImplementedError\n",
    solution_source=lambda: "def double(x):\n    return 2 * x\n",
)


def load(exercise_id: str) -> SimpleNamespace:
    if exercise_id != DOUBLE.id:
        raise LookupError(f"There is no exercise {exercise_id!r}.")
    return DOUBLE


@dataclass
class Tiny:
    """The lesson, its checkout, and a list that collects lines of progress."""

    lesson: Lesson
    checkout: Checkout
    lines: list[str] = field(default_factory=list)

    @property
    def source(self) -> Path:
        return self.checkout.source(self.lesson)

    @property
    def notebook(self) -> Path:
        return self.checkout.notebook(self.lesson)

    def replace(self, old: str, new: str) -> None:
        """Change the lesson's source, which must contain `old`."""
        text = self.source.read_text(encoding="utf-8")
        assert old in text
        self.source.write_text(text.replace(old, new, 1), encoding="utf-8")

    def append(self, code: str) -> None:
        """Add a code cell to the end of the lesson."""
        with self.source.open("a", encoding="utf-8") as file:
            file.write(f"\n# %%\n{code}\n")


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    root = tmp_path / "checkout"
    lesson = Lesson("01", "tiny", "Tiny", 5, "tiny")
    result = Tiny(lesson, Checkout(root, (lesson,), load))
    exercise = result.checkout.exercise_file(DOUBLE.id)
    for path in (result.source, exercise):
        path.parent.mkdir(parents=True)
    result.source.write_text(SOURCE, encoding="utf-8")
    exercise.write_text("# the exercise's definition\n", encoding="utf-8")
    return result
