"""Lesson 12, build it: an exporter for three operations, and what runs its programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from course.checking import Exercise

exercise = Exercise(
    "export.tiny_exporter",
    title="An exporter and its interpreter",
    task="""
        `TinyExporter()` has two methods.

        `export(function, inputs)` calls the function **once**, with a stand-in for each name in `inputs`, and returns
        the program as plain data that `json.dumps` takes:

        ```python
        TinyExporter().export(lambda x, y: (2 * x + y).relu(), ["x", "y"])
        {"inputs": ["x", "y"],
         "nodes": [{"op": "mul", "args": [["number", 2], ["value", 0]]},
                   {"op": "add", "args": [["value", 2], ["value", 1]]},
                   {"op": "relu", "args": [["value", 3]]}],
         "outputs": [4]}
        ```

        - Values are numbered: the inputs first, then the result of each node. Arguments stand in the order written.
        - A stand-in takes `+` and `*` with stand-ins and Python numbers on either side, and `.relu()`. For anything
          else beside it, such as a tensor, raise TypeError. The function returns a stand-in or a tuple of them.
        - A stand-in has no value. `if x:` raises TypeError, because the program would keep one branch only.

        `run(program, **tensors)` computes the program with tensors by the names of its inputs, without the function,
        and returns a tuple of tensors, also for one output. The program, and the tensors, stay as they are.
        """,
    hints=(
        "A class of your own with __add__, __radd__, __mul__, __rmul__ and relu can write down each operation and "
        "return a new stand-in. What does a stand-in have to know to be an argument of the next one?",
        "Each stand-in knows its number. Writing down a node appends to a list, and the number of its result is "
        "len(inputs) + len(nodes) - 1. run keeps a list of values in the same order: inputs first, one more for each "
        "node. __bool__ raises.",
    ),
)


@exercise.stub
class TinyExporter:
    """Records add, mul and relu of a function as plain data, and runs such a program."""

    def export(self, function: Callable[..., Any], inputs: Sequence[str]) -> dict[str, Any]:
        """Return {"inputs", "nodes", "outputs"} of one call of function with stand-ins."""
        raise NotImplementedError

    def run(self, program: dict[str, Any], **tensors: Tensor) -> tuple[Tensor, ...]:
        """Compute the outputs of the program."""
        raise NotImplementedError


@exercise.reference
class StandIns:
    def export(self, function, inputs):
        nodes = []

        def note(op, *args):
            entries = []
            for arg in args:
                if isinstance(arg, Value):
                    entries.append(["value", arg.number])
                elif isinstance(arg, (int, float)):
                    entries.append(["number", arg])
                else:
                    raise TypeError(f"a program holds values and numbers, not {type(arg).__name__}")
            nodes.append({"op": op, "args": entries})
            return Value(len(inputs) + len(nodes) - 1)

        class Value:
            def __init__(self, number):
                self.number = number

            def __add__(self, other):
                return note("add", self, other)

            def __radd__(self, other):
                return note("add", other, self)

            def __mul__(self, other):
                return note("mul", self, other)

            def __rmul__(self, other):
                return note("mul", other, self)

            def relu(self):
                return note("relu", self)

            def __bool__(self):
                raise TypeError("a value is not known while the program is recorded")

        results = function(*[Value(number) for number in range(len(inputs))])
        outputs = results if isinstance(results, tuple) else (results,)
        return {"inputs": list(inputs), "nodes": nodes, "outputs": [value.number for value in outputs]}

    def run(self, program, **tensors):
        operations = {"add": lambda a, b: a + b, "mul": lambda a, b: a * b, "relu": lambda a: a.relu()}
        values = [tensors[name] for name in program["inputs"]]
        for node in program["nodes"]:
            args = [values[entry] if kind == "value" else entry for kind, entry in node["args"]]
            values.append(operations[node["op"]](*args))
        return tuple(values[number] for number in program["outputs"])


@exercise.alternative
class OneEntryAtATime:
    def export(self, function, inputs):
        nodes = []

        def entry(arg):
            if type(arg) is Symbol:
                return ["value", arg.number]
            if type(arg) in (bool, int, float):
                return ["number", arg]
            raise TypeError("neither a stand-in nor a number")

        class Symbol:
            def __init__(self, number):
                self.number = number

            def put(self, op, *args):
                nodes.append({"op": op, "args": list(map(entry, args))})
                return Symbol(len(inputs) + len(nodes) - 1)

            def __add__(self, other):
                return self.put("add", self, other)

            def __radd__(self, other):
                return self.put("add", other, self)

            def __mul__(self, other):
                return self.put("mul", self, other)

            def __rmul__(self, other):
                return self.put("mul", other, self)

            def relu(self):
                return self.put("relu", self)

            def __bool__(self):
                raise TypeError("unknown")

        outputs = function(*map(Symbol, range(len(inputs))))
        if isinstance(outputs, Symbol):
            outputs = (outputs,)
        return {"inputs": [*inputs], "nodes": nodes, "outputs": [output.number for output in outputs]}

    def run(self, program, **tensors):
        known = {number: tensors[name] for number, name in enumerate(program["inputs"])}
        for node in program["nodes"]:
            first, *rest = [known[entry] if kind == "value" else entry for kind, entry in node["args"]]
            if node["op"] == "relu":
                result = torch.relu(first)
            else:
                result = first + rest[0] if node["op"] == "add" else first * rest[0]
            known[len(known)] = result
        return tuple([known[number] for number in program["outputs"]])


@exercise.wrong(
    "The function itself is kept and called again by run. That is no program: it cannot be written to a file, and "
    "needs the Python code wherever it runs."
)
class KeepsTheFunction(StandIns):
    def export(self, function, inputs):
        self.function = function
        return super().export(function, inputs)

    def run(self, program, **tensors):
        result = self.function(*[tensors[name] for name in program["inputs"]])
        return result if isinstance(result, tuple) else (result,)


@exercise.wrong(
    "A stand-in is true, as every Python object is. `if x:` takes the first branch without a word, and the program has "
    "lost the other one.",
    fault="trace-loses-branch",
)
class EveryValueIsTrue(StandIns):
    def export(self, function, inputs):
        return edited(self, function, inputs, __bool__=lambda self: True)


@exercise.wrong("Only the number on the right works: for `2 * x` Python asks the stand-in for __rmul__ and __radd__.")
class NoReflected(StandIns):
    def export(self, function, inputs):
        return edited(self, function, inputs, __radd__=None, __rmul__=None)


@exercise.wrong(
    "Arguments of `2 * x` are written down as x, 2. The values are the same here; in a program with a subtraction or "
    "division they would not be, and the task asks for the order written."
)
class SwappedArguments(StandIns):
    def export(self, function, inputs):
        return edited(self, function, inputs, __radd__="__add__", __rmul__="__mul__")


@exercise.wrong("Results are numbered from 0, like the inputs. The first node then overwrites the first input.")
class NumberedFromZero(StandIns):
    def export(self, function, inputs):
        program, count = super().export(function, inputs), len(inputs)

        def renumbered(number):
            return number - count if number >= count else number

        for node in program["nodes"]:
            node["args"] = [[kind, renumbered(e) if kind == "value" else e] for kind, e in node["args"]]
        return {**program, "outputs": [renumbered(number) for number in program["outputs"]]}


@exercise.wrong("The last node is taken for the output. A function may return an earlier value, an input, or several.")
class LastNodeIsTheOutput(StandIns):
    def run(self, program, **tensors):
        count = len(program["inputs"]) + len(program["nodes"])
        return super().run({**program, "outputs": [count - 1]}, **tensors)


@exercise.wrong("run returns the tensor itself for one output. The task asks for a tuple every time.")
class BareTensor(StandIns):
    def run(self, program, **tensors):
        results = super().run(program, **tensors)
        return results if len(results) > 1 else results[0]


@exercise.wrong(
    "Tensors are taken in the order in which they are given, not by the names of the inputs: with y before x they "
    "change places."
)
class ByPosition(StandIns):
    def run(self, program, **tensors):
        return super().run({**program, "inputs": list(tensors)}, **tensors)


@exercise.wrong("add writes into its first argument. It may be an input, or a value that is needed again.")
class AddsInPlace(StandIns):
    def run(self, program, **tensors):
        values = [tensors[name] for name in program["inputs"]]
        for node in program["nodes"]:
            args = [values[entry] if kind == "value" else entry for kind, entry in node["args"]]
            if node["op"] == "add" and isinstance(args[0], Tensor):
                values.append(args[0].add_(args[1]))
            else:
                values.append(
                    {"add": lambda a, b: a + b, "mul": lambda a, b: a * b, "relu": torch.relu}[node["op"]](*args)
                )
        return tuple(values[number] for number in program["outputs"])


@exercise.wrong(
    "Numbers are written down as if they were numbers of values. `x + 1` adds value 1, whatever that is. Arguments "
    "need a mark that says which they are."
)
class NumbersAreValues(StandIns):
    def export(self, function, inputs):
        program = super().export(function, inputs)
        for node in program["nodes"]:
            node["args"] = [["value", entry] for _, entry in node["args"]]
        return program

    def run(self, program, **tensors):
        known = [tensors.get(name) for name in program["inputs"]]
        for node in program["nodes"]:
            parts = [known[int(number)] for _, number in node["args"]]
            known.append({"add": torch.add, "mul": torch.mul, "relu": torch.relu}[node["op"]](*parts))
        return tuple(known[number] for number in program["outputs"])


@exercise.wrong("A tensor beside a stand-in goes into the program as it is. json.dumps cannot write it.")
class KeepsTensors(StandIns):
    def export(self, function, inputs):
        def keep(self, other):
            return self * 1 + 0 if isinstance(other, Tensor) else self + other

        return edited(self, function, inputs, plus=keep)


@exercise.wrong("The function is called twice: once to look at it and once to record it. Side effects happen twice.")
class CalledTwice(StandIns):
    def export(self, function, inputs):
        super().export(function, inputs)
        return super().export(function, inputs)


def edited(exporter, function, inputs, plus=None, **methods):
    """Record with stand-ins some of whose methods are exchanged: a function, another method's name, or None to drop."""

    def with_changes(*values):
        kind = type(values[0])
        for name, method in methods.items():
            if method is None:
                delattr(kind, name)
            else:
                setattr(kind, name, getattr(kind, method) if isinstance(method, str) else method)
        if plus is not None:
            ordinary = kind.__add__
            kind.__add__ = lambda self, other: (
                ordinary(ordinary(self, 0), 0) if isinstance(other, Tensor) else ordinary(self, other)
            )
        return function(*values)

    return StandIns.export(exporter, with_changes, inputs)


