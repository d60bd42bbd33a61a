"""Imported by every Python process that has this folder on PYTHONPATH: guards it, then hands on."""

import importlib.machinery
import importlib.util
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))


def _load(name, spec):
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


# By its path: importing `course` here would make every small subprocess pay for it.
_guard = os.path.join(os.path.dirname(_here), "__init__.py")
_load("_course_guard", importlib.util.spec_from_file_location("_course_guard", _guard)).install()

_others = [path for path in sys.path if os.path.abspath(path or os.curdir) != _here]
_next = importlib.machinery.PathFinder.find_spec("sitecustomize", _others)
if _next is not None:
    _load("sitecustomize", _next)
