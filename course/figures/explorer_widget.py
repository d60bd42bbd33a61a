"""The live part of the stride explorer."""

from __future__ import annotations

import html
from collections.abc import Mapping

import ipywidgets as widgets

from course.figures.layout import Index, Layout
from course.figures.views import next_index, picture_html, sentence

# JupyterLab takes most keys for itself while a list or a button has the focus; these it leaves alone.
KEYS = "Keyboard: Space opens the list of views, arrow keys change an index, Enter presses a button."


class StrideExplorer(widgets.VBox):
    """Controls to choose a view and one of its elements, above the picture and a sentence.

    Number boxes and text buttons rather than sliders: their labels are tied to them, so that screen readers name
    them, and all work from the keyboard. Classes for tests: ``course-stride-explorer`` and, within it,
    ``course-view``, ``course-index``, ``course-previous``, ``course-next``, ``course-sentence``, ``course-picture``.
    """

    def __init__(self, views: Mapping[str, Layout]) -> None:
        self._views = dict(views)
        self._updating = False
        wide = {"description_width": "initial"}
        self.view = widgets.Dropdown(options=list(self._views), description="View of x", style=wide)
        self.indices = [
            widgets.BoundedIntText(min=0, description=f"Index {axis}", style=wide, layout=widgets.Layout(width="8em"))
            for axis in range(max(len(layout.shape) for layout in self._views.values()))
        ]
        self.previous = widgets.Button(description="Previous element")
        self.next = widgets.Button(description="Next element")
        self.sentence = widgets.HTML()
        self.picture = widgets.HTML()
        named = {
            "view": self.view,
            "previous": self.previous,
            "next": self.next,
            "sentence": self.sentence,
            "picture": self.picture,
        }
        for name, widget in named.items():
            widget.add_class(f"course-{name}")
        for box in self.indices:
            box.add_class("course-index")
            box.observe(self._redraw, names="value")
        self.view.observe(self._change_view, names="value")
        self.previous.on_click(lambda _: self._step(-1))
        self.next.on_click(lambda _: self._step(1))
        place = widgets.HBox([*self.indices, self.previous, self.next])
        place.layout.flex_flow = "row wrap"
        keys = widgets.HTML(f"<div>{KEYS}</div>")
        super().__init__([self.view, place, keys, self.sentence, self.picture])
        self.add_class("course-stride-explorer")
        self._change_view()

    def __repr__(self) -> str:
        return "Stride explorer: run this cell to choose a view of x and one of its elements."

    @property
    def chosen(self) -> Layout:
        return self._views[self.view.value]

    @property
    def index(self) -> Index:
        return tuple(box.value for box in self.indices[: len(self.chosen.shape)])

    def choose(self, index: Index) -> None:
        """Mark an element of the present view."""
        self._updating = True
        for box, value in zip(self.indices, index, strict=False):
            box.value = value
        self._updating = False
        self._redraw()

    def _change_view(self, _change: object = None) -> None:
        self._updating = True
        shape = self.chosen.shape
        for axis, box in enumerate(self.indices):
            used = axis < len(shape)
            box.max = shape[axis] - 1 if used else 0  # clips the value
            box.layout.display = None if used else "none"
        self._updating = False
        self._redraw()

    def _step(self, step: int) -> None:
        self.choose(next_index(self.chosen, self.index, step))

    def _redraw(self, _change: object = None) -> None:
        if self._updating:
            return
        expression, layout, index = self.view.value, self.chosen, self.index
        self.sentence.value = f"<div>{html.escape(sentence(expression, layout, index))}</div>"
        self.picture.value = picture_html(expression, layout, index)
