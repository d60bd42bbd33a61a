"""`course build`: execute what changed and write notebooks, or compare them with their sources."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbformat import NotebookNode

from course.curriculum import Lesson
from course.publishing import PublishingError, files, outputs
from course.publishing.checkout import Checkout
from course.publishing.compare import problems, stray_files
from course.publishing.execute import default_jobs, say_now, side_by_side, time_limit
from course.publishing.kernels import KERNEL_NAME, Session
from course.publishing.report import torch_version
from course.publishing.source import generate


class BuildError(PublishingError):
    """A lesson could not be built; its old notebook is untouched."""


def build(
    lessons: Sequence[Lesson],
    checkout: Checkout,
    *,
    force: bool = False,
    jobs: int | None = None,
    say: Callable[[str], None] = say_now,
) -> int:
    """Write the notebooks of `lessons` whose sources changed (all with `force`); return how many failed.

    A lesson that fails is reported through `say` and keeps its old notebook.
    """
    changed = []
    for lesson in lessons:
        if force or problems(lesson, checkout):
            changed.append(lesson)
        else:
            say(f"{lesson.name}: unchanged")
    failures = 0

    def work(lesson: Lesson) -> str | BuildError:
        try:
            return build_lesson(lesson, checkout)
        except PublishingError as error:
            return BuildError(str(error))

    def done(result: str | BuildError) -> None:
        nonlocal failures
        failures += isinstance(result, BuildError)
        say(str(result))

    for lesson in changed:
        say(f"{lesson.name}: building")
    side_by_side(work, changed, jobs=jobs or default_jobs(), done=done)
    return failures


def check(lessons: Sequence[Lesson], checkout: Checkout, say: Callable[[str], None] = say_now) -> int:
    """Compare notebooks with their sources and execute nothing; return how many differ."""
    found = 0
    for lesson in lessons:
        differences = problems(lesson, checkout)
        found += bool(differences)
        say("\n".join(differences) if differences else f"{lesson.name}: up to date")
    for sentence in stray_files(checkout):
        found += 1
        say(sentence)
    return found


def build_lesson(lesson: Lesson, checkout: Checkout) -> str:
    """Execute one lesson and write its notebook; return a line that says so. Raises PublishingError."""
    notebook = generate(lesson, checkout)
    metadata = copy.deepcopy(notebook.metadata)
    with Session(seconds=time_limit(lesson), for_storing=True) as session:
        # Its first cell compares digests with the notebook that it finds.
        files.write_notebook(notebook, session.folder / f"{lesson.name}.ipynb")
        _execute(notebook, session, lesson)
    for cell in outputs.code_cells(notebook):
        outputs.store(cell)
        traces = outputs.machine_traces(cell, session.folder)
        if traces:
            raise BuildError(
                f"{lesson.name}: the output of cell {cell.id} contains {traces[0]!r}, which belongs to this machine or "
                "process; print something that is the same everywhere."
            )
    notebook.metadata = metadata
    notebook.metadata["course"]["torch"] = torch_version()
    files.write_notebook(notebook, checkout.notebook(lesson))
    count = len(outputs.code_cells(notebook))
    return f"{lesson.name}: built, {count} code cells, {session.cpu_seconds:.1f} CPU-seconds"


def _execute(notebook: NotebookNode, session: Session, lesson: Lesson) -> None:
    client = NotebookClient(
        notebook,
        kernel_manager_class=session.manager_class,
        kernel_name=KERNEL_NAME,
        record_timing=False,
        store_widget_state=False,
        force_raise_errors=True,
    )
    cell = None
    try:
        # Not `client.execute()`: it leaves an atexit hook behind when the kernel is killed while it starts.
        with client.setup_kernel():
            for index, cell in enumerate(notebook.cells):
                client.execute_cell(cell, index, execution_count=client.code_cells_executed + 1)
    except CellExecutionError as error:
        lines = "\n".join(f"    {line}" for line in cell.source.splitlines())
        raise BuildError(
            f"{lesson.name}: cell {cell.id} raised {error.ename}: {error.evalue}\n{lines}\n"
            "The notebook was left as it was."
        ) from None
    except (DeadKernelError, RuntimeError):
        where = f"in cell {cell.id}" if cell else "before the first cell"
        why = f"after {session.seconds:.0f} s" if session.timed_out else f"by itself\n{session.log_tail()}"
        raise BuildError(f"{lesson.name}: the kernel ended {where} {why}. The notebook was left as it was.") from None
