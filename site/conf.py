"""How Sphinx makes the site; `make site` writes the pages that it reads (course/publishing/site.py)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

project = "PyTorch course"
author = "the course authors"
html_title = project
language = "en"

extensions = ["myst_nb"]
# The stored outputs are the ones that were verified.
nb_execution_mode = "off"
nb_merge_streams = True
myst_enable_extensions = ["deflist", "dollarmath"]
# Every heading is a place to link to.
myst_heading_anchors = 3
nitpicky = True
# Quotes, dashes and dots stay as they are written: people search for the text of errors.
smartquotes = False

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["course.css"]
html_js_files = [("highlight.js", {"priority": 100})]
html_favicon = "static/favicon.svg"
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
templates_path = ["templates"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
html_domain_indices = False
html_use_index = False
html_theme_options = {"top_of_page_buttons": []}
# Nothing is fetched from elsewhere: no MathJax, formulas are MathML, which browsers and screen readers know.
html_math_renderer = "mathml"


def visit_math(translator: Any, node: nodes.Element) -> None:
    """Write a formula as MathML."""
    formula = re.sub(r"\\text\{[^}]*\}", lambda found: found[0].replace(r"\_", "_"), node.astext())
    block = isinstance(node, nodes.math_block)
    made = tex2mathml(formula, as_block=block)
    translator.body.append(f'<div class="math">{made}</div>' if block else f'<span class="math">{made}</span>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx, when `app.srcdir` is known."""
    # Pictures of lessons, which their pages name themselves.
    app.config.html_extra_path = [str(Path(app.srcdir) / "extra")]
    app.add_html_math_renderer("mathml", inline_renderers=(visit_math, None), block_renderers=(visit_math, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
