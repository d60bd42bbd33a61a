"""Lesson 02, build it: reverse-mode autograd for scalars."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from course.checking import Exercise
from course.exercises.autograd._graphs import alive

exercise = Exercise(
    "autograd.scalar_engine",
    title="Build it: autograd for scalars",
    task="""
        Write the class `Scalar`, a number that records how it was computed.

        - `Scalar(3.0)` is a leaf. `s.data` is its value, a `float`; `s.grad` is its gradient, a `float`, at first 0.0.
        - `a + b`, `a - b`, `a * b`, `a / b` and `-a` give new scalars; one of the operands may be a plain number, on
          either side. `a ** n` takes a plain number `n`; `a.exp()` and `a.tanh()` are the functions of `math`.
        - `out.backward()` *adds* to `.grad` of every leaf behind `out` the derivative of `out` with respect to it, as
          in PyTorch: twice backward means twice the gradient. A value that is used several times collects from all
          its uses. What `.grad` of results holds is up to you.
        - `out.zero_grad()` sets `.grad` of every leaf behind `out` to 0.0.
        - A result that nobody refers to any more is free: no list outside of the scalars keeps the graph alive.

        The stub has the derived operations ready; fill in the rest. Expressions are at most a few hundred operations
        deep, but shared parts may make the number of *paths* astronomical. So backward visits each scalar once, after
        everything that uses it.
        """,
    hints=(
        "Let every result remember its operands and, for each, the derivative of the result with respect to it: for a "
        "product, the other factor. backward then multiplies along each edge and adds up at each scalar.",
        "Collect the scalars behind out depth first, appending each one after its operands. In the reverse of that "
        "order every scalar comes after all of its uses. Carry the gradients in a dict by id, and add to .grad only at "
        "leaves.",
    ),
    seconds=6.0,
)


@exercise.stub
class Scalar:
    """A number that remembers how it was computed, for reverse-mode differentiation."""

    def __init__(self, data: float, operands: Sequence = (), slopes: Sequence[float] = ()) -> None:
        """Store a value, what it was computed from, and the derivative with respect to each; a leaf has no operands."""
        raise NotImplementedError

    def __add__(self, other):
        """Return self + other, where other is a Scalar or a plain number."""
        raise NotImplementedError

    def __mul__(self, other):
        """Return self * other, where other is a Scalar or a plain number."""
        raise NotImplementedError

    def __pow__(self, n: float):
        """Return self ** n for a plain number n."""
        raise NotImplementedError

    def exp(self):
        raise NotImplementedError

    def tanh(self):
        raise NotImplementedError

    def backward(self) -> None:
        """Add the derivative of self with respect to each leaf behind it to that leaf's grad."""
        raise NotImplementedError

    def zero_grad(self) -> None:
        """Set grad to 0.0 for each leaf behind self."""
        raise NotImplementedError

    def __neg__(self):
        return self * -1.0

    def __sub__(self, other):
        return self + -other

    def __rsub__(self, other):
        return -self + other

    def __truediv__(self, other):
        return self * other**-1.0

    def __rtruediv__(self, other):
        return self**-1.0 * other

    __radd__ = __add__
    __rmul__ = __mul__


@exercise.reference
class BySlopes:
    """A number that remembers how it was computed, for reverse-mode differentiation."""

    def __init__(self, data, operands=(), slopes=()):
        self.data = float(data)
        self.grad = 0.0
        self.operands = operands
        self.slopes = slopes

    def _result(self, data, operands, slopes):
        return type(self)(data, operands, slopes)

    def _lift(self, other):
        return other if isinstance(other, type(self)) else type(self)(other)

    def __add__(self, other):
        other = self._lift(other)
        return self._result(self.data + other.data, (self, other), (1.0, 1.0))

    def __mul__(self, other):
        other = self._lift(other)
        return self._result(self.data * other.data, (self, other), (other.data, self.data))

    def __pow__(self, n):
        return self._result(self.data**n, (self,), (n * self.data ** (n - 1),))

    def exp(self):
        value = math.exp(self.data)
        return self._result(value, (self,), (value,))

    def tanh(self):
        value = math.tanh(self.data)
        return self._result(value, (self,), (1 - value * value,))

    def _history(self, seen):
        """Every scalar behind self, each after its operands, self last."""
        if self in seen:
            return []
        seen.add(self)
        return [scalar for operand in self.operands for scalar in operand._history(seen)] + [self]

    def backward(self):
        """Add the derivative of self with respect to each leaf behind it to that leaf's grad."""
        flow = {self: 1.0}
        for scalar in reversed(self._history(set())):
            gradient = flow.pop(scalar)
            if not scalar.operands:
                scalar.grad += gradient
            for operand, slope in zip(scalar.operands, scalar.slopes):
                flow[operand] = flow.get(operand, 0.0) + slope * gradient

    def zero_grad(self):
        """Set grad to 0.0 for each leaf behind self."""
        for scalar in self._history(set()):
            scalar.grad = 0.0

    def __neg__(self):
        return self._result(-self.data, (self,), (-1.0,))

    def __sub__(self, other):
        return self + -other

    def __rsub__(self, other):
        return -self + other

    def __truediv__(self, other):
        return self * other**-1.0

    def __rtruediv__(self, other):
        return self**-1.0 * other

    __radd__ = __add__
    __rmul__ = __mul__


