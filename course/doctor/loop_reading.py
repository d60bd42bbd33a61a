"""Reading a recorded training step: whose gradients an optimizer used, and when they were cleared, clipped, unscaled.

Works on the events of course.doctor.watch and needs nothing else, so that it can be tried on sequences made by hand.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Norms = dict[str, float | None]


@dataclass
class Gradient:
    """What is known of one parameter's gradient at a moment.

    contributions: the backward events that were added up in it. used: an optimizer has stepped with it already.
    stale: something was added on top of what had been used. scaled: it is multiplied by a scaler's scale. held: its
    norm just after it was used.
    """

    contributions: list[Any] = field(default_factory=list)
    used: bool = False
    stale: bool = False
    scaled: bool = False
    leftover: float = 0.0
    held: float | None = None


@dataclass
class Update:
    """One step of one optimizer, with the gradients as it met them.

    stale: names whose gradient still held an earlier step's. leftover: the norm of what was left. cleared: the
    zero_grad event that took away what backward had given, if any, or that backward where they were cleared by hand.
    contributions: backward events in the gradient. scaled: it is multiplied by a scaler's scale.
    """

    event: Any
    stale: list[str]
    leftover: float
    with_gradient: list[str]
    cleared: Any = None
    contributions: list[Any] = field(default_factory=list)
    scaled: bool = False


@dataclass
class Clip:
    """One call that clips. used: names whose gradient had been used already; scaled: names still multiplied by the
    scale; empty: nothing to clip. measured: seen from a change of the gradients and not from a call."""

    event: Any
    names: list[str]
    used: list[str] = field(default_factory=list)
    scaled: list[str] = field(default_factory=list)
    empty: bool = False
    measured: tuple[float, float] | None = None


@dataclass
class Reading:
    """What a sequence of events comes to."""

    updates: list[Update] = field(default_factory=list)
    clips: list[Clip] = field(default_factory=list)
    backwards: list[Any] = field(default_factory=list)


def read(events: Iterable[Any]) -> Reading:
    """Follow each parameter's gradient through the events of a recording."""
    reader = _Reader()
    for event in events:
        handler = getattr(reader, f"on_{event.kind}", None)
        if handler is not None:
            handler(event)
    return reader.reading


def _present(norm: float | None) -> bool:
    """Whether a gradient of this norm is there and not zero (NaN counts)."""
    return norm is not None and norm != 0


