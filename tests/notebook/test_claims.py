from __future__ import annotations

import json
import math

import pytest
import torch

from course import curriculum
from course.notebook import session
from course.notebook.claims import MIME, ClaimFailed, claim
from course.notebook.display import NotebookError


@pytest.fixture(autouse=True)
def recorded(monkeypatch, tmp_path):
    """The file of recorded claims, absent at first, and lesson 01 begun."""
    path = tmp_path / "recorded.json"
    monkeypatch.setattr(curriculum, "recorded_path", lambda: path)
    monkeypatch.setattr(session, "_lesson", curriculum.lesson("01"))
    return path


def test_true_exact_claim(shown):
    claim("bytes of a view", 0, equals=0, unit="bytes")
    (output,) = shown
    assert output.text == "✓ bytes of a view: holds\n  stated: 0 bytes\n  here: 0 bytes"
    assert output.data[MIME] == {
        "name": "bytes of a view",
        "kind": "exact",
        "stated": "0 bytes",
        "low": None,
        "high": None,
        "value": 0,
        "unit": "bytes",
        "verdict": "holds",
    }


def test_false_exact_claim_is_shown_and_fails(shown):
    with pytest.raises(ClaimFailed, match="strides: \\(1, 4\\) was found, \\(4, 1\\) is stated") as caught:
        claim("strides", (1, 4), equals=(4, 1))
    assert shown[0].data[MIME]["verdict"] == "does not hold here"
    assert len(caught.value._render_traceback_()) == 1


@pytest.mark.parametrize(
    ("value", "equals", "true"),
    [
        (torch.arange(2), torch.arange(2), True),
        (torch.arange(2), torch.arange(2.0), False),
        (torch.tensor(3), 3, True),
        (True, True, True),
        (None, None, True),
        (None, 1, False),
    ],
)
def test_exact_claims_compare_values(shown, value, equals, true):
    if value is None and equals is not None:
        with pytest.raises(NotebookError, match="give reason="):
            claim("x", value, equals=equals)
    elif true:
        claim("x", value, equals=equals)
    else:
        with pytest.raises(ClaimFailed):
            claim("x", value, equals=equals)


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        (1.3, "holds"),
        (1.2, "holds"),
        (1.4, "holds"),
        (1.41, "does not hold here"),
        (0.5, "does not hold here"),
        (float("nan"), "does not hold here"),
        (torch.tensor(1.3), "holds"),
    ],
)
def test_measured_claims_never_fail(shown, value, verdict):
    claim("speed", value, stated="20-40 % faster", low=1.2, high=1.4, unit="x")
    data = shown[0].data[MIME]
    assert data["verdict"] == verdict
    assert data["kind"] == "measured"
    assert (data["low"], data["high"], data["stated"]) == (1.2, 1.4, "20-40 % faster")
    json.dumps(data, allow_nan=False)


@pytest.mark.parametrize(
    ("ends", "verdict", "stated"),
    [
        ({"low": 2}, "holds", "at least 2 x"),
        ({"low": 4}, "does not hold here", "at least 4 x"),
        ({"high": 2}, "does not hold here", "at most 2 x"),
        ({"high": math.inf}, "holds", "at most inf x"),
        ({"low": 2.5, "high": 3.5}, "holds", "2.5 to 3.5 x"),
    ],
)
def test_ends_may_be_open(shown, ends, verdict, stated):
    claim("speed", 3.0, unit="x", **ends)
    assert shown[0].data[MIME]["verdict"] == verdict
    assert f"stated: {stated}" in shown[0].text


def test_not_measurable_here_gives_the_reason(shown):
    claim("GPU use", None, low=0.5, reason="there is no GPU")
    assert shown[0].data[MIME]["verdict"] == "not measurable here"
    assert shown[0].data[MIME]["value"] is None
    assert "here: – (there is no GPU)" in shown[0].text
    claim("GPU bytes", None, equals=4, reason="there is no GPU")
    assert shown[1].data[MIME]["verdict"] == "not measurable here"


@pytest.mark.parametrize(
    "arguments",
    [{"value": 1}, {"value": 1, "equals": 1, "low": 0}, {"value": None, "low": 1}],
    ids=["neither", "both", "no reason"],
)
def test_unclear_claims_are_errors(shown, arguments):
    with pytest.raises(NotebookError, match="claim 'x'"):
        claim("x", **arguments)
    assert shown == []


def test_stated_recorded_and_here_side_by_side(shown, recorded):
    recorded.write_text(
        json.dumps(
            {
                "lessons": {
                    "01": {
                        "speed": {
                            "value": 1.31,
                            "unit": "x",
                            "verdict": "holds",
                            "device": "cpu",
                            "machine": "two cores",
                            "torch": "2.14.1",
                            "date": "2026-11-29",
                        },
                    }
                }
            }
        ),
        encoding="utf-8",
    )
    claim("speed", 1.05, stated="20-40 % faster", low=1.2, high=1.4, unit="x")
    text = shown[0].text
    assert "stated: 20-40 % faster" in text
    assert "recorded: 1.31 x (two cores, cpu, 2026-11-29, torch 2.14.1)" in text
    assert "here: 1.05 x" in text
    for part in ("20-40 % faster", "1.31 x (two cores, cpu, 2026-11-29, torch 2.14.1)", "1.05 x", "does not hold here"):
        assert part in shown[0].html
    claim("another", 1.0, low=0)
    assert "recorded" not in shown[1].text + shown[1].html


@pytest.mark.parametrize("content", ["", "{", "[]", '{"lessons": 3}', '{"lessons": {"01": {"speed": 3}}}'])
def test_unreadable_record_counts_as_none(shown, recorded, content):
    recorded.write_text(content, encoding="utf-8")
    claim("speed", 1.0, low=0)
    assert "recorded" not in shown[0].text + shown[0].html


def test_exact_claims_do_not_depend_on_the_record(shown, recorded):
    recorded.write_text('{"lessons": {"01": {"x": {"value": 5}}}}', encoding="utf-8")
    claim("x", 1, equals=1)
    assert "recorded" not in shown[0].text + shown[0].html


def test_returns_none_and_prints_in_plain_python(capsys):
    assert claim("x", 1, equals=1) is None
    assert "✓ x: holds" in capsys.readouterr().out
