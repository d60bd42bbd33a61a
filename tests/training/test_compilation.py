from __future__ import annotations

import logging

import pytest
import torch

from course.training.compilation import CompileLog, CountingBackend, without_cuda_notice

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def nothing_compiled():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def counted(function, *calls, **options):
    backend = CountingBackend()
    compiled = torch.compile(function, backend=backend, **options)
    values = [compiled(*call) for call in calls]
    return backend, values


def test_graphs_operations_and_runs():
    backend, values = counted(lambda x: (x * 2).relu(), (torch.tensor([-1.0, 3.0]),), (torch.ones(2),))
    assert [value.tolist() for value in values] == [[0.0, 6.0], [2.0, 2.0]]
    assert (backend.graphs, backend.runs) == (1, 2)
    assert backend.operations == [["mul", "relu"]]


def test_a_break_makes_two_graphs(capsys):
    def breaks(x):
        y = x + 1
        print("here")
        return y * 2

    backend, _ = counted(breaks, (torch.ones(2),))
    assert backend.operations == [["add"], ["mul"]]


def test_a_call_that_falls_back_runs_no_graph():
    lengths = range(2, torch._dynamo.config.recompile_limit + 4)
    with CompileLog() as log:
        backend, values = counted(lambda x: x + 1, *((torch.ones(n),) for n in lengths), dynamic=False)
    assert backend.graphs == backend.runs == torch._dynamo.config.recompile_limit < len(values)
    assert any("recompile_limit" in line for line in log.lines())


def test_the_log_is_collected_and_not_printed(capfd):
    with CompileLog("recompiles") as log:
        counted(lambda x: x + 1, (torch.ones(2),), (torch.ones(3),))
    assert log.recompiles == 1
    assert log.lines("expected") == ["- 0/0: tensor 'x' size mismatch at index 0. expected 2, actual 3"]
    counted(lambda x: x + 1, (torch.ones(2),), (torch.ones(3),))  # after the block nothing is logged
    assert log.recompiles == 1
    assert capfd.readouterr().err == ""


def test_lines_hold_no_places():
    with CompileLog("graph_breaks", "recompiles", "guards") as log:

        def breaks(x):
            print(end="")
            return x + 1

        counted(breaks, (torch.ones(2),), (torch.ones(3),))
    text = "\n".join(log.lines())
    assert "Graph break" in text
    assert "test_compilation.py" not in text
    assert "TENSOR_MATCH" in text


def test_handlers_and_levels_are_as_before():
    def state():
        loggers = [logging.getLogger(name) for name in ("torch", "torch._dynamo", "torch._inductor")]
        return [(logger.level, logger.propagate, len(logger.handlers)) for logger in loggers]

    before = state()
    with pytest.raises(ZeroDivisionError), CompileLog("recompiles"):
        raise ZeroDivisionError
    assert state() == before


def test_one_notice_is_dropped_and_others_stay(caplog):
    logger = logging.getLogger("torch.utils.cpp_extension")
    filters = list(logger.filters)
    try:
        without_cuda_notice()
        without_cuda_notice()
        assert len(logger.filters) == len(filters) + (not any(f in filters for f in logger.filters))
        logger.warning("No CUDA runtime is found, using CUDA_HOME='/usr'")
        logger.warning("something else")
        assert [record.getMessage() for record in caplog.records] in (["something else"], [])
    finally:
        logger.filters[:] = filters
