"""Copies of the notebooks and their updates: whatever happens, nothing of the learner's is lost."""

from __future__ import annotations

import contextlib
import errno
import json
import multiprocessing
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from course import curriculum
from course.curriculum import Lesson
from course.workspace import copies, files, manifest
from course.workspace.files import WorkspaceError
from course.workspace.notebooks import Notebook, source

LESSONS = (
    Lesson(number="01", slug="tensors", title="Tensors", minutes=1, exercises="tensors"),
    Lesson(number="02", slug="autograd", title="Autograd", minutes=1, exercises="autograd"),
)
FIRST, SECOND = ("01_tensors.ipynb", "02_autograd.ipynb")


def notebook(number: str, edition: str, *, text: str | None = None, output: str = "stored") -> Notebook:
    """A built notebook of a lesson: some text, and a cell with a stored output."""
    cells = [
        {
            "cell_type": "markdown",
            "id": f"{number}-1",
            "metadata": {},
            "source": [f"# Lesson {number}\n", text or edition],
        },
        {
            "cell_type": "code",
            "id": f"{number}-2",
            "metadata": {},
            "source": ["x = 1\n", "x"],
            "execution_count": 1,
            "outputs": [{"output_type": "stream", "name": "stdout", "text": [output]}],
        },
    ]
    metadata = {"course": {"lesson": number, "digest": edition}}
    content = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return Notebook.parse(Notebook(b"", content).dump())


