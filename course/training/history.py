"""What happened in each epoch of a run, as a table, and as a file that grows while the run goes on."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from pathlib import Path


class History:
    """Rows of numbers, one an epoch.

    path: a run log. Each row is appended to this file at once, as one line of JSON, so that a run that is cut short
        keeps what it had; folders are made. An existing file is continued, not overwritten. :meth:`read` reads it.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.rows: list[dict[str, float]] = []
        self.path = None if path is None else Path(path)

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
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

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
        rows = self.table()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(str.rjust, row, widths)) for row in rows)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *body = self.table()
        style = 'style="text-align: right; padding: 0.1em 1em 0.1em 0"'
        heading = "".join(f'<th scope="col" {style}>{html.escape(cell)}</th>' for cell in head)
        lines = "".join("<tr>" + "".join(f"<td {style}>{cell}</td>" for cell in row) + "</tr>\n" for row in body)
        return f"<table><thead><tr>{heading}</tr></thead>\n<tbody>\n{lines}</tbody></table>"


def _text(name: str, value: float) -> str:
    if name == "epoch":
        return str(int(value))
    if name.endswith("accuracy"):
        return f"{100 * value:.1f} %"
    return f"{value:.3g}"
