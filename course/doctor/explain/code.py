"""Looking at the user's own code near an error."""

from __future__ import annotations

import re

from course.doctor.explain.errors import ParsedError

_LINE = re.compile(
    r"^[ \t]*(?:for .{1,80}: ?|if .{1,80}: ?)?([A-Za-z_][\w.]*)\.(\w+)\(([^()\n]{0,80}"
    r"|[^()\n]{0,60}\([^()\n]{0,60}\)[^()\n]{0,20})\)[ \t]*(?:#.*)?$"
)
_ASSIGNMENT = re.compile(r"([\w.]+(?: ?, ?[\w.]+)*,?) ?[-+*/]?= ?(?!=)(.+)")
_MODULE_NAMES = re.compile(
    (
        r"(?:model|net|module|network|encoder|decoder|backbone|head|layer|criterion|loss_fn|self"
        r"|discriminator|generator|critic|actor)\w*$|^[A-Z]"
    ),
    re.IGNORECASE,
)


def statements(error: ParsedError) -> list[str]:
    """The user's lines near the error, split at semicolons."""
    return [part.strip() for line in error.context.split("\n") for part in line.split(";") if part.strip()]


def flow(error: ParsedError) -> str:
    """The user's line, and the assignments near it that what it uses comes from."""
    sources: dict[str, list[str]] = {}
    for statement in statements(error):
        if match := _ASSIGNMENT.match(statement):
            for name in re.findall(r"[\w.]+", match[1]):
                sources.setdefault(name, []).append(match[2].partition("#")[0])
    told, waiting = [error.code], re.findall(r"[A-Za-z_][\w.]*", error.code)
    seen: set[str] = set()
    while waiting and len(told) < 20:
        dotted = waiting.pop(0)
        for name in (dotted, dotted.partition(".")[0]):
            if name in sources and name not in seen:
                seen.add(name)
                told += sources[name]
                waiting += [each for part in sources[name] for each in re.findall(r"[A-Za-z_][\w.]*", part)]
    return "\n".join(told)


def discarded(error: ParsedError, name: str | None, methods: tuple[str, ...]) -> str | None:
    """The statement that calls one of `methods` on `name` and drops the result.

    name: None stands for whatever is not named like a module, whose methods work in place.
    """
    for statement in statements(error):
        match = _LINE.match(statement)
        if match is None or match[2] not in methods:
            continue
        if name is not None and match[1] == name:
            return statement
        if name is None and not _MODULE_NAMES.search(match[1]) and not match[1].startswith("self."):
            return statement
    return None
