"""Lesson 08: build a gradient scaler."""

from __future__ import annotations

import random

import torch
from torch import Tensor, nn

from course.checking import Exercise

exercise = Exercise(
    "precision.loss_scaler",
    title="Build it: a gradient scaler",
    task="""
        `LossScaler(init_scale, growth_factor, backoff_factor, growth_interval)` decides like `torch.amp.GradScaler`.
        Several optimizers may share one scaler. Write it without torch's class.

        - `get_scale()`: the scale now, a Python `float`.
        - `scale(loss)`: loss times scale, in float32 even for a float16 loss, with its graph.
        - `unscale_(optimizer)`: divide the gradients of this optimizer's parameters by the scale, in place, and
          remember whether one of them is infinite or nan. Parameters may have no gradient. A second call for the same
          optimizer before the next `update()` raises `RuntimeError`.
        - `step(optimizer)`: unscale if that was not done yet; then call `optimizer.step()`, unless a gradient **of this
          optimizer** is not finite. A second `step` for it before `update()` raises `RuntimeError`.
        - `update()`: if any optimizer since the last update has seen a gradient that is not finite, multiply the scale
          by `backoff_factor`. Otherwise, after `growth_interval` such updates in a row, multiply it by `growth_factor`
          and count from 0 again. A back-off also sets the count to 0.

        The scale changes in `update()` alone.
        """,
    hints=(
        "There are two kinds of state: what holds until the next update (what each optimizer has found, which have "
        "stepped), and what lasts (the scale, the number of good updates in a row).",
        "A dictionary optimizer -> found, filled by unscale_, is nearly all. step looks into it, or has unscale_ fill "
        "it; update asks `any(self.found.values())`, moves scale and count, and empties it. Check `isfinite()`, not "
        "`isinf()`.",
    ),
)


