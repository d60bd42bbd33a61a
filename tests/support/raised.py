"""Runs code that raises or warns, for tests of what is said about it."""

from __future__ import annotations

import io
import itertools
import linecache
import textwrap
import warnings

import numpy as np
import torch
from torch import nn

_NUMBERS = itertools.count()


def _compiled(code: str):
    """The code object; its lines can be looked up, as those of a notebook's cell."""
    source = textwrap.dedent(code)
    name = f"<cell-{next(_NUMBERS)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    return compile(source, name, "exec")


def names() -> dict[str, object]:
    """What the code may use without importing it."""
    return {"__name__": "__main__", "io": io, "np": np, "nn": nn, "torch": torch}


def raised(code: str, **more: object) -> BaseException:
    """The exception that `code` ends with; an AssertionError where it raises none. Warnings are not heard."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(_compiled(code), {**names(), **more})
        except Exception as error:
            return error
    raise AssertionError(f"nothing was raised by\n{code}")


def warned(code: str, **more: object) -> list[str]:
    """The warnings of `code`, as Python writes them to a terminal."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        exec(_compiled(code), {**names(), **more})
    return [f"/srv/a/run.py:{w.lineno}: {w.category.__name__}: {w.message}\n  call()" for w in heard]
