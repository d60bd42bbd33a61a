from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from course.grading.journal import Journal, JournalError, files_digest, submission_key

ENTRY = {"submission": "ada/01.ipynb", "complete": True, "protection": "played", "rows": [{"exercise": "a.b"}]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "reports" / "grades-journal.jsonl"


def entries(path: Path) -> dict:
    with Journal(path) as journal:
        return dict(journal.entries)


def test_entries_outlive_the_run(path):
    with Journal(path) as journal:
        assert not journal.interrupted
        journal.add("k1", ENTRY)
        # On the disk at once, not when the journal is closed.
        assert json.loads(path.read_text())["key"] == "k1"
        journal.add("k2", {**ENTRY, "submission": "grace/01.ipynb"})
    assert entries(path) == {"k1": ENTRY, "k2": {**ENTRY, "submission": "grace/01.ipynb"}}


def test_a_run_that_came_to_its_end_is_told_from_one_that_did_not(path):
    with Journal(path) as journal:
        journal.add("k1", ENTRY)
    with Journal(path) as journal:
        assert journal.interrupted
        journal.finish()
    with Journal(path) as journal:
        assert not journal.interrupted
        assert set(journal.entries) == {"k1"}
        journal.add("k2", ENTRY)
    with Journal(path) as journal:
        assert journal.interrupted


@pytest.mark.parametrize("kept", range(0, 200, 7))
def test_a_kill_in_the_middle_of_a_line_costs_that_line_alone(path, kept):
    with Journal(path) as journal:
        journal.add("k1", ENTRY)
        whole = path.stat().st_size
        journal.add("k2", ENTRY)
    os.truncate(path, min(whole + kept, path.stat().st_size - 1))
    with Journal(path) as journal:
        # All but its line break is a whole line.
        last = {"k2"} if path.stat().st_size >= 2 * whole else set()
        assert set(journal.entries) == {"k1"} | last
        assert journal.interrupted
        journal.add("k3", ENTRY)
    assert set(entries(path)) == {"k1", "k3"} | last


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe\x00",
        b"[]",
        b"null",
        b"7",
        b'{"v": 1}',
        b'{"v": 1, "key": "x"}',
        b'{"v": 1, "key": "x", "rows": 3}',
        b'{"v": 99, "key": "x", "rows": []}',
        b"[" * 100_000,
    ],
    ids=lambda line: line[:24].decode("latin-1"),
)
def test_lines_that_make_no_sense_are_counted_and_passed_over(path, line):
    with Journal(path) as journal:
        journal.add("k1", ENTRY)
    with open(path, "ab") as file:
        file.write(line + b"\n")
    with Journal(path) as journal:
        assert (set(journal.entries), journal.skipped) == ({"k1"}, 1)
        journal.add("k2", ENTRY)
    assert set(entries(path)) == {"k1", "k2"}


def test_texts_of_every_kind_come_back(path):
    rows = [{"note": "naïve 数 \u2028 \udc80 \x00 \n end"}]
    with Journal(path) as journal:
        journal.add("k1", {**ENTRY, "rows": rows})
    assert entries(path)["k1"]["rows"] == rows


def test_starting_over_forgets_everything(path):
    with Journal(path) as journal:
        journal.add("k1", ENTRY)
        journal.start_over()
        journal.add("k2", ENTRY)
    assert set(entries(path)) == {"k2"}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no flock: two runs are not told apart there")
def test_two_runs_do_not_write_one_journal(path):
    with (
        Journal(path),
        pytest.raises(JournalError, match=r"Another run is writing .*Wait for it to end"),
        Journal(path),
    ):
        pytest.fail("a second run opened the journal")
    assert entries(path) == {}


def test_where_it_cannot_be_written_that_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(JournalError, match=r"cannot be written.*choose another --output"),
        Journal(tmp_path / "file" / "j"),
    ):
        pytest.fail("the journal was opened")


def test_a_full_disk_is_said(path):
    if not Path("/dev/full").exists():
        pytest.skip("/dev/full, a disk that is always full, is a device of Linux")
    with Journal(path) as journal:
        journal._file.close()
        journal._file = open("/dev/full", "wb", buffering=0)  # noqa: SIM115 (closed by the journal)
        with pytest.raises(JournalError, match=r"No space left.*--resume"):
            journal.add("k1", ENTRY)


def test_the_key_tells_names_contents_and_editions_apart(tmp_path):
    one, same, other = (tmp_path / name for name in ("a.py", "b.py", "c.py"))
    one.write_text("x = 1\n")
    same.write_text("x = 1\n")
    other.write_text("x = 2\n")
    base = submission_key("a.py", one, "edition")
    assert base == submission_key("a.py", same, "edition")
    different = [
        submission_key("b.py", one, "edition"),
        submission_key("a.py", other, "edition"),
        submission_key("a.py", one, "another"),
        submission_key("a.py", tmp_path / "missing.py", "edition"),
        # The border between two parts counts.
        submission_key("na.py", one, "editio"),
        submission_key("\udcff.py", one, "edition"),
    ]
    assert len({base, *different}) == 7


def test_a_digest_of_files_depends_on_names_contents_and_words(tmp_path):
    first, second = tmp_path / "a.py", tmp_path / "b.py"
    first.write_text("1")
    second.write_text("2")
    base = files_digest([first, second], "3.11")
    assert base == files_digest([second, first], "3.11")
    assert base != files_digest([first, second], "3.12")
    assert base != files_digest([first], "3.11")
    second.write_text("3")
    assert base != files_digest([first, second], "3.11")
