"""What `explain` returns, and `explain` itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from course.doctor.explain import live, page, rank, reading
from course.doctor.explain.errors import ParsedError
from course.doctor.explain.rules import Seen
from course.faults import fault

NO_TEXT = "There is no text to explain: give an exception, a traceback or a line of a log."
UNKNOWN = "This error is not one that the course knows; nothing is guessed."
NO_ERROR = "No error that the course knows is in this text."
STOPPED = "The program was stopped from outside; that is no fault of its code."


class Finding(dict):
    """One fault that fits, as a dict: fault, title, lesson, why, fix, confidence (0 to 1), and section, which is the
    heading in that lesson or None. The keys are attributes too."""

    def __getattr__(self, name: str) -> object:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"a finding has no {name!r}; it has {', '.join(self)}") from None

    @property
    def link(self) -> str:
        """The lesson's notebook and section as a relative link."""
        return page.link(self)

    def __str__(self) -> str:
        return page.as_text([self])


class Explanation(list):
    """The findings, best first; empty where the error is not known, and then `note` says so in a sentence."""

    def __init__(self, findings: Iterable[Finding] = (), note: str = "") -> None:
        super().__init__(findings)
        self.note = note

    @property
    def findings(self) -> list[Finding]:
        """The same as a plain list."""
        return list(self)

    def text(self) -> str:
        """All findings as plain text, or the note."""
        return page.as_text(self, self.note)

    __str__ = text

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return page.as_html(self, self.note)


def explain(error_or_text: object, *, namespace: Mapping[str, object] | None = None) -> Explanation:
    """Say which faults an error tells of, best first.

    error_or_text: an exception, whose tensors are looked at too, or text: a traceback as Python, IPython, pytest, Rich
        or torchrun write it, whole or cut off, a warning, a line of a log, the JSON of a notebook.
    namespace: names and values, such as ``globals()``, where to look up the tensors that the code in a text names.
    Returns an `Explanation`, empty with a sentence in `note` where the error is not known. Never raises.
    """
    try:
        return _explain(error_or_text, namespace)
    except Exception as problem:
        return Explanation(note=f"{UNKNOWN} (Reading it stopped with {type(problem).__name__}.)")


def _explain(given: object, namespace: Mapping[str, object] | None) -> Explanation:
    if isinstance(given, tuple) and len(given) == 3 and isinstance(given[1], BaseException):  # sys.exc_info()
        given = given[1]
    if isinstance(given, BaseException):
        if isinstance(given, (KeyboardInterrupt, SystemExit, GeneratorExit)):
            return Explanation(note=STOPPED)
        return _explanation(live.read_exception(given), UNKNOWN)
    text = _as_text(given)
    if not text.strip():
        return Explanation(note=NO_TEXT)
    errors = reading.read_text(text)
    if namespace:
        errors = tuple(live.with_namespace(error, namespace) for error in errors)
    found = _explanation(errors, UNKNOWN)
    if not found:
        found = _explanation(reading.log_lines(text), UNKNOWN if errors else NO_ERROR)
    return found


def _as_text(given: object) -> str:
    if given is None:
        return ""
    if isinstance(given, (bytes, bytearray)):
        return bytes(given).decode("utf-8", errors="replace")
    if isinstance(given, (list, tuple)) and all(isinstance(line, str) for line in given):
        return "\n".join(line.rstrip("\n") for line in given)
    return str(given)


def _explanation(errors: Iterable[ParsedError], note: str) -> Explanation:
    findings = [_finding(fault_id, seen, confidence) for confidence, fault_id, seen, _ in rank.rank(errors)]
    return Explanation(findings, "" if findings else note)


def _finding(fault_id: str, seen: Seen, confidence: float) -> Finding:
    known = fault(fault_id)
    return Finding(
        fault=known.id,
        title=known.title[:1].upper() + known.title[1:],
        lesson=known.lesson,
        why=_joined(seen.why, known.why),
        fix=_joined(seen.fix, known.fix),
        confidence=round(confidence, 2),
        section=known.section,
    )


def _joined(first: str, then: str | None) -> str:
    return " ".join(part for part in (first.strip(), then) if part)