class Course:
    """An installed course of some edition, and a learner's folder."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.lessons = LESSONS
        self.signed: list[Notebook] = []
        self.edition("one")

    def edition(self, name: str, **how) -> None:
        """Install another edition of the course."""
        self.shipped = {lesson.number: notebook(lesson.number, name, **how) for lesson in LESSONS}

    def update(self, *, served: bool = False) -> list[str]:
        told: list[str] = []
        copies.update(
            self.workspace,
            served=served,
            tell=told.append,
            lessons=self.lessons,
            shipped=lambda lesson: self.shipped[lesson.number],
            sign=self.signed.append,
        )
        return told

    def file(self, name: str = FIRST) -> Path:
        return self.workspace / name

    def edit(self, name: str = FIRST, text: str = "x = 'my answer'") -> bytes:
        """Change the text of a copy as JupyterLab does; return the bytes of the file."""
        content = json.loads(self.file(name).read_bytes())
        content["cells"][1]["source"] = text
        return self.save(name, content)

    def run(self, name: str = FIRST, output: str = "mine") -> bytes:
        """Run the copy as JupyterLab does: outputs and metadata change, a blank cell comes at the end."""
        content = json.loads(self.file(name).read_bytes())
        content["metadata"]["language_info"] = {"name": "python", "version": "3.11.7"}
        content["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": output}]
        content["cells"][1]["execution_count"] = 7
        content["cells"][1]["metadata"] = {"trusted": True}
        blank = {"cell_type": "code", "id": "a1", "metadata": {}, "source": "", "outputs": [], "execution_count": None}
        content["cells"].append(blank)
        return self.save(name, content)

    def save(self, name: str, content: dict) -> bytes:
        self.file(name).write_text(json.dumps(content), encoding="utf-8")
        return self.file(name).read_bytes()

    def everything(self) -> dict[str, bytes]:
        """What lies in the folder, without the manifest."""
        found = (path for path in self.workspace.rglob("*") if path.is_file() and ".course" not in path.parts)
        return {path.relative_to(self.workspace).as_posix(): path.read_bytes() for path in found}

    def backups(self) -> list[bytes]:
        return [data for name, data in self.everything().items() if name.startswith("backups/")]


@pytest.fixture
def course(tmp_path: Path) -> Course:
    return Course(tmp_path / "Zoë's notebooks 例")


def test_the_first_time_every_notebook_is_copied(course: Course):
    assert course.update() == [f"2 notebooks were copied to {course.workspace}."]
    assert course.everything() == {FIRST: course.shipped["01"].data, SECOND: course.shipped["02"].data}
    assert course.signed == list(course.shipped.values())


def test_a_second_time_nothing_is_written_or_said(course: Course):
    course.update()
    course.signed.clear()
    times = {path: path.stat().st_mtime_ns for path in course.workspace.rglob("*") if path.is_file()}
    assert course.update() == []
    assert {path: path.stat().st_mtime_ns for path in course.workspace.rglob("*") if path.is_file()} == times
    assert course.signed == []


def test_an_untouched_copy_is_replaced(course: Course):
    course.update()
    course.edition("two")
    assert course.update() == [
        "01 Tensors: was replaced by its new version.",
        "02 Autograd: was replaced by its new version.",
    ]
    assert course.everything() == {FIRST: course.shipped["01"].data, SECOND: course.shipped["02"].data}


def test_a_new_lesson_is_brought_and_a_removed_copy_comes_back(course: Course):
    course.lessons = LESSONS[:1]
    course.update()
    course.lessons = LESSONS
    assert course.update() == ["02 Autograd: is new here."]
    course.file(FIRST).unlink()
    assert course.update() == ["01 Tensors: is new here."]
    assert course.file(FIRST).read_bytes() == course.shipped["01"].data


def test_an_edited_copy_is_kept_and_the_new_text_laid_beside_it_once(course: Course):
    course.update()
    mine = course.edit()
    assert course.update() == []
    course.edition("two")
    told = course.update()
    assert told[0] == (
        "01 Tensors: is kept as it is, because you edited it; the new text is beside it in 01_tensors.new.ipynb."
    )
    assert course.file().read_bytes() == mine
    assert course.file("01_tensors.new.ipynb").read_bytes() == course.shipped["01"].data
    assert course.update() == []
    # Not wanted, so it does not come again.
    course.file("01_tensors.new.ipynb").unlink()
    assert course.update() == []
    assert course.file().read_bytes() == mine


def test_a_still_newer_text_takes_the_place_of_the_one_laid_beside(course: Course):
    course.update()
    mine = course.edit()
    for edition in ("two", "three"):
        course.edition(edition)
        assert "01_tensors.new.ipynb" in course.update()[0]
        assert set(course.everything()) == {FIRST, "01_tensors.new.ipynb", SECOND}
        assert course.file("01_tensors.new.ipynb").read_bytes() == course.shipped["01"].data
    assert course.file().read_bytes() == mine


@pytest.mark.parametrize("change", ["edit", "run"])
def test_what_was_laid_beside_is_kept_once_it_was_touched(course: Course, change: str):
    course.update()
    mine = course.edit()
    course.edition("two")
    course.update()
    touched = getattr(course, change)("01_tensors.new.ipynb")
    course.edition("three")
    assert "01_tensors.new-2.ipynb" in course.update()[0]
    assert course.file().read_bytes() == mine
    assert course.file("01_tensors.new.ipynb").read_bytes() == touched
    assert course.file("01_tensors.new-2.ipynb").read_bytes() == course.shipped["01"].data


def test_a_file_of_the_learner_with_that_name_is_kept(course: Course):
    course.update()
    course.edit()
    course.file("01_tensors.new.ipynb").write_text("my notes", encoding="utf-8")
    course.edition("two")
    assert "01_tensors.new-2.ipynb" in course.update()[0]
    assert course.file("01_tensors.new.ipynb").read_text(encoding="utf-8") == "my notes"


def test_the_new_text_goes_when_the_copy_has_it(course: Course):
    course.update()
    course.edit()
    course.edition("two")
    course.update()
    course.file("01_tensors.new.ipynb").replace(course.file())
    assert course.update() == []
    course.edition("three")
    assert "replaced" in course.update()[0]
    assert set(course.everything()) == {FIRST, SECOND}


def test_a_copy_that_was_only_run_is_replaced_after_a_backup(course: Course):
    course.update()
    mine = course.run()
    assert course.update() == []
    assert course.file().read_bytes() == mine
    course.edition("two")
    told = course.update()[0]
    found = re.fullmatch(r"01 Tensors: was replaced by its new version; yours, with its outputs, is in (.+)\.", told)
    assert re.fullmatch(r"01_tensors \d{4}-\d\d-\d\d \d\d\.\d\d\.\d\d\.ipynb", Path(found[1]).name)
    assert course.file(found[1]).read_bytes() == mine
    assert course.file().read_bytes() == course.shipped["01"].data


def test_other_stored_outputs_replace_untouched_ones_and_no_others(course: Course):
    course.update()
    mine = course.run(SECOND)
    old = course.file(FIRST).read_bytes()
    course.edition("one", output="stored by a newer torch")
    assert course.update(served=True) == []
    assert course.everything() == {FIRST: old, SECOND: mine}
    assert course.update() == []
    assert course.everything() == {FIRST: course.shipped["01"].data, SECOND: mine}
    course.edition("two")
    course.update()
    assert course.backups() == [mine]


def test_under_a_running_server_nothing_that_exists_is_replaced(course: Course):
    course.update()
    before = course.everything()
    ran = course.run(SECOND)
    course.edition("two")
    told = course.update(served=True)
    assert told[0] == (
        "01 Tensors: is kept as it is, because JupyterLab is running here; the new text is beside it in "
        "01_tensors.new.ipynb."
    )
    assert course.file(FIRST).read_bytes() == before[FIRST]
    assert course.file(SECOND).read_bytes() == ran
    assert course.update(served=True) == []
    course.edition("three")
    course.update(served=True)
    assert course.file("01_tensors.new.ipynb").read_bytes() == notebook("01", "two").data
    # Neither is anything removed.
    course.edition("one")
    course.update(served=True)
    assert course.file("01_tensors.new-2.ipynb").exists()
    course.edition("three")
    # The server has ended: the copies were never edited, so they get the text.
    assert all("was replaced" in line for line in course.update())
    assert course.file(FIRST).read_bytes() == course.shipped["01"].data
    assert not course.file("01_tensors.new-2.ipynb").exists()
    assert course.backups() == [ran]


@pytest.mark.parametrize(
    "damage",
    [
        None,
        b"",
        b"{",
        b"[]",
        b'{"format": 1, "notebooks": {"01_tensors": 3}}',
        b'{"format": 9, "notebooks": {}}',
        b"\xff",
    ],
)
def test_without_its_manifest_an_edited_copy_is_still_kept(course: Course, damage: bytes | None):
    course.update()
    mine = course.edit()
    path = manifest.path_in(course.workspace)
    path.unlink() if damage is None else path.write_bytes(damage)
    # The notebook itself names its edition: there is no new text.
    assert course.update() == []
    course.edition("two")
    path.unlink() if damage is None else path.write_bytes(damage)
    told = course.update()
    assert "01_tensors.new.ipynb" in told[0]
    assert course.file().read_bytes() == mine
    assert course.update() == []
    kept = [file.read_bytes() for file in (path.parent / "backups").glob("copies *.json")]
    assert kept == [] if damage is None else damage in kept


def test_without_its_manifest_an_unedited_copy_counts_as_edited(course: Course):
    course.update()
    before = course.everything()
    manifest.path_in(course.workspace).unlink()
    course.edition("two")
    course.update()
    assert {name: course.everything()[name] for name in before} == before
    assert course.file("02_autograd.new.ipynb").read_bytes() == course.shipped["02"].data


@pytest.mark.parametrize(
    "data", [b"", b"not json", b'{"cells": 3}', b'{"cells": [{"source": 1}]}', b"null", b"[" * 50000]
)
def test_a_file_that_is_no_notebook_is_kept(course: Course, data: bytes):
    course.update()
    course.file().write_bytes(data)
    course.edition("two")
    sentence = (
        "01 Tensors: 01_tensors.ipynb is not a notebook any more. It is kept; `course reset 01` restores the lesson."
    )
    assert course.update()[0] == sentence
    assert course.file().read_bytes() == data


@pytest.mark.skipif(os.name != "posix", reason="makes symbolic links")
def test_links_are_left_alone(course: Course, tmp_path: Path):
    course.update()
    elsewhere = tmp_path / "elsewhere.ipynb"
    course.file().replace(elsewhere)
    course.file().symlink_to(elsewhere)
    old = elsewhere.read_bytes()
    course.edition("two")
    assert "because it is a link" in course.update()[0]
    assert course.file().is_symlink()
    assert elsewhere.read_bytes() == old
    elsewhere.unlink()
    with pytest.raises(WorkspaceError, match="is a link that leads nowhere"):
        course.update()
    assert course.file().is_symlink()


def test_a_folder_of_that_name_is_told(course: Course):
    course.file().mkdir(parents=True)
    with pytest.raises(WorkspaceError, match=r"01_tensors\.ipynb cannot be read: Is a directory"):
        course.update()


def test_a_file_in_place_of_the_folder_is_told_and_kept(course: Course):
    course.workspace.write_text("mine", encoding="utf-8")
    with pytest.raises(WorkspaceError, match=r"cannot be written: File exists.*--workspace DIR"):
        course.update()
    assert course.workspace.read_text(encoding="utf-8") == "mine"
    course.workspace = course.workspace / "deeper"
    with pytest.raises(WorkspaceError, match="cannot be written: Not a directory"):
        course.update()


def test_a_read_only_folder_is_told(course: Course, monkeypatch: pytest.MonkeyPatch):
    course.update()
    before = course.everything()

    def refused(*_arguments, **_options):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    # Root may write into any folder, so a mode would not do.
    monkeypatch.setattr(files.tempfile, "mkstemp", refused)
    monkeypatch.setattr(files.tempfile, "TemporaryFile", refused)
    with pytest.raises(WorkspaceError, match=r"cannot be written: Read-only file system\. Nothing of yours is lost"):
        course.update()
    assert course.everything() == before


@contextlib.contextmanager
def files_are_at_most(size: int) -> Iterator[None]:
    """Every write beyond `size` bytes of a file fails, as on a full disk."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_whole_files_and_goes_on_later(course: Course):
    course.update()
    edited = course.edit(SECOND)
    ran = course.run(FIRST, output="mine " * 20_000)
    before = course.everything()
    course.edition("two")
    with files_are_at_most(8192), pytest.raises(WorkspaceError, match=r"backups.* cannot be written: File too large"):
        course.update()
    # No backup, so no replacement; and no half file.
    assert course.everything() == before
    course.update()
    assert course.backups() == [ran]
    assert course.file(SECOND).read_bytes() == edited


