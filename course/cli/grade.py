"""`course grade`."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from course import curriculum
from course.cli.shared import FAILED, INTERRUPTED, OK, USAGE, positive, say_error

if TYPE_CHECKING:
    from course.grading.engine import Graded
    from course.grading.journal import Journal
    from course.grading.submission import Submission
    from course.grading.summary import Summary

NAMED = 5  # misunderstandings on the terminal


def add(commands) -> None:
    """Add the command to the parser's `commands`."""
    grade = commands.add_parser(
        "grade",
        help="grade the notebooks or .py files of many people",
        description="Run what people wrote for a lesson's exercises, each submission in a process of its own behind a "
        "protection, and write a verdict and a diagnosis for each exercise. Beside OUTPUT come a summary of the "
        "class's misunderstandings (NAME-summary.html, .json and .png) and a journal, from which an interrupted run "
        "goes on.",
    )
    grade.add_argument("submissions", type=Path, metavar="SUBMISSIONS_DIR", help="a folder of .ipynb and .py files")
    grade.add_argument("-o", "--output", type=Path, required=True, metavar="OUTPUT", help="grades.csv or grades.json")
    grade.add_argument(
        "--lesson",
        action="append",
        default=[],
        metavar="NN",
        help="number or name of the lesson that is graded; may be repeated; default: what the notebooks say",
    )
    grade.add_argument("--jobs", type=positive, metavar="N", help="grading processes; default: one a core, at most 4")
    grade.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="grade on the workers of a dask.distributed scheduler, such as tcp://10.0.0.5:8786",
    )
    grade.add_argument(
        "--resume",
        action="store_true",
        help="keep what earlier runs into OUTPUT graded, as far as neither submission nor course changed since",
    )
    grade.add_argument(
        "--unprotected",
        action="store_true",
        help="grade also where this system has no protection against what the answers do",
    )
    grade.set_defaults(command=_grade)


def _grade(options: argparse.Namespace) -> int:
    lessons = [curriculum.lesson(name) for name in options.lesson]
    output = options.output
    if output.suffix not in (".csv", ".json"):
        return say_error(f"--output {output} should end in .csv or .json.", USAGE)
    if not options.submissions.is_dir():
        return say_error(f"{options.submissions} is no folder. Give the folder that holds the submissions.", USAGE)
    if options.jobs and options.scheduler:
        return say_error("--jobs is for this machine; a cluster has as many as its workers have threads.", USAGE)

    from course.grading import report, submission
    from course.grading.engine import GradingError
    from course.grading.grade import GraderSpec
    from course.grading.journal import Journal, JournalError
    from course.grading.sandbox import protection

    submissions = submission.find_submissions(options.submissions)
    if not submissions:
        return say_error(f"{options.submissions} holds no .ipynb and no .py file, in its subfolders neither.", USAGE)
    try:
        lessons = lessons or [_lesson_of(submissions)]
    except LookupError as error:
        return say_error(str(error), USAGE)
    if options.scheduler is None and not options.unprotected and protection().name == "none":
        return say_error(
            f"{protection().sentence} Answers of people whom you do not trust could read and change what you can. "
            "Grade on a system that has one, or add --unprotected.",
            USAGE,
        )
    spec = GraderSpec(exercises=_exercises(lessons), unprotected=options.unprotected)
    print(f"{_count(len(submissions), 'submission')}, lesson {', '.join(each.number for each in lessons)}.", flush=True)
    try:
        with Journal(report.journal_path(output)) as journal:
            if problem := _settled(journal, output, resume=options.resume):
                return say_error(problem, USAGE)
            try:
                graded = _all_graded(submissions, spec, journal, options)
            except KeyboardInterrupt:
                print(f"Interrupted. {_count(len(journal.entries), 'submission')} graded; --resume goes on.")
                return INTERRUPTED
            written, summary = report.write(graded, output)
            journal.finish()
    except (GradingError, JournalError) as error:
        return say_error(str(error))
    except OSError as error:
        return say_error(f"{error.filename or output} cannot be written: {error.strerror}. --resume keeps the grades.")
    _say_summary(graded, summary)
    print(f"Grades: {written.grades}. Summary: {written.page}.")
    return OK if all(each.result.complete for each in graded) else FAILED


