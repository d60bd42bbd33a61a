"""Compiled code under examination: run as it was written, or traced once without generating code."""

from __future__ import annotations

import contextlib
import inspect
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any
from unittest import mock

import torch
from torch import nn


@contextlib.contextmanager
def uncompiled() -> Iterator[None]:
    """Inside the block what torch.compile made runs as it was written."""
    # Nothing can have been compiled before the compiler was imported, and importing it takes seconds.
    if "torch._dynamo" not in sys.modules:
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield


@contextlib.contextmanager
def traced() -> Iterator[None]:
    """Inside the block what torch.compile made is traced; the graphs run as they are, and are forgotten afterwards."""
    inductor = mock.patch.object(torch._TorchCompileInductorWrapper, "__call__", lambda self, graph, inputs: graph)
    with forgetting(), torch.compiler.set_stance("default"), inductor:
        yield


@contextlib.contextmanager
def forgetting() -> Iterator[None]:
    """After the block the compiler has forgotten what it compiled in it, so that it does not count as a recompile."""
    from torch._dynamo import convert_frame
    from torch._dynamo.eval_frame import reset_code

    trackers = convert_frame.input_codes, convert_frame.output_codes
    before = {code for tracker in trackers for weak in tracker.seen if (code := weak()) is not None and entries(code)}
    try:
        yield
    finally:
        for tracker in trackers:
            for weak in list(tracker.seen):
                code = weak()
                if code is not None and code not in before:
                    reset_code(code)


def entries(code: types.CodeType) -> int:
    """How many compiled versions of a piece of code there are."""
    from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list

    return len(_debug_get_cache_entry_list(code))


def compiled_codes(things: Iterable[Any]) -> list[types.CodeType]:
    """The code of the functions and forward methods among some objects that torch.compile was used on."""
    if "torch._dynamo" not in sys.modules:
        return []
    found = []
    for thing in things:
        function = None
        if isinstance(thing, types.FunctionType):
            function = getattr(thing, "_torchdynamo_orig_callable", None)
        elif isinstance(thing, nn.Module):
            inside = getattr(thing, "_orig_mod", None)
            if isinstance(inside, nn.Module):
                function = inside.forward
            elif thing.__dict__.get("_compiled_call_impl") is not None:
                function = thing.forward
        code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
        if isinstance(code, types.CodeType):
            found.append(code)
    return found
