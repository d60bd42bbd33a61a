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
# By these an object decides what Python makes of it; only a probe that looks at the answer itself asks it.
OPERATORS = {"__bool__", "__eq__", "__float__", "__ge__", "__gt__", "__hash__", "__index__", "__int__", "__le__"}
OPERATORS |= {"__lt__", "__ne__"}
COMPARISONS = OPERATORS | {"__array__", "__array_ufunc__", "__array_function__", "__class__", "__instancecheck__"}
COMPARISONS |= {"__reduce__", "__reduce_ex__", "__subclasscheck__", "__torch_dispatch__", "__torch_function__"}
MODULES = {"_thread", "atexit", "bdb", "builtins", "code", "codeop", "ctypes", "faulthandler", "fcntl", "gc", "imp"}
MODULES |= {"importlib", "inspect", "linecache", "marshal", "mmap", "pdb", "posix", "resource", "runpy", "signal"}
MODULES |= {"threading", "unittest"}
# What other modules have imported is theirs: torch.sys is sys. Not all of MODULES, some are words that answers use.
INNER = {"_thread", "builtins", "ctypes", "gc", "importlib", "inspect", "linecache", "os", "posix", "sys"}
ROOMS = ("course.checking", "course.exercises", "course.grading")
CALLS = {"__import__", "compile", "eval", "exec", "globals"}
CHANGES = {"delattr", "setattr", "vars"}  # of what was imported
SETTINGS = {"backends", "config"}
MOST_STEPS = 8  # a = torch, b = a, ...


def findings(source: str, exercise: Exercise) -> list[str]:
    """What a program uses that none of the exercise's right answers uses, in words."""
    found = _found(source)
    if found is None:
        return ["text that cannot be read"]
    if not _is_looked_at(exercise):
        found -= {_method(name) for name in OPERATORS}
    return sorted(found - allowed(exercise))


# Before a program runs and after it passed; the programs of one submission come in between.
@functools.lru_cache(64)
def _found(source: str) -> frozenset[str] | None:
    try:
        return frozenset(_uses(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@functools.cache
def _is_looked_at(exercise: Exercise) -> bool:
    return any(probe.takes_answer for probe in exercise.probes)


@functools.cache
def allowed(exercise: Exercise) -> frozenset[str]:
    """What the catalogue's right answers and the stub use."""
    texts = [exercise.stub_source()]
    if not isinstance(exercise, ChoiceExercise):
        texts += [source_of(each.obj) or "" for each in (exercise.answer_reference, *exercise.alternatives)]
    return frozenset(use for text in texts for use in _uses(ast.parse(text)))


def _uses(tree: ast.AST) -> Iterator[str]:
    nodes = list(ast.walk(tree))
    held = _held(nodes)
    looked_into = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        match node:
            case ast.Import(names=names):
                yield from _modules(alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names):
                yield from _modules([module or "", *(f"{module}.{alias.name}" for alias in names)])
                yield from (use for alias in names for use in _named(alias.name))
                yield from (f"the module {alias.name}" for alias in names if alias.name in INNER)
                if module in ("os", "posix"):
                    yield from (f"os.{alias.name}" for alias in names if alias.name in DESCRIPTORS | {"*"})
                if module == "sys":
                    yield from ("sys.modules" for alias in names if alias.name in ("modules", "*"))
            case ast.Attribute(value=ast.Name(id=base), attr=name) if held.get(base) == "os" and name in DESCRIPTORS:
                yield f"os.{name}"
            case ast.Attribute(value=ast.Name(id="self"), attr="modules"):
                pass
            case ast.Attribute(attr="modules") if id(node) not in called:  # model.modules() is another thing
                yield "sys.modules"
            case ast.Attribute(attr=name, ctx=ast.Load()) if name in INNER:
                yield f"the module {name}"
            case ast.Attribute(attr=name):
                yield from _named(name)
            case ast.Name(id=name, ctx=ast.Load()) if held.get(name) in ("os", "sys") and id(node) not in looked_into:
                yield f"the module {held[name]} as a value"
            case ast.Name(id=name):
                yield from _named(name)
            case ast.Constant(value=str() as text):
                yield from _named(text, is_text=True)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name in COMPARISONS:
                yield _method(name)
            case ast.Call(func=ast.Name(id=name)) if name in CALLS:
                yield f"{name}()"
            case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in CHANGES and (of := _from(first, held)):
                yield f"{name}() of {of[0]}"
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value="modules"), *_]):
                yield "sys.modules"
            case ast.Call(func=ast.Name(id="open"), args=[first, *_]) if not _is_path(first):
                yield "open() of a descriptor"
        yield from _assigned_in(node, held)


def _method(name: str) -> str:
    return f"a method {name}, by which an object decides how it is compared"


def _named(name: str, is_text: bool = False) -> Iterator[str]:
    if name in FRAMES:
        yield f"frames ({name})"
    if name in INSIDES or name in OBJECTS:
        yield name
    if is_text and name in COMPARISONS:
        yield f"the name {name}"
    if is_text and name.startswith(("/proc", "/dev/fd")):
        yield "/proc"
    if is_text and name.startswith(ROOMS):
        yield f"the name {name[:80]}"


def _modules(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if name.split(".")[0] in MODULES:
            yield f"the module {name.split('.')[0]}"
        if name.startswith(ROOMS):
            yield f"the module {'.'.join(name.split('.')[:2])}"


def _held(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """What names stand for that hold something of a module: those of imports, and variables that were set to such a
    thing, `home = torch.nn`, or to somebody's class, `kind = type(x)`."""
    held = {"os": "os", "sys": "sys", "torch": "torch", "nn": "torch.nn", "F": "torch.nn.functional"}
    assigned: list[tuple[str, ast.expr]] = []
    for node in nodes:
        match node:
            case ast.Import(names=names):
                held |= {each.asname or each.name.split(".")[0]: _module_of(each) for each in names}
            case ast.ImportFrom(module=module, names=names):
                held |= {each.asname or each.name: f"{module}.{each.name}" for each in names}
            case ast.Assign(targets=targets, value=value):
                assigned += [(each.id, value) for each in targets if isinstance(each, ast.Name)]
            case (
                ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                | ast.NamedExpr(target=ast.Name(id=name), value=value)
            ):
                assigned.append((name, value))
    for _ in range(MOST_STEPS):
        more = {name: ".".join(found) for name, value in assigned if name not in held and (found := _from(value, held))}
        if not more:
            break
        held |= more
    return held


def _module_of(imported: ast.alias) -> str:
    return imported.name if imported.asname else imported.name.split(".")[0]


def _from(node: ast.expr, held: dict[str, str]) -> list[str]:
    """The names in `torch.nn.functional` or `type(x).T`, where the first one holds something of a module, or a class
    that is not the answer's own; else nothing."""
    names: list[str] = []
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        names.append(getattr(node, "attr", "[]"))
        node = node.value
    match node:
        case ast.Name(id=name) if name in held:
            return [name, *reversed(names)]
        case ast.Call(func=ast.Name(id="type"), args=[_]):
            return ["type()", *reversed(names)]
    return [*reversed(names)] if "__class__" in names else []


def _assigned_in(node: ast.AST, held: dict[str, str]) -> Iterator[str]:
    """Assignments to attributes of what was imported, `torch.equal = ...`; settings such as torch.backends are not."""
    if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)):
        names = _from(node, held)
        if names and not SETTINGS & set(names):
            yield f"an assignment to {'.'.join(names)}"


def _is_path(node: ast.expr) -> bool:
    return not (isinstance(node, ast.Constant) and isinstance(node.value, int))
