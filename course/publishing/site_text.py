"""Text for the pages of the site: MyST Markdown with nothing in it that is read as markup by mistake."""

from __future__ import annotations

import json
import re

_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|$~&^@])")


def escaped(text: str) -> str:
    """Words as Markdown in one line that shows exactly them."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


def prose(text: str) -> str:
    """The catalogue's prose as Markdown in one line: what stands between backticks is code, the rest are words."""
    parts = re.split(r"(`[^`]+`)", " ".join(text.split()))
    return "".join(part if place % 2 else _MARKUP.sub(r"\\\1", part) for place, part in enumerate(parts))


def code(text: str) -> str:
    """Text as code within a line."""
    line = " ".join(text.split())
    fence = "`" * (1 + max((len(run) for run in re.findall(r"`+", line)), default=0))
    return f"{fence} {line} {fence}" if "`" in line else f"`{line}`"


def fenced(text: str, language: str) -> str:
    """A block of code or of raw HTML, behind a fence that is longer than any in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.strip(chr(10))}\n{fence}"


def quoted(text: str) -> str:
    """A string of the YAML that opens a page."""
    return json.dumps(" ".join(text.split()), ensure_ascii=False)


def shortened(text: str, most: int) -> str:
    """The text in one line of at most `most` characters, cut between words."""
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    return line[: most - 1].rsplit(" ", 1)[0].rstrip(" ,;:([{") + "…"
