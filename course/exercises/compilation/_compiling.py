"""Compiling an answer with a backend that counts, for the probes of this folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from course.training.compilation import CountingBackend


def compiled(function: Callable[..., Any], **options: Any) -> tuple[Callable[..., Any], CountingBackend]:
    """The function under torch.compile without anything compiled yet, and the backend that counts its graphs."""
    torch.compiler.reset()
    backend = CountingBackend()
    return torch.compile(function, backend=backend, **options), backend


def captured(function: Callable[..., Any], *inputs: Any) -> tuple[Any, str]:
    """What the function returns when it is compiled as one graph, and how many graphs that took.

    It is called eagerly first, so that an error of its own comes as itself. Where it cannot be captured as one graph,
    the reason stands in place of the number."""
    from torch._dynamo.exc import Unsupported

    function(*inputs)
    call, backend = compiled(function, fullgraph=True)
    try:
        value = call(*inputs)
    except Unsupported as error:
        return None, f"not captured as one graph: {str(error).splitlines()[0].strip()}"
    return value, f"captured as {backend.graphs} graph(s), run {backend.runs} time(s)"
