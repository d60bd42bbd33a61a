"""Copies as Jupyter trusts them: else it shows stored outputs without what makes them readable."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

from course.workspace.notebooks import Notebook


def sign(notebook: Notebook, *, like: Notebook | None = None) -> bool:
    """Note in Jupyter's own database that this notebook can be trusted: the course brings it, or `like` was trusted.

    Return whether that worked. Where it does not (no home directory, a read-only or damaged database), the lesson shows
    the same once its cells were run.
    """
    with contextlib.suppress(Exception):
        # Late: a `course lab` that has nothing to sign leaves these seconds to the server.
        import nbformat
        from jupyter_core.paths import jupyter_data_dir
        from nbformat.sign import NotebookNotary

        folder = Path(jupyter_data_dir())
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        notary = NotebookNotary(data_dir=str(folder), log=logging.Logger("course.trust", logging.CRITICAL))
        if like is not None and not notary.check_signature(nbformat.from_dict(like.content)):
            return False
        node = nbformat.from_dict(notebook.content)
        notary.sign(node)
        trusted = notary.check_signature(node)
        notary.store.close()
        return trusted
    return False
