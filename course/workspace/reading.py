"""Reading every file of kept progress, whatever is in it. Nothing is ever written, mended or deleted here."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from course.workspace import home
from course.workspace.records import BEGINNING, FORMAT, LONGEST_LINE, SUFFIX, Damaged, Newer, Record, decode


class _Content(NamedTuple):
    """What is in one file: its records, how many lines are damaged, and whether a newer version wrote some."""

    records: list[Record]
    damaged: int
    newer: bool


# A kernel reads after every check, and of all files only its own has grown meanwhile.
_known: dict[Path, tuple[tuple[int, ...], _Content]] = {}


def read_all() -> tuple[list[Record], list[str]]:
    """Return the records of all files, and sentences about what could not be read."""
    records: list[Record] = []
    problems: list[str] = []
    damaged: dict[str, int] = {}
    newer: list[str] = []
    for path, state in _files(problems):
        name = home.readable(path)
        try:
            known = _known.get(path)
            if known is None or known[0] != state:
                known = _known[path] = state, _content(path)
        except OSError as error:
            problems.append(f"{name} cannot be read ({_reason(error)}): what it holds is missing here.")
            continue
        content = known[1]
        records += content.records
        if content.damaged:
            damaged[name] = content.damaged
        if content.newer:
            newer.append(name)
    if damaged:
        lines = sum(damaged.values())
        problems.append(
            f"{lines} damaged {'line was' if lines == 1 else 'lines were'} passed over in {_listed(damaged)}. "
            "Everything else counts, and the files stay as they are."
        )
    if newer:
        problems.append(
            f"A newer version of the course wrote {_listed(newer)}. What this version understands of that counts, and "
            "the rest is kept; update the course to see all of it."
        )
    return records, problems


def _content(path: Path) -> _Content:
    records: list[Record] = []
    damaged, newer = 0, False
    for line in _lines(path):
        try:
            records.append(decode(line))
            newer = newer or records[-1].format > FORMAT
        except Newer:
            newer = True
        except Damaged:
            damaged += 1
            records += _saved(line)
    return _Content(records, damaged, newer)


def _files(problems: list[str]) -> list[tuple[Path, tuple[int, ...]]]:
    """The files of kept progress, and by what a change of each is noticed.

    A sentence is added to `problems` where the folder cannot be read.
    """
    name = "The folder of kept progress"
    try:
        folder = home.progress_folder()
        name = home.readable(folder)
        with os.scandir(folder) as entries:
            return sorted(
                (Path(entry), _state(entry)) for entry in entries if entry.name.endswith(SUFFIX) and entry.is_file()
            )
    except FileNotFoundError:
        pass  # nothing has been kept yet
    except (OSError, RuntimeError) as error:
        problems.append(f"{name} cannot be read ({_reason(error)}), so nothing counts as passed here.")
    return []


def _state(entry: os.DirEntry[str]) -> tuple[int, ...]:
    found = entry.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _lines(path: Path) -> Iterator[bytes]:
    """The lines that are not blank; of one too long to be a record, only its beginning."""
    with open(path, "rb") as file:
        cut = False
        while piece := file.readline(LONGEST_LINE):
            if not cut and piece.strip():
                yield piece
            cut = not piece.endswith(b"\n")


def _saved(line: bytes) -> list[Record]:
    """The record at the end of a damaged line: what was lost there may be the end of the line before."""
    start = line.rfind(BEGINNING)
    try:
        return [decode(line[start:])] if start > 0 else []
    except (Damaged, Newer):
        return []


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _listed(names: Collection[str]) -> str:
    first, *others = sorted(names)
    if not others:
        return first
    return f"{first} and {len(others)} other {'file' if len(others) == 1 else 'files'}"
