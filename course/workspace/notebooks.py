"""A notebook as a learner's text: its cells' sources, whatever was run and however it was saved."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Notebook:
    """A notebook file that was read: its bytes, and the parsed content."""

    data: bytes
    content: dict[str, Any]

    @classmethod
    def parse(cls, data: bytes) -> Notebook | None:
        """Return the notebook that the bytes of a file hold, or None when they hold none."""
        try:
            content = json.loads(data.decode("utf-8"))
            cells = content["cells"]
            if isinstance(content.get("metadata", {}), dict) and all(
                isinstance(cell["source"], str | list) for cell in cells
            ):
                return cls(data, content)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass
        return None

    @property
    def cells(self) -> list[dict[str, Any]]:
        return self.content["cells"]

    @property
    def bytes_digest(self) -> str:
        """The SHA-256 of the file."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def text_digest(self) -> str:
        """The SHA-256 of what a person can write into it: kind, source and attachments of each cell that is not blank.

        Outputs, execution counts, cell ids and metadata do not count: running and saving change them. Neither does a
        blank cell, which JupyterLab adds below the last one that is run.
        """
        written = [
            [cell.get("cell_type"), source(cell), cell.get("attachments") or {}]
            for cell in self.cells
            if source(cell).strip() or cell.get("attachments")
        ]
        return hashlib.sha256(json.dumps(written, sort_keys=True).encode()).hexdigest()

    @property
    def edition(self) -> str | None:
        """The digest of the lesson's text source that the build wrote into the metadata."""
        course = self.content.get("metadata", {}).get("course")
        edition = course.get("digest") if isinstance(course, dict) else None
        return edition if isinstance(edition, str) else None

    def of_exercise(self, role: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield id and cell of each exercise's cell with this role: "task", "stub" or "check"."""
        for cell in self.cells:
            course = (cell.get("metadata") or {}).get("course")
            if isinstance(course, dict) and course.get("role") == role and isinstance(course.get("exercise"), str):
                yield course["exercise"], cell

    def dump(self) -> bytes:
        """Return the content as the bytes of a file, laid out as Jupyter does."""
        layout = {"indent": 1, "sort_keys": True, "separators": (",", ": ")}
        try:
            return (json.dumps(self.content, ensure_ascii=False, **layout) + "\n").encode()
        except UnicodeEncodeError:
            # Half of a surrogate pair, which JSON can hold and UTF-8 cannot.
            return (json.dumps(self.content, **layout) + "\n").encode()


def source(cell: dict[str, Any]) -> str:
    """Return the source of a cell, which a file may hold as a list of lines."""
    text = cell["source"]
    return text if isinstance(text, str) else "".join(map(str, text))
