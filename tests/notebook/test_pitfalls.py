from __future__ import annotations

import html
import re
import warnings

import numpy as np
import pytest
import torch

from course.faults import UnknownFault, fault
from course.notebook.pitfalls import MIME, PitfallMissing, pitfall, scrub


def view_transposed():
    return torch.arange(6).reshape(2, 3).t().view(6)


def test_shows_the_error_the_line_why_and_fix(shown):
    with pitfall("view-of-noncontiguous", RuntimeError):
        torch.arange(6).reshape(2, 3).t().view(6)
    entry = fault("view-of-noncontiguous")
    (output,) = shown
    for part in (
        "----> torch.arange(6).reshape(2, 3).t().view(6)",
        "RuntimeError: view size is not compatible with input tensor's size and stride",
        f"why: {entry.why}",
        f"fix: {entry.fix}",
        entry.title,
    ):
        assert part in output.text
    assert output.data[MIME]["fault"] == "view-of-noncontiguous"
    assert output.data[MIME]["seen"].startswith("RuntimeError: view size")


def test_html_holds_the_same_words(shown):
    with pitfall("view-of-noncontiguous", RuntimeError):
        view_transposed()
    (output,) = shown
    words = html.unescape(re.sub(r"<[^>]+>", " ", output.html)).split()
    for word in output.text.replace("`", " ").replace("why:", "why").replace("fix:", "fix").split():
        assert word in " ".join(words), word


def test_line_is_the_deepest_one_of_the_cell(shown):
    with pitfall("view-of-noncontiguous", RuntimeError):
        view_transposed()
    assert "----> return torch.arange(6).reshape(2, 3).t().view(6)" in shown[0].text


def test_lines_of_libraries_are_not_shown(shown):
    with pitfall("float64-input", RuntimeError):
        torch.nn.Linear(2, 1)(torch.zeros(1, 2, dtype=torch.float64))
    assert "----> torch.nn.Linear(2, 1)" in shown[0].text
    assert "F.linear" not in shown[0].text


def test_missing_error_is_an_error(shown):
    with (
        pytest.raises(PitfallMissing, match="view-of-noncontiguous: RuntimeError was expected and did not come"),
        pitfall("view-of-noncontiguous", RuntimeError),
    ):
        torch.arange(6).view(6)
    assert shown == []


def test_one_of_several_classes_is_enough(shown):
    with pitfall("tensor-truth-value", TypeError, RuntimeError):
        bool(torch.zeros(2))
    assert shown[0].text.count("RuntimeError: ") == 1


def fail_in(block, error):
    with block as p:
        p.shows(seen=1, wanted=2)
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, ZeroDivisionError])
@pytest.mark.parametrize("expected", [(), (RuntimeError,), (UserWarning,)], ids=["silent", "loud", "warning"])
def test_other_exceptions_pass_through(shown, error, expected):
    with pytest.raises(error):
        fail_in(pitfall("tensor-truth-value", *expected), error)
    assert shown == []


@pytest.mark.parametrize("kind", [KeyboardInterrupt, BaseException, "RuntimeError", None, RuntimeError("x")])
def test_only_ordinary_exceptions_can_be_expected(kind):
    with pytest.raises(TypeError, match="exception or warning classes"):
        pitfall("tensor-truth-value", kind)


def test_warning_stands_for_an_exception(shown):
    with pitfall("broadcast-outer-product", UserWarning):
        torch.nn.functional.mse_loss(torch.zeros(4, 1), torch.zeros(4))
    assert "----> torch.nn.functional.mse_loss(torch.zeros(4, 1), torch.zeros(4))" in shown[0].text
    assert "UserWarning: Using a target size (torch.Size([4]))" in shown[0].text


def test_warning_is_caught_where_warnings_are_errors(shown):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pitfall("broadcast-outer-product", UserWarning):
            torch.nn.functional.mse_loss(torch.zeros(4, 1), torch.zeros(4))
    assert len(shown) == 1


def test_warning_that_comes_once_in_a_process_comes_again(shown):
    before = torch.is_warn_always_enabled()
    for _ in range(2):
        with pitfall("numpy-readonly-alias", UserWarning):
            torch.from_numpy(np.frombuffer(bytes(4), dtype=np.uint8))
    assert shown[0].text == shown[1].text
    assert torch.is_warn_always_enabled() == before
    assert "Triggered internally" not in shown[0].text


def test_missing_warning_is_an_error():
    with (
        pytest.raises(PitfallMissing, match="UserWarning was expected"),
        pitfall("broadcast-outer-product", UserWarning),
    ):
        torch.nn.functional.mse_loss(torch.zeros(4), torch.zeros(4))


