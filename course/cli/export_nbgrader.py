"""`course export-nbgrader`."""

from __future__ import annotations

import argparse
from pathlib import Path

from course import curriculum
from course.cli.shared import OK, USAGE, say_error


def add(commands) -> None:
    """Add the command to the parser's `commands`."""
    export = commands.add_parser(
        "export-nbgrader",
        help="write lessons as assignments of nbgrader",
        description="Make DIR a course folder of nbgrader: its settings, and an assignment for each lesson in "
        "DIR/source, with our solutions, from which `nbgrader generate_assignment` makes what learners get.",
    )
    export.add_argument("folder", type=Path, metavar="DIR")
    export.add_argument("lessons", nargs="*", metavar="LESSON", help="number or name; all lessons without one")
    export.add_argument("--force", action="store_true", help="replace assignments that were edited or are out of date")
    export.set_defaults(command=_export)


def _export(options: argparse.Namespace) -> int:
    chosen = [curriculum.lesson(name) for name in options.lessons] or curriculum.LESSONS
    lessons = [lesson for lesson in curriculum.LESSONS if lesson in chosen]
    from course.publishing import PublishingError, UsageError
    from course.publishing.nbgrader import export

    try:
        lines = export(lessons, options.folder, force=options.force)
    except UsageError as error:
        return say_error(str(error), USAGE)
    except (PublishingError, OSError) as error:
        return say_error(str(error))
    print("\n".join(lines))
    print(f"Next, in {options.folder}: nbgrader generate_assignment {lessons[0].name}")
    return OK