class _Reader:
    def __init__(self) -> None:
        self.reading = Reading()
        self.gradients: dict[str, Gradient] = {}
        self.scale: float | None = None
        self.last_update: dict[int, int] = {}
        self.zeroings: list[Any] = []

    def of(self, name: str) -> Gradient:
        return self.gradients.setdefault(name, Gradient())

    def on_scale(self, event: Any) -> None:
        self.scale = event.scale if event.enabled else None

    def on_backward(self, event: Any) -> None:
        if event.get("nested"):
            return
        self.reading.backwards.append(event)
        self._unused_change(event.before, event)
        for name, after in event.after.items():
            before = event.before.get(name)
            if not _present(after) or after == before:
                continue
            gradient = self.of(name)
            if not _present(before):
                self.gradients[name] = gradient = Gradient()
            elif gradient.used:
                gradient.stale = True
                gradient.leftover = before or 0.0
            gradient.contributions.append(event)
            gradient.scaled = self.scale is not None and self.scale != 1

    def on_zero_grad(self, event: Any) -> None:
        self._unused_change(event.gradients, event)
        self.zeroings.append(event)

    def on_clip(self, event: Any) -> None:
        norms = event.gradients
        present = [name for name, norm in norms.items() if _present(norm)]
        clip = Clip(event, list(norms), empty=not present)
        for name in present:
            gradient = self.of(name)
            if gradient.used and not gradient.stale:
                clip.used.append(name)
            if gradient.scaled:
                clip.scaled.append(name)
            gradient.held = None  # what follows is no change of its own
        self.reading.clips.append(clip)

    def _unused_change(self, norms: Norms, event: Any) -> None:
        """Gradients that were made smaller after they had been used: clipping by hand, in the wrong place."""
        changed = []
        for name, norm in norms.items():
            gradient = self.gradients.get(name)
            if gradient is None or not gradient.used or gradient.held is None or not _present(norm):
                continue
            if norm is not None and norm < 0.999 * gradient.held:
                changed.append((name, gradient.held, norm))
            gradient.held = None
        if changed:
            names = [name for name, _, _ in changed]
            sums = [sum(values) for values in zip(*((held, norm) for _, held, norm in changed), strict=True)]
            self.reading.clips.append(Clip(event, names, used=names, measured=(sums[0], sums[1])))

    def on_unscale(self, event: Any) -> None:
        self._unscaled(event)

    def on_scaler_step(self, event: Any) -> None:
        # A scaler divides inside of its step where nobody has asked before; fused optimizers without an own event.
        self._scaled_change(event)

    def _scaled_change(self, event: Any) -> None:
        """Gradients that changed between backward and unscaling without a call: clipping by hand, before unscaling."""
        if not event.enabled:
            return
        changed = []
        for name, norm in event.get("gradients", {}).items():
            gradient = self.gradients.get(name)
            if gradient is None or not gradient.scaled or not gradient.contributions or not _present(norm):
                continue
            before = gradient.contributions[-1].after.get(name)
            if before is not None and norm is not None and norm < 0.999 * before:
                changed.append((name, before, norm))
        if changed and not any(set(clip.names) & {name for name, _, _ in changed} for clip in self.reading.clips[-1:]):
            names = [name for name, _, _ in changed]
            sums = [sum(values) for values in zip(*((a, b) for _, a, b in changed), strict=True)]
            self.reading.clips.append(Clip(event, names, scaled=names, measured=(sums[0], sums[1])))

    def _unscaled(self, event: Any) -> None:
        self._scaled_change(event)
        if event.enabled:
            for name in event.get("gradients", {}):
                self.of(name).scaled = False

    def on_scaler_update(self, event: Any) -> None:
        self.scale = None

    def on_optimizer_step(self, event: Any) -> None:
        norms = event.gradients
        names = [name for name, norm in norms.items() if _present(norm)]
        stale = [name for name in names if self.of(name).stale]
        contributions = _unique(b for name in names for b in self.of(name).contributions if not b.get("in_step"))
        update = Update(
            event,
            stale,
            sum(self.of(name).leftover ** 2 for name in stale) ** 0.5,
            names,
            contributions=contributions,
            scaled=any(self.of(name).scaled for name in names) and not event.get("by_scaler"),
        )
        if not names:
            update.cleared = self._what_cleared(event)
        self.reading.updates.append(update)
        self.last_update[id(event.optimizer)] = event.index
        # A closure computes gradients anew inside of the step: what is left then is not what it met.
        held = {} if event.get("closure") else event.get("held") or norms
        for name in names:
            gradient = self.of(name)
            gradient.used, gradient.held = True, held.get(name)

    def _what_cleared(self, event: Any) -> Any:
        """The zero_grad that took away all that backward had given since this optimizer's last step."""
        since = self.last_update.get(id(event.optimizer), -1)
        own = set(event.gradients)
        given = [
            b
            for b in self.reading.backwards
            if b.index > since and not b.get("in_step") and any(_present(b.after.get(name)) for name in own)
        ]
        if not given:
            return None
        zeroing = next(
            (
                z
                for z in reversed(self.zeroings)
                if z.index > given[-1].index and any(_present(z.gradients.get(name)) for name in own)
            ),
            None,
        )
        # Without a call the gradients were cleared by hand: what the last backward had left is what is missing.
        return zeroing or given[-1]


def _unique(events: Iterable[Any]) -> list[Any]:
    return sorted({event.index: event for event in events}.values(), key=lambda event: event.index)
