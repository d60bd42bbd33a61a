"""Every collected case that raises: its fault comes first, from the exception and from the traceback's text alone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from course.doctor.explain import explain

CASES = Path(__file__).resolve().parents[4] / "shared" / "cases" / "dev.jsonl"
SLOW = ("export-",)


def raising_cases() -> list[dict]:
    if not CASES.is_file():
        return []
    cases = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    return [case for case in cases if case["kind"] == "exception"]


def test_the_cases_are_at_hand():
    if not CASES.is_file():
        pytest.skip(f"the collected cases are not at {CASES}: none of them was tried")
    assert len(raising_cases()) >= 30


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case["id"], marks=pytest.mark.slow if case["id"].startswith(SLOW) else ())
        for case in raising_cases()
    ],
)
def test_case(case, run_script, monkeypatch):
    monkeypatch.setenv("MASTER_PORT", os.environ.get("MASTER_PORT", "29500"))
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    raised = run_script(case["bad_code"])
    for given in (raised.error, raised.text):
        found = explain(given)
        assert found, f"nothing found in {given!r}"
        assert found[0].fault == case["fault"], [(each.fault, each.confidence) for each in found]
        assert found[0].title
        assert found[0].lesson.isdigit()
