from __future__ import annotations

import sys
from fractions import Fraction

from course.data.processes import printed_by_script, unpickled_elsewhere


def test_what_a_new_process_can_load(monkeypatch):
    class FromACell:
        __module__, __qualname__ = "__main__", "FromACell"

    monkeypatch.setattr(sys.modules["__main__"], "FromACell", FromACell, raising=False)
    assert unpickled_elsewhere(Fraction(1, 2)) == "Fraction"
    assert unpickled_elsewhere([1, 2]) == "list"
    assert "attribute 'FromACell'" in unpickled_elsewhere(FromACell())


def test_what_a_script_prints():
    assert printed_by_script("print('hello')") == "hello"
    assert printed_by_script("raise RuntimeError('no. more')") == "RuntimeError: no."
