"""From a text to the errors it tells of: tracebacks, chains, worker errors, warnings, log lines, in any order."""

from __future__ import annotations

import linecache
import re
from dataclasses import dataclass, field, replace

from course.doctor.explain.cleaning import plain_lines
from course.doctor.explain.errors import Frame, ParsedError

_HEADER = "Traceback (most recent call last)"
_PLAIN_FRAME = re.compile(r'File "([^"\n]{1,400})", line (\d{1,7})(?:, in (.{1,200}))?')
_CELL_FRAME = re.compile(r"^\s{0,4}(?:Input |Cell )In ?\[(\d{0,6})\](?:, line (\d{1,7})|, in (.{1,160}))")
_FILE_FRAME = re.compile(r"^\s{0,4}(?:File )?(\S{1,400}\.py[xc]?):(\d{1,7})(?:, |,? )in (.{1,300})$")
_OLD_FRAME = re.compile(r"^\s{0,4}(<ipython-input-[^>]{1,80}>|[~/\w.][^\s()]{0,400}\.py) in (\S.{0,200})$")
_ARROW = re.compile(r"^\s{0,6}-{1,6}> ?(\d{1,7}) ?(.*)$")
_NUMBERED = re.compile(r"^\s{0,8}\d{1,7}(?: |$)")
_CARETS = re.compile(r"^[\s~^\-]*$")
_NAME = (
    r"(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Za-z_]\w{0,60}?(?:Error|Exception|Warning|Interrupt|Timeout"
    r"|Failure|Exit|Unsupported"
    r"|InvalidArgument|NoSuchFile|NotImplemented|InvalidGraph|InvalidProtobuf|Fail|SymNode|StopIteration|Exceeded)"
)
_TYPED = re.compile(rf"^\s{{0,8}}({_NAME})(?::\s?(.*))?$")
_TYPED_INSIDE = re.compile(rf"(?:^|[\s\]|:(>'\"])({_NAME}): (.*)$")
_ANY_TYPE = re.compile(r"^((?:[A-Za-z_]\w{0,60}\.){0,8}[A-Za-z_]\w{0,60})(?:: ?(.*))?$")
_WARNING = re.compile(
    r"^\s{0,4}(?:\S{1,400}:\d{1,7}: |\[W[^\]]{0,80}\] ?)?((?:[A-Za-z_]\w{0,60}\.){0,6}\w{0,60}Warning): ?(.*)$"
)
_CAUSE = "The above exception was the direct cause of the following exception"
_CONTEXT = "During handling of the above exception, another exception occurred"
_FRAME_WORDS = ('File "', " in ", "In[", "In [")
_LIBRARY = re.compile(
    r"site-packages|dist-packages|[/\\]lib(?:64)?[/\\]python\d|[/\\]torch[/\\](?:nn|utils|_|optim"
    r"|autograd|cuda|serial|ao)"
    r"|^<frozen|^<__array_function__|^<eval_with_key|[/\\]Python3\d+[/\\]Lib[/\\]|^/opt/pytorch"
    r"|^\.\.\.$|[/\\]course[/\\](?:checking|training|notebook|doctor|data|figures|exercises)[/\\]"
)
_ASSERTED = re.compile(
    r"(?:\w{1,80}: block: \[[^\]]{0,30}\],? ?thread: \[[^\]]{0,30}\] )?Assertion [`'].{1,240}?[`'] failed"
)
_MOST_LINES, _MOST_ERRORS = 120, 60


def is_library(file: str) -> bool:
    """Whether a file, as a traceback names it, belongs to Python, torch or another installed package."""
    return bool(_LIBRARY.search(file))


@dataclass
class _Block:
    """A traceback, an error line or a warning that is being read."""

    relation: str = "raised"
    frames: list[Frame] = field(default_factory=list)
    type: str | None = None
    lines: list[str] = field(default_factory=list)
    has_header: bool = False

    def error(self) -> ParsedError | None:
        message = "\n".join(self.lines).strip()
        if self.type is None and not message:
            return None
        return ParsedError(self.type, message, tuple(self.frames), self.relation)


