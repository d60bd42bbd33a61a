"""What is read before an answer passes: rules on the source, and the ways to reach the one who asks."""

from __future__ import annotations

import textwrap

import pytest

from course.exercises import load_exercise
from course.grading import gate
from course.grading.gate import findings

SECRETLY = """\
import torch
def secretly(w, b, x, y, derive=None):
    w, b = w.detach().requires_grad_(), b.detach().requires_grad_()
    return {derive}(((x @ w + b - y) ** 2).mean(), (w, b))
"""
# Answers to autograd.by_hand, which forbids torch.autograd.grad; each gives the right numbers.
FORBIDDEN = {
    "a lambda": """
        loss_gradients = lambda w, b, x, y: torch.autograd.grad(
            ((x @ (v := w.detach().requires_grad_()) + (c := b.detach().requires_grad_()) - y) ** 2).mean(), (v, c)
        )
        """,
    "a helper that is a lambda": """
        derive = lambda loss, leaves: torch.autograd.grad(loss, leaves)
        def loss_gradients(w, b, x, y):
            w, b = w.detach().requires_grad_(), b.detach().requires_grad_()
            return derive(((x @ w + b - y) ** 2).mean(), (w, b))
        """,
    "a decorator": """
        def swapped(function):
            def other(w, b, x, y):
                w, b = w.detach().requires_grad_(), b.detach().requires_grad_()
                return torch.autograd.grad(((x @ w + b - y) ** 2).mean(), (w, b))
            return other
        @swapped
        def loss_gradients(w, b, x, y):
            return w, b
        """,
    "another name": SECRETLY.replace("secretly", "loss_gradients").format(derive="(derive or torch.autograd.grad)"),
    "another name outside": "import torch\nderive = torch.autograd.grad\n"
    + SECRETLY.replace("secretly", "loss_gradients").replace(", derive=None", "").format(derive="derive"),
    "an import": "from torch.autograd import grad as derive\n"
    + SECRETLY.replace("secretly", "loss_gradients").replace(", derive=None", "").format(derive="derive"),
    "a class": """
        class Helper:
            def run(self, w, b, x, y):
                w, b = w.detach().requires_grad_(), b.detach().requires_grad_()
                return torch.autograd.grad(((x @ w + b - y) ** 2).mean(), (w, b))
        def loss_gradients(w, b, x, y):
            return Helper().run(w, b, x, y)
        """,
    "a line that is none": (
        'def loss_gradients(w, b, x, y):\n    s = "a\u2028    pass" ; w, b = w.detach().requires_grad_(), '
        "b.detach().requires_grad_()\n    return torch.autograd.grad(((x @ w + b - y) ** 2).mean(), (w, b))\n"
    ),
}


def row_of(grader, path, exercise):
    return next(row for row in grader.grade(path) if row.exercise == exercise)


@pytest.mark.parametrize("way", FORBIDDEN)
def test_a_rule_on_the_source_holds_for_all_that_runs(way, grader, notebook):
    row = row_of(grader, notebook("import torch", textwrap.dedent(FORBIDDEN[way])), "autograd.by_hand")
    assert row.outcome == "WRONG", row
    assert "grad" in row.seen
    assert "no call of backward() or grad()" in row.expected


def test_an_answer_may_call_its_own_things_as_it_likes(grader, notebook):
    source = """
        FACTORS = [factor for factor in (2, 3)]
        class Residual:
            def __init__(self, w, b, x, y):
                self.grad_input, self.value = x, x @ w + b - y
        def loss_gradients(w, b, x, y):
            grad = FACTORS[0] * Residual(w, b, x, y).value
            with torch.no_grad():
                return x.t() @ grad / len(y), grad.mean()
        """
    row = row_of(grader, notebook("import torch", textwrap.dedent(source)), "autograd.by_hand")
    assert (row.outcome, row.note) == ("PASSED", None), row


