"""Lesson 09: a tracer with guards."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from course.checking import Exercise

exercise = Exercise(
    "compilation.tracer",
    title="Build it: a tracer with guards",
    task="""
        `TinyCompiler(function)` is a `torch.compile` in thirty lines. `function` takes one or more float tensors and
        returns one tensor. It is made of `+`, `-`, `*` and `@`, between its tensors or with Python numbers on either
        side, and of the method `.relu()`. It may read `.shape` of its arguments.

        - **Trace.** Call `function` once, not with tensors but with stand-ins. A stand-in offers the operators above,
          its `.shape`, and notes each operation.
        - **Replay.** Run the noted operations on the real tensors. `function` itself is not called again.
        - **Guard.** A trace is good for tensors of the same shapes and dtypes. For others, trace again, and keep the
          old traces: each combination is traced once.

        `compiled(*tensors)` returns what `function(*tensors)` returns. `compiled.traces` is the number of traces so
        far. `compiled.graph` is the newest trace, a list of the names of its operations in order: `"add"`, `"sub"`,
        `"mul"`, `"matmul"`, `"relu"`.

        Whatever else `function` does, such as counting its calls, happens while tracing and at no other time: the
        lesson's point.
        """,
    hints=(
        "Give each stand-in a place: a list of values starts with the arguments, and each operation appends one. A "
        "noted operation is (name, function, operands), an operand being a place or a number.",
        "Shapes: hand the real tensor to the stand-in while tracing and compute along with it, so every stand-in knows "
        "its value and hence its shape. What is noted must hold places, not these values.",
        "`2 - x` calls `x.__rsub__(2)`: note the number first. The dict of traces has a tuple of (shape, dtype) of "
        "each tensor as its key.",
    ),
)


@exercise.stub
class TinyCompiler:
    """Traces a function of float tensors once for each combination of shapes and dtypes, and replays the trace.

    traces: how often it traced. graph: names of the operations of the newest trace."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        raise NotImplementedError

    def __call__(self, *tensors: Tensor) -> Tensor:
        """Return function(*tensors)."""
        raise NotImplementedError


@exercise.reference
class PlacesAndNumbers:
    def __init__(self, function):
        self.function, self.known, self.traces, self.graph = function, {}, 0, []

    def __call__(self, *tensors):
        key = tuple((x.shape, x.dtype) for x in tensors)
        if key not in self.known:
            self.known[key] = self.trace(tensors)
        steps, result = self.known[key]
        values = list(tensors)
        for _, operation, operands in steps:
            values.append(operation(*(values[o.place] if hasattr(o, "place") else o for o in operands)))
        return values[result.place]

    def trace(self, tensors):
        steps = []

        class StandIn:
            def __init__(self, value, place):
                self.shape, self.value, self.place = value.shape, value, place

            def note(name, operation, reflected=False):  # noqa: N805
                def method(*operands):
                    operands = operands[::-1] if reflected else operands
                    value = operation(*(o.value if isinstance(o, StandIn) else o for o in operands))
                    steps.append((name, operation, operands))
                    return StandIn(value, len(tensors) + len(steps) - 1)

                return method

            __add__ = note("add", lambda a, b: a + b)
            __radd__ = __add__
            __sub__ = note("sub", lambda a, b: a - b)
            __rsub__ = note("sub", lambda a, b: a - b, reflected=True)
            __mul__ = note("mul", lambda a, b: a * b)
            __rmul__ = __mul__
            __matmul__ = note("matmul", lambda a, b: a @ b)
            relu = note("relu", lambda a: a.relu())

        result = self.function(*(StandIn(x, place) for place, x in enumerate(tensors)))
        self.traces += 1
        self.graph = [name for name, _, _ in steps]
        return steps, result


