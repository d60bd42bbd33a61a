"""Give an answer to an exercise's probes and note everything it did."""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import inspect
import linecache
import re
import sys
import warnings
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import BuiltinFunctionType, CellType, FunctionType
from typing import Any

import torch

from course.checking.exercise import Exercise, Probe
from course.checking.isolate import Run, run_isolated
from course.checking.observation import Encoder, ErrorSeen, Observation, leaves
from course.checking.source import lambda_source, plain_function, source_of
from course.checking.state import preserved_state

INPUT_SEED = 20_000
PASSES = 2
CATALOGUE_SECONDS = 60.0
MAX_MESSAGE = 400
IMPORTED_ONCE = ("torch.", "torchvision.")

# Exceptions that show an unfinished or misspelt answer, never a misunderstanding of PyTorch.
UNDIAGNOSABLE = {"NameError", "UnboundLocalError", "SyntaxError", "IndentationError"}
ARITY = re.compile(
    r"positional argument|required (?:keyword-only )?argument|unexpected keyword argument|multiple values for"
)
NAMED = (FunctionType, type)
FROM_ELSEWHERE = (FunctionType, BuiltinFunctionType)


class CheckFailed(RuntimeError):
    """The checking machinery, not the answer, could not do its work."""


def is_diagnosable(error: ErrorSeen) -> bool:
    misfit = error.type == "TypeError" and ARITY.search(error.message)
    return error.type not in UNDIAGNOSABLE and not misfit and not is_left_open(error)


def is_left_open(error: ErrorSeen) -> bool:
    """Whether a stub's ``raise NotImplementedError`` was reached. For dtypes without a kernel torch raises one, too."""
    return error.type == "NotImplementedError" and (not error.message or "NotImplementedError" in (error.line or ""))


def observe_probe(exercise: Exercise, probe: Probe, answer: Any, seed: int) -> Observation:
    """One call of one probe. ``seed`` is what the global random generators hold when the answer is called."""
    if probe.requirement is not None:
        return observe_rule(probe, _own_sources(answer))
    if probe.function is None:
        return Observation(Encoder()(answer))
    # The filters of the notebook or of its runner must not decide what an answer does.
    warnings.simplefilter("ignore")
    if probe.takes_answer:
        _seed(seed)
        value = _called(probe.function, (answer,), answer, exercise.name, own_code=probe.function.__code__)
        return Observation(value if type(value) is ErrorSeen else Encoder(own_class=_own(answer))(value))
    _seed(INPUT_SEED)
    inputs = probe.function()
    inputs = inputs if type(inputs) is tuple else (inputs,)
    flat = list(leaves(inputs))
    shown = tuple(Encoder()(argument) for argument in inputs)
    before = [Encoder()(leaf) for leaf in flat]
    _seed(seed)
    value = _called(answer, inputs, answer, exercise.name)
    after = [Encoder()(leaf) for leaf in flat]
    mutated = tuple((i, new) for i, (old, new) in enumerate(zip(before, after, strict=True)) if old != new)
    if type(value) is ErrorSeen:
        return Observation(value, shown, mutated)
    encoded = Encoder(inputs, _own(answer))(value)
    return Observation(encoded, shown, mutated, _gradients(exercise, value, flat))


def _seed(seed: int) -> None:
    # Without an accelerator torch.manual_seed still formats the call stack for one that may come: dearer than a probe.
    if _has_accelerator():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


@functools.cache
def _has_accelerator() -> bool:
    return torch.accelerator.is_available()


def _own(answer: Any) -> type | None:
    return answer if issubclass(type(answer), type) else None


def _called(function: Any, arguments: tuple[Any, ...], answer: Any, name: str, own_code: Any = None) -> Any:
    try:
        return function(*arguments)
    except BaseException as error:
        return _error_seen(error, answer, name, own_code)


def _error_seen(error: BaseException, answer: Any, name: str, own_code: Any) -> ErrorSeen:
    kind = type(error)
    try:
        message = str(error)
    except BaseException:
        message = "(its message could not be read)"
    if name and (own := _own(answer)) is not None:
        # A catalogued class has a name of its own, and errors tell it. (Exercises without answers have no name.)
        message = re.sub(rf"\b{re.escape(type.__getattribute__(own, '__name__'))}\b", name, message)
    if len(message) > MAX_MESSAGE:
        message = message[:MAX_MESSAGE] + " ..."
    bases = tuple(base.__name__ for base in kind.__mro__)
    return ErrorSeen(kind.__name__, bases, message, _line_of(error, answer, own_code))


