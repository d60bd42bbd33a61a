"""Where data are looked for, and where what was made from them is kept."""

from __future__ import annotations

import os
from pathlib import Path

CACHE_VARIABLE = "COURSE_CACHE"
DATA_VARIABLE = "COURSE_DATA"


def home() -> Path:
    """The folder of data and of what is made from them: $COURSE_HOME, else the user's cache folder of this system."""
    named = os.environ.get("COURSE_HOME")
    if named:
        return Path(named).expanduser()
    import platformdirs

    return platformdirs.user_cache_path("pytorch-course", appauthor=False)


def cache() -> Path:
    """Where decoded and drawn images are kept, all of which can be made again: $COURSE_CACHE, else home()/cache."""
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named).expanduser() if named else home() / "cache"


def data_folder(root: str | os.PathLike[str] | None = None) -> tuple[Path, bool]:
    """Where to look for CIFAR-10, and whether somebody named it: `root`, else $COURSE_DATA, else home()/data."""
    named = root if root is not None else os.environ.get(DATA_VARIABLE)
    if named:
        return Path(named).expanduser(), True
    return home() / "data", False
