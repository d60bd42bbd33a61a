"""From a live exception to `ParsedError`: its chain, its frames, the tensors that the frames hold."""

from __future__ import annotations

import contextlib
import dis
import linecache
import sys
import sysconfig
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import CodeType, FrameType, FunctionType

from course.doctor.explain import facts, reading
from course.doctor.explain.errors import Frame, ParsedError, TensorFact

_MOST_FRAMES, _MOST_TENSORS, _MOST_CHAIN = 60, 24, 12
_LOOKED_AT, _USERS = 6, 2  # frames, from the innermost, whose tensors are looked at: any, and the user's own
_STDLIB = tuple({path for key in ("stdlib", "platstdlib") if (path := sysconfig.get_paths().get(key))})


def read_exception(error: BaseException) -> tuple[ParsedError, ...]:
    """The exception and those that led to it, first one first; what a worker's message quotes is read too."""
    errors: list[ParsedError] = []
    for one, relation in _chain(error):
        parsed = ParsedError(_type_name(one), _message(one), _frames(one), relation, error=one)
        inner = reading.read_text(parsed.message) if "Traceback (most recent call last)" in parsed.message else ()
        errors += [replace(each, relation="worker") for each in inner if each.type]
        errors.append(replace(parsed, relation="wrapper") if inner and relation == "raised" else parsed)
    return tuple(errors)


def with_namespace(error: ParsedError, namespace: Mapping[str, object]) -> ParsedError:
    """The error with the tensors that its user's line names, as `namespace` knows them."""
    frame = error.user_frame
    if frame is None or not frame.code:
        return error
    found = tuple(facts.named(frame.code, namespace))
    frames = tuple(replace(each, tensors=found) if each is frame else each for each in error.frames)
    return replace(error, frames=frames)


def _chain(error: BaseException) -> Iterator[tuple[BaseException, str]]:
    chain: list[tuple[BaseException, str]] = [(error, "raised")]
    seen = {id(error)}
    for _ in range(_MOST_CHAIN):
        last = chain[-1][0]
        following, relation = last.__cause__, "cause"
        if following is None and not last.__suppress_context__:
            following, relation = last.__context__, "context"
        if following is None or id(following) in seen:
            break
        seen.add(id(following))
        chain.append((following, relation))
    for group, _ in list(chain):
        members = getattr(group, "exceptions", None)
        if isinstance(members, tuple):
            chain += [(each, "cause") for each in members[:_MOST_CHAIN] if isinstance(each, BaseException)]
    return reversed(chain)


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )


def _message(error: BaseException) -> str:
    try:
        text = error.msg if isinstance(error, SyntaxError) and error.msg else str(error)
        return "\n".join([text, *map(str, getattr(error, "__notes__", ()) or ())])
    except Exception:
        return ""


def _frames(error: BaseException) -> tuple[Frame, ...]:
    walked = list(traceback.walk_tb(error.__traceback__))[-_MOST_FRAMES:]
    frames = []
    for frame, line in walked:
        file = frame.f_code.co_filename
        is_user = not (reading.is_library(file) or _in_stdlib(file))
        parsed = Frame(file, line, frame.f_code.co_name, _statement(frame, line), is_user)
        if is_user:
            # What cannot be looked at (a __getattr__ that raises, say) must not hide the error itself.
            with contextlib.suppress(Exception):
                parsed = _with_surroundings(parsed, frame, line)
        frames.append(parsed)
    users = [number for number, frame in enumerate(frames) if frame.is_user][-_USERS:]
    for number in range(len(frames)):
        if number in users or number >= len(frames) - _LOOKED_AT:
            with contextlib.suppress(Exception):
                tensors = tuple(_tensors_of(walked[number][0], frames[number].code))
                frames[number] = replace(frames[number], tensors=tensors)
    return tuple(frames)


def _with_surroundings(parsed: Frame, frame: FrameType, line: int) -> Frame:
    return replace(
        parsed,
        context=_context(frame, line),
        names=frozenset(_names(frame.f_code)),
        modules=tuple(_modules(frame)),
        carried=frozenset(_carried(frame)),
    )


