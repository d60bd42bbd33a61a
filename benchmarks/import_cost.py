"""What `import course` adds to `import torch`: fresh processes, interleaved, medians.

    python benchmarks/import_cost.py [--rounds 11] [--json]

Prints the CPU seconds of both and the median of their ratios (target: at most 1.05), what `import course` takes in a
process that has torch already, and whether `import course` alone imports torch, which fails.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys

CASES = {"torch": "import torch", "torch and course": "import torch, course"}
AFTER_TORCH = "import time, torch; start = time.perf_counter(); import course; print(time.perf_counter() - start)"
LOADS_TORCH = "import sys, course; print('torch' in sys.modules)"


def output(code: str) -> str:
    """What a fresh interpreter prints that runs the code."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], check=True, env=environment, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def cpu_seconds(code: str) -> float:
    """CPU seconds, user and system, of a fresh interpreter: less disturbed by other processes than wall time."""
    before = os.times()
    output(code)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def measure(rounds: int) -> dict[str, list[float]]:
    """CPU seconds of both cases in every round, in turn, after one round of warm-up."""
    times: dict[str, list[float]] = {name: [] for name in CASES}
    for number in range(rounds + 1):
        for name in list(CASES) if number % 2 else reversed(CASES):
            taken = cpu_seconds(CASES[name])
            if number:
                times[name].append(taken)
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    times = measure(options.rounds)
    pairs = [b / a for a, b in zip(times["torch"], times["torch and course"], strict=True)]
    eager = output(LOADS_TORCH) == "True"
    result = {
        "rounds": options.rounds,
        "cpu_seconds": {name: round(statistics.median(taken), 3) for name, taken in times.items()},
        "ratio": round(statistics.median(pairs), 4),
        "ratio_range": [round(min(pairs), 4), round(max(pairs), 4)],
        "milliseconds_after_torch": round(1000 * statistics.median(float(output(AFTER_TORCH)) for _ in range(3)), 3),
        "course_alone_imports_torch": eager,
    }
    if options.json:
        print(json.dumps(result))
    else:
        for name, median in result["cpu_seconds"].items():
            print(f"import {name:18}{median:8.3f} CPU s (median of {options.rounds})")
        print(f"ratio {result['ratio']:.3f}, from {min(pairs):.3f} to {max(pairs):.3f}")
        print(f"import course after torch: {result['milliseconds_after_torch']:.2f} ms")
        print(f"import course alone imports torch: {'yes' if eager else 'no'}")
    return 1 if eager else 0


if __name__ == "__main__":
    sys.exit(main())
