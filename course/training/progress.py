"""A progress bar for what takes longer than two seconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")

DELAY = 2.0


def progress(items: Iterable[Item], label: str) -> Iterator[Item]:
    """Pass the items on, under a bar that appears after two seconds and goes when all are through.

    It writes to standard error. The environment variable TQDM_DISABLE=1 switches it off, which is how stored notebooks
    are made.
    """
    from tqdm import tqdm

    yield from tqdm(items, desc=label, delay=DELAY, leave=False, unit="batch")
