"""The command `course`. The rooms are imported by the commands that use them."""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from course import curriculum

if TYPE_CHECKING:
    from course.checking import Exercise, Verdict

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence."""

    def error(self, message: str) -> None:
        self.exit(USAGE, f"{self.prog}: {message}. See `{self.prog} --help`.\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code: 0 all is well, 1 it is not, 2 the request makes no sense."""
    options = parser().parse_args(arguments)
    try:
        code = options.command(options)
        sys.stdout.flush()
        return code
    except curriculum.UnknownLesson as error:
        return _say_error(str(error), USAGE)
    except BrokenPipeError:
        # The reader (`| head`) has seen enough; Python must not try to flush into the pipe again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        return _say_error("Interrupted.", INTERRUPTED)


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    root = _Parser(prog="course", description="Build, run and check the lessons of the course.")
    root.add_argument("--version", action="version", version=importlib.metadata.version("pytorch-course"))
    commands = root.add_subparsers(required=True, metavar="COMMAND")

    build = commands.add_parser("build", help="make notebooks from lesson sources, executing what changed")
    build.add_argument("lessons", nargs="*", metavar="LESSON", help="number or name; all lessons without one")
    build.add_argument("--check", action="store_true", help="execute nothing; say which notebooks are out of date")
    build.add_argument("--force", action="store_true", help="also build what has not changed")
    build.add_argument("--jobs", type=_positive, metavar="N", help="lessons at the same time")
    build.set_defaults(command=_build)

    run = commands.add_parser("run", help="execute lessons and write a report")
    run.add_argument("lessons", nargs="*", metavar="LESSON", help="number or name; all lessons without one")
    run.add_argument(
        "--solved",
        action="store_true",
        help="with every stub replaced by its reference; takes the profile `smoke` unless another is asked for",
    )
    run.add_argument("--full", action="store_true", help="with the profile `full`, which takes minutes")
    run.add_argument("--device", choices=("auto", "cpu", "cuda"), help="where the lessons compute")
    run.add_argument(
        "--param", action="append", default=[], metavar="NAME=VALUE", help="set a parameter; may be repeated"
    )
    run.add_argument("--jobs", type=_positive, metavar="N", help="lessons at the same time")
    run.add_argument("--record", action="store_true", help="keep the measured claims of a full run in recorded.json")
    run.add_argument("--output", type=Path, default=Path("report"), metavar="DIR", help="default: report")
    run.set_defaults(command=_run)

    solve = commands.add_parser("solve", help="write a lesson's notebook with all exercises solved")
    solve.add_argument("lesson", metavar="LESSON")
    solve.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    solve.add_argument("--force", action="store_true", help="replace FILE when it exists")
    solve.set_defaults(command=_solve)

    check = commands.add_parser("check", help="check the answer to an exercise that a Python file defines")
    check.add_argument("exercise", metavar="ID")
    check.add_argument("file", type=Path, metavar="FILE.py")
    check.add_argument("--json", action="store_true", help="print the verdict as JSON")
    check.set_defaults(command=_check)

    exercises = commands.add_parser("exercises", help="list the exercises")
    exercises.add_argument("--json", action="store_true", help="print the list as JSON")
    exercises.set_defaults(command=_exercises)

    environment = commands.add_parser("env", help="say in plain words what this machine can do, and what to mend")
    environment.add_argument("--json", action="store_true", help="print the findings as JSON")
    environment.set_defaults(command=_environment)
    return root


def _build(options: argparse.Namespace) -> int:
    lessons = _lessons(options.lessons)
    if options.check and options.force:
        return _say_error("--check executes nothing and --force executes everything: keep one of them.", USAGE)
    from course.publishing import PublishingError
    from course.publishing.checkout import Checkout

    try:
        checkout = Checkout.here()
        from course.publishing import build

        if options.check:
            failures = build.check(lessons, checkout)
        else:
            failures = build.build(lessons, checkout, force=options.force, jobs=options.jobs)
    except (PublishingError, OSError) as error:
        return _say_error(str(error))
    except ModuleNotFoundError as error:
        # Learners do not have it: in their JupyterLab it would replace the contents manager.
        if error.name != "jupytext":
            raise
        return _say_error("Building needs jupytext: install the package with its `dev` extra.")
    return FAILED if failures else OK