@exercise.alternative
class NotedByTorchFunction:
    """Stand-ins are tensors whose operations torch hands over."""

    def __init__(self, function):
        self.function, self.known, self.traces, self.graph = function, {}, 0, []

    def __call__(self, *tensors):
        key = str([(tuple(x.shape), x.dtype) for x in tensors])
        if key not in self.known:
            self.known[key] = self.trace(tensors)
            self.traces += 1
            self.graph = [name for name, _, _, _ in self.known[key][0]]
        steps, result = self.known[key]
        values = dict(enumerate(tensors))
        for _, operation, operands, place in steps:
            values[place] = operation(*(values[o[0]] if isinstance(o, tuple) else o for o in operands))
        return values[result]

    def trace(self, tensors):
        names = {"add": "add", "sub": "sub", "mul": "mul", "matmul": "matmul", "relu": "relu", "rsub": "sub"}
        steps, places, alive = [], {}, []

        class Noted(torch.Tensor):
            @classmethod
            def __torch_function__(cls, operation, types, args=(), kwargs=None):
                with torch._C.DisableTorchFunctionSubclass():
                    value = operation(*args, **(kwargs or {}))
                name = getattr(operation, "__name__", "").strip("_")
                if name not in names:
                    return value
                value = value.as_subclass(Noted)
                operands = [(places[id(a)],) if id(a) in places else a for a in args]
                places[id(value)] = len(places)
                alive.append(value)
                steps.append((names[name], operation, operands, places[id(value)]))
                return value

        for x in tensors:
            alive.append(x.detach().as_subclass(Noted))
            places[id(alive[-1])] = len(places)
        result = self.function(*alive[: len(tensors)])
        return steps, places[id(result)]


@exercise.wrong(
    "The function runs at each call. Nothing is replayed: a side effect happens every time, and that is what eager "
    "mode does.",
)
class RunsTheFunction:
    def __init__(self, function):
        self.function, self.known, self.traces, self.graph = function, {}, 0, []

    def __call__(self, *tensors):
        graph = []

        class Noting(torch.Tensor):
            @classmethod
            def __torch_function__(cls, operation, types, args=(), kwargs=None):
                names = {"add": "add", "sub": "sub", "mul": "mul", "matmul": "matmul", "relu": "relu", "rsub": "sub"}
                name = getattr(operation, "__name__", "").strip("_")
                if name in names:
                    graph.append(names[name])
                return super().__torch_function__(operation, types, args, kwargs or {})

        result = self.function(*(x.as_subclass(Noting) for x in tensors)).as_subclass(torch.Tensor)
        key = tuple((x.shape, x.dtype) for x in tensors)
        if key not in self.known:
            self.known[key] = graph
            self.traces, self.graph = self.traces + 1, graph
        return result


def replay(steps, result, tensors):
    """The end of the reference, for the wrong answers below."""
    values = list(tensors)
    for _, operation, operands in steps:
        values.append(operation(*(values[o.place] if hasattr(o, "place") else o for o in operands)))
    return values[result.place]


@exercise.wrong(
    "There is one trace for everything. A number that came from a shape while tracing is a constant of the trace, and "
    "wrong for the next shape. That is what guards are for."
)
class NoGuard(PlacesAndNumbers):
    def __call__(self, *tensors):
        if not self.known:
            self.known["all"] = self.trace(tensors)
        return replay(*self.known["all"], tensors)


@exercise.wrong("The guard knows shapes alone. The task asks for a new trace for another dtype, too.")
class ShapesAlone(PlacesAndNumbers):
    def __call__(self, *tensors):
        key = tuple(x.shape for x in tensors)
        if key not in self.known:
            self.known[key] = self.trace(tensors)
        return replay(*self.known[key], tensors)


@exercise.wrong(
    "The guard knows dtypes and the number of axes, not the sizes. A size that was read while tracing is a constant."
)
class AxesAlone(PlacesAndNumbers):
    def __call__(self, *tensors):
        key = tuple((x.ndim, x.dtype) for x in tensors)
        if key not in self.known:
            self.known[key] = self.trace(tensors)
        return replay(*self.known[key], tensors)


@exercise.wrong("Only the first tensor is guarded. The others can change their shapes unnoticed.")
class FirstTensorAlone(PlacesAndNumbers):
    def __call__(self, *tensors):
        key = (tensors[0].shape, tensors[0].dtype)
        if key not in self.known:
            self.known[key] = self.trace(tensors)
        return replay(*self.known[key], tensors)


@exercise.wrong(
    "The guard knows all shapes, but the dtype of the first tensor only. Another dtype of the second goes unnoticed."
)
class FirstDtypeAlone(PlacesAndNumbers):
    def __call__(self, *tensors):
        key = (tuple(x.shape for x in tensors), tensors[0].dtype)
        if key not in self.known:
            self.known[key] = self.trace(tensors)
        return replay(*self.known[key], tensors)


@exercise.wrong(
    "The guard does not know which tensor has which shape: the same shapes in another order count as known."
)
class InAnyOrder(PlacesAndNumbers):
    def __call__(self, *tensors):
        key = frozenset((x.shape, x.dtype) for x in tensors)
        if key not in self.known:
            self.known[key] = self.trace(tensors)
        return replay(*self.known[key], tensors)


