"""What is shown to the worker: the course without references, wrong answers, hints and everything about judging.

An exercise's file holds all of it together. What is left of it here are its imports, its probes and what they use.
"""

from __future__ import annotations

import ast
import shutil
import symtable
from collections.abc import Iterable, Iterator
from pathlib import Path

import course
from course.exercises import exercise_path

# Rooms and modules that observing needs or a lesson's cell imports. Nothing of grading but what runs in the worker.
ROOMS = (
    "checking",
    "data",
    "deployment",
    "distributed",
    "doctor",
    "environment",
    "faults",
    "figures",
    "notebook",
    "training",
    "workspace",
)
MODULES = ("__init__.py", "curriculum.py", "exercises/__init__.py")
GRADING = ("__init__.py", "answering.py", "filters.py", "intact.py", "observing.py", "sweeping.py", "worker.py")
# Keywords of an exercise that say nothing about what is right.
KEPT = ("name", "compare", "requires", "random", "rtol", "atol", "seconds")
HIDDEN_IMPORTS = ("course.checking", "course.exercises")


class NotStrippable(ValueError):
    """An exercise's file is written in a way from which its answers cannot be taken out; the message says how."""


def write_stage(folder: Path, exercises: Iterable[str]) -> None:
    """Fill an empty folder with a package `course` that knows these exercises' probes and no answer."""
    home, target = Path(course.__file__).parent, folder / "course"
    for room in ROOMS:
        shutil.copytree(home / room, target / room)
    for module in MODULES:
        _copy(home / module, target / module)
    for module in GRADING:
        _copy(home / "grading" / module, target / "grading" / module)
    for exercise in exercises:
        source = exercise_path(exercise)
        room = target / "exercises" / source.parent.name
        if not room.exists():
            for helper in source.parent.glob("_*.py"):
                _copy(helper, room / helper.name)
        (room / source.name).write_text(stripped(source.read_text(encoding="utf-8"), exercise), encoding="utf-8")


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)


def stripped(text: str, exercise: str) -> str:
    """The source of an exercise's file without its answers and without what only they use."""
    tree = ast.parse(text)
    tree.body = [node for node in tree.body if not _is_answer(node)]
    for node in tree.body:
        if _makes_exercise(node):
            node.value = _without_words(node.value, exercise)
    kept = _reachable(tree.body)
    _refuse_leaks(text, kept, exercise)
    return ast.unparse(ast.Module([node for node in kept if not _is_docstring(node)], type_ignores=[])) + "\n"


def fallback_names(text: str) -> list[str]:
    """The names that an exercise's file imports for its answers: what a lesson's cells have imported by then."""
    names = []
    for node in ast.parse(text).body:
        if isinstance(node, (ast.Import, ast.ImportFrom)) and not (getattr(node, "module", None) or "").startswith(
            (*HIDDEN_IMPORTS, "__future__")
        ):
            names += [alias.asname or alias.name.split(".")[0] for alias in node.names]
    return names


def _role(node: ast.stmt) -> str | None:
    """ "probe" for a definition under ``@exercise.probe``, "wrong" under ``@exercise.wrong(...)``, and so on."""
    for decorator in getattr(node, "decorator_list", ()):
        part = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "exercise":
            return part.attr
    return None


def _is_answer(node: ast.stmt) -> bool:
    return _role(node) in ("stub", "reference", "alternative", "wrong")


def _makes_exercise(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and [getattr(target, "id", None) for target in node.targets] == ["exercise"]
    )


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _without_words(call: ast.Call, exercise: str) -> ast.Call:
    kind = ast.unparse(call.func)
    if kind not in ("Exercise", "ValueExercise", "ChoiceExercise"):
        raise NotStrippable(
            f"{exercise}: `exercise` is made by {kind}; expected Exercise, ValueExercise or ChoiceExercise"
        )
    keywords = [keyword for keyword in call.keywords if keyword.arg in KEPT]
    empty = {"title": "''", "task": "''", "hints": "()"}
    if kind != "Exercise":
        empty["expects"] = "''"
    keywords += [ast.keyword(name, ast.parse(value, mode="eval").body) for name, value in empty.items()]
    function = ast.parse(
        "__import__('course.checking').checking." + ("Exercise" if kind == "Exercise" else "ValueExercise"), mode="eval"
    ).body
    return ast.copy_location(ast.Call(function, [ast.Constant(exercise)], keywords), call)


def _binds(node: ast.stmt) -> set[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}


def _names(node: ast.stmt) -> set[str]:
    """The names of the module that a statement uses, inside of functions, too; local ones are left out."""
    return set(_globals(symtable.symtable(ast.unparse(node), "<exercise>", "exec")))


def _globals(table: symtable.SymbolTable) -> Iterator[str]:
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (symbol.is_global() or table.get_type() == "module"):
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _globals(inner)


def _reachable(body: list[ast.stmt]) -> list[ast.stmt]:
    """Imports, the exercise, its probes, and everything that these use."""
    kept = [isinstance(n, (ast.Import, ast.ImportFrom)) or _makes_exercise(n) or _role(n) == "probe" for n in body]
    names = [_names(node) for node in body]
    # `table[key] = ...` and `f.calls = 0` bind nothing; they belong to what they change.
    belongs = [_binds(node) or used for node, used in zip(body, names, strict=True)]
    needed = set().union(*(used for used, keep in zip(names, kept, strict=True) if keep))
    changed = True
    while changed:
        changed = False
        for index, used in enumerate(names):
            if not kept[index] and belongs[index] & needed:
                kept[index] = changed = True
                needed |= used
    return [node for node, keep in zip(body, kept, strict=True) if keep]


def _refuse_leaks(text: str, kept: list[ast.stmt], exercise: str) -> None:
    answers = {node.name for node in ast.parse(text).body if _is_answer(node)}
    used = sorted(answers & {name for node in kept for name in _names(node)})
    if used:
        raise NotStrippable(
            f"{exercise}: its probes use {', '.join(used)}, which a grader must not show. "
            "Write what the probe needs as a function of its own."
        )