@exercise.alternative
class ByClosures:
    """Each result knows how to pass its gradient on; gradients of results are cleared before each backward."""

    def __init__(self, data, parents=()):
        self.data, self.grad, self.parents = float(data), 0.0, parents
        self.pass_on = lambda: None

    def __add__(self, other):
        other = other if isinstance(other, ByClosures) else ByClosures(other)
        out = ByClosures(self.data + other.data, (self, other))

        def pass_on():
            self.grad += out.grad
            other.grad += out.grad

        out.pass_on = pass_on
        return out

    def __mul__(self, other):
        other = other if isinstance(other, ByClosures) else ByClosures(other)
        out = ByClosures(self.data * other.data, (self, other))

        def pass_on():
            self.grad += other.data * out.grad
            other.grad += self.data * out.grad

        out.pass_on = pass_on
        return out

    def _unary(self, value, slope):
        out = ByClosures(value, (self,))

        def pass_on():
            self.grad += slope * out.grad

        out.pass_on = pass_on
        return out

    def __pow__(self, n):
        return self._unary(self.data**n, n * self.data ** (n - 1))

    def exp(self):
        return self._unary(math.exp(self.data), math.exp(self.data))

    def tanh(self):
        return self._unary(math.tanh(self.data), 1 - math.tanh(self.data) ** 2)

    def _order(self):
        order, seen = [], set()

        def visit(scalar):
            if id(scalar) not in seen:
                seen.add(id(scalar))
                for parent in scalar.parents:
                    visit(parent)
                order.append(scalar)

        visit(self)
        return order

    def backward(self):
        order = self._order()
        for scalar in order:
            if scalar.parents:
                scalar.grad = 0.0
        self.grad += 1.0
        for scalar in reversed(order):
            scalar.pass_on()

    def zero_grad(self):
        for scalar in self._order():
            scalar.grad = 0.0

    def __neg__(self):
        return self * -1.0

    def __sub__(self, other):
        return self + -other

    def __rsub__(self, other):
        return -self + other

    def __truediv__(self, other):
        return self * other**-1.0

    def __rtruediv__(self, other):
        return self**-1.0 * other

    __radd__ = __add__
    __rmul__ = __mul__


@exercise.wrong(
    "The gradient of a leaf is overwritten, not added to. After a second backward, or if two results share the leaf, "
    "only the last gradient is left.",
    fault="missing-zero-grad",
)
class OverwritesGradients(BySlopes):
    def backward(self):
        flow = {self: 1.0}
        for scalar in reversed(self._history(set())):
            gradient = flow.pop(scalar)
            if not scalar.operands:
                scalar.grad = gradient
            for operand, slope in zip(scalar.operands, scalar.slopes):
                flow[operand] = flow.get(operand, 0.0) + slope * gradient


@exercise.wrong(
    "A value that is used more than once keeps the gradient of one use only. The derivative is the sum over all uses: "
    "add to what has arrived already."
)
class KeepsOneUse(BySlopes):
    def backward(self):
        flow = {self: 1.0}
        for scalar in reversed(self._history(set())):
            gradient = flow.pop(scalar)
            if not scalar.operands:
                scalar.grad += gradient
            for operand, slope in zip(scalar.operands, scalar.slopes):
                flow[operand] = slope * gradient


@exercise.wrong(
    "zero_grad clears the result only. The gradients that count are those of the leaves behind it, and they are still "
    "there."
)
class ClearsOnlyItself(BySlopes):
    def zero_grad(self):
        self.grad = 0.0


