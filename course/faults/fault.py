"""What the catalogue knows about one fault."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One way in which PyTorch code goes wrong.

    id: lower-case words joined by hyphens, such as ``view-of-noncontiguous``; never re-used.
    title: what is wrong, in one line.
    topic: the family it belongs to, such as ``tensors``.
    lesson: number of the lesson that teaches it, such as ``"01"``.
    section: heading of that lesson's section, where it is written already.
    why, fix: the reason and the remedy in a few sentences, code between backticks; None until its
        lesson is written.
    """

    id: str
    title: str
    topic: str
    lesson: str
    section: str | None = None
    why: str | None = None
    fix: str | None = None


class UnknownFault(LookupError):
    """An id that the catalogue does not hold; the message names close ones."""