def test_a_disk_that_fills_up_while_copying_is_gone_on_with(course: Course):
    course.shipped["02"] = notebook("02", "one", output="long " * 20_000)
    with files_are_at_most(8192), pytest.raises(WorkspaceError, match=r"02_autograd\.ipynb cannot be written"):
        course.update()
    assert course.everything() == {FIRST: course.shipped["01"].data}
    assert course.update() == ["02 Autograd: is new here."]
    course.edition("two")
    assert all("was replaced" in line for line in course.update())


def test_a_save_in_the_middle_of_an_update_is_kept(course: Course, monkeypatch: pytest.MonkeyPatch):
    course.update()
    course.edition("two")
    saved = []
    written = files._written

    @contextlib.contextmanager
    def with_a_save(path: Path, data: bytes) -> Iterator[str]:
        with written(path, data) as temporary:
            if path == course.file() and not saved:
                saved.append(course.edit())
            yield temporary

    monkeypatch.setattr(files, "_written", with_a_save)
    assert "because you edited it" in course.update()[0]
    assert course.file().read_bytes() == saved[0]


def _update_in_a_process(workspace: Path, edition: str, barrier) -> None:
    course = Course(workspace)
    course.edition(edition)
    barrier.wait()
    for _ in range(5):
        course.update()


