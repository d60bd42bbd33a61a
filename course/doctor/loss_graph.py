"""How large the graph behind a loss is, which parameters it reaches and how the loss was reduced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

# Losses that say themselves how they were reduced, and operations that pass a mean on.
_LOSSES = (
    "NllLoss",
    "MseLoss",
    "L1Loss",
    "SmoothL1Loss",
    "HuberLoss",
    "BinaryCrossEntropy",
    "KlDiv",
    "SoftMarginLoss",
    "MultiMarginLoss",
    "CtcLoss",
)
_MEANS = ("MeanBackward",)
_SAME = ("ToCopyBackward", "ViewBackward", "SqueezeBackward", "ReshapeAliasBackward", "CloneBackward", "AliasBackward")
_SUMS = ("AddBackward", "SubBackward")
_SCALES = ("DivBackward", "MulBackward")


@dataclass(frozen=True)
class Graph:
    """The graph behind the root of a backward pass.

    nodes: how many, up to the limit; names: how often each kind of node occurs. parameters: names of the known leaves
    that it reaches; strangers: shapes of other leaves that require gradients. reduction: "mean", "sum", "scaled" (a
    mean or sum that was divided or multiplied by a number) or "unknown". leaf: whether the root has no graph at all.
    whole: whether the limit was not reached.
    """

    nodes: int = 0
    names: Mapping[str, int] = field(default_factory=dict)
    parameters: frozenset[str] = frozenset()
    strangers: tuple[tuple[int, ...], ...] = ()
    reduction: str = "unknown"
    leaf: bool = False
    whole: bool = True

    @classmethod
    def of(cls, roots: list[Tensor], known: Mapping[int, str], limit: int = 20_000) -> Graph:
        """Walk from the roots; known: names of parameters by id."""
        starts = [root.grad_fn for root in roots if root.grad_fn is not None]
        if not starts:
            leaves = [root for root in roots if root.requires_grad]
            reached = frozenset(known[id(root)] for root in leaves if id(root) in known)
            strangers = tuple(tuple(root.shape) for root in leaves if id(root) not in known)
            return cls(parameters=reached, strangers=strangers, leaf=bool(leaves))
        seen, queue = set(starts), list(starts)
        names: dict[str, int] = {}
        parameters, strangers = set(), []
        while queue and len(seen) < limit:
            node = queue.pop()
            kind = _kind(node)
            names[kind] = names.get(kind, 0) + 1
            leaf = getattr(node, "variable", None)
            if leaf is not None:
                if id(leaf) in known:
                    parameters.add(known[id(leaf)])
                else:
                    strangers.append(tuple(leaf.shape))
            for parent, _ in node.next_functions:
                if parent is not None and parent not in seen:
                    seen.add(parent)
                    queue.append(parent)
        return cls(len(seen), names, frozenset(parameters), tuple(strangers), reduction_of(starts[0]), whole=not queue)


def _kind(node: Any) -> str:
    return str(node.name())


def reduction_of(node: Any, depth: int = 12) -> str:
    """How the loss that ends in this node was reduced: see Graph."""
    if node is None or depth == 0:
        return "unknown"
    kind = _kind(node)
    if kind.startswith(_MEANS):
        return "mean"
    if kind.startswith(_LOSSES):
        return {0: "unknown", 1: "mean", 2: "sum"}.get(getattr(node, "_saved_reduction", -1), "unknown")
    if kind.startswith("SumBackward"):
        return "sum"
    parents = [parent for parent, _ in node.next_functions if parent is not None]
    if kind.startswith(_SCALES):
        return "scaled"
    if kind.startswith(_SAME) and len(parents) == 1:
        return reduction_of(parents[0], depth - 1)
    if kind.startswith(_SUMS):
        kinds = {reduction_of(parent, depth - 1) for parent in parents}
        # A weighted term beside a plain mean, such as a penalty: the plain one shows that the whole was not divided.
        if "mean" in kinds:
            return "mean"
        return kinds.pop() if len(kinds) == 1 else "unknown"
    return "unknown"
