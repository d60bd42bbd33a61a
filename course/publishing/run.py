"""`course run`: execute built notebooks through papermill, judge them and write a report."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import papermill
from nbclient.exceptions import DeadKernelError
from nbformat import NotebookNode
from papermill.exceptions import PapermillExecutionError

from course import curriculum
from course.curriculum import Lesson
from course.exercises import load_exercise
from course.publishing import UsageError, files, outputs, parameters, report
from course.publishing.execute import (
    default_jobs,
    interrupts_ignored,
    say_now,
    side_by_side,
    terminated_like_interrupted,
    time_limit,
)
from course.publishing.judge import judge
from course.publishing.kernels import KERNEL_NAME, Session
from course.publishing.record import record
from course.publishing.report import LessonReport
from course.publishing.solve import solved

INTERRUPTED = 130


@dataclass(frozen=True)
class Options:
    """What the command line asks for; `device` and `profile` None mean the manifest's defaults."""

    output: Path
    solved: bool = False
    full: bool = False
    device: str | None = None
    params: dict[str, str] = field(default_factory=dict)
    jobs: int | None = None
    record: bool = False

    @property
    def profile(self) -> str | None:
        """The profile asked for: `--full`, or the short one for solved runs unless `--param` names another."""
        if self.full:
            return "full"
        return "smoke" if self.solved and "profile" not in self.params else None

    @property
    def expected(self) -> str:
        """The verdict that every exercise should have."""
        return "PASSED" if self.solved else "NOT_ATTEMPTED"


class Run:
    """One `course run`: its lessons, what became of them, and where they are written.

    `notebook_path` gives the path of a lesson's built notebook, `recorded` is where `--record` writes, `load` gives an
    exercise.
    """

    def __init__(
        self,
        lessons: Sequence[Lesson],
        options: Options,
        *,
        notebook_path: Callable[[Lesson], Path] = curriculum.notebook_path,
        recorded: Path | None = None,
        load: Callable = load_exercise,
        say: Callable[[str], None] = say_now,
    ) -> None:
        self.lessons = lessons
        self.options = options
        self.parameters = parameters.choose(lessons, options.params, device=options.device, profile=options.profile)
        self.recorded = recorded or curriculum.recorded_path()
        if options.record and not all(values.get("profile") == "full" for values in self.parameters.values()):
            raise UsageError("--record keeps the figures of full runs: add --full.")
        self.reports = {
            lesson.number: LessonReport(lesson.number, budget=lesson.cpu_seconds, device=self.device_of(lesson))
            for lesson in lessons
        }
        self._notebook_path = notebook_path
        self._load = load
        self._say = say
        self._position = itertools.count(1)

    def device_of(self, lesson: Lesson) -> str:
        """Return the device that a lesson's parameters ask for."""
        return str(self.parameters[lesson.number].get("device", "cpu"))

    def run(self) -> int:
        """Run every lesson and write the report; return the exit code: 0 only if all is well."""
        code = 0
        with terminated_like_interrupted():
            try:
                runnable = [lesson for lesson in self.lessons if self._settle_device(lesson)]
                jobs = self.options.jobs or default_jobs()
                side_by_side(self._run_lesson, runnable, jobs=jobs, done=self._ended)
            except KeyboardInterrupt:
                code = INTERRUPTED
            finally:
                # A second interrupt must not leave half a report.
                with interrupts_ignored():
                    content = self._write_report()
        if code == INTERRUPTED:
            self._say(f"Interrupted. The report is in {self.options.output}.")
            return code
        if self.options.record:
            count = record(content, self.recorded)
            self._say(f"{count} measured claims recorded in {self.recorded}. `course build --force` shows them.")
        self._say(f"The report is in {self.options.output}.")
        return 0 if all(lesson.status == "passed" for lesson in self.reports.values()) else 1

    def _settle_device(self, lesson: Lesson) -> bool:
        """Find out what "auto" means here; a lesson whose device is absent is not run."""
        result = self.reports[lesson.number]
        if result.device == "cpu":
            return True
        from course.training.device import choose_device

        try:
            result.device = choose_device(result.device).type
        except (RuntimeError, ValueError) as error:
            result.reason = str(error)
            self._ended(lesson)
            return False
        return True

    def _run_lesson(self, lesson: Lesson) -> Lesson:
        self._say(f"[{next(self._position)}/{len(self.lessons)}] {lesson.name}: started")
        result = self.reports[lesson.number]
        start = time.monotonic()
        try:
            path = self._notebook_path(lesson)
            notebook = files.read_notebook(path)
            profile = str(self.parameters[lesson.number].get("profile", "quick"))
            with Session(seconds=time_limit(lesson, profile), notebooks=path.parent) as session:
                try:
                    self._execute(lesson, notebook, session, result)
                finally:
                    session.measure()
                    result.cpu_seconds = round(session.cpu_seconds, 2)
        except Exception as error:
            # Whatever happened to one lesson belongs in the report, and the others go on.
            result.status = "failed"
            result.reason = f"The lesson could not be run: {type(error).__name__}: {error}"
        result.seconds = round(time.monotonic() - start, 2)
        return lesson

    def _execute(self, lesson: Lesson, built: NotebookNode, session: Session, result: LessonReport) -> None:
        source = session.folder / "lesson.ipynb"
        files.write_notebook(solved(built, self._load) if self.options.solved else built, source)
        target = self.options.output / f"{lesson.name}.ipynb"
        self.options.output.mkdir(parents=True, exist_ok=True)
        failure: Exception | None = None
        try:
            # What it would log stands in the report.
            logging.getLogger("papermill").setLevel(logging.CRITICAL)
            papermill.execute_notebook(
                str(source),
                # papermill formats this string.
                str(target).replace("{", "{{").replace("}", "}}"),
                parameters=self.parameters[lesson.number],
                kernel_name=KERNEL_NAME,
                progress_bar=False,
                kernel_manager_class=session.manager_class,
            )
        except (PapermillExecutionError, DeadKernelError, RuntimeError) as error:
            failure = error
        executed = files.read_notebook(target)
        result.exercises = outputs.verdicts(executed)
        result.claims = outputs.claims(executed)
        judge(result, executed, session, failure, expected=self.options.expected)

    def _ended(self, lesson: Lesson) -> None:
        result = self.reports[lesson.number]
        figures = f"{result.seconds:.1f} s, {result.cpu_seconds:.1f} of {result.budget:g} CPU-seconds"
        # The budget is that of a quick run.
        full = self.parameters[lesson.number].get("profile") == "full"
        over = " (over budget)" if result.cpu_seconds > result.budget and not full else ""
        tail = f"{len(result.exercises)} exercises, {len(result.claims)} claims"
        if result.error:
            tail = f"{result.reason} {result.error['type']}: {result.error['message']}"
        elif result.reason:
            tail = result.reason
        self._say(f"{lesson.name}: {result.status}, {figures}{over}, {tail}")

    def _write_report(self) -> dict:
        for result in self.reports.values():
            if result.status == "not_run" and result.reason is None:
                result.reason = "The run was interrupted before this lesson."
        names = {lesson.number: f"{lesson.name}.ipynb" for lesson in self.lessons}
        present = {number: name for number, name in names.items() if self.reports[number].seconds}
        return report.write(
            list(self.reports.values()), self.options.output, notebooks=present, expected=self.options.expected
        )
