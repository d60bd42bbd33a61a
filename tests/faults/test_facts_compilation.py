"""What the catalogue says of torch.compile, tried: a new torch that behaves otherwise fails here, by fault."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from course.faults import FAULTS
from course.training.compilation import CompileLog, CountingBackend

pytestmark = pytest.mark.slow
ONE = torch.ones(1, 2)


def counted(function: Callable, *calls: tuple, **options) -> tuple[int, int]:
    """Graphs after all calls, and how many calls ran one."""
    torch.compiler.reset()
    backend = CountingBackend()
    compiled = torch.compile(function, backend=backend, **options)
    with CompileLog():
        for arguments in calls:
            compiled(*arguments)
    return backend.graphs, backend.runs


def refuses(call: Callable[[], object], kind: type[Exception] | None = None) -> bool:
    from torch._dynamo.exc import Unsupported

    expected = Unsupported if kind is None else kind
    torch.compiler.reset()
    try:
        call()
    except expected:
        return True
    return False


class Counts(nn.Module):
    def __init__(self, step) -> None:
        super().__init__()
        if isinstance(step, int):
            self.step = step
        else:
            self.register_buffer("step", step)

    def forward(self, x):
        self.step += 1
        return x * self.step


def prints(x):
    y = x + 1
    print(end="")
    return y * 2


def branches(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


def chosen(x):
    return torch.where(x.sum() > 0, x + 1, x - 1)


def cond(x):
    return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))


def recompile_is_refused() -> bool:
    compiled = torch.compile(lambda x: x + 1, backend="eager")

    def twice():
        compiled(torch.ones(2))
        with torch.compiler.set_stance("fail_on_recompile"):
            compiled(torch.ones(2, dtype=torch.float64))

    return refuses(twice, RuntimeError)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(2, 2)

    def encode(self, x):
        return self.body(x)

    def forward(self, x):
        return self.encode(x) * 2


def graphs_of_encode(how: str) -> int:
    torch.compiler.reset()
    backend, model = CountingBackend(), Encoder()
    if how == "model.compile":
        model.compile(backend=backend)
    elif how == "torch.compile":
        model = torch.compile(model, backend=backend)
    else:
        model.encode = torch.compile(model.encode, backend=backend)
    model.encode(ONE)
    return backend.graphs


def hook_calls(*, late: bool, reset: bool = False, guarded: bool = False) -> int:
    torch.compiler.reset()
    heard, model = [], Encoder()
    with torch._dynamo.config.patch(skip_nnmodule_hook_guards=not guarded):
        compiled = torch.compile(model, backend="eager")
        if late:
            compiled(ONE)
        model.body.register_forward_hook(lambda *_: heard.append(1))
        if reset:
            torch.compiler.reset()
        compiled(ONE)
    return len(heard)


def lengths(*numbers: int) -> list[tuple]:
    return [(torch.ones(number),) for number in numbers]


def first_call_is_slow() -> bool:
    import time

    torch.compiler.reset()
    compiled, seconds = torch.compile(lambda x: x.sin() + 1, backend="aot_eager"), []
    for _ in range(6):
        start = time.perf_counter()
        compiled(torch.ones(8))
        seconds.append(time.perf_counter() - start)
    return seconds[0] > 5 * sorted(seconds)[2]


FACTS: dict[str, list[Callable[[], bool]]] = {
    "recompiles": [
        lambda: counted(Counts(0), *[(ONE,)] * 12) == (8, 8),
        lambda: counted(Counts(torch.tensor(0)), *[(ONE,)] * 12) == (1, 12),
        lambda: counted(lambda x: x + 1, *lengths(3, 4, 5, 3, 1)) == (3, 5),
        lambda: counted(lambda x: x + 1, *lengths(3, 4, 5, 3, 1), dynamic=True) == (2, 5),
        lambda: counted(lambda x, name: x * len(name), *[(ONE, name) for name in "abcd"])[0] == 4,
        recompile_is_refused,
        lambda: torch._dynamo.config.recompile_limit == 8,
    ],
    "warmup-in-timing": [first_call_is_slow],
    "graph-break": [
        lambda: counted(prints, (ONE,)) == (2, 2),
        lambda: refuses(lambda: torch.compile(prints, backend="eager", fullgraph=True)(ONE)),
    ],
    "data-dependent-branch": [
        lambda: refuses(lambda: torch.compile(branches, backend="eager", fullgraph=True)(ONE)),
        lambda: counted(branches, (ONE,), (-ONE,))[0] == 3,
        lambda: counted(chosen, (ONE,), (-ONE,), fullgraph=True) == (1, 2),
        lambda: counted(cond, (ONE,), (-ONE,), fullgraph=True) == (1, 2),
        lambda: refuses(lambda: torch.export.export(Branching(), (ONE,)), Exception),
        lambda: counted(lambda x: x + 1 if x.shape[0] > 3 else x, (ONE,), fullgraph=True)[0] <= 1,
    ],
    "method-not-compiled": [
        lambda: graphs_of_encode("torch.compile") == graphs_of_encode("model.compile") == 0,
        lambda: graphs_of_encode("the method") == 1,
    ],
    "hook-after-compile": [
        lambda: hook_calls(late=True) == 0,
        lambda: hook_calls(late=False) == 1,
        lambda: hook_calls(late=True, reset=True) == 1,
        lambda: hook_calls(late=True, guarded=True) == 1,
    ],
}


class Branching(nn.Module):
    def forward(self, x):
        return branches(x)


@pytest.fixture(autouse=True)
def nothing_stays():
    yield
    torch.compiler.reset()


def test_every_fault_of_compilation_is_tried():
    assert set(FACTS) == {entry.id for entry in FAULTS.values() if entry.topic == "compile"}


def test_every_fault_of_compilation_is_explained():
    for fault_id in FACTS:
        entry = FAULTS[fault_id]
        assert entry.why, fault_id
        assert entry.fix, fault_id
        assert entry.section, fault_id


@pytest.mark.parametrize("fault_id", FACTS)
def test_facts(fault_id):
    failed = [number for number, fact in enumerate(FACTS[fault_id], start=1) if not fact()]
    assert failed == []


def test_the_number_in_the_exercise_is_the_number_that_is_counted():
    from course.exercises import load_exercise

    exercise = load_exercise("compilation.count_compilations")
    calls = [*lengths(3, 5, 4, 3, 1, 5), (torch.ones(5, dtype=torch.float64),), *lengths(4)]
    assert counted(lambda x: 2 * x, *calls)[0] == exercise.value_of(exercise.answer_reference)