def test_other_warnings_are_passed_on_and_the_rest_restored(shown):
    with warnings.catch_warnings(record=True) as passed:
        warnings.simplefilter("always")
        before = list(warnings.filters), warnings.showwarning
        with pitfall("broadcast-outer-product", UserWarning):
            warnings.warn("ours", UserWarning, stacklevel=1)
            warnings.warn("another", RuntimeWarning, stacklevel=1)
        assert (list(warnings.filters), warnings.showwarning) == before
    assert [str(entry.message) for entry in passed] == ["another"]
    assert "UserWarning: ours" in shown[0].text


def test_silent_pitfall_shows_both_values(shown):
    with pitfall("uint8-overflow") as p:
        p.shows(seen=torch.tensor([250], dtype=torch.uint8) + 10, wanted=torch.tensor([260]))
    assert "seen:\n    tensor([4], dtype=torch.uint8)" in shown[0].text
    assert "wanted:\n    tensor([260])" in shown[0].text
    assert shown[0].data[MIME]["seen"] == "tensor([4], dtype=torch.uint8)\nshape (1,), torch.uint8"


@pytest.mark.parametrize(
    "pair",
    [
        {"seen": torch.Size([4, 4]), "wanted": (4,)},
        {"seen": torch.float64, "wanted": torch.float32},
        {"seen": 0.25, "wanted": 1.0},
        {"seen": torch.ones(2), "wanted": torch.ones(2, dtype=torch.float64)},
        {"seen": "one answer", "wanted": "another"},
    ],
)
def test_values_that_differ_are_shown(shown, pair):
    with pitfall("uint8-overflow") as p:
        p.shows(**pair)
    assert len(shown) == 1


@pytest.mark.parametrize(
    "pair",
    [
        {"seen": torch.ones(2), "wanted": torch.ones(2)},
        {"seen": torch.Size([4]), "wanted": (4,)},
        {"seen": 3, "wanted": 3.0},
        {"seen": float("nan"), "wanted": float("nan")},
    ],
)
def test_values_that_agree_are_an_error(shown, pair):
    with pytest.raises(PitfallMissing, match="does not show here"), pitfall("uint8-overflow") as p:
        p.shows(**pair)
    assert shown == []


@pytest.mark.parametrize("pair", [{}, {"seen": 1}, {"wanted": 1}])
def test_both_values_must_be_given(pair):
    with pytest.raises(PitfallMissing, match="needs both"), pitfall("uint8-overflow") as p:
        p.shows(**pair)


def test_nothing_shown_is_an_error():
    with pytest.raises(PitfallMissing, match="nothing went wrong"), pitfall("uint8-overflow"):
        pass


def test_a_warning_and_a_difference_are_both_shown(shown):
    with pitfall("numpy-readonly-alias", UserWarning) as p:
        data = np.frombuffer(bytes(2), dtype=np.uint8)
        torch.from_numpy(data)[0] = 9
        p.shows(seen=data.tolist(), wanted=[0, 0])
    assert "UserWarning: The given NumPy array is not writable" in shown[0].text
    assert "seen: [9, 0]" in shown[0].text


def test_later_changes_do_not_reach_what_was_shown(shown):
    x = torch.zeros(1)
    with pitfall("numpy-shared-memory") as p:
        p.shows(seen=x, wanted=torch.ones(1))
        x.fill_(5)
    assert "tensor([0.])" in shown[0].text


def test_unknown_fault_is_one_line():
    with pytest.raises(UnknownFault) as caught:
        pitfall("uint8-overflw")
    assert caught.value._render_traceback_() == [f"UnknownFault: {caught.value}"]
    assert "uint8-overflow" in str(caught.value)


def test_output_is_the_same_twice(shown):
    for _ in range(2):
        with pitfall("tensor-truth-value", ValueError):
            raise ValueError(f"an object {object()!r}")
    assert shown[0] == shown[1]
    assert "<object object at 0x…>" in shown[0].text


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("at 0x7f3a12bc9d80 now", "at 0x… now"),
        ("x (Triggered internally at /pytorch/torch/csrc/a.cpp:213.)", "x"),
        ("cannot open /home/me/data/x.pt", "cannot open …/x.pt"),
        ("in '/opt/lib/torch/nn/modules/linear.py:125'", "in '…/linear.py'"),
        (r"cannot open C:\Users\me\x.pt", "cannot open …/x.pt"),
        ("see https://pytorch.org/docs/stable/x.html", "see https://pytorch.org/docs/stable/x.html"),
        ("train/val and km/h, 3 / 4", "train/val and km/h, 3 / 4"),
        ("\x1b[31mred\x1b[0m", "red"),
    ],
)
def test_scrub(text, clean):
    assert scrub(text) == clean
