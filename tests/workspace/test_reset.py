"""`course reset`: a lesson or one cell is as it came, and what was there is in `backups/`."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from course import curriculum
from course.workspace import copies, files, manifest, reset, servers, trust
from course.workspace.files import RequestError, WorkspaceError
from course.workspace.notebooks import Notebook, source

LESSON = curriculum.lesson("01")
NAME = "01_tensors_and_strides.ipynb"
STUB = "01-049-stub"
ANSWER = "def flatten_elements(x):\n    return x.view(-1)  # mine"


class Learner:
    """A workspace that holds the copy of lesson 01."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.path = workspace / NAME
        self.signed: list[tuple[bytes, bytes | None]] = []
        copies.update(workspace, lessons=[LESSON], tell=lambda _: None, sign=self.sign)
        self.shipped = copies.shipped_notebook(LESSON)
        self.signed.clear()

    def sign(self, notebook: Notebook, *, like: Notebook | None = None) -> None:
        self.signed.append((notebook.data, like and like.data))

    def change(self, edit) -> bytes:
        """Change the copy with a function of its list of cells; return the bytes of the file."""
        content = json.loads(self.path.read_bytes())
        edit(content["cells"])
        self.path.write_text(json.dumps(content), encoding="utf-8")
        return self.path.read_bytes()

    def answer(self, text: str = ANSWER, **more) -> bytes:
        """Answer tensors.flatten, and change another cell too."""

        def edit(cells: list[dict]) -> None:
            self.cell(cells).update(
                source=text, outputs=[{"output_type": "stream", "name": "stdout", "text": "1"}], **more
            )
            cells[1]["source"] = "# my own note"

        return self.change(edit)

    def cell(self, cells: list[dict]) -> dict:
        return next(
            cell for cell in cells if cell["metadata"].get("course") == {"exercise": "tensors.flatten", "role": "stub"}
        )

    def cells(self) -> list[dict]:
        return json.loads(self.path.read_bytes())["cells"]

    def reset(self, exercise: str | None = None) -> list[str]:
        return reset.reset(self.workspace, LESSON, exercise, sign=self.sign)

    def backups(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (self.workspace / "backups").glob("*")}


@pytest.fixture
def learner(tmp_path: Path) -> Learner:
    return Learner(tmp_path / "Zoë's notebooks")


def shipped_stub(learner: Learner) -> str:
    return source(dict(learner.shipped.of_exercise("stub"))["tensors.flatten"])


def test_a_lesson_is_restored_and_kept(learner: Learner):
    mine = learner.answer()
    manifest.path_in(learner.workspace).unlink()
    told = learner.reset()
    assert learner.path.read_bytes() == learner.shipped.data
    ((name, kept),) = learner.backups().items()
    assert kept == mine
    assert re.fullmatch(r"01_tensors_and_strides \d{4}-\d\d-\d\d \d\d\.\d\d\.\d\d\.ipynb", name)
    assert told == [f"{NAME} is restored; yours is kept in {Path('backups', name)}."]
    assert learner.signed == [(learner.shipped.data, None)]
    # Untouched again: an update replaces it.
    entry = manifest.Manifest.read(learner.workspace).of(LESSON.name)
    assert (entry.data, entry.text) == (learner.shipped.bytes_digest, learner.shipped.text_digest)


def test_a_lesson_as_it_came_is_left_alone(learner: Learner):
    assert learner.reset() == [f"{NAME} is as it came; nothing was changed."]
    assert learner.backups() == {}
    assert learner.signed == []


def test_outputs_alone_are_kept_too(learner: Learner):
    mine = learner.change(lambda cells: cells[-1].update(metadata={"mine": 1}))
    learner.reset()
    assert list(learner.backups().values()) == [mine]


def test_a_missing_lesson_is_restored(learner: Learner):
    learner.path.unlink()
    assert learner.reset() == [f"{NAME} was missing and is restored."]
    assert learner.path.read_bytes() == learner.shipped.data


def test_a_file_that_is_no_notebook_is_kept_and_restored(learner: Learner):
    learner.path.write_bytes(b'{"cells": [tru')
    with pytest.raises(
        WorkspaceError, match=r"not a notebook any more; it is kept as it is\. `course reset 01` restores"
    ):
        learner.reset("flatten")
    assert learner.path.read_bytes() == b'{"cells": [tru'
    learner.reset()
    assert learner.path.read_bytes() == learner.shipped.data
    assert list(learner.backups().values()) == [b'{"cells": [tru']


def test_two_backups_of_a_second_are_two_files(tmp_path: Path):
    now = datetime(2026, 11, 30, 14, 5, 6)
    names = [files.back_up(tmp_path / NAME, data, now=now).name for data in (b"one", b"two")]
    assert names == [
        "01_tensors_and_strides 2026-11-30 14.05.06.ipynb",
        "01_tensors_and_strides 2026-11-30 14.05.06 2.ipynb",
    ]
    assert [(tmp_path / "backups" / name).read_bytes() for name in names] == [b"one", b"two"]