@exercise.stub
class LossScaler:
    """Scales losses, skips steps with infinite gradients, and adapts the scale."""

    def __init__(self, init_scale: float, growth_factor: float, backoff_factor: float, growth_interval: int) -> None:
        raise NotImplementedError

    def get_scale(self) -> float:
        """Return the scale."""
        raise NotImplementedError

    def scale(self, loss: Tensor) -> Tensor:
        """Return the loss times the scale, float32."""
        raise NotImplementedError

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        """Divide the optimizer's gradients by the scale and note whether all are finite."""
        raise NotImplementedError

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Step the optimizer if its gradients are finite."""
        raise NotImplementedError

    def update(self) -> None:
        """Adapt the scale to what has been found since the last update."""
        raise NotImplementedError


@exercise.reference
class FoundByOptimizer:
    def __init__(self, init_scale, growth_factor, backoff_factor, growth_interval):
        self.value, self.growth, self.backoff, self.interval = (
            init_scale,
            growth_factor,
            backoff_factor,
            growth_interval,
        )
        self.good = 0
        self.found, self.stepped = {}, set()

    def get_scale(self):
        return self.value

    def scale(self, loss):
        return loss.float() * self.value

    def unscale_(self, optimizer):
        if optimizer in self.found:
            raise RuntimeError("unscale_() was called twice for this optimizer since the last update()")
        self.found[optimizer] = False
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self.found[optimizer] |= not parameter.grad.isfinite().all()
                    parameter.grad.div_(self.value)

    def step(self, optimizer):
        if optimizer in self.stepped:
            raise RuntimeError("step() was called twice for this optimizer since the last update()")
        if optimizer not in self.found:
            self.unscale_(optimizer)
        if not self.found[optimizer]:
            optimizer.step()
        self.stepped.add(optimizer)

    def update(self):
        if any(self.found.values()):
            self.value *= self.backoff
            self.good = 0
        else:
            self.good += 1
            if self.good == self.interval:
                self.value *= self.growth
                self.good = 0
        self.found, self.stepped = {}, set()


@exercise.alternative
class StagesAndTensors:
    def __init__(self, init_scale, growth_factor, backoff_factor, growth_interval):
        self._scale = torch.tensor(float(init_scale))
        self._factors, self._interval = (growth_factor, backoff_factor), growth_interval
        self._left, self._stages, self._bad = growth_interval, {}, set()

    def get_scale(self):
        return self._scale.item()

    def scale(self, loss):
        return loss.to(torch.float32) * self._scale

    def _advance(self, optimizer, stage):
        if self._stages.get(id(optimizer), 0) >= stage:
            raise RuntimeError("called already since the last update")
        self._stages[id(optimizer)] = stage

    @torch.no_grad()
    def unscale_(self, optimizer):
        self._advance(optimizer, 1)
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        for gradient in gradients:
            gradient *= 1 / self._scale
        if not all(bool(torch.isfinite(gradient).all()) for gradient in gradients):
            self._bad.add(id(optimizer))

    def step(self, optimizer):
        if not self._stages.get(id(optimizer)):
            self.unscale_(optimizer)
        self._advance(optimizer, 2)
        if id(optimizer) not in self._bad:
            optimizer.step()

    def update(self):
        self._left -= 1
        if self._bad:
            self._scale, self._left = self._scale * self._factors[1], self._interval
        elif not self._left:
            self._scale, self._left = self._scale * self._factors[0], self._interval
        self._stages.clear()
        self._bad.clear()


class Base:
    """What the wrong answers share; each of them changes one method."""

    def __init__(self, init_scale, growth_factor, backoff_factor, growth_interval):
        self.value, self.growth, self.backoff, self.interval = (
            init_scale,
            growth_factor,
            backoff_factor,
            growth_interval,
        )
        self.good = 0
        self.found, self.stepped = {}, set()

    def get_scale(self):
        return self.value

    def scale(self, loss):
        return loss.float() * self.value

    def gradients(self, optimizer):
        return [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]

    def unscale_(self, optimizer):
        if optimizer in self.found:
            raise RuntimeError("unscale_ was called twice")
        self.found[optimizer] = any(not gradient.isfinite().all() for gradient in self.gradients(optimizer))
        for gradient in self.gradients(optimizer):
            gradient.div_(self.value)

    def step(self, optimizer):
        if optimizer in self.stepped:
            raise RuntimeError("step was called twice")
        if optimizer not in self.found:
            self.unscale_(optimizer)
        if not self.found[optimizer]:
            optimizer.step()
        self.stepped.add(optimizer)

    def update(self):
        if any(self.found.values()):
            self.value, self.good = self.value * self.backoff, 0
        else:
            self.good += 1
            if self.good == self.interval:
                self.value, self.good = self.value * self.growth, 0
        self.found, self.stepped = {}, set()


@exercise.wrong(
    "The scale only falls. After one unlucky batch it stays low for the rest of the training, and gradients underflow."
)
class NeverGrows(Base):
    def update(self):
        if any(self.found.values()):
            self.value *= self.backoff
        self.found, self.stepped = {}, set()


@exercise.wrong(
    "A skipped step does not set the count of good updates back. torch counts updates **in a row**: growth right after "
    "a back-off would overflow again."
)
class CountGoesOn(Base):
    def update(self):
        if any(self.found.values()):
            self.value *= self.backoff
        else:
            self.good += 1
            if self.good == self.interval:
                self.value, self.good = self.value * self.growth, 0
        self.found, self.stepped = {}, set()


@exercise.wrong("The count is not set to 0 when the scale grows, so it grows once and then at wrong times.")
class CountNeverReset(Base):
    def update(self):
        if any(self.found.values()):
            self.value, self.good = self.value * self.backoff, 0
        else:
            self.good += 1
            if self.good >= self.interval:
                self.value *= self.growth
        self.found, self.stepped = {}, set()


@exercise.wrong("The scale grows one update too late: after growth_interval + 1 good ones.")
class OneTooLate(Base):
    def update(self):
        if any(self.found.values()):
            self.value, self.good = self.value * self.backoff, 0
        else:
            self.good += 1
            if self.good > self.interval:
                self.value, self.good = self.value * self.growth, 0
        self.found, self.stepped = {}, set()


@exercise.wrong(
    "Only infinity is looked for. `inf - inf` and `0 * inf` give nan, and one nan in a step makes every weight it "
    "reaches nan. Ask `isfinite()`."
)
class OnlyInfinity(Base):
    def unscale_(self, optimizer):
        if optimizer in self.found:
            raise RuntimeError("unscale_ was called twice")
        self.found[optimizer] = any(gradient.isinf().any() for gradient in self.gradients(optimizer))
        for gradient in self.gradients(optimizer):
            gradient.div_(self.value)


@exercise.wrong(
    "step() does not unscale. Whoever does not clip calls no unscale_ either, and the optimizer steps with gradients "
    "that are thousands of times too large."
)
class StepWithoutUnscale(Base):
    def step(self, optimizer):
        if optimizer in self.stepped:
            raise RuntimeError("step was called twice")
        if optimizer not in self.found:
            self.found[optimizer] = any(not gradient.isfinite().all() for gradient in self.gradients(optimizer))
        if not self.found[optimizer]:
            optimizer.step()
        self.stepped.add(optimizer)


@exercise.wrong(
    "step() divides by the scale once more after unscale_(): the weights hardly move. Note what has been unscaled.",
    fault="unscale-twice",
)
class UnscaledAgain(Base):
    def step(self, optimizer):
        if optimizer in self.stepped:
            raise RuntimeError("step was called twice")
        self.found.pop(optimizer, None)
        self.unscale_(optimizer)
        if not self.found[optimizer]:
            optimizer.step()
        self.stepped.add(optimizer)


@exercise.wrong(
    "unscale_ may be called twice, and divides twice, without a word. In accumulation that is a common mistake; an "
    "error finds it.",
    fault="unscale-twice",
)
class UnscaleTwiceAllowed(Base):
    def unscale_(self, optimizer):
        self.found[optimizer] = any(not gradient.isfinite().all() for gradient in self.gradients(optimizer))
        for gradient in self.gradients(optimizer):
            gradient.div_(self.value)


@exercise.wrong(
    "A second step() before update() is accepted. The optimizer moves twice on the same gradients, and the missing "
    "update() goes unnoticed.",
    fault="scaler-update-missing",
)
class StepTwiceAllowed(Base):
    def step(self, optimizer):
        if optimizer not in self.found:
            self.unscale_(optimizer)
        if not self.found[optimizer]:
            optimizer.step()


@exercise.wrong(
    "One infinite gradient stops all optimizers. Each steps or not by its own gradients; only the scale is shared."
)
class AllOrNone(Base):
    def step(self, optimizer):
        if optimizer in self.stepped:
            raise RuntimeError("step was called twice")
        if optimizer not in self.found:
            self.unscale_(optimizer)
        if not any(self.found.values()):
            optimizer.step()
        self.stepped.add(optimizer)


@exercise.wrong(
    "Only the last optimizer decides about the scale. An overflow of another one goes unnoticed, and comes again at "
    "the next step."
)
class LastOptimizerDecides(Base):
    def update(self):
        if list(self.found.values())[-1]:
            self.value, self.good = self.value * self.backoff, 0
        else:
            self.good += 1
            if self.good == self.interval:
                self.value, self.good = self.value * self.growth, 0
        self.found, self.stepped = {}, set()


@exercise.wrong(
    "The scale falls in unscale_, before update(). A second optimizer then divides its gradients by another scale than "
    "they were multiplied with."
)
class BacksOffAtOnce(Base):
    def unscale_(self, optimizer):
        super().unscale_(optimizer)
        if self.found[optimizer]:
            self.value *= self.backoff

    def update(self):
        if any(self.found.values()):
            self.good = 0
        else:
            self.good += 1
            if self.good == self.interval:
                self.value, self.good = self.value * self.growth, 0
        self.found, self.stepped = {}, set()


@exercise.wrong(
    "Infinite gradients are set to 0 and the step is made. A step with part of a gradient has another direction, and "
    "an optimizer with momentum moves even on zeros. torch leaves the step out."
)
class ReplacesByZero(Base):
    def step(self, optimizer):
        if optimizer in self.stepped:
            raise RuntimeError("step was called twice")
        if optimizer not in self.found:
            self.unscale_(optimizer)
        for gradient in self.gradients(optimizer):
            gradient.nan_to_num_(0.0, 0.0, 0.0)
        optimizer.step()
        self.stepped.add(optimizer)


@exercise.wrong(
    "Each gradient is replaced by a new tensor. Whoever holds the old one, such as DDP in its bucket, still has the "
    "scaled numbers: divide in place."
)
class NewGradients(Base):
    def unscale_(self, optimizer):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad = parameter.grad.clone()
        super().unscale_(optimizer)


@exercise.wrong(
    "A float16 loss is scaled in float16: beyond 65504 it is infinite before backward has begun, and each step is "
    "skipped until the scale is small.",
    fault="half-overflow",
)
class ScaledInHalf(Base):
    def scale(self, loss):
        return loss * self.value


def optimizers(n=1):
    return [torch.optim.SGD([nn.Parameter(torch.tensor([1.0, -2.0]))], lr=0.25, momentum=0.5) for _ in range(n)]


def give(optimizer, gradient):
    (parameter,) = optimizer.param_groups[0]["params"]
    parameter.grad = None if gradient is None else torch.tensor(gradient)


def weights(all_optimizers):
    return [p.detach().clone() for o in all_optimizers for p in o.param_groups[0]["params"]]


def play(scaler, script, n=1):
    """Updates of a script: each a list of (gradient of the scaled loss, unscale first?), one for each optimizer."""
    all_optimizers, trace = optimizers(n), []
    for entries in script:
        scaler.scale(torch.ones(()))
        for optimizer, (gradient, first) in zip(all_optimizers, entries):
            give(optimizer, gradient)
            if first:
                scaler.unscale_(optimizer)
        for optimizer in all_optimizers:
            scaler.step(optimizer)
        scaler.update()
        trace.append((scaler.get_scale(), weights(all_optimizers)))
    return trace


def random_script(seed, length, n):
    random.seed(seed)
    bad = (torch.inf, -torch.inf, torch.nan)

    def entry():
        gradient = [float(random.randint(-8, 8)) for _ in range(2)]
        if random.random() < 0.2 / n:
            gradient[random.randrange(2)] = random.choice(bad)
        return gradient, random.random() < 0.5

    return [[entry() for _ in range(n)] for _ in range(length)]


def beside_torch(answer, seed, *, n=1, length=30, **options):
    """The trace of the answer, and the first update at which torch's scaler does something else; -1 if at none."""
    script = random_script(seed, length, n)
    seen = play(answer(**options), script, n)
    wanted = play(torch.amp.GradScaler("cpu", **options), script, n)

    def differs(a, b):
        return a[0] != b[0] or not all(torch.allclose(x, y) for x, y in zip(a[1], b[1]))

    return next((i for i, (a, b) in enumerate(zip(seen, wanted)) if differs(a, b)), -1), seen


