"""What an answer may not do and still be judged by the machine alone.

A probe that calls the answer itself runs in the answer's process and reports what it found, sometimes no more than
"yes". Whoever can reach the probe from inside the answer can make it report that. Three things stand in the way:

- most probes report values, and the grader compares them with those of the reference, which is not there to be read;
- after the probes it is looked whether functions that they rely on were replaced (:mod:`course.grading.intact`);
- the ways to reach a caller, its variables or other people's objects from Python have names. An answer that passes
  and uses one of them, where no right answer of the catalogue does, is CONTAINED: a person has to read it.

What remains: names can be put together at run time, and Python has more doors than any list. A program written to
deceive this grader in particular, by someone who knows it, can still earn PASSED for its own exercise, never for
anyone else's. Read what you doubt.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator

from course.checking.exercise import ChoiceExercise, Exercise
from course.checking.source import source_of

FRAMES = {"_current_frames", "_getframe", "ag_frame", "cr_frame", "currentframe", "f_back", "f_builtins", "f_code"}
FRAMES |= {"f_globals", "f_locals", "gi_frame", "setprofile", "settrace", "tb_frame", "tb_next"}
INSIDES = {"__builtins__", "__closure__", "__code__", "__globals__", "__subclasses__", "cell_contents"}
INSIDES |= {"__getattribute__", "__mro__", "__base__", "__bases__", "__self__", "__wrapped__", "__traceback__"}
OBJECTS = {"get_objects", "get_referents", "get_referrers"}
DESCRIPTORS = {"dup", "dup2", "fdopen", "pwrite", "pwritev", "sendfile", "splice", "write", "writev"}
COMPARISONS = {
    "__eq__",
    "__ge__",
    "__gt__",
    "__le__",
    "__lt__",
    "__ne__",
    "__bool__",
    "__float__",
    "__int__",
    "__index__",
}
COMPARISONS |= {"__array__", "__array_ufunc__", "__array_function__", "__instancecheck__", "__torch_dispatch__"}
COMPARISONS |= {"__torch_function__", "__class__", "__subclasscheck__", "__hash__", "__reduce__", "__reduce_ex__"}
MODULES = {
    "_thread",
    "builtins",
    "code",
    "codeop",
    "ctypes",
    "faulthandler",
    "fcntl",
    "gc",
    "imp",
    "importlib",
    "inspect",
}
MODULES |= {
    "linecache",
    "mmap",
    "pdb",
    "bdb",
    "resource",
    "runpy",
    "unittest",
    "threading",
    "atexit",
    "signal",
    "marshal",
}
ROOMS = ("course.checking", "course.exercises", "course.grading")
CALLS = {"__import__", "compile", "eval", "exec", "globals"}
CHANGES = {"delattr", "setattr", "vars"}  # of what was imported
SETTINGS = {"backends", "config"}


def findings(source: str, exercise: Exercise) -> list[str]:
    """What a program uses that none of the exercise's right answers uses, in words."""
    try:
        found = set(_uses(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ["text that cannot be read"]
    return sorted(found - allowed(exercise))


@functools.cache
def allowed(exercise: Exercise) -> frozenset[str]:
    """What the catalogue's right answers and the stub use."""
    texts = [exercise.stub_source()]
    if not isinstance(exercise, ChoiceExercise):
        texts += [source_of(each.obj) or "" for each in (exercise.answer_reference, *exercise.alternatives)]
    return frozenset(use for text in texts for use in _uses(ast.parse(text)))


def _uses(tree: ast.AST) -> Iterator[str]:
    imported = _imported(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from _modules(alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names):
                yield from _modules([module or "", *(f"{module}.{alias.name}" for alias in names)])
                yield from (use for alias in names for use in _named(alias.name))
                if module in ("os", "posix"):
                    yield from (f"os.{alias.name}" for alias in names if alias.name in DESCRIPTORS | {"*"})
                if module == "sys":
                    yield from ("sys.modules" for alias in names if alias.name in ("modules", "*"))
            case ast.Attribute(value=ast.Name(id="os"), attr=name) if name in DESCRIPTORS:
                yield f"os.{name}"
            case ast.Attribute(value=ast.Name(id="sys"), attr="modules"):
                yield "sys.modules"
            case ast.Attribute(attr=name):
                yield from _named(name)
            case ast.Name(id=name):
                yield from _named(name)
            case ast.Constant(value=str() as text):
                yield from _named(text, is_text=True)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name in COMPARISONS:
                yield f"a method {name}, by which an object decides how it is compared"
            case ast.Call(func=ast.Name(id=name)) if name in CALLS:
                yield f"{name}()"
            case ast.Call(func=ast.Name(id=name), args=[ast.Name(id=first), *_]) if (
                name in CHANGES and first in imported
            ):
                yield f"{name}() of {first}"
            case ast.Call(func=ast.Name(id="open"), args=[first, *_]) if not _is_path(first):
                yield "open() of a descriptor"
        yield from _assigned_in(node, imported)


def _named(name: str, is_text: bool = False) -> Iterator[str]:
    if name in FRAMES:
        yield f"frames ({name})"
    if name in INSIDES or name in OBJECTS:
        yield name
    if is_text and name in COMPARISONS:
        yield f"the name {name}"
    if is_text and name.startswith(("/proc", "/dev/fd")):
        yield "/proc"


def _modules(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if name.split(".")[0] in MODULES:
            yield f"the module {name.split('.')[0]}"
        if name.startswith(ROOMS):
            yield f"the module {'.'.join(name.split('.')[:2])}"


def _imported(tree: ast.AST) -> set[str]:
    return {
        alias.asname or alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    } | {"torch", "nn", "F"}


def _assigned_in(node: ast.AST, imported: set[str]) -> Iterator[str]:
    """Assignments to attributes of what was imported, `torch.equal = ...`; settings such as torch.backends are not."""
    if not (isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del))):
        return
    names, part = [], node
    while isinstance(part, (ast.Attribute, ast.Subscript)):
        names.append(getattr(part, "attr", "[]"))
        part = part.value
    if isinstance(part, ast.Name) and part.id in imported and not SETTINGS & set(names):
        yield f"an assignment to {'.'.join([part.id, *reversed(names)])}"


def _is_path(node: ast.expr) -> bool:
    return not (isinstance(node, ast.Constant) and isinstance(node.value, int))