def _lesson_of(submissions: Sequence[Submission]) -> curriculum.Lesson:
    """The lesson that the submissions say they answer. Raises LookupError with a sentence when that is not one."""
    from course.grading.submission import read_answers

    found: Counter[str] = Counter()
    rooms = {lesson.exercises: lesson.number for lesson in curriculum.LESSONS}
    for each in submissions:
        answers = read_answers(each.path)
        mine = Counter(
            rooms[room] for room in (name.split(".")[0] for name in answers.found if "." in name) if room in rooms
        )
        number = answers.lesson or next((number for number, _ in mine.most_common(1)), None)
        if number is not None:
            found[number] += 1
    if len(found) == 1:
        return curriculum.lesson(next(iter(found)))
    if not found:
        raise LookupError("No submission says which lesson it belongs to. Add --lesson NN.")
    counts = ", ".join(f"{number} ({count})" for number, count in sorted(found.items()))
    raise LookupError(f"The submissions belong to several lessons: {counts}. Add --lesson NN, once for each.")


def _exercises(lessons: Sequence[curriculum.Lesson]) -> tuple[str, ...]:
    from course.exercises import exercise_ids

    rooms = [lesson.exercises for lesson in lessons]
    return tuple(each for room in rooms for each in exercise_ids() if each.split(".")[0] == room)


def _settled(journal: Journal, output: Path, *, resume: bool) -> str | None:
    """Start the journal over unless this run goes on with it; a sentence when it is not clear what is wanted."""
    if resume:
        return None
    if journal.interrupted and journal.entries:
        return (
            f"An earlier run into {output} was interrupted after {_count(len(journal.entries), 'submission')}. "
            f"Go on with --resume, or delete {journal.path} to start over."
        )
    journal.start_over()
    return None


def _all_graded(submissions, spec, journal: Journal, options: argparse.Namespace) -> list[Graded]:
    from course.grading.engine import grade_all
    from course.grading.summary import harmless
    from course.publishing.execute import default_jobs, say_now, terminated_like_interrupted

    by_id: dict[str, Graded] = {}
    resumed = 0
    with terminated_like_interrupted():
        for graded in grade_all(
            submissions,
            spec,
            jobs=options.jobs or default_jobs(),
            scheduler=options.scheduler,
            journal=journal,
            say=say_now,
        ):
            by_id[graded.submission.id] = graded
            if graded.resumed:
                resumed += 1
                continue
            if resumed:
                say_now(f"{_count(resumed, 'submission')} graded by an earlier run.")
                resumed = 0
            passed = sum(row.outcome == "PASSED" for row in graded.result.rows)
            how = f"{passed} of {len(graded.result.rows)} passed" if graded.result.complete else "not graded"
            say_now(f"[{len(by_id)}/{len(submissions)}] {harmless(graded.submission.id)}: {how}")
    if resumed:
        say_now(f"{_count(resumed, 'submission')} graded by an earlier run.")
    return [by_id[each.id] for each in submissions]


def _say_summary(graded: Sequence[Graded], summary: Summary) -> None:
    protections = Counter(each.result.protection for each in graded if each.result.protection)
    for protection, count in protections.most_common():
        print(f"Protection{f' of {count}' if len(protections) > 1 else ''}: {protection}")
    found = summary.misunderstandings()
    print("Most frequent misunderstandings:" if found else "No misunderstanding was recognised.")
    for name, words, count in found[:NAMED]:
        print(f"  {count:4}  {name}: {' '.join(words.split())}")
    lost = [each for each in graded if not each.result.complete]
    if lost:
        print(f"The grader failed on {_count(len(lost), 'submission')}; grade again with --resume.")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
