"""Catalogued answers of exercises as a person could hand them in."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from course.checking import Exercise
from course.checking.exercise import Candidate, ValueExercise
from course.exercises import exercise_path


def candidates(exercise: Exercise) -> Iterator[Candidate]:
    """The reference, the alternatives, the wrong answers."""
    yield exercise.answer_reference
    yield from exercise.alternatives
    yield from exercise.wrong_answers


def as_submitted(exercise: Exercise, candidate: Candidate) -> str:
    """An answer under the learner's name, with the imports and helpers of its file and the classes that it extends."""
    if isinstance(exercise, ValueExercise):
        return f"from math import inf, nan\n{exercise.name} = {exercise.value_of(candidate)!r}\n"
    own = candidate.obj.__name__
    always, catalogued = [], {}
    file = ast.parse(exercise_path(exercise.id).read_text(encoding="utf-8"))
    for node in file.body:
        definition = isinstance(node, (ast.FunctionDef, ast.ClassDef))
        if definition and any(ast.unparse(each).startswith("exercise.") for each in node.decorator_list):
            node.decorator_list = []
            catalogued[node.name] = node
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            always += [] if "course.checking" in ast.unparse(node) else [node]
        elif definition or (isinstance(node, ast.Assign) and "Exercise(" not in ast.unparse(node)):
            always.append(node)
    needed = [*always, catalogued.pop(own)]
    for node in needed:  # grows
        used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        needed += [catalogued.pop(name) for name in sorted(used & catalogued.keys())]
    parts = [node for node in file.body if node in needed]
    return "\n".join(ast.unparse(_Renamed(own, exercise.name).visit(node)) for node in parts)


class _Renamed(ast.NodeTransformer):
    """Gives the definition its learner's name; attributes of the old name, such as torch.cond, stay."""

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.new if node.id == self.old else node.id
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == self.old:
            node.name = self.new
        return super().generic_visit(node)