def through_json(answer, function, *inputs):
    return json.loads(json.dumps(answer().export(function, list(inputs))))


def ran(answer, function, **tensors):
    """The program after JSON, run by another exporter, and the result of the function itself."""
    program = through_json(answer, function, *tensors)
    return answer().run(program, **tensors), program


X, Y = (-2.0, 0.5, 3.0), (1.0, -4.0, 0.25)


@exercise.probe
def the_example(answer):
    return ran(answer, lambda x, y: (2 * x + y).relu(), x=torch.tensor(X), y=torch.tensor(Y))


@exercise.probe
def numbers_on_both_sides(answer):
    return ran(answer, lambda x: 1.5 + x * 3 + 1, x=torch.tensor(X))


@exercise.probe
def number_on_the_left(answer):
    return ran(answer, lambda x: 4 + x, x=torch.tensor(X)), ran(answer, lambda x: -0.5 * x, x=torch.tensor(X))


@exercise.probe
def value_used_twice(answer):
    def function(x):
        y = x + 1
        return y * y + x

    x = torch.tensor(X)
    return ran(answer, function, x=x), x


@exercise.probe
def several_outputs(answer):
    return ran(answer, lambda x, y: (x * y, x, (x + y).relu()), x=torch.tensor(X), y=torch.tensor(Y))


