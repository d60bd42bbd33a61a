"""What was copied into a workspace: `.course/copies.json` tells an untouched notebook from an edited one."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from course.workspace import files

FORMAT = 1


@dataclass
class Copy:
    """What was copied for one lesson, as digests (see `notebooks.Notebook`).

    `data` and `text` are of the notebook that was copied, `offered` is the text that was last laid beside an edited
    one, in the file `beside` with the digest `beside_data`. An empty string means that it is not known.
    """

    data: str = ""
    text: str = ""
    offered: str = ""
    beside: str = ""
    beside_data: str = ""


@dataclass
class Manifest:
    """The manifest of one workspace; `copies` by the lesson's name."""

    path: Path
    copies: dict[str, Copy] = field(default_factory=dict)
    _read: bytes | None = None
    _understood: bool = True

    @classmethod
    def read(cls, workspace: Path) -> Manifest:
        """Read it. What is missing or damaged is left out, so that these notebooks count as edited.

        Raises WorkspaceError when the file is there and cannot be read.
        """
        path = path_in(workspace)
        data = files.read(path)
        if data is None:
            return cls(path)
        try:
            content = json.loads(data.decode("utf-8"))
            copies = dict(content["notebooks"])
            if content["format"] != FORMAT:
                raise ValueError
        except (ValueError, KeyError, TypeError, RecursionError):
            return cls(path, {}, data, _understood=False)
        known = {name: copy for name, raw in copies.items() if (copy := _copy(raw)) is not None}
        return cls(path, known, data, _understood=len(known) == len(copies))

    def of(self, lesson: str) -> Copy:
        """Return the entry of a lesson, by name; a new and empty one where there is none."""
        return self.copies.setdefault(lesson, Copy())

    def write(self) -> None:
        """Write it where it changed. One that was not understood is kept beside it. Raises WorkspaceError."""
        content = {"format": FORMAT, "notebooks": {name: asdict(copy) for name, copy in sorted(self.copies.items())}}
        data = (json.dumps(content, indent=1) + "\n").encode()
        if data == self._read:
            return
        if self._read is not None and not self._understood:
            files.back_up(self.path, self._read)
        files.write(self.path, data)
        self._read, self._understood = data, True


def path_in(workspace: Path) -> Path:
    """Return where the manifest of a workspace is."""
    return workspace / ".course" / "copies.json"


def _copy(raw: object) -> Copy | None:
    names = {each.name for each in fields(Copy)}
    if isinstance(raw, dict) and set(raw) <= names and all(isinstance(value, str) for value in raw.values()):
        return Copy(**raw)
    return None