@exercise.wrong(
    "The guard counts the numbers of each tensor. Six numbers are (2, 3) or (3, 2), and the sizes are what is read."
)
class CountsNumbers(PlacesAndNumbers):
    def __call__(self, *tensors):
        key = tuple((x.numel(), x.dtype) for x in tensors)
        if key not in self.known:
            self.known[key] = self.trace(tensors)
        return replay(*self.known[key], tensors)


@exercise.wrong(
    "The guard knows the strides, too. A transposed tensor of the same shape and dtype is traced again, for the same "
    "operations.",
    fault="recompiles",
)
class StridesToo(PlacesAndNumbers):
    def __call__(self, *tensors):
        key = tuple((x.shape, x.dtype, x.stride()) for x in tensors)
        if key not in self.known:
            self.known[key] = self.trace(tensors)
        return replay(*self.known[key], tensors)


@exercise.wrong(
    "The guard knows `requires_grad`, too. The task's guard holds shapes and dtypes: the operations are the same.",
    fault="recompiles",
)
class GradientsToo(PlacesAndNumbers):
    def __call__(self, *tensors):
        key = tuple((x.shape, x.dtype, x.requires_grad) for x in tensors)
        if key not in self.known:
            self.known[key] = self.trace(tensors)
        return replay(*self.known[key], tensors)


@exercise.wrong(
    "A tensor that is handed over twice while tracing is taken for one argument in two places. The next call has two "
    "tensors, and one of them is not read. Each argument needs a place of its own."
)
class PlacesByTensor(PlacesAndNumbers):
    def trace(self, tensors):
        steps, result = super().trace(tensors)
        for operand in (o for _, _, operands in steps for o in operands if hasattr(o, "place")):
            if operand.place < len(tensors):
                operand.place = max(p for p, x in enumerate(tensors) if x is tensors[operand.place])
        return steps, result


@exercise.wrong(
    "Only the newest trace is kept. Two shapes in turn trace at each call; each combination should be traced once.",
    fault="recompiles",
)
class NewestAlone(PlacesAndNumbers):
    def __call__(self, *tensors):
        key = tuple((x.shape, x.dtype) for x in tensors)
        if key not in self.known:
            self.known = {key: self.trace(tensors)}
        return replay(*self.known[key], tensors)


@exercise.wrong(
    "It traces at each call, or its guard knows the tensors themselves and not their shapes: the function runs "
    "every time.",
    fault="recompiles",
)
class TracesAlways(PlacesAndNumbers):
    def __call__(self, *tensors):
        return replay(*self.trace(tensors), tensors)


@exercise.wrong(
    "The result of tracing is kept, not the operations. Every later call gets the values of the first one, whatever "
    "its tensors hold."
)
class KeepsTheResult(PlacesAndNumbers):
    def __call__(self, *tensors):
        key = tuple((x.shape, x.dtype) for x in tensors)
        if key not in self.known:
            self.known[key] = replay(*self.trace(tensors), tensors)
        return self.known[key]


@exercise.wrong(
    "A number on the left is taken for one on the right: `1 - x` becomes `x - 1`. `x.__rsub__(1)` is called with the "
    "operands in the other order."
)
class LeftTakenForRight(PlacesAndNumbers):
    def trace(self, tensors):
        steps, result = super().trace(tensors)
        turned = [
            (name, operation, operands[::-1] if name == "sub" and not hasattr(operands[0], "place") else operands)
            for name, operation, operands in steps
        ]
        return turned, result


@exercise.wrong("Numbers on the left are not supported: `2 * x` calls `x.__rmul__`, and the stand-in has none.")
class NothingReflected(PlacesAndNumbers):
    def trace(self, tensors):
        steps, result = super().trace(tensors)
        for name, _, operands in steps:
            if not hasattr(operands[0], "place") or (name == "mul" and not hasattr(operands[1], "place")):
                raise TypeError(f"unsupported operand type(s) for *: 'int' and '{type(result).__name__}'")
        return steps, result


def a_layer(x, weight):
    return (x @ weight + 1).relu() * 0.5


def numbers_on_the_left(x):
    return 3 - 2 * x - 1


def reads_a_shape(x, y):
    return x * x.shape[0] - y * y.shape[1]


def branches_and_joins(x):
    y = 1 + x
    z = y * y
    return z - y - x * z


def branches_on_a_shape(x):
    return x.relu() if x.shape[0] > 2 else x + 1


def returns_an_earlier_value(x):
    y = x * 3
    (y + x).relu()
    return y