@exercise.probe
def an_input_and_an_unused_one(answer):
    return ran(answer, lambda x, y: y, x=torch.tensor(X), y=torch.tensor(Y))


@exercise.probe
def an_earlier_value(answer):
    def function(x):
        kept = x * 2
        kept.relu()
        return kept

    return ran(answer, function, x=torch.tensor(X))


@exercise.probe
def tensors_in_another_order(answer):
    program = through_json(answer, lambda x, y: x * 10 + y, "x", "y")
    return answer().run(program, y=torch.tensor(Y), x=torch.tensor(X))


@exercise.probe
def run_twice(answer):
    program = through_json(answer, lambda x: (x + 1) * x, "x")
    before, runner = json.dumps(program), answer()
    values = [runner.run(program, x=torch.tensor(x)) for x in (X, Y)]
    return values, json.dumps(program) == before


@exercise.probe
def python_decides_once(answer):
    calls = []

    def function(x):
        calls.append(1)
        return x * 2 if len(calls) == 1 else x + 100

    program = through_json(answer, function, "x")
    return answer().run(program, x=torch.tensor(X)), len(calls), program


@exercise.probe
def two_programs_of_one_exporter(answer):
    exporter = answer()
    first, second = (exporter.export(function, ["x"]) for function in (lambda x: x + 1, lambda x: x * 2))
    x = torch.tensor(X)
    return exporter.run(first, x=x), exporter.run(second, x=x), first, second


def refused(call):
    try:
        call()
    except TypeError:
        return "TypeError"
    return "no TypeError"


@exercise.probe
def a_branch_on_a_value(answer):
    return refused(lambda: answer().export(lambda x: x + 1 if x else x * 2, ["x"]))


@exercise.probe
def a_tensor_beside_it(answer):
    tensor = torch.ones(3)
    ways = (lambda x: x + tensor, lambda x: tensor * x, lambda x: x * [1.0])
    return [refused(lambda way=way: answer().export(way, ["x"])) for way in ways]