def refuses(call):
    try:
        call()
    except RuntimeError:
        return True
    return False


TWO = {"growth_factor": 2.0, "backoff_factor": 0.5}


@exercise.probe
def good_gradients_only(answer):
    return play(answer(8.0, 2.0, 0.5, 3), [[([8.0, -4.0], False)]] * 7)


@exercise.probe
def one_infinite_gradient(answer):
    script = [[([value, 4.0], False)] for value in (4.0, torch.inf, 4.0, 4.0, 4.0)]
    return play(answer(8.0, 2.0, 0.5, 3), script)


@exercise.probe
def one_nan(answer):
    return play(answer(8.0, 2.0, 0.5, 2), [[([4.0, torch.nan], True)], [([4.0, 4.0], True)]])


@exercise.probe
def as_torch_one_optimizer(answer):
    return [beside_torch(answer, seed, init_scale=1024.0, growth_interval=4, **TWO) for seed in range(2)]


@exercise.probe
def as_torch_two_optimizers(answer):
    return [beside_torch(answer, seed, n=2, init_scale=64.0, growth_interval=3, **TWO) for seed in range(10, 12)]


@exercise.probe
def as_torch_other_factors(answer):
    return beside_torch(answer, 20, init_scale=16.0, growth_factor=4.0, backoff_factor=0.25, growth_interval=2)