@exercise.wrong(
    "The slopes of a product are exchanged: the derivative of a * b with respect to a is b. With a equal to b nobody "
    "would notice."
)
class ExchangedFactors(BySlopes):
    def __mul__(self, other):
        other = self._lift(other)
        return self._result(self.data * other.data, (self, other), (self.data, other.data))


@exercise.wrong(
    "The sign of the second operand of a difference is lost on the way back: the derivative of a - b with respect to b "
    "is -1."
)
class DifferenceLikeASum(BySlopes):
    def __sub__(self, other):
        other = self._lift(other)
        return self._result(self.data - other.data, (self, other), (1.0, 1.0))


@exercise.wrong(
    "Each operation passes its own slope on, without multiplying it by the gradient that arrived. The chain rule is a "
    "product along the path."
)
class WithoutChainRule(BySlopes):
    def backward(self):
        flow = {self: 1.0}
        for scalar in reversed(self._history(set())):
            gradient = flow.pop(scalar)
            if not scalar.operands:
                scalar.grad += gradient
            for operand, slope in zip(scalar.operands, scalar.slopes):
                flow[operand] = flow.get(operand, 0.0) + slope


@exercise.wrong(
    "The gradients flow through .grad of the results, and those are not cleared between two calls of backward. The "
    "second call passes the first one's gradient on once more, so a leaf gets more than twice its gradient."
)
class LeftoversInResults(BySlopes):
    def backward(self):
        self.grad = 1.0
        for scalar in reversed(self._history(set())):
            for operand, slope in zip(scalar.operands, scalar.slopes):
                operand.grad += slope * scalar.grad


@exercise.wrong(
    "Scalars are visited in the order in which they are found from the result, so a shared value may pass its gradient "
    "on before all of its uses have reported. Each scalar has to wait for everything that uses it."
)
class InOrderOfDiscovery(BySlopes):
    def backward(self):
        flow, waiting, seen = {self: 1.0}, [self], set()
        for scalar in waiting:
            gradient = flow[scalar]
            if not scalar.operands:
                continue
            for operand, slope in zip(scalar.operands, scalar.slopes):
                flow[operand] = flow.get(operand, 0.0) + slope * gradient
                if operand not in seen:
                    seen.add(operand)
                    waiting.append(operand)
        for scalar in seen or {self}:
            if not scalar.operands:
                scalar.grad += flow[scalar]


@exercise.wrong(
    "Results are kept on a list that belongs to the class. It works, and it never lets go: every result of the whole "
    "session stays in memory. References from a result to its operands are enough.",
    fault="graph-retained-in-log",
)
class OnATape(BySlopes):
    tape: list[Any] = []  # noqa: RUF012  (shared by all instances: that is the mistake)

    def __init__(self, data, operands=(), slopes=()):
        super().__init__(data, operands, slopes)
        self.tape.append(self)


@exercise.wrong(
    "The derivative of a power has one exponent too many: it is n * a ** (n - 1).",
)
class ExponentNotLowered(BySlopes):
    def __pow__(self, n):
        return self._result(self.data**n, (self,), (n * self.data**n,))


@exercise.wrong(
    "The seed overwrites .grad of the result. For a result of operations that does no harm; a leaf on which backward "
    "is called itself loses what it had. backward adds, also there."
)
class SeedOverwrites(BySlopes):
    def backward(self):
        if self.operands:
            super().backward()
        else:
            self.grad = 1.0


@exercise.wrong(
    "The derivative of a power is computed as n * a ** n / a, which divides by zero at a = 0. n * a ** (n - 1) is the "
    "same number elsewhere, and right there."
)
class PowerDividedByBase(BySlopes):
    def __pow__(self, n):
        return self._result(self.data**n, (self,), (n * self.data**n / self.data,))


@exercise.wrong(
    "tanh is computed from exp, which overflows for large arguments, where tanh is 1 long since. math.tanh does "
    "not overflow."
)
class TanhFromExp(BySlopes):
    def tanh(self):
        grown = math.exp(2 * self.data)
        value = (grown - 1) / (grown + 1)
        return self._result(value, (self,), (1 - value**2,))


@exercise.wrong(
    "An integer stays an integer: .data of Scalar(3) is the int 3. The task asks for a float, as a tensor that "
    "records gradients has to be floating."
)
class KeepsIntegers(BySlopes):
    def __init__(self, data, operands=(), slopes=()):
        super().__init__(data, operands, slopes)
        self.data = data


