"""Grading a class: submissions a minute and a core, peak memory, and papermill on the same notebooks for comparison.

    python benchmarks/grading.py [--count 1000] [--jobs 1 2] [--papermill 3] [--json FILE]

The submissions are notebooks of lesson 01 in which each exercise is right (the reference or an alternative), wrong (a
catalogued wrong answer), left as the stub, or deleted; the verdicts are compared with what was put in. papermill
executes a few of the same notebooks whole, a kernel each, one at a time. Its rate over that of one grading process is
the ratio, by wall time with the start of torch included, without it, and by CPU time, which a busy machine disturbs
less. Memory is the largest sum of proportional set sizes (pages that n processes share count 1/n each) of all
processes of a run.
"""

from __future__ import annotations

import argparse
import copy
import inspect
import itertools
import json
import logging
import os
import random
import resource
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import nbformat
import psutil

from course import curriculum
from course.checking import Exercise
from course.exercises import load_exercise
from course.grading.engine import grade_all
from course.grading.grade import GraderSpec, exercises_of
from course.grading.submission import find_submissions
from course.publishing.report import machine, torch_version

LESSON = "01"
# How often an exercise is right, wrong, the stub, deleted.
KINDS, WEIGHTS = ("right", "wrong", "stub", "deleted"), (60, 25, 10, 5)
TARGET = 20

Expected = dict[tuple[str, str], tuple[str, "str | None"]]


def written(exercise: Exercise, candidate) -> str:
    """A catalogued answer as a learner would write it, below the functions of its file that it calls."""
    names = candidate.obj.__code__.co_names if inspect.isfunction(candidate.obj) else ()
    used = [candidate.obj.__globals__.get(name) for name in names]
    own = [each for each in used if inspect.isfunction(each) and each.__module__ == candidate.obj.__module__]
    return "\n\n".join([*map(inspect.getsource, own), exercise._published(candidate)])


def answers_of(exercise: Exercise) -> dict[str, list[tuple[str, str | None]]]:
    """(source, wrong answer or None) by kind."""
    right = [exercise.answer_reference, *exercise.alternatives]
    return {
        "right": [(written(exercise, each), None) for each in right],
        "wrong": [(written(exercise, each), each.id) for each in exercise.wrong_answers],
    }


def hand_in(folder: Path, count: int, seed: int) -> Expected:
    """Write submissions; return outcome and wrong answer expected of each, by submission and exercise."""
    draw = random.Random(seed)
    shipped = nbformat.read(curriculum.notebook_path(curriculum.lesson(LESSON)), as_version=4)
    known = {each: answers_of(load_exercise(each)) for each in exercises_of(LESSON)}
    expected: Expected = {}
    for number in range(count):
        name = f"person{number:04}.ipynb"
        notebook = copy.deepcopy(shipped)
        for cell in list(notebook.cells):
            about = cell.metadata.get("course", {})
            if about.get("role") != "stub":
                continue
            exercise = about["exercise"]
            (kind,) = draw.choices(KINDS, WEIGHTS)
            outcome, wrong = "NOT_ATTEMPTED", None
            if kind == "deleted":
                notebook.cells.remove(cell)
            elif kind != "stub":
                cell.source, wrong = draw.choice(known[exercise][kind])
                outcome = "WRONG" if wrong else "PASSED"
            expected[name, exercise] = outcome, wrong
        nbformat.write(notebook, folder / name)
    return expected


