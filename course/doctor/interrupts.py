"""Undoing that no KeyboardInterrupt can cut short."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold back KeyboardInterrupt until the end of the block."""
    if threading.current_thread() is not threading.main_thread():
        # Signals arrive in the main thread alone.
        yield
        return
    pending: list[tuple[int, Any]] = []
    try:
        before = signal.signal(signal.SIGINT, lambda number, frame: pending.append((number, frame)))
    except ValueError:  # not the main interpreter
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before if before is not None else signal.SIG_DFL)
        if pending and callable(before):
            before(*pending[0])


class Guard:
    """Opens several context managers at once, and closes them for certain.

    An interrupt between the end of a block and its clean-up skips the clean-up; close() at the very end catches up.
    """

    def __init__(self) -> None:
        self._open: list[ExitStack] = []

    @contextlib.contextmanager
    def entered(self, *managers: AbstractContextManager[Any]) -> Iterator[None]:
        """Inside the block all managers are entered; they are told of no exception."""
        stack = ExitStack()
        self._open.append(stack)
        try:
            with uninterrupted():
                for manager in managers:
                    stack.enter_context(manager)
            yield
        finally:
            with uninterrupted():
                stack.close()
                self._open.remove(stack)

    def close(self) -> None:
        """Close what is still open, the last one first."""
        with uninterrupted():
            while self._open:
                self._open.pop().close()
