"""Seeing what torch.compile does: count graphs, operations and runs; read its log without process ids and paths."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from typing import Any

OPERATIONS = ("call_function", "call_method", "call_module")
LOGGERS = ("torch", "torch._dynamo", "torch._functorch", "torch._inductor", "torch.fx")


class CountingBackend:
    """A backend for ``torch.compile(..., backend=CountingBackend())`` that counts; graphs run as they were captured.

    inner: a backend by name, such as "inductor", that compiles the graph instead.
    graphs: how many graphs it was given. A function without graph breaks gives one at each compilation.
    operations: for each graph, the names of its operations, in order.
    runs: how many calls of a captured graph there were. A call that fell back to eager adds none.
    """

    def __init__(self, inner: str | None = None) -> None:
        self.inner = inner
        self.operations: list[list[str]] = []
        self.runs = 0

    @property
    def graphs(self) -> int:
        return len(self.operations)

    def __call__(self, graph: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """Called by torch.compile. graph: a ``torch.fx.GraphModule``. Returns what is called in its place."""
        self.operations.append([_name(node.target) for node in graph.graph.nodes if node.op in OPERATIONS])
        call = graph.forward
        if self.inner is not None:
            from torch._dynamo import lookup_backend

            call = lookup_backend(self.inner)(graph, example_inputs)

        def run(*inputs: Any) -> Any:
            self.runs += 1
            return call(*inputs)

        return run


class CompileLog:
    """Collects what torch.compile logs, instead of printing it, while a ``with`` block runs.

    artifacts: what to log beyond warnings, by the names of TORCH_LOGS: "recompiles", "graph_breaks", "guards",
        "output_code", ... They are set by ``torch._logging.set_logs``, and put back to torch's default after the
        block. If the environment variable TORCH_LOGS is set, it has precedence over ``set_logs``.

    messages: the logged texts, without the prefix of time, process id and place.
    """

    def __init__(self, *artifacts: str) -> None:
        self.artifacts = artifacts
        self.messages: list[str] = []
        self._handler = logging.Handler(logging.DEBUG)
        self._handler.emit = lambda record: self.messages.append(record.getMessage())  # type: ignore[method-assign]
        self._before: dict[str, list[logging.Handler]] = {}

    def __enter__(self) -> CompileLog:
        import torch

        torch._logging.set_logs(**dict.fromkeys(self.artifacts, True))
        for name in LOGGERS:
            logger = logging.getLogger(name)
            self._before[name] = logger.handlers
            # Loggers that pass their messages on to another one of these would count them twice.
            logger.handlers = [] if logger.propagate and name != "torch" else [self._handler]
        return self

    def __exit__(self, *_: object) -> None:
        import torch

        for name, handlers in self._before.items():
            logging.getLogger(name).handlers = handlers
        torch._logging.set_logs()

    @property
    def recompiles(self) -> int:
        """How often a function was compiled again; needs the artifact "recompiles"."""
        return sum(message.startswith("Recompiling function") for message in self.messages)

    def lines(self, pattern: str = "") -> list[str]:
        """The lines in which the regular expression is found, in order, without paths, line numbers and rulers."""
        lines = [line.strip() for message in self.messages for line in message.splitlines()]
        return [_without_places(line) for line in lines if line and re.search(pattern, line)]


def without_cuda_notice() -> None:
    """Drop one line that torch logs at each compilation where a CUDA build finds no GPU; all other messages stay."""
    logger = logging.getLogger("torch.utils.cpp_extension")
    if _is_no_cuda_notice not in logger.filters:
        logger.addFilter(_is_no_cuda_notice)


def _is_no_cuda_notice(record: logging.LogRecord) -> bool:
    return "No CUDA runtime is found" not in record.getMessage()


def _name(target: Any) -> str:
    return target if isinstance(target, str) else getattr(target, "__name__", str(target))


def _without_places(line: str) -> str:
    """A logged line without what differs from run to run: comments with source lines, files and line numbers."""
    line = re.sub(r"\s+# .*", "", line)
    line = re.sub(r"(?: in| at)? \(?(?:[A-Za-z]:)?[/\\][^\s\"]*:\d+\)?", "", line)
    return re.sub(r"File \"[^\"]*\", line \d+, in ", "in ", line)