@exercise.probe
def as_torch_interval_one(answer):
    return beside_torch(answer, 21, length=12, init_scale=2.0, growth_interval=1, **TWO)


@exercise.probe
def scaled_loss(answer):
    scaler = answer(1024.0, 2.0, 0.5, 10)
    loss = torch.tensor(3.0, requires_grad=True)
    scaled = scaler.scale(loss)
    scaled.backward()
    return scaled.detach(), loss.grad, scaler.get_scale()


@exercise.probe
def scaled_half_loss(answer):
    scaled = answer(65536.0, 2.0, 0.5, 10).scale(torch.tensor(2.0, dtype=torch.float16, requires_grad=True))
    return scaled.detach(), scaled.requires_grad


@exercise.probe
def the_scale_stays_until_update(answer):
    scaler, (optimizer,) = answer(8.0, 2.0, 0.5, 1), optimizers()
    give(optimizer, [torch.inf, 1.0])
    scaler.unscale_(optimizer)
    scales = [scaler.get_scale()]
    scaler.step(optimizer)
    scales.append(scaler.get_scale())
    scaler.update()
    return [*scales, scaler.get_scale()]


@exercise.probe
def unscaled_gradients(answer):
    scaler, (optimizer,) = answer(8.0, 2.0, 0.5, 5), optimizers()
    give(optimizer, [16.0, -4.0])
    (parameter,) = optimizer.param_groups[0]["params"]
    before = parameter.grad
    scaler.unscale_(optimizer)
    return parameter.grad, parameter.grad is before


