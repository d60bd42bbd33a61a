"""What is known of one error: its type and message, the frames it came through, the tensors it met."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

_LONGEST = 6_000
_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class TensorFact:
    """A tensor (or NumPy array) that a frame held.

    name: as the code calls it, such as ``x`` or ``self.weight``.
    shape: its sizes. dtype: such as ``float32``. device: such as ``cpu``, ``cuda:0`` or ``numpy``.
    role: "parameter", "buffer", "tensor", "array", or, of a module's own attributes, "plain" (a tensor that is neither
    parameter nor buffer) and "unregistered" (in a layer that the module does not know). owner: class of the module that
    holds it, if one does. made_by: name of its grad_fn. version: how often it was changed in place.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    device: str = "cpu"
    requires_grad: bool = False
    is_leaf: bool = True
    role: str = "tensor"
    owner: str | None = None
    made_by: str = ""
    version: int = 0

    def __str__(self) -> str:
        grad = ", requires grad" if self.requires_grad and self.role != "parameter" else ""
        return f"{self.name} is {self.shape}, {self.dtype} on {self.device}{grad}"


@dataclass(frozen=True)
class Frame:
    """One frame of a traceback, outermost first in `ParsedError.frames`.

    is_user: whether the code is the reader's own, and not a library's. code: the line (a few, where known).
    context: the source around the line, as far as it is known. names: identifiers of the function's code.
    tensors: those in the frame, where the exception is live. modules: (name, class, bases) of the modules in it.
    carried: names that one statement both reads and writes, such as ``h`` in ``out, h = rnn(x, h)``.
    """

    file: str
    line: int | None
    function: str
    code: str = ""
    is_user: bool = True
    tensors: tuple[TensorFact, ...] = ()
    context: str = ""
    names: frozenset[str] = frozenset()
    modules: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    carried: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ParsedError:
    """One exception, warning or log line.

    type: the class as the text names it (``torch.cuda.OutOfMemoryError``), None where the text names none.
    relation: "raised" (the one that ended the program), "cause", "context", "worker" or "warning" or "line".
    around: the text near it, such as a whole log's last lines; "" where there is none.
    error: the live exception, if there is one.
    """

    type: str | None
    message: str
    frames: tuple[Frame, ...] = ()
    relation: str = "raised"
    around: str = ""
    error: BaseException | None = field(default=None, compare=False)

    @cached_property
    def name(self) -> str | None:
        """The last part of the type's name, such as ``OutOfMemoryError``."""
        return self.type.rpartition(".")[2] if self.type else None

    @cached_property
    def flat(self) -> str:
        """The message on one line, single spaces, its middle left out when it is very long."""
        text = self.message
        if len(text) > _LONGEST:
            text = f"{text[: _LONGEST * 3 // 4]} ... {text[-_LONGEST // 4 :]}"
        return _SPACE.sub(" ", text).strip()

    @cached_property
    def lower(self) -> str:
        """`flat` in lower case."""
        return self.flat.lower()

    @property
    def is_warning(self) -> bool:
        """Whether it is a warning, which did not stop the program."""
        return self.relation == "warning"

    @cached_property
    def user_frame(self) -> Frame | None:
        """The innermost frame of the reader's own code."""
        return next((frame for frame in reversed(self.frames) if frame.is_user), None)

    @cached_property
    def code(self) -> str:
        """The reader's own line that led here; "" where it is not known."""
        return self.user_frame.code if self.user_frame else ""

    @cached_property
    def all_code(self) -> str:
        """The lines of all frames, libraries' too, one a line."""
        return "\n".join(frame.code for frame in self.frames if frame.code)

    @cached_property
    def functions(self) -> tuple[str, ...]:
        """The functions it came through, innermost first."""
        return tuple(frame.function for frame in reversed(self.frames))

    @cached_property
    def tensors(self) -> tuple[TensorFact, ...]:
        """The tensors in the frames, innermost frame first; empty for a text."""
        return tuple(self._tensors())

    def _tensors(self) -> Iterator[TensorFact]:
        for frame in reversed(self.frames):
            yield from frame.tensors

    @cached_property
    def context(self) -> str:
        """The source around the lines of the user's innermost frames, as far as they are in one file."""
        inner = self.user_frame
        frames = [frame for frame in reversed(self.frames) if frame.is_user and inner and frame.file == inner.file]
        return "\n".join(dict.fromkeys(filter(None, (frame.context or frame.code for frame in frames[:3]))))

    @cached_property
    def words(self) -> frozenset[str]:
        """Identifiers in the user's own code near the error."""
        inner = self.user_frame
        named = [name for frame in self.frames if inner and frame.file == inner.file for name in frame.names]
        return frozenset([*_WORD.findall(self.context), *named])

    def fact(self, *names: str) -> TensorFact | None:
        """The tensor of that name (the last part of a dotted name counts), innermost frame first."""
        return next((each for each in self.tensors if each.name.rpartition(".")[2] in names), None)

    def went_through(self, *functions: str) -> bool:
        """Whether one of `functions` is among those it came through, or is called in the user's line."""
        return any(name in self.functions or f"{name}(" in self.code for name in functions)