def _in_stdlib(file: str) -> bool:
    return file.startswith(_STDLIB) and "ipykernel_" not in file


def _statement(frame: FrameType, line: int) -> str:
    """The statement from the line that raised, on one line."""
    file = frame.f_code.co_filename
    lines = [linecache.getline(file, line, frame.f_globals).strip()]
    # A call over several lines: what follows until its brackets are closed.
    for following in range(line + 1, line + 6):
        text = " ".join(lines)
        if text.count("(") <= text.count(")"):
            break
        lines.append(linecache.getline(file, following, frame.f_globals).strip())
    return " ".join(part for part in lines if part)


def _context(frame: FrameType, line: int) -> str:
    """The function's source, or of a script or cell what stands above the line and a little below."""
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    first = frame.f_code.co_firstlineno if frame.f_code.co_name != "<module>" else line - 40
    last = max((number for _, _, number in frame.f_code.co_lines() if number), default=line)
    return "".join(lines[max(first - 1, 0) : min(last, line + 40)])


def _names(code: CodeType, depth: int = 0) -> Iterator[str]:
    """The identifiers that a function's code uses, known even where its source is not."""
    yield from (*code.co_names, *code.co_varnames, *code.co_freevars)
    for constant in code.co_consts:
        if isinstance(constant, CodeType) and depth < 3:
            yield from _names(constant, depth + 1)
        elif isinstance(constant, tuple):
            # Keyword arguments, such as create_graph.
            yield from (each for each in constant if isinstance(each, str) and each.isidentifier())


def _modules(frame: FrameType) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for name, value in list(frame.f_locals.items())[:200]:
        if facts.is_module(value):
            for key, part in facts.parts(value):
                yield (
                    f"{name}.{key}" if key else name,
                    type(part).__name__,
                    tuple(kind.__name__ for kind in type(part).__mro__),
                )


def _carried(frame: FrameType) -> Iterator[str]:
    """Names that one line of the frame, or of a module's forward in it, both reads and writes."""
    codes = [frame.f_code]
    for value in list(frame.f_locals.values())[:200]:
        forward = getattr(type(value), "forward", None) if facts.is_module(value) else None
        if isinstance(forward, FunctionType) and not reading.is_library(forward.__code__.co_filename):
            codes.append(forward.__code__)
    for code in codes:
        read: set[str] = set()
        line = None
        for step in dis.get_instructions(code):
            if step.starts_line is not None and step.starts_line is not False:
                number = getattr(step, "line_number", step.starts_line)
                if number != line:
                    line, read = number, set()
            if step.opname.startswith("LOAD_") and isinstance(step.argval, str):
                read.add(step.argval)
            elif step.opname.startswith("STORE_") and isinstance(step.argval, str) and step.argval in read:
                yield step.argval


def _tensors_of(frame: FrameType, code: str) -> Iterator[TensorFact]:
    """Tensors that the line names first, then the others of a function, then the parameters of `self`."""
    if "torch" not in sys.modules and "numpy" not in sys.modules:
        return
    names = frame.f_locals
    told = set()
    for fact in facts.named(code, facts.Scope(names, frame.f_globals)):
        told.add(fact.name)
        yield fact
    if frame.f_locals is not frame.f_globals:
        for name in list(names)[:80]:
            if name not in told and len(told) < _MOST_TENSORS and (fact := facts.describe(name, names[name])):
                told.add(name)
                yield fact
    if "backward" in code or (not code and "backward" in frame.f_code.co_names):
        # Whether anything trains at all is seen in the modules that the frame holds.
        modules = [
            (name, value) for name, value in list(names.items())[:200] if name != "self" and facts.is_module(value)
        ]
        for name, value in modules[:4]:
            yield from (fact for fact in facts.of_module(name, value) if fact.name not in told)
    if facts.is_module(names.get("self")):
        for fact in facts.of_module("self", names["self"]):
            # What the line names is told already, but not that the module does not know of it.
            if fact.name not in told or fact.role in ("plain", "unregistered"):
                yield fact