@exercise.probe
def unscale_twice(answer):
    scaler, (first, second) = answer(8.0, 2.0, 0.5, 5), optimizers(2)
    give(first, [8.0, 8.0])
    give(second, [8.0, 8.0])
    scaler.unscale_(first)
    scaler.unscale_(second)
    twice = refuses(lambda: scaler.unscale_(first))
    scaler.step(first)
    after_step = refuses(lambda: scaler.unscale_(first))
    scaler.update()
    return twice, after_step, refuses(lambda: scaler.unscale_(first))


@exercise.probe
def step_twice(answer):
    scaler, (optimizer,) = answer(8.0, 2.0, 0.5, 5), optimizers()
    give(optimizer, [8.0, 8.0])
    scaler.step(optimizer)
    twice = refuses(lambda: scaler.step(optimizer))
    scaler.update()
    return twice, refuses(lambda: scaler.step(optimizer)), weights([optimizer])


@exercise.probe
def step_twice_when_the_first_was_skipped(answer):
    scaler, (optimizer,) = answer(8.0, 2.0, 0.5, 5), optimizers()
    give(optimizer, [torch.inf, 8.0])
    scaler.step(optimizer)
    return refuses(lambda: scaler.step(optimizer)), weights([optimizer])


@exercise.probe
def large_finite_gradients(answer):
    """Each is finite, their sum is not."""
    script = [[([3e38, 3e38], True)], [([-3e38, -3e38], False)]]
    return play(answer(2.0**100, 2.0, 0.5, 1), script), play(answer(1.0, 2.0, 0.5, 9), script)


@exercise.probe
def parameters_without_gradient_and_several_groups(answer):
    scaler = answer(4.0, 2.0, 0.5, 1)
    parameters = [nn.Parameter(torch.tensor([1.0])) for _ in range(4)]
    groups = [{"params": parameters[:2]}, {"params": parameters[2:], "lr": 1.0}]
    optimizer = torch.optim.SGD(groups, lr=0.5)
    seen = []
    for values in ((4.0, None, 8.0, 4.0), (4.0, None, torch.nan, 4.0), (torch.inf, None, 4.0, 4.0)):
        for parameter, value in zip(parameters, values):
            parameter.grad = None if value is None else torch.tensor([value])
        scaler.step(optimizer)
        scaler.update()
        seen.append((scaler.get_scale(), [p.detach().clone() for p in parameters]))
    return seen


@exercise.probe
def two_scalers(answer):
    first, second = answer(8.0, 2.0, 0.5, 1), answer(2.0, 2.0, 0.5, 1)
    trace = play(first, [[([torch.inf, 1.0], False)]])
    return trace, play(second, [[([4.0, 2.0], False)]]), first.get_scale()
