"""`course build`, `course run` and `course solve`: from lesson sources to notebooks and reports."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from course import curriculum
from course.cli.shared import FAILED, OK, USAGE, positive, say_error


def add(commands) -> None:
    """Add the commands to the parser's `commands`."""
    build = commands.add_parser("build", help="make notebooks from lesson sources, executing what changed")
    build.add_argument("lessons", nargs="*", metavar="LESSON", help="number or name; all lessons without one")
    build.add_argument("--check", action="store_true", help="execute nothing; say which notebooks are out of date")
    build.add_argument("--force", action="store_true", help="also build what has not changed")
    build.add_argument("--jobs", type=positive, metavar="N", help="lessons at the same time")
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
    run.add_argument("--jobs", type=positive, metavar="N", help="lessons at the same time")
    run.add_argument("--record", action="store_true", help="keep the measured claims of a full run in recorded.json")
    run.add_argument("--output", type=Path, default=Path("report"), metavar="DIR", help="default: report")
    run.set_defaults(command=_run)

    solve = commands.add_parser("solve", help="write a lesson's notebook with all exercises solved")
    solve.add_argument("lesson", metavar="LESSON")
    solve.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    solve.add_argument("--force", action="store_true", help="replace FILE when it exists")
    solve.set_defaults(command=_solve)


def _build(options: argparse.Namespace) -> int:
    lessons = _lessons(options.lessons)
    if options.check and options.force:
        return say_error("--check executes nothing and --force executes everything: keep one of them.", USAGE)
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
        return say_error(str(error))
    except ModuleNotFoundError as error:
        # Learners do not have it: in their JupyterLab it would replace the contents manager.
        if error.name != "jupytext":
            raise
        return say_error("Building needs jupytext: install the package with its `dev` extra.")
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
        return say_error(str(error), USAGE)
    except (PublishingError, OSError) as error:
        return say_error(str(error))


def _solve(options: argparse.Namespace) -> int:
    lesson = curriculum.lesson(options.lesson)
    from course.publishing import PublishingError, UsageError
    from course.publishing.solve import solve

    try:
        solve(curriculum.notebook_path(lesson), options.output, force=options.force)
    except UsageError as error:
        return say_error(str(error), USAGE)
    except (PublishingError, OSError) as error:
        return say_error(str(error))
    print(f"{options.output}: lesson {lesson.number}, every stub replaced by its reference.")
    return OK


def _lessons(names: Sequence[str]) -> list[curriculum.Lesson]:
    chosen = [curriculum.lesson(name) for name in names] or curriculum.LESSONS
    return [lesson for lesson in curriculum.LESSONS if lesson in chosen]
