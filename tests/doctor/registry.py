"""Where sound setups and pairs of a faulty setup and its sound twin are kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from course.faults import FAULTS

Arguments = dict[str, Any]
ZOO: dict[str, Callable[[], Arguments]] = {}
HELD_OUT_ZOO: dict[str, Callable[[], Arguments]] = {}


@dataclass(frozen=True)
class Pair:
    """One fault as arguments of `examine`, and the same setup without it.

    build: takes `bad` and returns the arguments.
    case: id of the case of the catalogue's collection that it adapts, if any.
    """

    fault: str
    name: str
    build: Callable[[bool], Arguments]
    case: str | None = None

    @property
    def family(self) -> str:
        """The topic of the fault."""
        return FAULTS[self.fault].topic

    def make(self, bad: bool) -> Arguments:
        """Build one of the two, from a fixed seed."""
        torch.manual_seed(0)
        return self.build(bad)


def sound_into(zoo: dict[str, Callable[[], Arguments]]) -> Callable[[Callable[[], Arguments]], Callable[[], Arguments]]:
    """The decorator that adds a sound setup to a zoo, to be built from a fixed seed."""

    def add(build: Callable[[], Arguments]) -> Callable[[], Arguments]:
        if build.__name__ in zoo:
            raise ValueError(f"two sound setups are called {build.__name__}")

        def seeded() -> Arguments:
            torch.manual_seed(0)
            return build()

        zoo[build.__name__] = seeded
        return seeded

    return add


sound = sound_into(ZOO)


class Pairs(dict[str, Pair]):
    """Pairs by name; calling it with a fault's id makes the decorator that adds one."""

    def __call__(self, fault: str, case: str | None = None) -> Callable[[Callable[[bool], Arguments]], Pair]:
        if fault not in FAULTS:
            raise ValueError(f"no fault is called {fault}")

        def add(build: Callable[[bool], Arguments]) -> Pair:
            if build.__name__ in self:
                raise ValueError(f"two pairs are called {build.__name__}")
            self[build.__name__] = Pair(fault, build.__name__, build, case)
            return self[build.__name__]

        return add


SETUPS = Pairs()
HELD_OUT = Pairs()
