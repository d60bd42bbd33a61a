"""Keeping the weights of the best epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn


class BestWeights:
    """A copy of a model's state (parameters and buffers) at its best score so far.

    The copy owns its memory: ``model.state_dict()`` alone would follow every later step of the optimizer.
    """

    def __init__(self, *, higher_is_better: bool = True) -> None:
        self.score: float | None = None
        self.epoch: int | None = None
        self._sign = 1 if higher_is_better else -1
        self._state: dict[str, Tensor] = {}

    def update(self, model: nn.Module, score: float, *, epoch: int | None = None) -> bool:
        """Copy the model's state if the score is better than all before; NaN never is. Return whether it was."""
        better = score == score and (self.score is None or self._sign * score > self._sign * self.score)
        if better:
            self.score, self.epoch = score, epoch
            self._state = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
        return better

    def restore(self, model: nn.Module) -> None:
        """Load the kept state into the model. Raises ValueError when there is none yet."""
        if self.score is None:
            raise ValueError("no weights were kept yet; call update(model, score) first")
        model.load_state_dict(self._state)
