"""Keeping the weights of the best epoch."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

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
            self._state = {name: _copy(value) for name, value in model.state_dict().items()}
        return better

    def restore(self, model: nn.Module) -> None:
        """Load the kept state into the model. Raises ValueError when there is none yet."""
        if self.score is None:
            raise ValueError("no weights were kept yet; call update(model, score) first")
        model.load_state_dict(self._state)

    def state_dict(self) -> dict[str, Any]:
        """Score, epoch and the kept weights, to save with the run."""
        return {"score": self.score, "epoch": self.epoch, "sign": self._sign, "weights": dict(self._state)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what state_dict() gave. Raises ValueError when there the other direction was better."""
        if state["sign"] != self._sign:
            wanted = ("lower", "higher")[state["sign"] > 0]
            raise ValueError(f"the best weights were saved with a {wanted} score as the better one, here it is not")
        self.score, self.epoch = state["score"], state["epoch"]
        self._state = {name: _copy(value) for name, value in state["weights"].items()}


def _copy(value: Any) -> Any:
    """A copy that owns its memory; a module's extra state need not be a tensor."""
    return value.detach().clone() if hasattr(value, "detach") else copy.deepcopy(value)
