"""Answers that misbehave. Each function takes a right answer and returns one that does something else as well."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

import torch

from course.checking.observation import leaves

Right = Callable[..., Any]


class Unlookable:
    """Fails at whatever one does with it."""

    def _fail(self, *_: Any) -> Any:
        raise RuntimeError("do not look")

    __repr__ = __str__ = __eq__ = __bool__ = __len__ = __iter__ = __getattr__ = __format__ = _fail
    __hash__ = _fail

    @property
    def __class__(self) -> type:
        raise RuntimeError("do not ask")


class SomeClass:
    pass


def raises(right: Right) -> Right:
    def answer(*args: Any) -> Any:
        raise ValueError("not today")

    return answer


def loops_forever(right: Right) -> Right:
    def answer(*args: Any) -> Any:
        while True:
            try:
                while True:
                    pass
            except BaseException:
                pass

    return answer


def takes_all_memory(right: Right) -> Right:
    def answer(*args: Any) -> Any:
        kept = []
        while True:
            kept.append(torch.empty(2**23))  # address space is what is limited; touching it would take seconds

    return answer


def prints_more_than_a_pipe_holds(right: Right) -> Right:
    def answer(*args: Any) -> Any:
        print("x" * 500_000)
        print("y" * 500_000, file=sys.stderr)
        return right(*args)

    return answer


def mutates_its_input(right: Right) -> Right:
    def answer(*args: Any) -> Any:
        result = right(*args)
        for leaf in leaves(args):
            if isinstance(leaf, torch.Tensor) and leaf.numel():
                first = (0,) * leaf.ndim
                leaf.data[first] = 0 if leaf.data[first] else 1
        return result

    return answer


def seeds_the_generators(right: Right) -> Right:
    def answer(*args: Any) -> Any:
        import random

        random.seed(0)
        torch.manual_seed(0)
        return right(*args)

    return answer


def draws_from_the_generator(right: Right) -> Right:
    return lambda *args: torch.rand(3)


def changes_defaults(right: Right) -> Right:
    def answer(*args: Any) -> Any:
        result = right(*args)
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(3)
        torch.set_grad_enabled(False)
        torch.use_deterministic_algorithms(True)
        return result

    return answer


def calls_sys_exit(right: Right) -> Right:
    return lambda *args: sys.exit(0)


def calls_os_exit(right: Right) -> Right:
    return lambda *args: os._exit(0)


def forks(right: Right) -> Right:
    callers: list[int] = []

    def answer(*args: Any) -> Any:
        callers.append(os.getpid())
        if callers[0] == os.getpid():  # its children do not fork again: that would be two to the power of the calls
            os.fork()
        return right(*args)

    return answer


def returns_an_unlookable_object(right: Right) -> Right:
    return lambda *args: Unlookable()


def raises_an_unlookable_error(right: Right) -> Right:
    class Bad(Exception):
        def __str__(self) -> str:
            raise RuntimeError("do not look")

    def answer(*args: Any) -> Any:
        raise Bad

    return answer


def recurses_deeply(right: Right) -> Right:
    def answer(*args: Any) -> Any:
        return answer(*args)

    return answer


def changes_its_mind(right: Right) -> Right:
    calls = []

    def answer(*args: Any) -> Any:
        calls.append(1)
        return right(*args) if len(calls) % 2 else None

    return answer


def closes_all_files(right: Right) -> Right:
    def answer(*args: Any) -> Any:
        os.closerange(0, 256)
        return right(*args)

    return answer


def compiled(right: Right) -> Right:
    return torch.compile(lambda *args: right(*args), backend="eager")


def partial_of_nothing(right: Right) -> Right:
    return functools.partial(right)


MISBEHAVING = [
    raises,
    loops_forever,
    takes_all_memory,
    prints_more_than_a_pipe_holds,
    mutates_its_input,
    seeds_the_generators,
    draws_from_the_generator,
    changes_defaults,
    calls_sys_exit,
    calls_os_exit,
    forks,
    returns_an_unlookable_object,
    raises_an_unlookable_error,
    recurses_deeply,
    changes_its_mind,
    closes_all_files,
    compiled,
    partial_of_nothing,
]

# These compute the right thing beside their mischief; isolation makes the mischief harmless, so they may pass.
MAY_PASS = {prints_more_than_a_pipe_holds, seeds_the_generators, changes_defaults, forks, partial_of_nothing}

NONSENSE = {
    "None": None,
    "a number": 3,
    "a text": "text",
    "a tensor": torch.arange(3),
    "an object": SomeClass(),
    "a class": SomeClass,
    "a lambda of no arguments": lambda: 1,
    "a lambda of many arguments": lambda a, b, c, d, e, f, g: 1,
    "an unlookable object": Unlookable(),
    "a module": os,
    "a list in itself": (lambda items: items.append(items) or items)([]),
    "a huge view": torch.zeros(1).expand(2**40),
    "a sparse tensor": torch.eye(2).to_sparse(),
    "a generator": (i for i in range(3)),
}