@pytest.mark.parametrize("name", ["tensors.flatten", "flatten", "flatten_elements"])
def test_one_exercise_is_restored_and_the_rest_stays(learner: Learner, name: str):
    mine = learner.answer()
    before = learner.cells()
    told = learner.reset(name)
    after = learner.cells()
    assert source(learner.cell(after)) == shipped_stub(learner)
    assert (learner.cell(after)["outputs"], learner.cell(after)["execution_count"]) == ([], None)
    for cells in (before, after):
        cells.remove(learner.cell(cells))
    assert before == after
    ((kept_as, kept),) = learner.backups().items()
    assert kept == mine
    where = Path("backups", kept_as)
    assert told == [f"The cell of tensors.flatten in {NAME} is restored; the notebook as it was is kept in {where}."]
    assert learner.signed == [(learner.path.read_bytes(), mine)]


def test_an_exercise_as_it_came_is_left_alone(learner: Learner):
    mine = learner.change(lambda cells: cells[1].update(source="# my own note"))
    assert learner.reset("flatten") == [f"The cell of tensors.flatten in {NAME} is as it came; nothing was changed."]
    assert learner.path.read_bytes() == mine
    assert learner.backups() == {}


def test_of_several_cells_of_an_exercise_the_first_made_one_is_restored(learner: Learner):
    def paste_above(cells: list[dict]) -> None:
        cell = learner.cell(cells)
        cells.insert(cells.index(cell), {**cell, "id": "pasted", "source": "flatten_elements = 'an idea'"})
        cell["source"] = ANSWER

    learner.change(paste_above)
    told = learner.reset("flatten")
    assert told[1] == "Other cells that carry this exercise, copies of that cell, were left alone: 1."
    by_id = {cell["id"]: source(cell) for cell in learner.cells()}
    assert (by_id["pasted"], by_id[STUB]) == ("flatten_elements = 'an idea'", shipped_stub(learner))


@pytest.mark.parametrize(
    "broken", [ANSWER, "def flatten_elements(x):\n    return (x", "%%time\nflatten_elements = lambda x: x"]
)
def test_a_cell_that_lost_its_mark_is_found_by_what_it_defines(learner: Learner, broken: str):
    learner.answer(broken, metadata={}, id="another")
    learner.reset("flatten")
    assert source(next(cell for cell in learner.cells() if cell["id"] == "another")) == shipped_stub(learner)


@pytest.mark.parametrize("copies_of_it", [0, 2])
def test_a_cell_that_is_not_found_is_said(learner: Learner, copies_of_it: int):
    def edit(cells: list[dict]) -> None:
        cells.remove(learner.cell(cells))
        for number in range(copies_of_it):
            cells.append({"cell_type": "code", "id": f"m{number}", "metadata": {}, "source": ANSWER, "outputs": []})

    mine = learner.change(edit)
    with pytest.raises(
        WorkspaceError, match=r"not in 01.*it was deleted, or .*`course reset 01` restores the whole lesson"
    ):
        learner.reset("tensors.flatten")
    assert learner.path.read_bytes() == mine
    assert learner.backups() == {}


@pytest.mark.parametrize("name", ["flat", "autograd.zero_grad_order", "", "strides.tensors"])
def test_an_unknown_exercise_is_told_with_those_that_exist(learner: Learner, name: str):
    mine = learner.answer()
    with pytest.raises(
        RequestError, match=re.escape(f"Lesson 01 has no exercise {name!r}. Its exercises are: ")
    ) as caught:
        learner.reset(name)
    assert "tensors.flatten, " in str(caught.value)
    assert learner.path.read_bytes() == mine


def test_a_name_that_several_exercises_ask_for_needs_an_id(learner: Learner):
    def marked(name: str) -> dict:
        course = {"exercise": f"tensors.{name}", "role": "stub"}
        return {"cell_type": "code", "id": name, "metadata": {"course": course}, "source": "choice = ..."}

    two = Notebook(b"", {"cells": [marked("one"), marked("two")]})
    with pytest.raises(
        RequestError, match=r"has no exercise 'choice'\. Its exercises are: tensors\.one, tensors\.two\."
    ):
        reset.reset(learner.workspace, LESSON, "choice", shipped=lambda _: two, sign=learner.sign)


@pytest.mark.parametrize("exercise", [None, "flatten"])
def test_no_copies_there(tmp_path: Path, exercise: str | None):
    with pytest.raises(WorkspaceError, match=r"There is no 01.*`course lab` copies it there.*--workspace DIR"):
        reset.reset(tmp_path / "nowhere", LESSON, exercise)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("exercise", [None, "flatten"])
def test_without_a_backup_nothing_is_restored(learner: Learner, exercise: str | None):
    mine = learner.answer()
    (learner.workspace / "backups").write_text("a file", encoding="utf-8")
    with pytest.raises(WorkspaceError, match=r"cannot be written: (File exists|Not a directory)"):
        learner.reset(exercise)
    assert learner.path.read_bytes() == mine


def test_an_open_notebook_is_to_be_reloaded(learner: Learner, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(servers, "serving", lambda _: [SimpleNamespace()])
    learner.answer()
    assert learner.reset()[-1] == "Where it is open in JupyterLab: File > Reload Notebook from Disk."


def test_jupyter_trusts_what_we_sign_and_no_more(learner: Learner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    data = tmp_path / "data"
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(data))
    other = Notebook.parse(learner.answer())
    assert not trust.sign(learner.shipped, like=other)
    assert trust.sign(learner.shipped)
    assert trust.sign(other, like=learner.shipped)
    (data / "nbsignatures.db").unlink()
    assert not trust.sign(other, like=learner.shipped)
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(learner.path / "not a folder"))
    assert not trust.sign(learner.shipped)