HONEST = {
    "operators of an own class": """
        class Size:
            def __init__(self, k): self.k = k
            def __eq__(self, other): return self.k == other.k
            def __hash__(self): return hash(self.k)
            def __bool__(self): return True
            def __repr__(self): return f"{self.__class__.__name__}({self.k})"
        def flatten_elements(x):
            return x.reshape(Size(-1).k)
        """,
    "a dataclass": """
        from dataclasses import dataclass
        @dataclass
        class Settings:
            size: int = -1
            def __hash__(self): return 1
        SETTINGS = Settings()
        SETTINGS.size = -1
        def flatten_elements(x):
            return x.reshape(SETTINGS.size)
        """,
    "a list that grows": """
        sizes = []
        for i in range(3):
            sizes.append(i)
        sizes.append(-1)
        def flatten_elements(x):
            return x.reshape(sizes[-1])
        """,
    "modules of a model": """
        import os, sys
        from torch import nn
        HERE = os.path.join(os.getcwd(), sys.platform)
        def flatten_elements(x):
            model = nn.Sequential(nn.Flatten(0))
            model.kind = type(model).__name__
            return [each for each in model.modules()][-1](x) if HERE else None
        """,
}


@pytest.mark.parametrize("kind", HONEST)
def test_honest_answers_pass(kind, grader, notebook):
    row = row_of(grader, notebook("import torch", textwrap.dedent(HONEST[kind])), "tensors.flatten")
    assert (row.outcome, row.note) == ("PASSED", None), row


def test_a_cell_that_is_indented_passes(grader, notebook):
    cell = "    import torch\n    # \x0c and \u2028\n    def flatten_elements(x):\n        return x.reshape(-1)\n"
    assert row_of(grader, notebook(cell), "tensors.flatten").outcome == "PASSED"


DOORS = [
    ("import sys as s\ns.modules['a']", "sys.modules"),
    ("torch.sys.modules['a']", "sys.modules"),
    ("torch.sys", "the module sys"),
    ("torch.os.fdopen(3)", "the module os"),
    ("s = torch.sys", "the module sys"),
    ("from torch import sys", "the module sys"),
    ("import sys\ns = sys", "the module sys as a value"),
    ("import os\ndef f(x, o=os): o.write(3, b'')", "the module os as a value"),
    ("import os as o\no.write(3, b'')", "os.write"),
    ("getattr(x, 'modules')", "sys.modules"),
    ("'course.exercises.autograd.loss_log'", "the name course.exercises.autograd.loss_log"),
    ("'course.grading'", "the name course.grading"),
    ("home = torch.nn.functional\nhome.relu = f", "an assignment to home.relu"),
    ("a = torch\nb = a.nn\nc = b.Module\nc.__call__ = f", "an assignment to c.__call__"),
    ("(n := torch.nn).Linear", None),
    ("n = torch.nn\nn.Linear(3, 4)", None),
    ("type(x).equal = f", "an assignment to type().equal"),
    ("T = type(x)\nT.equal = f", "an assignment to T.equal"),
    ("x.__class__.equal = f", "an assignment to __class__.equal"),
    ("setattr(torch.Tensor, 'equal', f)", "setattr() of torch"),
    ("setattr(type(x), 'equal', f)", "setattr() of type()"),
    ("setattr(x, 'equal', f)", None),
    ("import posix", "the module posix"),
    ("torch.backends.cudnn.deterministic = True", None),
    ("model.modules()\nself.modules[0]", None),
]


@pytest.mark.parametrize(("source", "found"), DOORS)
def test_doors_have_names(source, found):
    exercise = load_exercise("tensors.flatten")
    assert found in findings(source, exercise) if found else findings(source, exercise) == []


def test_operators_count_where_a_probe_looks_at_the_answer_itself():
    source = "class LossLog:\n    def __eq__(self, other): return True"
    assert findings(source, load_exercise("autograd.loss_log"))
    assert findings(source, load_exercise("tensors.flatten")) == []
    source = "class Tensor:\n    def __torch_function__(self, *args): return True"
    assert findings(source, load_exercise("tensors.flatten"))


def test_a_program_is_read_once(monkeypatch):
    exercise = load_exercise("tensors.flatten")
    gate.allowed(exercise)
    read = []
    monkeypatch.setattr(gate, "_uses", lambda tree: read.append(tree) or iter(["something"]))
    for _ in range(2):
        assert findings("x = 'read once'", exercise) == ["something"]
    assert len(read) == 1