def _run(options: argparse.Namespace) -> int:
    lessons = _lessons(options.lessons)
    from course.publishing import PublishingError, UsageError, parameters
    from course.publishing.run import Options, Run

    try:
        chosen = Options(
            output=options.output.resolve(),
            solved=options.solved,
            full=options.full,
            device=options.device,
            params=parameters.parse(options.param),
            jobs=options.jobs,
            record=options.record,
        )
        return Run(lessons, chosen).run()
    except UsageError as error:
        return _say_error(str(error), USAGE)
    except (PublishingError, OSError) as error:
        return _say_error(str(error))


def _solve(options: argparse.Namespace) -> int:
    lesson = curriculum.lesson(options.lesson)
    from course.publishing import PublishingError, UsageError
    from course.publishing.solve import solve

    try:
        solve(curriculum.notebook_path(lesson), options.output, force=options.force)
    except UsageError as error:
        return _say_error(str(error), USAGE)
    except (PublishingError, OSError) as error:
        return _say_error(str(error))
    print(f"{options.output}: lesson {lesson.number}, every stub replaced by its reference.")
    return OK


def _check(options: argparse.Namespace) -> int:
    from course.checking import check_answer
    from course.exercises import UnknownExercise, load_exercise

    try:
        exercise = load_exercise(options.exercise)
        code = options.file.read_bytes()
    except UnknownExercise as error:
        return _say_error(str(error), USAGE)
    except OSError as error:
        return _say_error(f"{options.file} cannot be read: {error.strerror}.", USAGE)
    module, problem = _executed(options.file, code)
    if problem is None and not hasattr(module, exercise.name):
        problem = f"{options.file.name} defines no {exercise.name!r}; call the answer to {exercise.id} that."
    verdict = check_answer(exercise, getattr(module, exercise.name)) if problem is None else _error(exercise, problem)
    if options.json:
        print(json.dumps(verdict.to_dict(), ensure_ascii=False))
    else:
        print(verdict)
    return OK if verdict.passed else FAILED


def _executed(file: Path, code: bytes) -> tuple[ModuleType, str | None]:
    """Run an answer's file as a module; return it and, when the file did not run to its end, a sentence."""
    module = ModuleType("answer")
    module.__file__ = str(file.resolve())
    # Registered, so that `inspect` finds the source of classes.
    sys.modules["answer"] = module
    try:
        # Standard output is for the verdict alone.
        with contextlib.redirect_stdout(sys.stderr):
            exec(compile(code, module.__file__, "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        lines = [
            frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == module.__file__
        ]
        line = error.lineno if isinstance(error, SyntaxError) else (lines or [None])[-1]
        where = f" at line {line}" if line else ""
        message = error.msg if isinstance(error, SyntaxError) else str(error)
        detail = f": {message}" if message else ""
        return module, f"{file.name} stopped{where} with {type(error).__name__}{detail}."
    return module, None


def _error(exercise: Exercise, problem: str) -> Verdict:
    from course.checking import Outcome, Verdict

    return Verdict(exercise.id, Outcome.ERROR, diagnosis=problem)


def _exercises(options: argparse.Namespace) -> int:
    from course.exercises import all_exercises

    lesson_of = {lesson.exercises: lesson.number for lesson in curriculum.LESSONS}
    rows = [
        {
            "id": exercise.id,
            "lesson": lesson_of.get(exercise.id.split(".")[0]),
            "title": exercise.title,
            "wrong_answers": len(exercise.wrong_answers),
            "alternatives": len(exercise.alternatives),
            "hints": len(exercise.hints),
            "probes": len(exercise.probes),
        }
        for exercise in all_exercises()
    ]
    if options.json:
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        return OK
    width = max((len(row["id"]) for row in rows), default=0)
    for row in rows:
        counts = ", ".join(f"{row[key]} {key.replace('_', ' ')}" for key in list(row)[3:])
        print(f"{row['lesson'] or '--'}  {row['id']:{width}}  {row['title']} ({counts})")
    return OK


def _environment(options: argparse.Namespace) -> int:
    from course.environment import examine

    report = examine()
    print(json.dumps(report.to_dict(), indent=1, ensure_ascii=False) if options.json else report)
    return OK if report.ready else FAILED


def _lessons(names: Sequence[str]) -> list[curriculum.Lesson]:
    chosen = [curriculum.lesson(name) for name in names] or curriculum.LESSONS
    return [lesson for lesson in curriculum.LESSONS if lesson in chosen]


def _positive(text: str) -> int:
    number = int(text) if text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return number


def _say_error(message: str, code: int = FAILED) -> int:
    print(message, file=sys.stderr)
    return code
