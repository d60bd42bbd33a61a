"""The autograd graph as a picture: operations, leaves, what is saved for backward and what was freed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from course.figures.graph_layout import Placement, place
from course.figures.graph_nodes import FREED, HELD, LEAF, OPERATION, OVERWRITTEN, UNTRACKED, Graph, Node, graph_of
from course.figures.graph_nodes import describe as in_words
from course.figures.show import show_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch import Tensor

INK = "#1A1A1A"
FAINT = "#5F5F5F"
# Light tints of the Okabe-Ito palette; borders and hatches say the same without colour.
LOOKS: dict[str, dict[str, Any]] = {
    LEAF: {"facecolor": "#A6D5F2", "edgecolor": INK, "lw": 2.2},
    OPERATION: {"facecolor": "white", "edgecolor": INK, "lw": 1.2},
    UNTRACKED: {"facecolor": "#EFEFEF", "edgecolor": FAINT, "lw": 1.0, "ls": ":"},
    HELD: {"facecolor": "#F7CE7E", "edgecolor": INK, "lw": 0.8},
    FREED: {"facecolor": "white", "edgecolor": "#C9C9C9", "lw": 0.8, "hatch": "////"},
    OVERWRITTEN: {"facecolor": "#F3AE8B", "edgecolor": INK, "lw": 2.2, "ls": "--"},
}
LEGEND = {
    OPERATION: "operation: the grad_fn of its result",
    LEAF: "leaf: backward adds to its .grad",
    HELD: "tensor saved for backward",
    FREED: "saved tensor, freed by a backward",
    OVERWRITTEN: "saved tensor, overwritten in place",
    UNTRACKED: "not tracked: no gradient goes there",
}
# Lengths in inches, so that text of a fixed size fits its box.
LINE, SMALL_LINE, CHIP = 0.23, 0.2, 0.26
PAD, GAP, LAYER_GAP = 0.1, 0.3, 0.36
MARGIN, TOP, HEADING = 0.15, 0.6, 0.32
LEGEND_LINE = 0.26
CHARACTER, SMALL_CHARACTER = 0.098, 0.083


def draw_graph(output: Tensor, /, *, title: str = "", **names: Tensor) -> None:
    """Show the graph that autograd has recorded behind a tensor.

    output: the result of a small expression, at most 30 boxes.
    title: what to write above the picture, such as the expression.
    names: tensors to call by their names where they occur, as leaves, as results or saved: ``draw_graph(y, w=w, x=x)``.

    The output is on top, and the arrows go the way that backward goes. Blue boxes are leaves, with the gradient that
    they hold; orange stripes are tensors saved for backward; hatched ones were freed, dashed ones were overwritten in
    place since they were saved; grey boxes are inputs that are not tracked. Looking changes nothing in the graph.
    Raises TooLargeToDraw (a ValueError) for larger graphs, TypeError for what is not a tensor.
    """
    graph = graph_of(output, names)
    heading = title or "The graph that autograd recorded"
    show_figure(graph_figure(graph, title=title), alt=f"{heading}, from the output backwards:\n{in_words(graph)}")


def graph_figure(graph: Graph, *, title: str = "") -> Figure:
    """The picture as a matplotlib figure that pyplot does not know; see :func:`draw_graph`."""
    import matplotlib
    from matplotlib.figure import Figure

    # The picture is the same whatever style the notebook has set, and leaves that style as it is.
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        placement = place([_width(node) for node in graph.nodes], graph.edges, GAP)
        legend = [state for state in LEGEND if state in graph.states()]
        column = 0.6 + max(SMALL_CHARACTER * len(LEGEND[state]) for state in legend)
        width = max(
            max(c + _width(node) / 2 for c, node in zip(placement.centres, graph.nodes, strict=True)),
            CHARACTER * 1.15 * len(title),
            column,
        )
        columns = int(width / column)
        tops = _layer_tops(graph, placement, TOP + (HEADING if title else 0))
        height = tops[-1] - LAYER_GAP + 0.2 + LEGEND_LINE * -(-len(legend) // columns) + MARGIN
        figure = Figure(figsize=(width + 2 * MARGIN, height))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(-MARGIN, width + MARGIN), ylim=(height, 0))
        axes.axis("off")
        if title:
            _write(axes, 0, 0.2, title, size=12, weight="bold", ha="left")
        _draw_edges(axes, graph, placement, tops)
        for node, centre, layer in zip(graph.nodes, placement.centres, placement.layers, strict=True):
            _draw_box(axes, node, centre, tops[layer])
        _draw_start(axes, placement.centres[0], tops[0])
        _draw_legend(axes, legend, tops[-1] - LAYER_GAP + 0.3, column, columns)
        return figure


def _headline(node: Node) -> list[str]:
    return [node.name, node.title] if node.name else [node.title]


def _width(node: Node) -> float:
    small = [*node.notes, *(str(saved) for saved in node.saved)]
    longest = [CHARACTER * len(line) for line in _headline(node)] + [SMALL_CHARACTER * len(line) for line in small]
    return max(longest) + 2 * PAD + (0.1 if node.saved else 0)


def _height(node: Node) -> float:
    lines = LINE * len(_headline(node)) + SMALL_LINE * len(node.notes) + CHIP * len(node.saved)
    return lines + PAD + (0.04 if node.saved else 0)


def _layer_tops(graph: Graph, placement: Placement, first: float) -> list[float]:
    """The upper edge of every layer, and where one more would begin."""
    tops = [first]
    for layer in range(placement.depth):
        members = [node for node, where in zip(graph.nodes, placement.layers, strict=True) if where == layer]
        tops.append(tops[-1] + max(map(_height, members)) + LAYER_GAP)
    return tops


def _draw_box(axes: Axes, node: Node, centre: float, top: float) -> None:
    from matplotlib.patches import FancyBboxPatch, Rectangle

    width, height = _width(node), _height(node)
    corner = (centre - width / 2, top)
    style = "round,pad=0,rounding_size=0.12" if node.kind == LEAF else "square,pad=0"
    axes.add_patch(FancyBboxPatch(corner, width, height, boxstyle=style, **LOOKS[node.kind]))
    y = top + PAD / 2
    for line in _headline(node):
        weight = "bold" if line == node.name or node.kind == LEAF else "normal"
        _write(axes, centre, y + LINE / 2, line, size=11, weight=weight)
        y += LINE
    for line in node.notes:
        _write(axes, centre, y + SMALL_LINE / 2, line, size=9)
        y += SMALL_LINE
    for saved in node.saved:
        axes.add_patch(Rectangle((corner[0] + 0.06, y), width - 0.12, CHIP - 0.04, **LOOKS[saved.state]))
        _write(axes, centre, y + (CHIP - 0.04) / 2, str(saved), size=9, plate=saved.state == FREED)
        y += CHIP


def _draw_edges(axes: Axes, graph: Graph, placement: Placement, tops: list[float]) -> None:
    """Lines from the lower edge of the user to the upper edge of what it used, each with a place of its own."""
    from matplotlib.patches import FancyArrowPatch, PathPatch
    from matplotlib.path import Path

    leaving = {n: [i for i, edge in enumerate(graph.edges) if edge[0] == n] for n in range(len(graph.nodes))}
    arriving = {n: [i for i, edge in enumerate(graph.edges) if edge[1] == n] for n in range(len(graph.nodes))}
    for number, (user, used) in enumerate(graph.edges):
        start = _port(graph, placement, user, leaving[user], number, end=1)
        end = _port(graph, placement, used, arriving[used], number, end=0)
        points = [(start, tops[placement.layers[user]] + _height(graph.nodes[user]))]
        for step, x in enumerate(placement.routes[number], start=placement.layers[user] + 1):
            points += [(x, tops[step] - 0.05), (x, tops[step + 1] - LAYER_GAP + 0.05)]
        if len(points) > 1:
            axes.add_patch(PathPatch(Path(points), facecolor="none", edgecolor=INK, lw=1.3, zorder=0.5))
        tip = (end, tops[placement.layers[used]])
        look = {"arrowstyle": "-|>", "mutation_scale": 13, "lw": 1.3, "color": INK, "shrinkA": 0, "shrinkB": 0}
        axes.add_patch(FancyArrowPatch(points[-1], tip, zorder=0.5, **look))


def _port(graph: Graph, placement: Placement, box: int, users: list[int], edge: int, *, end: int) -> float:
    """Where an edge leaves or enters a box: the edges of one side, ordered by where they go, share its width."""

    def towards(other: int) -> tuple[float, int]:
        route = placement.routes[other]
        far = graph.edges[other][end]
        return ((route[0] if end else route[-1]) if route else placement.centres[far], other)

    place_in_row = sorted(users, key=towards).index(edge)
    share = (place_in_row + 1) / (len(users) + 1) - 0.5
    return placement.centres[box] + share * _width(graph.nodes[box]) * 0.8


def _draw_start(axes: Axes, centre: float, top: float) -> None:
    from matplotlib.patches import FancyArrowPatch

    look = {"arrowstyle": "-|>", "mutation_scale": 13, "lw": 1.3, "color": INK, "shrinkA": 0, "shrinkB": 0}
    axes.add_patch(FancyArrowPatch((centre, top - 0.3), (centre, top), **look))
    _write(axes, max(centre, 0.95), top - 0.4, "backward() starts here", size=9, color=FAINT)


def _draw_legend(axes: Axes, legend: list[str], top: float, column: float, columns: int) -> None:
    from matplotlib.patches import Rectangle

    for number, state in enumerate(legend):
        row, left = number // columns, column * (number % columns)
        y = top + LEGEND_LINE * row
        axes.add_patch(Rectangle((left + 0.02, y - 0.07), 0.26, 0.15, **{**LOOKS[state], "lw": 1.0}))
        _write(axes, left + 0.38, y, LEGEND[state], size=9, color=FAINT, ha="left")


def _write(
    axes: Axes, x: float, y: float, text: str, *, ha: str = "center", color: str = INK, plate: bool = False, **font: Any
) -> None:
    # A plate keeps text readable on a hatched ground.
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0} if plate else None
    axes.text(x, y, text, ha=ha, va="center", color=color, parse_math=False, bbox=box, **font)
