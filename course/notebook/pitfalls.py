"""``pitfall``: show a fault as the learner would meet it, and fail when it no longer comes."""

from __future__ import annotations

import contextlib
import inspect
import linecache
import re
import sys
import traceback
import warnings
from types import FrameType, TracebackType
from typing import Any

from course.faults import UnknownFault, fault
from course.notebook import display
from course.notebook.values import describe, same

MIME = "application/vnd.course.pitfall+json"

_MISSING = object()


class PitfallMissing(display.NotebookError):
    """A pitfall that did not show: the error did not come, or nothing differed."""


class pitfall:  # noqa: N801  (reads as a word in a with statement)
    """Run a block that goes wrong on purpose, and explain what went wrong.

    A loud pitfall names what must come; warnings stand where exceptions stand, and one of several is enough::

        with pitfall("view-of-noncontiguous", RuntimeError):
            torch.arange(6).reshape(2, 3).t().view(6)

    A silent pitfall shows what was seen and what was wanted, which must differ::

        with pitfall("uint8-overflow") as p:
            p.shows(seen=torch.tensor([250], dtype=torch.uint8) + 10, wanted=torch.tensor([260]))

    fault_id: an id of the fault catalogue; an unknown one raises UnknownFault, which names close ids.
    Raises PitfallMissing when the pitfall does not show. Any other exception passes through.
    """

    def __init__(self, fault_id: str, *expected: type[BaseException]) -> None:
        with display.without_traceback(UnknownFault):
            self.fault = fault(fault_id)
        for kind in expected:
            if not (isinstance(kind, type) and issubclass(kind, Exception)):
                raise TypeError(f"pitfall takes exception or warning classes after the fault id, not {kind!r}")
        self._warnings = tuple(kind for kind in expected if issubclass(kind, Warning))
        self._errors = tuple(kind for kind in expected if not issubclass(kind, Warning))
        self._events: list[tuple[str, str]] = []
        self._difference: tuple[str, str] | None = None
        self._cleanup = contextlib.ExitStack()

    def __enter__(self) -> pitfall:
        frame = inspect.currentframe()
        assert frame is not None
        assert frame.f_back is not None
        self._cell: dict[str, Any] = frame.f_back.f_globals
        if self._warnings:
            self._listen_to_warnings()
        return self

    def shows(self, *, seen: Any = _MISSING, wanted: Any = _MISSING) -> None:
        """State what a silent pitfall gives and what was wanted: tensors, numbers, shapes or text.

        Raises PitfallMissing if one is not given or both are the same (tensors: shape, dtype and values).
        """
        if seen is _MISSING or wanted is _MISSING:
            raise PitfallMissing(f"{self.fault.id}: shows() needs both seen=... and wanted=...")
        if same(seen, wanted):
            raise PitfallMissing(
                f"{self.fault.id}: what was seen is what was wanted, {_in_line(describe(seen))}; "
                "the pitfall does not show here"
            )
        self._difference = (scrub(describe(seen)), scrub(describe(wanted)))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._cleanup.close()
        if error is not None:
            if not isinstance(error, self._errors):
                return False
            text = scrub("".join(traceback.format_exception_only(type(error), error)).strip())
            self._events.append((text, self._raising_line(trace)))
        self._fail_if_missing()
        display.show(self._render())
        return error is not None

    def _listen_to_warnings(self) -> None:
        self._cleanup.enter_context(warnings.catch_warnings())
        for kind in self._warnings:
            warnings.simplefilter("always", kind)
        pass_on = warnings.showwarning

        def note(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, self._warnings):
                event = (scrub(f"{category.__name__}: {message}"), self._calling_line())
                if event not in self._events:
                    self._events.append(event)
            else:
                pass_on(message, category, *place, **more)

        warnings.showwarning = note
        if "torch" in sys.modules:  # Some warnings of torch come once in a process; a cell can be run twice.
            torch = sys.modules["torch"]
            self._cleanup.callback(torch.set_warn_always, torch.is_warn_always_enabled())
            torch.set_warn_always(True)

    def _raising_line(self, trace: TracebackType | None) -> str:
        found = ""
        for frame, number in traceback.walk_tb(trace):
            if frame.f_globals is self._cell:
                found = _source_line(frame, number)
        return found

    def _calling_line(self) -> str:
        frame = inspect.currentframe()
        while frame is not None and frame.f_globals is not self._cell:
            frame = frame.f_back
        return _source_line(frame, frame.f_lineno) if frame is not None else ""

    def _fail_if_missing(self) -> None:
        expected = [kind.__name__ for kind in (*self._errors, *self._warnings)]
        if expected and not self._events:
            raise PitfallMissing(
                f"{self.fault.id}: {' or '.join(expected)} was expected and did not come; "
                "the block ran as if nothing were wrong"
            )
        if not expected and self._difference is None:
            raise PitfallMissing(
                f"{self.fault.id}: nothing went wrong; name the exception that must come, "
                "or call shows(seen=..., wanted=...) in the block"
            )

    def _render(self) -> display.Shown:
        entry = self.fault
        heading = f"Pitfall {entry.id}: {entry.title}"
        lines, rows = [heading], []
        for message, source in self._events:
            block = f"----> {source}\n{message}" if source else message
            lines += [f"  {line}" for line in block.splitlines()]
            rows.append(display.preformatted(block))
        pairs = []
        if self._difference is not None:
            pairs = [(label, text, True) for label, text in zip(("seen", "wanted"), self._difference, strict=True)]
        pairs += [(label, text, False) for label, text in (("why", entry.why), ("fix", entry.fix)) if text]
        lines += [f"  {label}:{_indented(text)}" for label, text, _ in pairs]
        page = display.box(
            heading,
            *rows,
            display.labelled(
                (label, display.preformatted(text) if verbatim else display.prose(text))
                for label, text, verbatim in pairs
            ),
            tone="warn",
            kind="pitfall",
        )
        seen = self._difference[0] if self._difference else self._events[0][0]
        return display.Shown("\n".join(lines), page, {MIME: {"fault": entry.id, "seen": seen}})


def scrub(text: str) -> str:
    """Take out what changes from run to run or machine to machine: addresses, paths, places in libraries."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    text = re.sub(r"\s*\(Triggered internally at [^()]*\)", "", text)
    text = re.sub(r"\b0x[0-9a-fA-F]{4,}\b", "0x…", text)
    text = re.sub(
        r"(?:(?<![\w/.:])|(?<=\b[A-Za-z]:))(?:[/\\][^\s/\\:'\"<>|]+)+[/\\]([^\s/\\:'\"<>|]+)(?::\d+)?",
        r"…/\1",
        text,
    )
    return re.sub(r"\b[A-Za-z]:…/", "…/", text)


def _source_line(frame: FrameType, number: int) -> str:
    return linecache.getline(frame.f_code.co_filename, number, frame.f_globals).strip()


def _indented(text: str) -> str:
    return f" {text}" if "\n" not in text else "".join(f"\n    {line}" for line in text.splitlines())


def _in_line(text: str) -> str:
    return " ".join(text.split())
