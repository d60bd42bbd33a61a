from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest

from course.workspace.records import BEGINNING, FORMAT, LONGEST_LINE, Damaged, Newer, Record, decode, encode

AT = datetime(2026, 11, 30, 9, 15, 1, 250_000, tzinfo=timezone.utc)
RECORD = Record("host-7-abc", 3, AT, 12.5, "check", "tensors.flatten", "PASSED")
LINE = encode(RECORD)


def changed(**values) -> bytes:
    return json.dumps({**json.loads(LINE), **values}).encode()


def without(key: str) -> bytes:
    return json.dumps({name: value for name, value in json.loads(LINE).items() if name != key}).encode()


@pytest.mark.parametrize("record", [RECORD, RECORD._replace(event="hint", outcome=None, exercise="ÿ\ud800\n.x")])
def test_a_record_is_one_line_of_ascii_and_reads_back(record):
    line = encode(record)
    assert line.isascii()
    assert line.startswith(BEGINNING)
    assert len(line) < LONGEST_LINE / 10
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert decode(line) == record
    # What a killed kernel could not end may still be whole.
    assert decode(line[:-1]) == record


def test_no_cut_line_is_taken_for_a_record():
    for length in range(len(LINE) - 1):
        with pytest.raises(Damaged):
            decode(LINE[:length])


@pytest.mark.parametrize(
    "line",
    [
        bytes(10),
        b"\xff\xfe" + LINE,
        LINE[:40] + LINE,
        LINE.decode().encode("utf-16"),
        b"[" * 10_000,
        b"[]",
        b"3",
        b"null",
        b"{}",
        b"NaN",
        *(without(key) for key in ("v", "kernel", "n", "at", "clock", "event", "exercise", "outcome")),
        changed(v="1"),
        changed(v=0),
        changed(kernel=7),
        changed(n="3"),
        changed(at=0),
        changed(at="yesterday"),
        changed(at="2026-11-30T09:15:01"),
        changed(clock="12"),
        changed(clock=float("nan")),
        changed(clock=float("inf")),
        changed(event="visit"),
        changed(event=["check"]),
        changed(exercise=None),
        changed(outcome=True),
        changed(event="hint"),
    ],
)
def test_what_is_no_record_is_damaged(line):
    with pytest.raises(Damaged):
        decode(line)


def test_a_time_of_another_zone_is_the_same_time():
    there = timezone(timedelta(hours=9))
    assert decode(changed(at=AT.astimezone(there).isoformat())) == RECORD


def test_of_a_newer_format_what_can_be_understood_is():
    more = decode(changed(v=FORMAT + 1, mood="good", outcome="ALMOST"))
    assert more == RECORD._replace(format=FORMAT + 1, outcome="ALMOST")
    for line in (changed(v=FORMAT + 1, event="visit"), b'{"v": 99}'):
        with pytest.raises(Newer):
            decode(line)
