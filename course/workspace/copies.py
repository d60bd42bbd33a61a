"""Copies of the notebooks in the learner's folder, and what an update of the course does with them.

A copy counts as *edited* when the text of its cells is not what was copied (`Notebook.text_digest`). Then it is kept
and the new text is laid beside it, `01_tensors_and_strides.new.ipynb`. A copy that was only run holds outputs of the
learner's, so it is replaced after a backup of it was written to `backups/`; one that is byte for byte what was copied
is replaced without. In doubt (the manifest is damaged or missing, a file that is no notebook, a link) a copy counts as
edited. While a Jupyter server serves the folder, nothing that exists is replaced: it may be open in a tab.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from course import curriculum
from course.curriculum import Lesson
from course.workspace import files, trust
from course.workspace.files import WorkspaceError
from course.workspace.manifest import Copy, Manifest
from course.workspace.notebooks import Notebook

ATTEMPTS = 3


def copy_path(workspace: Path, lesson: Lesson) -> Path:
    """Return where a lesson's copy is."""
    return workspace / f"{lesson.name}.ipynb"


def shipped_notebook(lesson: Lesson) -> Notebook:
    """Return the notebook that the installed course brings. Raises WorkspaceError when it is missing or damaged."""
    path = curriculum.notebook_path(lesson)
    data = files.read(path)
    notebook = None if data is None else Notebook.parse(data)
    if notebook is None:
        state = "missing" if data is None else "damaged"
        raise WorkspaceError(f"The notebook of lesson {lesson.number}, {path}, is {state}. Install the course again.")
    return notebook


def update(
    workspace: Path,
    *,
    served: bool = False,
    tell: Callable[[str], object] = print,
    lessons: Iterable[Lesson] = curriculum.LESSONS,
    shipped: Callable[[Lesson], Notebook] = shipped_notebook,
    sign: Callable[[Notebook], object] = trust.sign,
) -> None:
    """Copy the notebooks that are missing in `workspace`, and bring what the installed course has changed since.

    `served`: whether a Jupyter server runs in this folder. `tell` gets one sentence for each notebook that was
    brought, replaced or kept back; nothing when all is as it was. `sign` makes Jupyter trust what was written.

    Raises WorkspaceError when a file cannot be read or written. What was done until then is complete, and the same
    call goes on from there.
    """
    files.make_folder(workspace)
    manifest = Manifest.read(workspace)
    lessons = list(lessons)
    first_time = not manifest.copies and not any(copy_path(workspace, lesson).exists() for lesson in lessons)
    brought = 0
    try:
        for lesson in lessons:
            try:
                notebook = shipped(lesson)
            except WorkspaceError as error:
                tell(str(error))
                continue
            step = _Step(workspace, lesson, notebook, manifest.of(lesson.name), served, sign)
            for sentence in step.until_settled():
                if first_time and sentence is NEW:
                    brought += 1
                else:
                    tell(f"{lesson.number} {lesson.title}: {sentence}")
    except BaseException:
        # What is not in the manifest is recognised by its text, or kept.
        with contextlib.suppress(WorkspaceError):
            manifest.write()
        raise
    manifest.write()
    if brought:
        tell(f"{brought} notebooks were copied to {workspace}.")


NEW = "is new here."