def differentiated(answer: Any, f: Callable[..., Any], *numbers: float) -> dict[str, object]:
    """Value and gradients of an expression, and whether they agree with central differences of plain numbers."""
    leaves = [answer(number) for number in numbers]
    out = f(*leaves)
    out.backward()
    grads = [leaf.grad for leaf in leaves]
    step, agree = 1e-5, []
    for i, found in enumerate(grads):
        shifted = [[n + sign * step * (i == j) for j, n in enumerate(numbers)] for sign in (1, -1)]
        # The answer's own forward pass: backward is compared with what forward does, whatever the reference says.
        upper, lower = (f(*map(answer, values)).data for values in shifted)
        difference = (upper - lower) / (2 * step)
        agree.append(abs(difference - found) < 1e-6 * (1 + abs(difference)))
    return {"value": out.data, "gradients": grads, "as central differences say": agree}


@exercise.probe
def sum_and_product(answer):
    return differentiated(answer, lambda a, b, c: a * b + c, 2.0, -3.0, 10.0)


@exercise.probe
def numbers_on_either_side(answer):
    return differentiated(answer, lambda a, b: 2 - a * 3 + 3 / b - b / 4 + (5 - (-a)) + 0.5 * (1 + b), 1.5, -0.8)


@exercise.probe
def powers_and_functions(answer):
    return differentiated(answer, lambda a, b: (a**3).tanh() * b.exp() / a**0.5 - (a - b) ** 2, 0.7, 0.4)


@exercise.probe
def nested_expression(answer):
    def f(a, b, c):
        for _ in range(3):
            a, b, c = (a * b - c).tanh(), b / (c * c + 1.5), (a + c * 0.5).exp() - b
        return a * c - b

    return differentiated(answer, f, 0.3, -1.2, 0.9)


@exercise.probe
def a_value_used_several_times(answer):
    def f(a, b):
        shared = a * b
        once_more = shared + a
        return shared * once_more + once_more**2 - shared

    return differentiated(answer, f, 1.3, -0.6)


@exercise.probe
def shared_value_found_early(answer):
    """The result uses ``early`` directly and, further down, once more."""

    def f(a):
        early = a * a
        late = (early + 1).exp() * 0.1
        return early * 2 + (late + early).tanh()

    return differentiated(answer, f, 0.8)


@exercise.probe
def astronomically_many_paths(answer):
    leaf = answer(1.5)
    out = leaf
    for _ in range(60):
        out = out + out
    (out * 2.0**-60).backward()
    return leaf.grad


@exercise.probe
def a_hundred_operations_deep(answer):
    return differentiated(answer, lambda a: sum((a * 0.01 * i for i in range(1, 51)), a), 1.2)


@exercise.probe
def backward_twice_and_two_results(answer):
    a, b = answer(2.0), answer(-1.5)
    first, second = (a * b).tanh() + a, a * a * b
    first.backward()
    once = (a.grad, b.grad)
    first.backward()
    twice = (a.grad, b.grad)
    second.backward()
    return {"once": once, "twice": twice, "and another result": (a.grad, b.grad)}


@exercise.probe
def cleared_in_between(answer):
    a, b = answer(2.0), answer(-1.5)
    out = (a - b) * b
    out.backward()
    out.zero_grad()
    cleared = (a.grad, b.grad)
    out.backward()
    return {"cleared": cleared, "again": (a.grad, b.grad)}


@exercise.probe
def a_leaf_by_itself(answer):
    a = answer(3)
    before = (a.data, type(a.data).__name__, a.grad, type(a.grad).__name__)
    a.backward()
    once = a.grad
    a.backward()
    twice = a.grad
    a.zero_grad()
    return before, once, twice, (a.grad, type(a.grad).__name__)


@exercise.probe
def powers_of_zero(answer):
    a = answer(0.0)
    out = a**2 + 3 * a**1
    out.backward()
    return out.data, a.grad


@exercise.probe
def tanh_of_large_numbers(answer):
    a, b = answer(400.0), answer(-400.0)
    out = a.tanh() + 2 * b.tanh()
    out.backward()
    return out.data, a.grad, b.grad


@exercise.probe
def results_alive(answer):
    a = answer(0.5)
    witnesses = []
    for _ in range(3):
        part = a * a
        out = part.exp()
        out.backward()
        witnesses += [weakref.ref(part), weakref.ref(out)]
    del part, out
    return {"results that nobody refers to and that still exist": alive(witnesses), "gradient": a.grad}
