"""How long a check of a right answer takes: wall milliseconds over all exercises, the answer's own time taken off.

    python benchmarks/check_latency.py [--rounds 5] [--json FILE]

The rounds go over all exercises in turn. "first" is the first check of an exercise in a process, which also observes
the reference. The answer's own time is that of calling it on every probe as often as a check does, in this process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

from course.checking import Exercise, check_answer
from course.checking.observe import INPUT_SEED, PASSES, observe_probe
from course.checking.state import preserved_state
from course.exercises import all_exercises


def own_seconds(exercise: Exercise, answer: object) -> float:
    start = time.perf_counter()
    with preserved_state():
        for _ in range(PASSES):
            for probe in exercise.probes:
                observe_probe(exercise, probe, answer, INPUT_SEED)
    return time.perf_counter() - start


def timed_check(exercise: Exercise, answer: object) -> float:
    start = time.perf_counter()
    verdict = check_answer(exercise, answer)
    seconds = time.perf_counter() - start
    if not verdict.passed:
        raise SystemExit(f"the reference of {exercise.id} does not pass:\n{verdict}")
    return seconds


def summary(seconds: list[float]) -> dict[str, float]:
    milliseconds = sorted(1000 * s for s in seconds)
    p95 = milliseconds[min(len(milliseconds) - 1, round(0.95 * (len(milliseconds) - 1)))]
    return {
        "median": round(statistics.median(milliseconds), 1),
        "p95": round(p95, 1),
        "max": round(milliseconds[-1], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    pairs = [(exercise, exercise.value_of(exercise.answer_reference)) for exercise in all_exercises()]
    first = [timed_check(*pair) for pair in pairs]
    again: dict[str, list[float]] = {exercise.id: [] for exercise, _ in pairs}
    for _ in range(options.rounds):
        for exercise, answer in pairs:
            own = own_seconds(exercise, answer)
            again[exercise.id].append(max(0.0, timed_check(exercise, answer) - own))
    medians = {name: statistics.median(seconds) for name, seconds in again.items()}
    result = {
        "exercises": len(pairs),
        "first check, ms": summary(first),
        "further checks less the answer's own time, ms": summary([s for seconds in again.values() for s in seconds]),
        "slowest": dict(sorted(((n, round(1000 * s, 1)) for n, s in medians.items()), key=lambda x: -x[1])[:3]),
    }
    print(json.dumps(result, indent=2))
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
