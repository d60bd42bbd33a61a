"""explain never raises, whatever it is given, and stays quick on what is large or made to be slow."""

# ruff: noqa: E501 - texts stand as they are printed

from __future__ import annotations

import builtins
import random
import time

import pytest

from course.doctor.explain import Explanation, explain

from .test_reading import FAULT, PLAIN, SHAPES

# On a quiet machine each takes below 100 ms; the bound leaves room for a loaded one, and still catches what grows
# with the square of the length, which takes minutes.
SECONDS = 1.5


def sound(found: object) -> bool:
    assert isinstance(found, Explanation)
    assert bool(found) != bool(found.note)
    for finding in found:
        assert set(finding) >= {"fault", "title", "lesson", "why", "fix", "confidence"}
        assert 0 < finding.confidence <= 1
    assert found.text()
    assert found._repr_html_().startswith("<div")
    return True


def seconds_of(text: object) -> float:
    started = time.process_time()
    assert sound(explain(text))
    return time.process_time() - started


@pytest.mark.parametrize(
    "given",
    [None, "", " \n\t", 3, 2.5, object(), b"", [], {}, (1, 2), ValueError, ["a", 3], float("nan"), "\x00", "\ud800"],
)
def test_nonsense(given):
    assert sound(explain(given))
    assert not explain(given)


def test_every_truncation():
    shapes = [shape for shape in SHAPES.values() if isinstance(shape, str)]
    for text in (PLAIN, *shapes[::6]):
        for end in range(0, len(text), 7):
            assert sound(explain(text[:end]))
            assert sound(explain(text[end:]))
    assert explain(PLAIN[:-1])[0].fault == FAULT


def test_random_text():
    draw = random.Random(0)
    pieces = [
        "Traceback (most recent call last):\n",
        '  File "a.py", line ',
        "RuntimeError: ",
        "\n",
        " ",
        "x",
        "[",
        "(",
        "\x1b[",
        "'",
        "3",
        "size",
        "│ ",
        "-->",
        "In [3]",
        "Warning: ",
        "é",
        "学",
    ]
    for _ in range(400):
        assert sound(explain("".join(draw.choice(pieces) for _ in range(draw.randrange(120)))))
    for _ in range(50):
        assert sound(explain("".join(chr(draw.randrange(1, 0x2FFF)) for _ in range(300))))
        assert sound(explain(draw.randbytes(300)))


def test_mutated_tracebacks():
    draw = random.Random(1)
    for text in (PLAIN, SHAPES["IPython"], SHAPES["exception group"], SHAPES["torchrun"]):
        for _ in range(60):
            place, length = draw.randrange(len(text)), draw.randrange(30)
            assert sound(
                explain(text[:place] + draw.choice(["", "\x1b[31m", "\n\n", "(((", '"']) + text[place + length :])
            )


LOG = "".join(
    f"2026-01-01 12:00:00,{n % 1000:03} INFO trainer: epoch {n // 100} step {n} loss 0.{n} lr 0.001 throughput 1234 img/s\n"
    for n in range(11_000)
)
LARGE = {
    "a log": LOG,
    "one line": "a" * 1_000_000,
    "brackets": "(" * 500_000 + ")" * 500_000,
    "spaces": " " * 1_000_000,
    "line ends": "\n" * 1_000_000,
    "escapes": "\x1b[" * 400_000,
    "equal errors": "ValueError: foo bar baz\n" * 42_000,
    "unlike errors": "".join(f"ValueError: foo {'x' * (n % 50)} bar\n" for n in range(30_000)),
    "frames": "Traceback (most recent call last):\n" + '  File "/a/b.py", line 3, in f\n    foo(bar)\n' * 22_000,
    "tracebacks": (PLAIN.replace("Target 10 is out", "hello")) * 1_100,
    "warnings": "/a/b.py:12: UserWarning: something odd here\n  x = y\n" * 18_000,
    "a long message": "RuntimeError: " + "[1, 2], " * 120_000,
    "numbers": "RuntimeError: Expected hidden size (" + "1, " * 330_000,
    "quotes": "'" * 500_000 + "\\'" * 250_000,
    "dots": "a." * 500_000,
    "names": "torch.nn.modules." * 60_000 + "Error: x",
    "keys": "RuntimeError: Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: "
    + '"layer.weight", ' * 60_000,
    "notebook": '{"cells": [' + '{"outputs": []}, ' * 60_000 + "]}",
}


@pytest.mark.parametrize("kind", LARGE)
def test_a_megabyte(kind):
    explain("warm up")
    assert seconds_of(LARGE[kind]) < SECONDS


@pytest.mark.parametrize("place", [0.0, 0.3, 0.5, 0.99])
def test_an_error_is_found_anywhere_in_a_large_log(place):
    cut = LOG.index("\n", int(len(LOG) * place)) + 1
    text = LOG[:cut] + PLAIN + LOG[cut:]
    assert explain(text)[0].fault == FAULT
    assert seconds_of(text) < SECONDS


def test_rules_take_linear_time():
    """Texts made of what the patterns look for, repeated: none may take long on them."""
    import re

    from course.doctor.explain.rank import rules

    for rule in rules():
        seed = re.sub(r"\\[dws]|\.|[()?:|\[\]{}+*^$\\]", " ", rule.pattern)[:60] or "x"
        for filler in (seed, f"{seed} 1, ", "1, 2] [", "a.b_c ", "'x' "):
            text = (filler * 3_000)[:12_000]
            started = time.process_time()
            rule.regex.search(text)
            assert time.process_time() - started < 0.5, rule.pattern


def test_errors_that_cannot_be_printed():
    class Odd(Exception):
        def __str__(self):
            raise RuntimeError("no")

        def __getattr__(self, name):
            raise RuntimeError(name)

    class Loop(Exception):
        pass

    one, two = Loop("one"), Loop("two")
    one.__cause__, two.__cause__ = two, one
    group = getattr(builtins, "ExceptionGroup", None)  # since Python 3.11
    for error in (Odd(), one, BaseException(), *([group("g", [ValueError("x")])] if group else ())):
        assert sound(explain(error))


def test_odd_objects_in_the_frame():
    class Odd:
        def __getattr__(self, name):
            raise RuntimeError(name)

        def __eq__(self, other):
            raise RuntimeError("eq")

        __hash__ = None

    def fail(odd, table):
        raise IndexError(f"Target {10} is out of bounds.")

    with pytest.raises(IndexError) as caught:
        fail(Odd(), {"a": [Odd()]})
    assert explain(caught.value)[0].fault == FAULT


def test_recursion_error():
    def deeper(n):
        return deeper(n + 1)

    with pytest.raises(RecursionError) as caught:
        deeper(0)
    assert sound(explain(caught.value))
