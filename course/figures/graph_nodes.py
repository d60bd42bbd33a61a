"""What autograd has recorded behind a tensor: the facts of the graph pictures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from course.figures.layout import TooLargeToDraw

if TYPE_CHECKING:
    from torch import Tensor

MAX_NODES = 30

LEAF, OPERATION, UNTRACKED = "leaf", "operation", "untracked"
HELD, FREED, OVERWRITTEN = "held", "freed", "overwritten"


@dataclass(frozen=True)
class Saved:
    """A tensor that an operation keeps for backward.

    role: the operation's own word for it ("self", "other", "result"). label: what it is, where that can be told.
    state: "held", "freed" by an earlier backward, or "overwritten" in place since it was saved.
    """

    role: str
    label: str
    state: str

    def __str__(self) -> str:
        return f"keeps {self.label}" if self.state == HELD else f"{self.role}: {self.state}"


@dataclass(frozen=True)
class Node:
    """One box: an operation, a leaf that collects a gradient, or an input that is not tracked.

    title: the name of ``grad_fn`` ("MulBackward0"), or what a leaf is called. name: the name of the tensor that an
    operation made, if it was given. notes: further lines, such as shape and gradient of a leaf.
    """

    kind: str
    title: str
    name: str = ""
    notes: tuple[str, ...] = ()
    saved: tuple[Saved, ...] = ()


@dataclass(frozen=True)
class Graph:
    """Boxes, the output first, and edges (user, used) by position in ``nodes``, in the order of the arguments."""

    nodes: tuple[Node, ...]
    edges: tuple[tuple[int, int], ...]

    def states(self) -> set[str]:
        """The kinds of box and the states of saved tensors that occur."""
        return {node.kind for node in self.nodes} | {saved.state for node in self.nodes for saved in node.saved}


def graph_of(output: Tensor, names: Mapping[str, Tensor] | None = None) -> Graph:
    """Read the graph that was recorded for a tensor.

    output: any tensor. names: what to call leaves, results and saved tensors.
    The graph is left as it is: nothing is computed, freed or kept. Raises TooLargeToDraw for more than 30 boxes.
    """
    import torch

    names = names or {}
    for name, tensor in {"output": output, **names}.items():
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} must be a tensor, not {type(tensor).__name__}")
    if not output.requires_grad:
        note = "no grad_fn: nothing was recorded"
        return Graph((Node(UNTRACKED, _name_of(output, names) or "output", notes=(note,)),), ())
    root = output.grad_fn or torch.autograd.graph.get_gradient_edge(output).node
    functions, edges = _walk(root)
    return Graph(tuple(_node(function, names) for function in functions), edges)


def describe(graph: Graph) -> str:
    """The graph in words, one line a box, from the output backwards."""
    lines = []
    for number, node in enumerate(graph.nodes):
        facts = [*node.notes, *(str(saved) for saved in node.saved)]
        what = {LEAF: "leaf ", OPERATION: "", UNTRACKED: "not tracked: "}[node.kind]
        text = f"{number + 1}. {what}{f'{node.name} = ' if node.name else ''}{node.title}"
        text += f" ({'; '.join(facts)})" if facts else ""
        targets = [str(used + 1) for user, used in graph.edges if user == number]
        lines.append(f"{text} -> {', '.join(targets)}" if targets else text)
    return "\n".join(lines)


def _walk(root: Any) -> tuple[list[Any], tuple[tuple[int, int], ...]]:
    """The functions reachable from ``root`` in the order in which they are met, None for each untracked input."""
    functions, numbers, edges = [root], {root: 0}, []
    for user, function in enumerate(functions):  # grows while it is read
        for used, _ in function.next_functions if function is not None else ():
            if used is None or used not in numbers:
                if used is not None:
                    numbers[used] = len(functions)
                edges.append((user, len(functions)))
                functions.append(used)
            else:
                edges.append((user, numbers[used]))
        if len(functions) > MAX_NODES:
            raise TooLargeToDraw(f"the graph has more than {MAX_NODES} boxes; draw a smaller expression")
    return functions, tuple(edges)


def _node(function: Any, names: Mapping[str, Tensor]) -> Node:
    if function is None:
        return Node(UNTRACKED, "no gradient")
    leaf = getattr(function, "variable", None)
    if leaf is not None:
        notes = (f"shape {tuple(leaf.shape)}", f"grad {_gradient(leaf)}")
        return Node(LEAF, _name_of(leaf, names) or "(no name)", notes=notes)
    name = next((name for name, tensor in names.items() if tensor.grad_fn is function), "")
    return Node(OPERATION, function.name(), name, saved=tuple(_saved(function, names)))


def _name_of(tensor: Tensor, names: Mapping[str, Tensor]) -> str:
    return next((name for name, other in names.items() if other is tensor), "")


def _gradient(leaf: Tensor) -> str:
    if leaf.grad is None:
        return "None"
    values = [f"{value:.4g}" for value in leaf.grad.detach().reshape(-1).tolist()]
    if len(values) > 4:
        return f"of shape {tuple(leaf.shape)}"
    return f"[{', '.join(values)}]" if leaf.grad.ndim else values[0]


def _saved(function: Any, names: Mapping[str, Tensor]) -> Iterator[Saved]:
    for role, read in _readers(function):
        try:
            value = read()
        except RuntimeError as error:
            state = OVERWRITTEN if "inplace operation" in str(error) else FREED
            yield Saved(role, role, state)
            continue
        for tensor in value if isinstance(value, (tuple, list)) else [value]:
            if tensor is not None:  # None: this one is not needed, because the other input is not tracked
                own = tensor.grad_fn is function
                yield Saved(role, "its own result" if own else _label(tensor, names), HELD)


def _readers(function: Any) -> Iterator[tuple[str, Any]]:
    """How to read each tensor that a function saved; reading one that was freed or overwritten raises."""
    roles = [name.removeprefix("_raw_saved_") for name in dir(function) if name.startswith("_raw_saved_")]
    for role in roles:
        if role == "tensors":  # a torch.autograd.Function
            yield "saved", lambda: function.saved_tensors
        else:
            yield role, lambda role=role: getattr(function, f"_saved_{role}")


def _label(tensor: Tensor, names: Mapping[str, Tensor]) -> str:
    for name, other in names.items():
        same_memory = tensor.shape == other.shape and tensor.data_ptr() == other.data_ptr() and tensor.numel()
        # A tensor and its detached twin share memory; their history tells them apart.
        if same_memory and tensor.grad_fn is other.grad_fn and tensor.requires_grad == other.requires_grad:
            return name
    if tensor.grad_fn is not None:
        return "the result of " + re.sub(r"Backward\d*$", "", tensor.grad_fn.name())
    return f"a tensor of shape {tuple(tensor.shape)}" if tensor.ndim else "a number"