def _line_of(error: BaseException, answer: Any, own_code: Any) -> str | None:
    """The innermost line of the answer's own file in the traceback, lines of the probe itself left out."""
    code = getattr(inspect.unwrap(answer), "__code__", None) if inspect.isroutine(answer) else None
    try:
        home = code.co_filename if code else inspect.getfile(answer)
    except (TypeError, OSError):
        return None
    line, trace = None, error.__traceback__
    while trace is not None:
        frame_code = trace.tb_frame.f_code
        if frame_code.co_filename == home and frame_code is not own_code:
            line = linecache.getline(home, trace.tb_lineno).strip() or line
        trace = trace.tb_next
    return line


def _gradients(exercise: Exercise, value: Any, inputs: Sequence[Any]) -> tuple[Any, ...] | None:
    if "gradients" not in exercise.compare:
        return None
    wanted = [leaf for leaf in inputs if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    outputs = [leaf for leaf in leaves(value) if isinstance(leaf, torch.Tensor) and leaf.grad_fn is not None]
    if not wanted or not outputs:
        return tuple(None for _ in wanted)
    # Unequal weights, so that gradients do not cancel by symmetry.
    total = sum(
        (out * torch.linspace(0.5, 1.5, out.numel(), dtype=out.dtype).reshape(out.shape)).sum() for out in outputs
    )
    grads = torch.autograd.grad(total, wanted, allow_unused=True)
    return tuple(None if grad is None else Encoder()(grad) for grad in grads)


def observe_rule(probe: Probe, texts: Iterable[str]) -> Observation:
    """Whether a requirement on the source holds for all of these texts; its note is the first line that breaks it."""
    for text in texts:
        broken = probe.requirement(ast.parse(text))
        if broken is not None:
            first = (ast.get_source_segment(text, broken) or "").split("\n", 1)[0]
            return Observation(False, note=first or None)
    return Observation(True)


def _own_sources(answer: Any) -> list[str]:
    """Source of the answer and of the functions and classes of the same module that it uses, directly or not.

    A function from elsewhere that has another name here counts as an import under that name.
    """
    texts, todo, known = [], [answer], set()
    while todo:
        user = todo.pop()
        text = source_of(user) or lambda_source(user)
        if text is None or id(user) in known:
            continue
        known.add(id(user))
        texts.append(text)
        scope = _scope(user)
        for name in sorted({node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}):
            used = scope.get(name)
            if issubclass(type(used), NAMED) and used.__module__ == user.__module__:
                todo.append(used)
            elif type(used) in FROM_ELSEWHERE and used.__name__.isidentifier() and used.__name__ != name:
                texts.append(f"from elsewhere import {used.__name__} as {name}\n")
    return texts


def _scope(user: Any) -> Mapping[str, Any]:
    """The global names, and those of enclosing functions, that a function or a class's methods can read."""
    values = vars(user).values() if issubclass(type(user), type) else [user]
    scopes: list[dict[str, Any]] = []
    for function in filter(None, map(plain_function, values)):
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        scopes.append({name: cell.cell_contents for name, cell in cells if _is_filled(cell)})
        scopes.append(function.__globals__)
    return ChainMap(*scopes)


def _is_filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _all_observations(exercise: Exercise, answers: Sequence[Any], passes: int) -> Iterator[tuple[Any, ...]]:
    before = set(sys.modules)
    for which, answer in enumerate(answers):
        for turn in range(passes):
            for index, probe in enumerate(exercise.probes):
                yield ("start", which, turn, index)
                with preserved_state():
                    seen = observe_probe(exercise, probe, answer, seed=INPUT_SEED + 1 + turn)
                yield ("seen", which, turn, index, seen)
    yield ("imported", sorted(name for name in set(sys.modules) - before if name.startswith(IMPORTED_ONCE)))


def observe(
    exercise: Exercise, answers: Sequence[Any], *, passes: int, deadline: float, ours: bool = False
) -> tuple[Run, list[list[list[Any]]]]:
    """Run all probes on all answers in one isolated process.

    Returns how the run ended and the observations as ``table[answer][turn][probe]``, None where the run did not get to.
    ours: these are the exercise's own answers. What torch imported for them (for the first optimizer that is much) is
    imported here as well, so that not every later child has to.
    """
    run = run_isolated(lambda: _all_observations(exercise, answers, passes), deadline=deadline)
    table: list[list[list[Any]]] = [[[None] * len(exercise.probes) for _ in range(passes)] for _ in answers]
    for message in run.messages:
        if message[0] == "seen":
            _, which, turn, index, seen = message
            table[which][turn][index] = seen
        elif message[0] == "imported" and ours:
            for name in message[1]:
                with contextlib.suppress(Exception):
                    importlib.import_module(name)
    return run, table
