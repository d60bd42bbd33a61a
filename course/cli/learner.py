"""`course lab`, `course reset`, `course status` and `course next`: the learner's own copies and progress."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from course import curriculum
from course.cli.shared import FAILED, OK, USAGE, say_error

_FOLDER = (
    "your folder of copies; default: the current folder where it holds copies already, else $COURSE_HOME/notebooks "
    "where COURSE_HOME is set, else ~/pytorch-course"
)


def add(commands) -> None:
    """Add the commands to the parser's `commands`."""
    lab = commands.add_parser(
        "lab",
        help="open JupyterLab on your own copies of the notebooks",
        description="Copy the notebooks into your folder where they are missing, bring what an update of the course "
        "changed (a notebook that you edited is kept, the new text is laid beside it), then open JupyterLab there.",
        epilog="What JupyterLab itself understands is passed on to it: `course lab 01 --port=8899 -- --debug`.",
        # `--no` is for JupyterLab to understand or not.
        allow_abbrev=False,
    )
    lab.add_argument("lesson", nargs="?", metavar="LESSON", help="number or name; the next unfinished one without it")
    lab.add_argument("--workspace", metavar="DIR", help=_FOLDER)
    lab.add_argument("--no-browser", action="store_true", help="start the server and print its address")
    lab.set_defaults(command=_lab, takes_more=True)

    reset = commands.add_parser(
        "reset",
        help="restore a lesson, or one exercise of it, in your copies; yours is kept in backups/",
        description="Restore a lesson, or the cell of one exercise, in your copies of the notebooks. The notebook as "
        "it was is kept in the folder backups/ beside it, with date and time in its name.",
    )
    reset.add_argument("lesson", metavar="LESSON", help="number or name")
    reset.add_argument("exercise", nargs="?", metavar="EXERCISE", help="id or short name: `tensors.flatten`, `flatten`")
    reset.add_argument("--workspace", metavar="DIR", help=_FOLDER)
    reset.set_defaults(command=_reset)

    status = commands.add_parser("status", help="show what you have passed")
    status.add_argument("--json", action="store_true", help="print it as JSON")
    status.set_defaults(command=_status)

    following = commands.add_parser("next", help="say which lesson to go on with")
    following.set_defaults(command=_next)


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Part the command line of `course lab` at `--`: what is ours, and what JupyterLab gets as it is."""
    arguments = list(arguments)
    if arguments[:1] != ["lab"] or "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def _lab(options: argparse.Namespace) -> int:
    from course.workspace import lab
    from course.workspace.files import RequestError, WorkspaceError

    name, more = options.lesson, list(options.more)
    if name is None and more and not more[0].startswith("-"):
        # argparse leaves a LESSON that follows an option to us.
        name = more.pop(0)
    try:
        lesson = None if name is None else curriculum.lesson(name)
    except curriculum.UnknownLesson as error:
        if not more:
            raise
        return say_error(f"{error} Give an option of JupyterLab as one word: --port=8899.", USAGE)
    try:
        return lab.start(lesson, workspace=options.workspace, browser=not options.no_browser, arguments=more)
    except RequestError as error:
        return say_error(str(error), USAGE)
    except WorkspaceError as error:
        return say_error(str(error), FAILED)


def _reset(options: argparse.Namespace) -> int:
    lesson = curriculum.lesson(options.lesson)
    from course.workspace import folder, reset
    from course.workspace.files import RequestError, WorkspaceError

    try:
        for line in reset.reset(folder.choose(options.workspace), lesson, options.exercise):
            print(line)
    except RequestError as error:
        return say_error(str(error), USAGE)
    except WorkspaceError as error:
        return say_error(str(error), FAILED)
    return OK


def _status(options: argparse.Namespace) -> int:
    from course.workspace import progress, status

    read = progress.read()
    print(json.dumps(status.to_dict(read), indent=1, ensure_ascii=False) if options.json else status.table(read))
    return OK


def _next(_options: argparse.Namespace) -> int:
    from course.workspace import progress, status

    print(status.next_line(progress.read()))
    return OK
