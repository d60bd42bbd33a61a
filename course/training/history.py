"""What happened in each epoch of a run, as a table, and as a file that grows while the run goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from course.training.table import html_table, text_table


class History:
    """Rows of numbers, one an epoch.

    path: a run log. Each row is appended to this file at once, as one line of JSON, so that a run that is cut short
        keeps what it had; folders are made. An existing file is continued, not overwritten. :meth:`read` reads it.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.rows: list[dict[str, float]] = []
        self.path = None if path is None else Path(path)
        self._restored = False

    @classmethod
    def read(cls, path: str | Path) -> History:
        """The history in a run log; a last line that was cut short is left out."""
        history = cls()
        for line in Path(path).read_text(encoding="utf-8").splitlines():
            try:
                history.rows.append(json.loads(line))
            except json.JSONDecodeError:
                break
        return history

    def append(self, **values: float) -> None:
        """Add a row; "epoch" counts from 1."""
        row = {"epoch": len(self.rows) + 1, **{name: float(value) for name, value in values.items()}}
        self.rows.append(row)
        if self.path is None:
            return
        if self._restored and len(self.rows) == 1:
            # The run may have logged its first epoch before it died, and a state without rows could not tell.
            self._rewrite(self.path)
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def state_dict(self) -> dict[str, Any]:
        """A copy of the rows, to save with the run."""
        return {"rows": [dict(row) for row in self.rows]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over the rows of state_dict(), and make the run log agree with them.

        A run that died after its last checkpoint has logged epochs which will come again: these lines go, and so does
        one that was cut short. Earlier runs in the same log stay. When the state has no rows yet, whose lines the log
        ends with shows with the first row: lines of a run that began with this very row go, others stay.
        """
        self.rows, self._restored = [dict(row) for row in state["rows"]], True
        if self.path is not None:
            self._rewrite(self.path)

    def _rewrite(self, path: Path) -> None:
        logged = [json.dumps(row) for row in History.read(path)] if path.exists() else []
        rows = [json.dumps(row) for row in self.rows]
        starts = [number for number, line in enumerate(logged) if json.loads(line).get("epoch") == 1]
        last_run = logged[starts[-1] :] if starts else []
        common = min(len(last_run), len(rows))
        if common and last_run[:common] == rows[:common]:
            del logged[starts[-1] :]
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.{os.getpid()}.new")
        new.write_text("".join(f"{line}\n" for line in [*logged, *rows]), encoding="utf-8")
        os.replace(new, path)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, float]]:
        return iter(self.rows)

    def __getitem__(self, column: str) -> list[float]:
        """One column, such as ``history["held_out_accuracy"]``."""
        if self.rows and column not in self.rows[0]:
            raise KeyError(f"no column {column!r}; the columns are {', '.join(self.rows[0])}")
        return [row[column] for row in self.rows]

    def first(self, column: str, at_least: float) -> dict[str, float] | None:
        """The first row whose column reaches a value, or None."""
        return next((row for row in self.rows if row[column] >= at_least), None)

    def table(self) -> list[list[str]]:
        """Heading and rows as text."""
        if not self.rows:
            return [["epoch"]]
        return [list(self.rows[0]), *([_text(name, value) for name, value in row.items()] for row in self.rows)]

    def __str__(self) -> str:
        return text_table(self.table(), numbers=True)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_table(self.table(), numbers=True)


def _text(name: str, value: float) -> str:
    if name == "epoch":
        return str(int(value))
    if name.endswith("accuracy"):
        return f"{100 * value:.1f} %"
    return f"{value:.3g}"
