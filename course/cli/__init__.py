"""The command `course`, the only room that knows all the others: they are imported by the commands that use them."""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import os
import sys
from collections.abc import Sequence

from course import curriculum
from course.cli import answers, environment, explaining, export_nbgrader, grade, learner, publish
from course.cli.shared import FAILED, INTERRUPTED, OK, USAGE, Parser, say_error

__all__ = ["FAILED", "INTERRUPTED", "OK", "USAGE", "main", "parser"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code: 0 all is well, 1 it is not, 2 the request makes no sense."""
    given, passed_on = learner.split(sys.argv[1:] if arguments is None else arguments)
    root = parser()
    options, unknown = root.parse_known_args(given)
    if unknown and not options.takes_more:
        root.error(f"unrecognized arguments: {' '.join(unknown)}")
    options.more = [*unknown, *passed_on]
    # A folder's name may hold what a terminal's encoding lacks.
    with contextlib.suppress(AttributeError):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = options.command(options)
        sys.stdout.flush()
        return code
    except curriculum.UnknownLesson as error:
        return say_error(str(error), USAGE)
    except BrokenPipeError:
        # The reader (`| head`) has seen enough; Python must not try to flush into the pipe again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        return say_error("Interrupted.", INTERRUPTED)


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    root = Parser(prog="course", description="Learn with, build, run and check the lessons of the course.")
    root.add_argument("--version", action="version", version=importlib.metadata.version("pytorch-course"))
    root.set_defaults(takes_more=False)
    commands = root.add_subparsers(required=True, metavar="COMMAND")
    for group in (learner, answers, environment, explaining, grade, publish, export_nbgrader):
        group.add(commands)
    return root