def read_text(text: str) -> tuple[ParsedError, ...]:
    """The errors and warnings in `text`, in its order; empty where it names none."""
    lines = plain_lines(text)
    reader = _Reader()
    for line in lines:
        reader.take(line)
    errors = reader.finish()
    around = "\n".join(lines[-60:])
    return tuple(replace(error, around=around, frames=with_source(error.frames)) for error in errors)


def with_source(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """The frames with what stands around their lines, where the user's file is at hand and still has these lines."""
    users = [number for number, frame in enumerate(frames) if frame.is_user and frame.line and frame.code][-3:]
    completed = list(frames)
    for number in users:
        frame = frames[number]
        lines = linecache.getlines(frame.file) if frame.file.endswith(".py") and not frame.context else []
        if frame.line <= len(lines) and lines[frame.line - 1].strip() == frame.code.partition("\n")[0].strip():
            near = lines[max(frame.line - 41, 0) : frame.line + 20]
            completed[number] = replace(frame, context="".join(near)[:8000])
    return tuple(completed)


def log_lines(text: str) -> tuple[ParsedError, ...]:
    """Each line of `text` as an error of unknown type, and a short text as a whole: for when nothing else fits."""
    lines = [line.strip() for line in plain_lines(text)]
    seen = dict.fromkeys(re.sub(r"\d+", "0", line[:300]) for line in lines if len(line) > 8)
    first = {re.sub(r"\d+", "0", line[:300]): line for line in reversed(lines)}
    chosen = [first[key] for key in seen]
    if len(chosen) > 160:
        chosen = chosen[:40] + chosen[-120:]
    errors = [ParsedError(None, line, relation="line") for line in chosen]
    if 1 < len(chosen) <= 80:
        errors.append(ParsedError(None, "\n".join(lines), relation="line"))
    return tuple(errors)


class _Reader:
    """Takes lines one by one."""

    def __init__(self) -> None:
        self.errors: list[ParsedError] = []
        self.block: _Block | None = None

    def finish(self) -> list[ParsedError]:
        self._close()
        return self.errors[: _MOST_ERRORS // 2] + self.errors[_MOST_ERRORS // 2 :][-_MOST_ERRORS // 2 :]

    def take(self, line: str) -> None:
        if _HEADER in line:
            self._header(line)
        elif _CAUSE in line or _CONTEXT in line:
            self._close()
            if self.errors:
                self.errors[-1] = replace(self.errors[-1], relation="cause" if _CAUSE in line else "context")
        elif "Assertion" in line and (asserted := _ASSERTED.search(line)):
            self._assertion(asserted[0])
        elif self._frame(line) or self._code(line):
            pass
        elif self.block is not None and self.block.frames and self.block.type is None and not self.block.lines:
            self._ending(line)
        elif self._typed(line):
            pass
        elif self.block is not None and self.block.type is not None:
            self._continue(line)

    def _assertion(self, text: str) -> None:
        """What a GPU kernel printed, often hundreds of times, before the error that Python sees."""
        if all(error.message != text for error in self.errors):
            self.errors.append(ParsedError(None, text, relation="kernel"))

    def _header(self, line: str) -> None:
        # IPython writes the type first: "RuntimeError        Traceback (most recent call last)".
        worker = "Original Traceback" in line
        if worker and self.block is not None:
            self.block.relation = "wrapper"
        self._close()
        self.block = _Block("worker" if worker else "raised", has_header=True)

    def _close(self) -> None:
        if self.block is not None:
            error = self.block.error()
            if error is not None:
                self.errors.append(error)
        self.block = None

    def _frame(self, line: str) -> bool:
        if not any(word in line for word in _FRAME_WORDS):
            return False
        found = _frame_of(line)
        if found is None:
            return False
        if self.block is None or self.block.type is not None:
            if self.block is not None and self.block.type.endswith("SyntaxError"):
                return True
            self._close()
            self.block = _Block()
        self.block.frames.append(found)
        return True

    def _code(self, line: str) -> bool:
        """A line of code under a frame."""
        block = self.block
        if block is None or not block.frames or block.type is not None:
            return False
        arrow = _ARROW.match(line)
        last = block.frames[-1]
        if arrow:
            block.frames[-1] = replace(
                last, code=arrow[2].strip(), line=int(arrow[1]), context=f"{last.context}{arrow[2]}\n"
            )
            return True
        if _CARETS.match(line) or "skipping hidden" in line or "[Previous line" in line:
            return True
        numbered = _NUMBERED.match(line)
        if numbered:
            block.frames[-1] = replace(last, context=f"{last.context}{line[numbered.end() :]}\n"[:4000])
            return True
        if line[:1].isspace():
            if not _TYPED.match(line) or not last.code:
                code = (
                    f"{last.code}\n{line.strip()}" if last.code and "\n" not in last.code else last.code or line.strip()
                )
                block.frames[-1] = replace(last, code=code)
                return True
            return False
        return False

    def _ending(self, line: str) -> None:
        """The first line that is neither frame nor code: the exception itself."""
        match = _TYPED.match(line) or _ANY_TYPE.match(line) or _TYPED_INSIDE.search(line)
        if match:
            self.block.type = match[1]
            self.block.lines.append(match[2] or "")
        else:
            self._close()

    def _typed(self, line: str) -> bool:
        """A line that names an exception or warning class, with no traceback above it."""
        if "rror" not in line and "arning" not in line and "xce" not in line and ":" not in line:
            return False
        if self.block is not None and self.block.type is not None and line[:1].isspace():
            return False
        warning = _WARNING.match(line)
        match = warning or _TYPED.match(line)
        if match is None and (self.block is None or self.block.type is None or self.block.relation == "line"):
            match = _TYPED_INSIDE.search(line)
        if match is None or (match[2] is None and self.block is None):
            return False
        if self.block is not None and self.block.type is not None and self._repeats(match[1], match[2] or ""):
            return True
        open_block = self.block if self.block is not None and self.block.type is None else None
        if open_block is None:
            self._close()
            self.block = _Block("warning" if match[1].endswith("Warning") else "raised")
        self.block.type = match[1]
        self.block.lines.append(match[2] or "")
        return True

    def _repeats(self, name: str, message: str) -> bool:
        return self.block.type == name and self.block.lines[:1] == [message]

    def _continue(self, line: str) -> None:
        """A further line of the message."""
        block = self.block
        blank = not line.strip()
        if (block.relation == "warning" and (blank or not line[:1].isspace())) or (
            not block.frames and not block.has_header and blank
        ):
            self._close()
        elif len(block.lines) < _MOST_LINES:
            block.lines.append(line)


def _frame_of(line: str) -> Frame | None:
    match = _PLAIN_FRAME.search(line)
    if match:
        return Frame(match[1], int(match[2]), (match[3] or "<module>").strip(), is_user=not is_library(match[1]))
    match = _CELL_FRAME.match(line)
    if match:
        return Frame(f"In[{match[1]}]", int(match[2]) if match[2] else None, match[3] or "<module>")
    match = _FILE_FRAME.match(line)
    if match:
        return Frame(match[1], int(match[2]), _function(match[3]), is_user=not is_library(match[1]))
    match = _OLD_FRAME.match(line)
    if match:
        return Frame(match[1], None, _function(match[2]), is_user=not is_library(match[1]))
    return None


def _function(text: str) -> str:
    """``forward`` from ``Linear.forward(self, input)``."""
    return text.partition("(")[0].rpartition(".")[2].strip()