@pytest.mark.skipif(os.name != "posix", reason="forks")
def test_several_at_once_in_one_folder(course: Course):
    course.update()
    edited, ran = course.edit(FIRST), course.run(SECOND)
    course.edition("two")
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(4)
    crowd = [
        context.Process(target=_update_in_a_process, args=(course.workspace, "two", barrier), daemon=True)
        for _ in range(4)
    ]
    for each in crowd:
        each.start()
    for each in crowd:
        each.join(60)
    assert [each.exitcode for each in crowd] == [0] * 4
    found = course.everything()
    assert found.pop(FIRST) == edited
    assert found.pop(SECOND) == course.shipped["02"].data
    assert found.pop("01_tensors.new.ipynb") == course.shipped["01"].data
    # Each of them may have kept what was run before one of them replaced it; nothing else is there.
    assert set(found.values()) == {ran}
    assert course.update() == []


def test_permissions_of_a_copy_stay(course: Course):
    course.update()
    assert course.file().stat().st_mode & 0o600 == 0o600
    course.file().chmod(0o640)
    course.edition("two")
    course.update()
    assert course.file().stat().st_mode & 0o777 == 0o640


def test_a_lesson_that_the_course_lacks_is_said_and_the_others_are_brought(
    course: Course, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv(curriculum.NOTEBOOKS_VARIABLE, str(tmp_path))
    (tmp_path / SECOND).write_bytes(course.shipped["02"].data)
    told: list[str] = []
    copies.update(course.workspace, tell=told.append, lessons=LESSONS, sign=course.signed.append)
    missing = tmp_path / FIRST
    assert told[0] == f"The notebook of lesson 01, {missing}, is missing. Install the course again."
    assert set(course.everything()) == {SECOND}


def test_the_notebooks_of_the_course_are_understood():
    for lesson in curriculum.LESSONS:
        built = copies.shipped_notebook(lesson)
        assert built.edition
        assert len(dict(built.of_exercise("stub"))) == len(dict(built.of_exercise("check"))) > 0


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        (lambda cells: cells[0].update(source="# Lesson 01\none"), False),
        (lambda cells: cells[1].update(outputs=[], execution_count=None, metadata={"tags": ["x"]}, id="z"), False),
        (lambda cells: cells.append({"cell_type": "code", "source": " \n"}), False),
        (lambda cells: cells[0].update(source="# Lesson 01\none "), True),
        (lambda cells: cells.append({"cell_type": "code", "source": "# note"}), True),
        (lambda cells: cells[1].update(cell_type="raw"), True),
        (lambda cells: cells.reverse(), True),
        (lambda cells: cells.pop(), True),
        (lambda cells: cells[0].update(attachments={"a.png": {"image/png": "AA=="}}), True),
    ],
)
def test_what_counts_as_an_edit(change: Callable[[list], object], counts: bool):
    before = notebook("01", "one")
    after = Notebook.parse(before.data)
    change(after.cells)
    assert (after.text_digest != before.text_digest) is counts


def test_a_notebook_is_written_as_jupyter_does():
    for lesson in curriculum.LESSONS[:2]:
        built = copies.shipped_notebook(lesson)
        assert built.dump() == built.data
    odd = Notebook(b"", {"cells": [{"cell_type": "code", "source": "'\ud83d'"}]})
    assert source(Notebook.parse(odd.dump()).cells[0]) == "'\ud83d'"
