"""The registration tree: what a module knows of its attributes, and what it does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from course.figures.layout import TooLargeToDraw
from course.figures.show import show_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch import nn

MAX_ROWS = 40
COLUMNS = ("parameters()", ".to(...)", "state_dict()")
# Dark and light tones of the Okabe-Ito palette; every kind also has a shape of its own.
COLOURS = {"module": "#4D4D4D", "container": "#4D4D4D", "parameter": "#0072B2", "buffer": "#007A5E"}
MISSED, MISSED_TINT = "#A84300", "#FCEBDD"
INK, FAINT, TRUNK = "#1A1A1A", "#6B6B6B", "#7A7A7A"
ROW, INDENT, LETTER = 0.34, 0.34, 0.098  # inches: height of a row, step of a level, width of a letter


@dataclass(frozen=True)
class Node:
    """One row of the tree.

    path: how Python reaches it from the model, "layers[0].weight" where a container is on the way; "" for the model.
    depth: 0 for the model, 1 for its attributes.
    kind: "module", "parameter", "buffer", "tensor" (a plain one) or "container" (a list, tuple, set or dict).
    detail: the class of a module or container; shape and dtype of a tensor, and whether a parameter is frozen.
    found: for a tensor, whether each of COLUMNS reaches it; None for a module or container.
    registered: False for what no register of the model leads to.
    same_as: path of the row that shows the same object, which is not followed twice.
    """

    path: str
    depth: int
    kind: str
    detail: str
    registered: bool = True
    found: tuple[bool, bool, bool] | None = None
    same_as: str | None = None

    @property
    def name(self) -> str:
        """The last part of the path."""
        if self.path.endswith("]"):
            return self.path[self.path.rindex("[") :]
        return self.path.rsplit(".", 1)[-1]


def draw_registration(model: nn.Module, *, title: str = "") -> None:
    """Show the parameters, buffers and submodules of a model as a tree, with those that it has not registered.

    model: at most 40 rows; a tree of a larger one would not be readable. Raises TooLargeToDraw (a ValueError) then,
        TypeError for anything but a module.
    title: what the model is; its class by default.

    Lists, tuples, sets and dicts among the attributes are searched as well: modules and tensors in them are what
    registration misses. Three columns say what `parameters()`, `to` and `state_dict()` reach.
    """
    nodes = registration_of(model)
    words = describe_registration(nodes)
    show_figure(registration_figure(nodes, title=title), alt=f"{title}: {words}" if title else words)


def registration_of(model: nn.Module) -> tuple[Node, ...]:
    """The rows of the tree, from top to bottom; see :func:`draw_registration`."""
    from torch import nn

    if not isinstance(model, nn.Module):
        raise TypeError(f"a module is needed to draw its registration, not {type(model).__name__}")
    nodes = tuple(_Walk(model).module(model, "", 0, True))
    if len(nodes) > MAX_ROWS:
        raise TooLargeToDraw(f"the tree has {len(nodes)} rows; at most {MAX_ROWS} can be drawn, so draw a submodule")
    return nodes


class _Walk:
    """Goes through a model once, own parameters first, then buffers, submodules, and what is not registered."""

    def __init__(self, model: nn.Module) -> None:
        self.seen: dict[int, str] = {}
        # A list of layers that are registered elsewhere hides nothing.
        self.known = {id(thing) for thing in (*model.modules(), *model.parameters(), *model.buffers())}

    def module(self, module: nn.Module, path: str, depth: int, registered: bool) -> Iterator[Node]:
        from torch import nn

        before = self._seen_before(module, path)
        yield Node(path, depth, "module", type(module).__name__, registered, same_as=before)
        if before is not None:
            return
        start = f"{path}." if path else ""
        for name, parameter in module._parameters.items():
            if parameter is not None:
                yield self.tensor(parameter, start + name, depth + 1, "parameter", (registered,) * 3)
        for name, buffer in module._buffers.items():
            if buffer is not None:
                saved = registered and name not in module._non_persistent_buffers_set
                yield self.tensor(buffer, start + name, depth + 1, "buffer", (False, registered, saved))
        for name, child in module._modules.items():
            if child is not None:
                yield from self.module(child, start + name, depth + 1, registered)
        own = vars(nn.Module())
        for name, value in vars(module).items():
            if name not in own:
                yield from self.unregistered(value, start + name, depth + 1)

    def unregistered(self, value: Any, path: str, depth: int) -> Iterator[Node]:
        """The rows of an ordinary attribute: none where no tensor or module is in it."""
        import torch
        from torch import nn

        if id(value) in self.known:
            return
        if isinstance(value, nn.Module):
            yield from self.module(value, path, depth, False)
        elif isinstance(value, torch.Tensor):
            kind = "parameter" if isinstance(value, nn.Parameter) else "tensor"
            yield self.tensor(value, path, depth, kind, (False, False, False))
        elif isinstance(value, (list, tuple, set, frozenset, dict)) and id(value) not in self.seen:
            self.seen[id(value)] = path
            items = value.items() if isinstance(value, dict) else enumerate(value)
            inside = [row for key, item in items for row in self.unregistered(item, f"{path}[{key!r}]", depth + 1)]
            if inside:
                yield Node(path, depth, "container", type(value).__name__, False)
                yield from inside

    def tensor(self, tensor: Any, path: str, depth: int, kind: str, found: tuple[bool, bool, bool]) -> Node:
        before = self._seen_before(tensor, path)
        from torch.nn.parameter import is_lazy

        detail = "no shape yet"
        if not is_lazy(tensor):
            detail = f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"
        if kind == "parameter" and not tensor.requires_grad:
            detail += ", frozen"
        return Node(path, depth, kind, detail, any(found), found, before)

    def _seen_before(self, thing: Any, path: str) -> str | None:
        """The path under which the same object was met, else None; from now on `path` is where it was met."""
        before = self.seen.get(id(thing))
        self.seen.setdefault(id(thing), path)
        return before


def describe_registration(nodes: tuple[Node, ...]) -> str:
    """The whole tree in words, a line for each row."""
    missed = [node for node in nodes if node.found is not None and not node.registered]
    count = sum(node.found is not None for node in nodes)
    lines = [
        f"The registration tree of a model of class {nodes[0].detail}: {count} tensors, "
        f"{len(missed)} of them not registered."
    ]
    for node in nodes[1:]:
        what = f"{node.kind} {node.detail}" if node.kind != "container" else f"a plain {node.detail}"
        line = f"{node.path}: {what}"
        if node.found is not None:
            reached = [column for column, yes in zip(COLUMNS, node.found, strict=True) if yes]
            line += f", reached by {', '.join(reached)}" if reached else ""
        if not node.registered:
            line += ", NOT registered"
        if node.same_as is not None:
            line += f", the same object as {node.same_as or 'the model'}"
        lines.append(line + ".")
    return "\n".join(lines)


def registration_figure(nodes: tuple[Node, ...], *, title: str = "") -> Figure:
    """The picture as a matplotlib figure that pyplot does not know; see :func:`draw_registration`."""
    import matplotlib
    from matplotlib.figure import Figure

    # The picture is the same whatever style the notebook has set, and leaves that style as it is.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        details = max(0.55 + INDENT * node.depth + LETTER * len(_label(node)) for node in nodes) + 0.3
        marks = details + 0.083 * max(len(_detail(node)) for node in nodes) + 0.75
        width, height = marks + 1.1 * len(COLUMNS), ROW * len(nodes) + 1.55
        figure = Figure(figsize=(width, height))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, width), ylim=(height, 0))
        axes.axis("off")
        _write(axes, 0.2, 0.3, title or f"What {nodes[0].detail} has registered", size=12, weight="bold")
        for number, column in enumerate(COLUMNS):
            _write(axes, marks + 1.1 * number, 0.65, column, size=9.5, weight="bold", ha="center")
        parents: dict[int, float] = {}
        for number, node in enumerate(nodes):
            y = 1.0 + ROW * number
            _draw_row(axes, node, y, parents, details, marks, width)
            parents[node.depth] = y
        _legend(axes, height - 0.28, nodes)
        return figure


def _label(node: Node) -> str:
    return node.name or "model"


def _detail(node: Node) -> str:
    if node.same_as is not None:
        return f"= {node.same_as or 'model'}"
    return node.detail


def _draw_row(
    axes: Axes, node: Node, y: float, parents: dict[int, float], details: float, marks: float, width: float
) -> None:
    from matplotlib.patches import Rectangle

    x = 0.3 + INDENT * node.depth
    colour = _colour(node)
    if not node.registered:
        axes.add_patch(Rectangle((0.1, y - ROW / 2), width - 0.2, ROW, facecolor=MISSED_TINT, edgecolor="none"))
    if node.depth:
        above, left = parents[node.depth - 1], x - INDENT
        # Solid lines cover the dashed ones, which come from the same parent.
        line = (
            {"color": TRUNK, "zorder": 2} if node.registered else {"color": MISSED, "ls": (0, (2, 1.5)), "zorder": 1.5}
        )
        axes.plot([left, left, x], [above + 0.09, y, y], lw=1.2, **line)
    _marker(axes, x, y, node)
    _write(axes, x + 0.2, y, _label(node), size=10.5, weight="bold", color=INK if node.registered else MISSED)
    _write(axes, details, y, _detail(node), size=9.5, color=FAINT if node.registered else MISSED)
    for number, yes in enumerate(node.found or ()):
        place = (marks + 1.1 * number, y)
        _write(
            axes, *place, "✓" if yes else "–", size=11, ha="center", color=colour, weight="bold" if yes else "normal"
        )
    if not node.registered and node.found is None and node.same_as is None:
        _write(axes, marks + 1.1, y, "not registered", size=9.5, ha="center", color=MISSED)


def _colour(node: Node) -> str:
    return COLOURS[node.kind] if node.registered else MISSED


def _marker(axes: Axes, x: float, y: float, node: Node) -> None:
    """Square for modules, disc for parameters, triangle for buffers; hollow diamond for all that is not registered."""
    shape = {"module": "s", "parameter": "o", "buffer": "^"}.get(node.kind, "D") if node.registered else "D"
    fill = _colour(node) if node.registered else "white"
    axes.plot([x], [y], marker=shape, ms=8, mfc=fill, mec=_colour(node), mew=1.6, zorder=3)


def _legend(axes: Axes, y: float, nodes: tuple[Node, ...]) -> None:
    x = 0.3
    shown = {node.kind for node in nodes if node.registered}
    entries = [Node(kind, 0, kind, "") for kind in ("module", "parameter", "buffer") if kind in shown]
    if not all(node.registered for node in nodes):
        entries.append(Node("not registered", 0, "tensor", "", registered=False))
    for entry in entries:
        _marker(axes, x, y, entry)
        _write(axes, x + 0.17, y, entry.path, size=9.5, color=_colour(entry))
        x += 0.5 + 0.085 * len(entry.path)


def _write(axes: Axes, x: float, y: float, text: str, *, color: str = INK, **font: Any) -> None:
    axes.text(x, y, text, va="center", color=color, parse_math=False, **({"ha": "left"} | font))
