"""`course status` and `course next`: progress as a table, as JSON and as one line."""

from __future__ import annotations

from dataclasses import asdict

from course import curriculum
from course.workspace.progress import LONGEST_GAP, LessonProgress, Progress, lesson_exercises, next_lesson

_HEAD = ("", "lesson", "passed", "attempts", "hints", "time")


def table(progress: Progress) -> str:
    """Return the table of lessons that `course status` prints, the next one marked, and below it what was odd."""
    following = next_lesson(progress)
    rows = [_HEAD]
    for lesson in curriculum.LESSONS:
        mark = ">" if lesson is following else ""
        rows.append((mark, f"{lesson.number}  {lesson.title}", *_figures(progress.lesson(lesson))))
    rows.append(("", "all", *_figures(progress.overall)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        mark, title, *figures = (
            text.ljust(width) if place < 2 else text.rjust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join([f"{mark} {title}", *figures]).rstrip())
    lines += [
        "",
        "time: from one check, hint or solution of a kernel to the next, "
        f"breaks of over {LONGEST_GAP / 60:.0f} minutes left out",
        next_line(progress),
    ]
    return "\n".join(lines)


def to_dict(progress: Progress) -> dict[str, object]:
    """Return what `course status --json` prints: lessons with their exercises, the next lesson, and what was odd."""
    following = next_lesson(progress)
    installed = {each for lesson in curriculum.LESSONS for each in lesson_exercises(lesson)}
    return {
        "lessons": [
            {
                "number": lesson.number,
                "name": lesson.name,
                "title": lesson.title,
                **_together(progress.lesson(lesson)),
                "exercises": [
                    {"id": each, **_rounded(asdict(progress.exercise(each)))} for each in lesson_exercises(lesson)
                ],
            }
            for lesson in curriculum.LESSONS
        ],
        "overall": _together(progress.overall),
        "next": following.number if following else None,
        "of_other_versions": sorted(set(progress.exercises) - installed),
        "problems": list(progress.problems),
    }


def next_line(progress: Progress) -> str:
    """Return what `course next` prints: the lesson to go on with, or that all are finished; below it what was odd."""
    following = next_lesson(progress)
    if following is None:
        line = "Every exercise of every lesson is passed."
    else:
        figures = progress.lesson(following)
        line = (
            f"Next: lesson {following.number}, {following.title} ({figures.passed} of {figures.total} passed). "
            f"`course lab {following.number}` opens it."
        )
    return "\n".join([line, *progress.problems])


def _figures(figures: LessonProgress) -> tuple[str, ...]:
    passed = f"{figures.passed} of {figures.total}"
    return passed, _count(figures.attempts), _count(figures.hints), _time(figures.seconds)


def _count(number: int) -> str:
    return str(number) if number else "-"


def _time(seconds: float) -> str:
    minutes = int(seconds // 60)
    if not minutes:
        return "< 1 min" if seconds else "-"
    return f"{minutes // 60} h {minutes % 60:02} min" if minutes >= 60 else f"{minutes} min"


def _together(figures: LessonProgress) -> dict[str, object]:
    return {**_rounded(asdict(figures)), "finished": figures.finished}


def _rounded(data: dict[str, object]) -> dict[str, object]:
    return {**data, "seconds": round(data["seconds"])}
