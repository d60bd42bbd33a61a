"""What a rule is: a text that a fault leaves, and how to tell it from its neighbours.

A topic module ``texts_<topic>.py`` offers ``RULES``, a tuple of `Rule`; `rank` collects them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from course.doctor.explain.errors import ParsedError
from course.doctor.explain.needles import needles


@dataclass(frozen=True)
class Seen:
    """What a rule saw in one error.

    confidence: 0 to 1; None keeps the rule's own. why: a sentence or two with the numbers seen, put before the
    catalogue's `why`. fix: put before the catalogue's `fix`, where the numbers make it more exact.
    """

    confidence: float | None = None
    why: str = ""
    fix: str = ""


Look = Callable[[ParsedError, "re.Match[str]"], "Seen | None"]


@dataclass(frozen=True)
class Rule:
    """A text that a fault leaves.

    fault: an id of the catalogue.
    pattern: a regular expression, searched without regard to case in the message on one line (`ParsedError.flat`).
        It must run in linear time: no nested or adjacent unbounded repetitions; write ``.{0,80}``, not ``.*``.
    types: last parts of exception or warning classes, such as ``("RuntimeError",)``; () takes any. An error
        whose type is not known passes.
    confidence: how sure the fault is, once the pattern and the type fit: 0.95 where the text can mean nothing
        else, 0.6 where others leave it too. Below 0.3 a finding is not shown.
    look: looks closer at the error and the match; None means that the rule does not apply.
    """

    fault: str
    pattern: str
    types: tuple[str, ...] = ()
    confidence: float = 0.95
    look: Look | None = None
    regex: re.Pattern[str] = field(init=False, repr=False, compare=False)
    needles: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "regex", re.compile(self.pattern, re.IGNORECASE))
        object.__setattr__(self, "needles", needles(self.pattern))

    def apply(self, error: ParsedError) -> Seen | None:
        """What the rule sees in `error`, with a confidence; None where it does not apply."""
        if self.types and error.name is not None and error.name not in self.types:
            return None
        if self.needles and not any(needle in error.lower for needle in self.needles):
            return None
        match = self.regex.search(error.flat)
        if match is None:
            return None
        seen = self.look(error, match) if self.look else Seen()
        if seen is None:
            return None
        confidence = self.confidence if seen.confidence is None else seen.confidence
        return Seen(confidence, seen.why, seen.fix)