class Watch:
    """Wall and CPU seconds and the peak memory of the processes that are started within it."""

    def __enter__(self) -> Watch:
        self.peak = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._cpu, self._start = _children(), time.perf_counter()
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.seconds = time.perf_counter() - self._start
        self.cpu_seconds = _children() - self._cpu
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        me = psutil.Process()
        while not self._done.wait(0.5):
            total = 0
            for process in me.children(recursive=True):
                try:
                    total += process.memory_full_info().pss
                except psutil.Error:
                    continue
            self.peak = max(self.peak, total)


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def graded(folder: Path, expected: Expected, jobs: int, unprotected: bool) -> dict[str, object]:
    """Grade all submissions; how fast, with how much memory, and how many rows say what they should."""
    spec = GraderSpec(exercises_of(LESSON), unprotected=unprotected)
    submissions = find_submissions(folder)
    rows, first, protection = [], 0.0, ""
    with Watch() as watch:
        start = time.perf_counter()
        for each in grade_all(submissions, spec, jobs=jobs):
            first = first or time.perf_counter() - start
            protection = each.result.protection
            rows += each.result.rows
    other = [row for row in rows if (row.outcome, row.wrong) != expected[row.submission, row.exercise]]
    for row in other[:5]:
        print(f"unexpected: {row}, not {expected[row.submission, row.exercise]}", file=sys.stderr)
    count = len(submissions)
    later = (watch.seconds - first) / max(1, count - 1)
    return {
        "jobs": jobs,
        "submissions": count,
        "rows": len(rows),
        "rows other than expected": len(other),
        "outcomes": dict(Counter(row.outcome for row in rows)),
        "protection": protection,
        "seconds": round(watch.seconds, 2),
        "seconds to the first result": round(first, 2),
        "submissions a minute and a core": round(60 * count / watch.seconds / jobs, 1),
        "the same after the first result": round(60 / later / jobs, 1) if count > 1 else None,
        "submissions a CPU-minute": round(60 * count / watch.cpu_seconds, 1),
        "peak memory, MB": round(watch.peak / 1e6),
    }


def is_whole(path: Path) -> bool:
    cells = nbformat.read(path, as_version=4).cells
    stubs = sum(cell.metadata.get("course", {}).get("role") == "stub" for cell in cells)
    return stubs == len(exercises_of(LESSON))


def executed(folder: Path, count: int) -> dict[str, object]:
    """Execute whole notebooks through papermill; only those that come to their end, with no answer's cell deleted."""
    import papermill

    logging.getLogger("papermill").setLevel(logging.CRITICAL)
    os.environ.update(OMP_NUM_THREADS="1", COURSE_PROGRESS="off")
    whole = (path for path in sorted(folder.glob("*.ipynb")) if is_whole(path))
    paths = list(itertools.islice(whole, count))
    if not paths:
        raise SystemExit("No submission is whole: take a larger --count.")
    with Watch() as watch, tempfile.TemporaryDirectory() as scratch:
        for path in paths:
            papermill.execute_notebook(
                path, Path(scratch) / path.name, kernel_name="python3", progress_bar=False, cwd=scratch
            )
    return {
        "submissions": len(paths),
        "seconds": round(watch.seconds, 2),
        "submissions a minute and a core": round(60 * len(paths) / watch.seconds, 2),
        "submissions a CPU-minute": round(60 * len(paths) / watch.cpu_seconds, 2),
        "peak memory, MB": round(watch.peak / 1e6),
    }


def ratios(ours: dict, theirs: dict) -> dict[str, float]:
    wall, cpu = "submissions a minute and a core", "submissions a CPU-minute"
    after = ours["the same after the first result"] or ours[wall]
    return {
        "wall": round(ours[wall] / theirs[wall], 1),
        "wall, without our start": round(after / theirs[wall], 1),
        "CPU": round(ours[cpu] / theirs[cpu], 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000, help="submissions to grade")
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2], help="grading processes, a run each")
    parser.add_argument("--papermill", type=int, default=3, help="submissions to execute whole")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--unprotected", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        expected = hand_in(folder, options.count, options.seed)
        runs = []
        for jobs in options.jobs:
            runs.append(graded(folder, expected, jobs, options.unprotected))
            print(json.dumps(runs[-1]), file=sys.stderr, flush=True)
        whole = executed(folder, options.papermill)
    ratio = ratios(runs[0], whole)
    result = {
        "machine": machine(),
        "torch": torch_version(),
        "graded": runs,
        "papermill": whole,
        f"ratio (target: {TARGET})": ratio,
    }
    print(json.dumps(result, indent=2))
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")
    enough = ratio["wall"] >= TARGET or options.count < 1000
    return 0 if enough and not any(run["rows other than expected"] for run in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
