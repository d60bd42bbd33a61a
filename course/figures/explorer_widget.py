"""The live part of the stride explorer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from course.figures.layout import Index, Layout
from course.figures.live import between_cells
from course.figures.views import next_index, picture_html, sentence


class StrideExplorer(anywidget.AnyWidget):
    """Controls to choose a view and one of its elements, above a sentence and the picture.

    view: the chosen expression, one of `views`. index: the chosen element, one number for each entry of `shape`.
    sentence, picture: what is said and drawn about it. `explorer.js` draws the controls and sends what they ask for.
    """

    _esm = Path(__file__).with_name("explorer.js")
    _css = Path(__file__).with_name("controls.css")

    views = traitlets.List(traitlets.Unicode()).tag(sync=True)
    view = traitlets.Unicode().tag(sync=True)
    shape = traitlets.List(traitlets.Int()).tag(sync=True)
    index = traitlets.List(traitlets.Int()).tag(sync=True)
    sentence = traitlets.Unicode().tag(sync=True)
    picture = traitlets.Unicode().tag(sync=True)
    answered = traitlets.Int(0).tag(sync=True)

    def __init__(self, views: Mapping[str, Layout]) -> None:
        self._layouts = dict(views)
        super().__init__(views=list(self._layouts))
        self.choose(self.views[0])
        self.on_msg(lambda _widget, content, _buffers: between_cells(lambda: self.answer(content)))

    def choose(self, view: str, index: Index | None = None) -> None:
        """Show a view with one of its elements marked; an index beyond the view's shape is brought into it.

        index: by default the one chosen before, as far as the view has those axes.
        """
        layout = self._layouts[view]
        wanted = [*(self.index if index is None else index), *[0] * len(layout.shape)]
        place = tuple(max(0, min(int(at), size - 1)) for at, size in zip(wanted, layout.shape, strict=False))
        with self.hold_sync():
            self.view, self.shape, self.index = view, list(layout.shape), list(place)
            self.sentence = sentence(view, layout, place)
            self.picture = picture_html(view, layout, place)

    def step(self, count: int) -> None:
        """Go on by so many elements, in row-major order."""
        layout = self._layouts[self.view]
        self.choose(self.view, next_index(layout, tuple(self.index), count))

    def answer(self, request: Mapping[str, Any]) -> None:
        """Do what a control asks for: {"do": "view" | "index" | "step", "value": ..., "number": of the request}."""
        do, value = request.get("do"), request.get("value")
        with self.hold_sync():
            if do == "view" and value in self._layouts:
                self.choose(value)
            elif do == "index" and isinstance(value, list):
                self.choose(self.view, tuple(value))
            elif do == "step" and value in (-1, 1):
                self.step(value)
            self.answered = request.get("number", 0)
