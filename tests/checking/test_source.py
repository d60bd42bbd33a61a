"""Cutting source: stubs, published solutions, requirements."""

from __future__ import annotations

import ast
import contextlib
import linecache

import pytest
from support import demo

from course.checking.requirements import no_call, no_python_loop
from course.checking.source import is_stub, renamed, source_of, with_body


def test_decorators_are_left_out():
    assert source_of(demo.by_reshape) == "def by_reshape(x):\n    return x.reshape(-1)\n"
    assert source_of(len) is None
    assert source_of(3) is None


@pytest.mark.parametrize(
    "reference",
    [
        "def ref(x, y=2): return x + y\n",
        "def ref(x, y=2):\n    return x + y\n",
        'def ref(x, y=2):\n    """Own docstring."""\n    return x + y\n',
        "def ref(\n    x,\n    y=2,\n):\n    # why\n    return x + y\n",
    ],
)
@pytest.mark.parametrize(
    "stub",
    [
        'def add(x: int, y: int = 2) -> int:\n    """Add."""\n    raise NotImplementedError\n',
        'def add(\n    x: int,\n    y: int = 2,\n) -> int:\n    """Add.\n\n    Long."""\n    ...\n',
        "def add(x, y=2):  # a comment with a colon:\n    ...\n",
    ],
)
def test_a_solution_is_the_stub_with_the_reference_s_body(stub, reference):
    text = with_body(stub, reference)
    scope = {}
    exec(text, scope)
    assert scope["add"](3) == 5
    assert ("# why" in text) == ("# why" in reference)
    assert text.count('"""Own') == 0


def test_classes_are_found_by_their_methods():
    text = "class Scaled:\n    def forward(self, x):\n        return 2 * x\n"
    filename = "<a cell>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    scope = {"__name__": demo.__name__}  # whose file has a class of this name as well
    exec(compile(text, filename, "exec"), scope)
    assert source_of(scope["Scaled"]) == text
    assert "register" not in source_of(demo.Scaled)
    assert "super().__init__()" in source_of(demo.Scaled)


def test_classes_are_found_by_methods_behind_a_wrapper():
    class Counted:
        @contextlib.contextmanager  # a function of contextlib around this one
        def opened(self):
            yield 1

    assert source_of(Counted).startswith("class Counted:")
    assert "yield 1" in source_of(Counted)


def test_a_function_that_wraps_itself_is_no_trap():
    class Circular:
        def forward(self, x):
            return x

    Circular.forward.__wrapped__ = Circular.forward
    assert source_of(Circular).startswith("class Circular:")


def test_a_class_whose_text_is_gone_has_no_source():
    scope = {"__name__": demo.__name__}
    exec(compile("class Scaled:\n    def forward(self, x):\n        return 2 * x\n", "<gone>", "exec"), scope)
    assert source_of(scope["Scaled"]) is None


def test_renaming_follows_recursion():
    text = renamed("def fact(n):\n    return 1 if n < 2 else n * fact(n - 1)\n", "f")
    scope = {}
    exec(text, scope)
    assert scope["f"](4) == 24


def test_stubs_and_attempts():
    stub = 'def f(x: int) -> int:\n    """Do."""\n    raise NotImplementedError\n'

    def nothing(x):
        """Doc."""

    def ellipsis(x): ...

    def unfinished(x):
        raise NotImplementedError("soon")

    def attempt(x):
        return x

    assert is_stub(nothing, stub)
    assert is_stub(ellipsis, stub)
    assert is_stub(unfinished, stub)
    assert not is_stub(attempt, stub)
    assert not is_stub(print, stub)


@pytest.mark.parametrize(
    ("code", "loops"),
    [
        ("def f(x): return x.sum()", False),
        ("def f(x): return [a for a in x]", True),
        ("def f(x): return sum(a for a in x)", True),
        ("def f(x): return list(map(abs, x))", True),
        ("def f(x): return x.tolist()", True),
        ("def f(x):\n while x: pass", True),
        ("def f(x):\n for a in x: pass", True),
    ],
)
def test_python_loops_are_found(code, loops):
    assert (no_python_loop(ast.parse(code)) is not None) == loops


@pytest.mark.parametrize(
    ("code", "loops"),
    [
        ("SIZES = [i for i in range(3)]\nfor i in SIZES: SIZES[i] = 2\nSIZES = x.tolist()", False),
        ("def f(x):\n feature, map = x\n return map + feature", False),
        ("f = lambda x: [a for a in x]", True),
        ("f = [lambda x: [a for a in x] for _ in '1'][0]", True),
        ("for _ in '1':\n def f(x): return [a for a in x]", True),
        ("LATER = (a for a in SIZES)", True),
        ("LATER = map(f, SIZES)", True),
        ("from numpy import vectorize as at_once", True),
        ("def f(x):\n every = map\n return list(every(abs, x))", True),
        ("def f(x):\n numbers = x.tolist\n return numbers()", True),
        ("def f(x): return getattr(x, 'tolist')()", True),
    ],
)
def test_loops_are_found_under_other_names_and_tables_are_none(code, loops):
    assert (no_python_loop(ast.parse(code)) is not None) == loops


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("derive = torch.autograd.grad\nderive(x)", "torch.autograd.grad"),
        ("from torch.autograd import grad as derive", "from torch.autograd import grad as derive"),
        ("def f(x, derive=torch.autograd.grad): return derive(x)", "torch.autograd.grad"),
        ("def f(x):\n from torch.autograd import grad\n g = grad\n return g(x)", "from torch.autograd import grad"),
        ("def f(x):\n g = grad\n return g(x)", "grad"),
        ("getattr(torch.autograd, 'grad')(x)", "getattr(torch.autograd, 'grad')"),
        ("operator.methodcaller('backward')(x)", "operator.methodcaller('backward')"),
        ("functools.partial(torch.autograd.grad, x)()", "torch.autograd.grad"),
        ("x.backward()", "x.backward()"),
        ("def f(x):\n grad = 2 * x\n return grad", None),
        ("def f(grad):\n return grad.sum()", None),
        ("with torch.no_grad(): pass", None),
        ("x.requires_grad_()\nx.grad = None\n'grad'", None),
    ],
)
def test_what_is_forbidden_is_found_under_another_name(code, found):
    node = no_call("grad", "backward")(ast.parse(code))
    assert (node and ast.get_source_segment(code, node)) == found


def test_forbidden_calls_are_found():
    rule = no_call("clone", "contiguous")
    assert rule(ast.parse("x.clone()")) is not None
    assert rule(ast.parse("torch.clone(x)")) is not None
    assert rule(ast.parse("x.view(-1)")) is None
    assert rule.__doc__ == "no call of clone() or contiguous()"
