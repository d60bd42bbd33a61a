"""Faults named and false alarms of the doctor, per family: ``python tests/doctor/score.py [NAME ...]``."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.distributed as dist

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from doctor.registry import Arguments, Pair

BUDGET = 2.0
ALARMS = ("error", "warning")


@contextlib.contextmanager
def surroundings() -> Iterator[None]:
    """One thread, no warnings, and no process group or compiled code left behind."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_num_threads(threads)
        torch.compiler.reset()
        if dist.is_available() and dist.is_initialized():
            dist.destroy_process_group()


def alarms(arguments: Arguments, wanted: str | None = None) -> list:
    """The findings of `examine` that are errors or warnings, in its order.

    wanted: a fault that should come first. Where it does not and the budget was spent, as on a busy machine, a second
    examination gets ten times as long.
    """
    from course.doctor import examine

    for budget in (BUDGET, 10 * BUDGET):
        report = examine(**arguments, budget_s=budget)
        broken = [line for line in report.not_examined if line.startswith("family ")]
        if broken:
            raise AssertionError(f"the doctor itself failed: {broken}")
        found = [finding for finding in report.findings if finding.severity in ALARMS]
        if wanted is None or [finding.fault for finding in found][:1] == [wanted] or report.seconds < 0.5 * budget:
            break
    return found


@dataclass
class Result:
    """What the doctor said of a pair: ids of the alarms for the faulty and for the sound setup."""

    pair: Pair
    bad: list[str] = field(default_factory=list)
    good: list[str] = field(default_factory=list)

    @property
    def found(self) -> bool:
        """Whether the fault is the first alarm of the faulty setup."""
        return self.bad[:1] == [self.pair.fault]


def judge(pair: Pair) -> Result:
    """Examine both setups of a pair."""
    result = Result(pair)
    for bad, ids in ((True, result.bad), (False, result.good)):
        with surroundings():
            ids.extend(finding.fault for finding in alarms(pair.make(bad), pair.fault if bad else None))
    return result


def summary(results: Iterable[Result]) -> str:
    """A table of recall and precision per family.

    Recall: faulty setups whose first alarm is their fault. Precision: of all first alarms, on faulty and sound setups,
    the share that is right.
    """
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for result in results:
        for family in (result.pair.family, "all"):
            row = counts[family]
            row[0] += 1
            row[1] += result.found
            row[2] += (bool(result.bad) and not result.found) + bool(result.good)
    lines = [f"{'family':<18}{'pairs':>6}{'found':>7}{'wrong':>7}{'recall':>8}{'precision':>11}"]
    for family in sorted(counts, key=lambda name: (name == "all", name)):
        pairs, found, wrong = counts[family]
        precision = f"{found / (found + wrong):.2f}" if found + wrong else "-"
        lines.append(f"{family:<18}{pairs:>6}{found:>7}{wrong:>7}{found / pairs:>8.2f}{precision:>11}")
    return "\n".join(lines)


def main(names: list[str]) -> None:
    """Judge the pairs named (all of both sets by default) and the zoo, and print what was missed and the tables."""
    from doctor.held_out import HELD_OUT, HELD_OUT_ZOO
    from doctor.setups import SETUPS
    from doctor.zoo import ZOO

    for title, pairs in (("setups", SETUPS), ("held-out", HELD_OUT)):
        results = [judge(pair) for name, pair in pairs.items() if not names or name in names or title in names]
        for result in results:
            if not result.found or result.good:
                pair = result.pair
                print(f"{pair.name}: wanted {pair.fault}, bad gave {result.bad}, good gave {result.good}")
        if results:
            print(f"\n{title}\n{summary(results)}\n")
    for title, zoo in (("zoo", ZOO), ("held-out-zoo", HELD_OUT_ZOO)):
        chosen = [name for name in zoo if not names or name in names or title in names]
        wrong = 0
        for name in chosen:
            with surroundings():
                ids = [f"{finding.fault} ({finding.evidence})" for finding in alarms(zoo[name]())]
            wrong += bool(ids)
            if ids:
                print(f"{name}: {ids}")
        if chosen:
            print(f"{title}: {len(chosen)} sound setups, {wrong} with an alarm")


if __name__ == "__main__":
    main(sys.argv[1:])