class _Step:
    """What happens to the copy of one lesson; the methods yield what to say about it."""

    def __init__(
        self,
        workspace: Path,
        lesson: Lesson,
        shipped: Notebook,
        copy: Copy,
        served: bool,
        sign: Callable[[Notebook], object],
    ) -> None:
        self.workspace = workspace
        self.lesson = lesson
        self.path = copy_path(workspace, lesson)
        self.shipped = shipped
        self.text = shipped.text_digest
        self.copy = copy
        self.served = served
        self.sign = sign

    def until_settled(self) -> Iterator[str]:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                sentences = list(self.settle())
            except files.ChangedMeanwhile:
                # Another `course lab`, or a save: look again at what is there now.
                if attempt == ATTEMPTS:
                    raise
                continue
            yield from sentences
            return

    def settle(self) -> Iterator[str]:
        data = files.read(self.path)
        if data is None:
            if not files.create(self.path, self.shipped.data):
                raise files.ChangedMeanwhile(f"{self.path} is a link that leads nowhere. Remove it, then start again.")
            self.wrote_shipped()
            yield NEW
            return
        mine = Notebook.parse(data)
        if mine is None:
            yield (
                f"{self.path.name} is not a notebook any more. It is kept; "
                f"`course reset {self.lesson.number}` restores the lesson."
            )
            return
        text = mine.text_digest
        if text == self.text:
            self.same_text(mine)
        elif text == self.copy.text and not self.served and not self.path.is_symlink():
            yield self.replace_unedited(mine)
        elif not self.knows_of_this_text(mine):
            yield from self.lay_beside(edited=text != self.copy.text)

    def same_text(self, mine: Notebook) -> None:
        untouched = mine.bytes_digest == self.copy.data
        if untouched and mine.data != self.shipped.data:
            # Only the stored outputs are other ones.
            if self.served or self.path.is_symlink():
                return
            files.replace(self.path, self.shipped.data, instead_of=mine.data)
        if untouched or mine.data == self.shipped.data:
            self.wrote_shipped(sign=mine.data != self.shipped.data)
        self.copy.text = self.text
        self.drop_what_lies_beside()

    def replace_unedited(self, mine: Notebook) -> str:
        kept = None
        if mine.bytes_digest != self.copy.data:
            kept = files.back_up(self.path, mine.data)
        files.replace(self.path, self.shipped.data, instead_of=mine.data)
        self.wrote_shipped()
        if kept is None:
            return "was replaced by its new version."
        return f"was replaced by its new version; yours, with its outputs, is in {kept.relative_to(self.workspace)}."

    def knows_of_this_text(self, mine: Notebook) -> bool:
        if not self.copy.text and mine.edition is not None and mine.edition == self.shipped.edition:
            # Not in the manifest, but the notebook itself names the edition that it was copied from.
            self.copy.text = self.text
        return self.text in (self.copy.text, self.copy.offered)

    def lay_beside(self, *, edited: bool) -> Iterator[str]:
        earlier = self.what_lies_beside()
        if earlier is not None and not self.served:
            beside, old = earlier
            files.replace(beside, self.shipped.data, instead_of=old)
            laid = True
        else:
            beside, laid = self.take_free_name()
        self.copy.offered = self.text
        self.copy.beside, self.copy.beside_data = beside.name, self.shipped.bytes_digest
        if laid:
            self.sign(self.shipped)
            why = "you edited it" if edited else "JupyterLab is running here" if self.served else "it is a link"
            yield f"is kept as it is, because {why}; the new text is beside it in {beside.name}."

    def take_free_name(self) -> tuple[Path, bool]:
        number = 1
        while True:
            suffix = "" if number == 1 else f"-{number}"
            beside = self.path.with_name(f"{self.path.stem}.new{suffix}.ipynb")
            if files.create(beside, self.shipped.data):
                return beside, True
            there = Notebook.parse(files.read(beside) or b"")
            if there is not None and there.text_digest == self.text:
                return beside, False
            number += 1

    def what_lies_beside(self) -> tuple[Path, bytes] | None:
        """The file that was laid beside the copy earlier, and its content, if nobody has touched it."""
        name = self.copy.beside
        if not name or Path(name).name != name:
            return None
        beside = self.workspace / name
        notebook = Notebook.parse(files.read(beside) or b"")
        untouched = notebook is not None and notebook.bytes_digest == self.copy.beside_data
        return (beside, notebook.data) if untouched else None

    def drop_what_lies_beside(self) -> None:
        """Remove the new text once the copy has it too; what was edited or run stays."""
        if self.served:
            return
        if (earlier := self.what_lies_beside()) is not None:
            with contextlib.suppress(OSError):
                earlier[0].unlink()
        self.copy.offered = self.copy.beside = self.copy.beside_data = ""

    def wrote_shipped(self, *, sign: bool = True) -> None:
        self.copy.data, self.copy.text = self.shipped.bytes_digest, self.text
        self.drop_what_lies_beside()
        if sign:
            self.sign(self.shipped)
