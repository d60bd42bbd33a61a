"""`course check` and `course exercises`."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from course import curriculum
from course.cli.shared import FAILED, OK, USAGE, say_error

if TYPE_CHECKING:
    from course.checking import Exercise, Verdict


def add(commands) -> None:
    """Add the commands to the parser's `commands`."""
    check = commands.add_parser("check", help="check the answer to an exercise that a Python file defines")
    check.add_argument("exercise", metavar="ID")
    check.add_argument("file", type=Path, metavar="FILE.py")
    check.add_argument("--json", action="store_true", help="print the verdict as JSON")
    check.set_defaults(command=_check)

    exercises = commands.add_parser("exercises", help="list the exercises")
    exercises.add_argument("--json", action="store_true", help="print the list as JSON")
    exercises.set_defaults(command=_exercises)


def _check(options: argparse.Namespace) -> int:
    from course.checking import check_answer
    from course.exercises import UnknownExercise, load_exercise

    try:
        exercise = load_exercise(options.exercise)
        code = options.file.read_bytes()
    except UnknownExercise as error:
        return say_error(str(error), USAGE)
    except OSError as error:
        return say_error(f"{options.file} cannot be read: {error.strerror}.", USAGE)
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
