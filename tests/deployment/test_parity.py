"""parity: what is within tolerance, what is not, and what cannot be compared."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from course.deployment.parity import TrainingMode, flat_outputs, parity


def test_equal_models_differ_by_nothing(two_outputs):
    report = parity(two_outputs, two_outputs, torch.randn(3, 4))
    assert report
    assert report.largest == 0
    assert [row.name for row in report.rows] == ["sum", "parts[0]", "parts[1]"]


def test_each_call_has_rows_of_its_own(exported):
    model, path = exported
    report = parity(model, path, [(torch.randn(n, 4),) for n in (1, 2, 7, 64)])
    assert report
    assert [row.call for row in report.rows] == ["(1, 4)", "(2, 4)", "(7, 4)", "(64, 4)"]
    assert report.relative < 1e-6


def test_exported_program_is_compared(exported):
    model, _ = exported
    x = torch.randn(2, 4)
    assert parity(model, torch.export.export(model, (x,)), x)


@pytest.mark.parametrize(("off", "within"), [(5e-5, True), (2e-4, False)])
def test_tolerance_is_relative_to_the_largest_value(off, within):
    model = nn.Identity().eval()
    x = torch.tensor([[1000.0, 1.0]])
    report = parity(model, lambda x: x + torch.tensor([0.0, 1000 * off]), x)
    assert bool(report) is within
    assert report.relative == pytest.approx(off, rel=0.01)
    assert ("outside" in str(report)) is not within


def test_own_tolerance_counts():
    assert parity(nn.Identity().eval(), lambda x: x * 1.01, torch.ones(1), tolerance=0.02)
    assert not parity(nn.Identity().eval(), lambda x: x * 1.01, torch.ones(1), tolerance=0.005)


def test_integers_must_be_equal():
    model = nn.Identity().eval()
    assert parity(model, lambda x: x, torch.tensor([2**60]))
    off = parity(model, lambda x: x + torch.tensor([0, 1]), torch.tensor([2**60, 2**60]))
    assert not off
    assert "1 of 2 differ" in str(off)
    assert not parity(model, lambda x: ~x, torch.tensor([True]))


def test_zero_output_is_measured_absolutely():
    model = nn.Identity().eval()
    report = parity(model, lambda x: x + 1e-5, torch.zeros(3))
    assert report
    assert report.relative == pytest.approx(1e-5, rel=0.01)


@pytest.mark.parametrize(
    ("exported", "problem"),
    [
        (lambda x: x[:, :2], r"\(3, 2\) float32 instead of \(3, 4\) float32"),
        (lambda x: x.double(), "float64 instead of"),
        (lambda x: (x, x), "2 outputs instead of 1"),
        (lambda x: x / 0, "NaN or infinite on one side only"),
    ],
    ids=["shape", "dtype", "number", "infinite"],
)
def test_what_cannot_be_compared_is_a_row_with_its_problem(exported, problem):
    report = parity(nn.Identity().eval(), exported, torch.ones(3, 4))
    assert not report
    assert math.isinf(report.largest)
    with pytest.raises(AssertionError, match=problem):
        raise AssertionError(str(report))


def test_nan_on_both_sides_is_equal():
    assert parity(nn.Identity().eval(), lambda x: x, torch.tensor([math.nan, math.inf]))


def test_training_mode_is_refused_and_named():
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout()).eval()
    model[1].train()
    with pytest.raises(TrainingMode, match=r"training mode \(1\); call model.eval\(\)"):
        parity(model, model, torch.ones(1, 4))


def test_an_export_that_writes_into_its_input_does_not_change_the_callers():
    x = torch.ones(2, 4)
    assert parity(nn.Identity().eval(), lambda x: x.mul_(1), x)
    parity(nn.Identity().eval(), lambda x: x.zero_(), x)
    assert x.eq(1).all()


@pytest.mark.parametrize("nonsense", [None, 3, object()])
def test_nonsense_gets_a_sentence(nonsense):
    with pytest.raises(TypeError, match="a callable, an ExportedProgram or the path"):
        parity(nn.Identity().eval(), nonsense, torch.ones(1))


def test_no_inputs_at_all():
    with pytest.raises(ValueError, match="inputs is empty"):
        parity(nn.Identity().eval(), abs, [])


def test_flat_outputs_names_paths():
    assert flat_outputs({"a": [1, (2,)], "b": 3}) == [("a[0]", 1), ("a[1][0]", 2), ("b", 3)]
    assert flat_outputs(5) == [("output", 5)]


def test_html_and_text_hold_the_same_cells(two_outputs):
    report = parity(two_outputs, two_outputs, torch.ones(1, 4))
    for cell in report.table()[1]:
        assert cell in str(report)
        assert cell in report._repr_html_()