def numbers(*shape, dtype=torch.float32):
    count = torch.Size(shape).numel()
    return (torch.arange(count, dtype=dtype) - 2).reshape(shape)


def run(answer, function, *calls):
    """The values of calls one after the other, how often the function itself ran, the traces and the newest graph."""
    ran = []

    def watched(*tensors):
        ran.append(len(tensors))
        return function(*tensors)

    compiled = answer(watched)
    values = [compiled(*tensors) for tensors in calls]
    return values, f"the function ran {len(ran)} time(s)", compiled.traces, list(compiled.graph)


@exercise.probe
def one_operation(answer):
    return run(answer, lambda x: x.relu(), (numbers(3),), (numbers(3) + 1,))


@exercise.probe
def a_layer_twice(answer):
    return run(answer, a_layer, (numbers(2, 3), numbers(3, 2)), (numbers(2, 3) * 2, numbers(3, 2) - 1))


@exercise.probe
def numbers_left_and_right(answer):
    return run(answer, numbers_on_the_left, (numbers(4),), (numbers(4) + 3,))


@exercise.probe
def numbers_left_of_a_sum(answer):
    return run(answer, lambda x: 1 + x, (numbers(2),))


@exercise.probe
def values_used_again(answer):
    return run(answer, branches_and_joins, (numbers(3),), (numbers(3) - 5,))


@exercise.probe
def another_graph_for_another_shape(answer):
    return run(answer, branches_on_a_shape, (numbers(2),), (numbers(4),), (numbers(2) - 1,))


@exercise.probe
def an_earlier_value(answer):
    return run(answer, returns_an_earlier_value, (numbers(3),), (numbers(3) - 4,))


@exercise.probe
def another_shape(answer):
    calls = [(numbers(2, 3), numbers(2, 3)), (numbers(4, 3), numbers(4, 3)), (numbers(2, 3), numbers(2, 3) + 1)]
    return run(answer, reads_a_shape, *calls)


@exercise.probe
def another_shape_of_the_second(answer):
    calls = [(numbers(2, 1), numbers(2, 3)), (numbers(2, 1), numbers(2, 4))]
    return run(answer, reads_a_shape, *calls)


@exercise.probe
def two_shapes_in_turn(answer):
    return run(answer, a_layer, *[(numbers(rows, 2), numbers(2, 2)) for rows in (1, 2, 1, 2)])


@exercise.probe
def another_dtype(answer):
    calls = [(numbers(3),), (numbers(3, dtype=torch.float64),), (numbers(3),), (numbers(3, dtype=torch.float64) + 1,)]
    return run(answer, lambda x: (x * 2).relu(), *calls)


@exercise.probe
def another_dtype_of_the_second(answer):
    x, doubles = numbers(3), numbers(3, dtype=torch.float64)
    return run(answer, lambda x, y: x * 2 - y, (x, numbers(3)), (x, doubles), (doubles, x))


@exercise.probe
def the_same_sizes_in_another_order(answer):
    return run(answer, reads_a_shape, (numbers(2, 3), numbers(1, 1)), (numbers(3, 2), numbers(1, 1)))


@exercise.probe
def the_shapes_change_places(answer):
    calls = [(numbers(2, 3), numbers(3, 2)), (numbers(3, 2), numbers(2, 3))]
    return run(answer, lambda x, y: (x @ y) * x.shape[0], *calls)


@exercise.probe
def an_axis_changes_places(answer):
    calls = [(numbers(2), numbers(2, 2)), (numbers(2, 2), numbers(2))]
    return run(answer, lambda x, y: x * len(x.shape) - y, *calls)


@exercise.probe
def strides_are_not_guarded(answer):
    x, turned = numbers(2, 3), numbers(3, 2).T
    return run(answer, lambda x: (x * 2).relu(), (x,), (turned,))


@exercise.probe
def gradients_are_not_guarded(answer):
    values, *rest = run(answer, lambda x: (x * 2).relu(), (numbers(3),), (numbers(3).requires_grad_(),))
    return [value.detach() for value in values], *rest


@exercise.probe
def one_tensor_in_two_places(answer):
    x, y = torch.full((2,), -5.0), torch.full((2,), -1.0)
    return run(answer, lambda x, y: x * 2 - y, (x, x), (x, y))


@exercise.probe
def two_compilers(answer):
    first, second = answer(lambda x: x + 1), answer(lambda x: x * 3)
    values = [compiled(numbers(2)) for compiled in (first, second, first)]
    return values, first.traces, second.traces, list(first.graph)
