"""Verdicts for answers of every kind: functions, classes, values, choices, random answers and training steps."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from support import demo
from torch import nn

from course.checking import Exercise, Outcome, ValueExercise, check_answer

WRONG = [(e, w) for e in demo.DEMOS for w in e.wrong_answers]
RIGHT = [(e, c) for e in demo.DEMOS for c in [e.answer_reference, *e.alternatives]]


@pytest.mark.parametrize(("exercise", "candidate"), RIGHT, ids=lambda x: getattr(x, "name", None))
def test_right_answers_pass(exercise, candidate):
    verdict = check_answer(exercise, exercise.value_of(candidate))
    assert verdict.passed, str(verdict)


@pytest.mark.parametrize(("exercise", "wrong"), WRONG, ids=lambda x: x.id)
def test_wrong_answers_are_recognised(exercise, wrong):
    verdict = check_answer(exercise, exercise.value_of(wrong))
    assert (verdict.outcome, verdict.wrong_answer, verdict.fault) == (Outcome.WRONG, wrong.id, wrong.fault)
    assert verdict.diagnosis == wrong.message


@pytest.mark.parametrize("exercise", demo.DEMOS, ids=lambda e: e.id)
def test_stubs_are_not_attempted(exercise):
    stub = ... if isinstance(exercise, ValueExercise) else exercise.stub_object
    assert check_answer(exercise, stub).outcome is Outcome.NOT_ATTEMPTED


def test_an_error_that_names_the_class_is_recognised_under_any_name():
    class Scaled(nn.Module):
        def forward(self, x):
            return self.scale * x

    verdict = check_answer(demo.scaled, Scaled)
    assert verdict.wrong_answer == "demo.scaled/WithoutScale"
    assert verdict.diagnosis == "forward() reads a scale that nothing has set."


def test_an_uncatalogued_difference_is_described_by_the_smallest_probe():
    verdict = check_answer(demo.flatten, lambda x: x.reshape(-1).flip(0))
    assert verdict.outcome is Outcome.WRONG
    assert verdict.wrong_answer is None
    assert 'probe "transposed"' in verdict.seen
    assert "[5, 2, 4, 1, 3, 0]" in verdict.seen
    assert "x = a tensor of shape (3, 2)" in verdict.seen
    assert "[0, 3, 1, 4, 2, 5]" in verdict.expected


def test_half_of_the_failing_probes_make_a_partial_diagnosis():
    def mixed(x):
        return x.view(-1) if not x.is_contiguous() else x + 1

    verdict = check_answer(demo.flatten, mixed)
    assert verdict.wrong_answer == "demo.flatten/view_only"
    assert verdict.diagnosis.startswith("This looks partly like")


def test_a_misspelt_name_is_an_error_and_no_misunderstanding():
    verdict = check_answer(demo.flatten, lambda x: x.reshape(minus_one))  # noqa: F821
    assert verdict.outcome is Outcome.ERROR
    assert verdict.wrong_answer is None
    assert "minus_one" in verdict.seen


def test_a_dtype_that_torch_has_no_kernel_for_is_an_error_and_no_stub():
    """torch raises NotImplementedError for it, as a stub does."""
    verdict = check_answer(demo.flatten, lambda x: x.long().softmax(0))
    assert verdict.outcome is Outcome.ERROR
    assert "not implemented for 'Long'" in verdict.seen
    assert "still raises" not in verdict.diagnosis


def test_a_branch_that_is_left_open_is_told():
    def half(x):
        if x.is_contiguous():
            raise NotImplementedError("later")
        return x.reshape(-1)

    verdict = check_answer(demo.flatten, half)
    assert verdict.outcome is Outcome.ERROR
    assert verdict.diagnosis == "Some part still raises NotImplementedError. Replace it and check again."


def test_another_arity_names_the_signature():
    verdict = check_answer(demo.total, lambda: 1)
    assert "total_of(x: Tensor, weight: float = 1.0)" in verdict.diagnosis


def test_an_answer_that_changes_its_mind():
    calls = []

    def unsteady(x):
        calls.append(1)
        return x.reshape(-1) + (len(calls) > 2)

    verdict = check_answer(demo.flatten, unsteady)
    assert verdict.outcome is Outcome.WRONG
    assert "two different results" in verdict.diagnosis


def test_a_global_random_draw_is_unsteady_but_allowed_where_the_exercise_is_random():
    verdict = check_answer(demo.flatten, lambda x: torch.rand(x.numel()))
    assert "two different results" in verdict.diagnosis
    assert check_answer(demo.coin, lambda n: torch.rand(n).round()).passed


def test_gradients_are_compared():
    verdict = check_answer(
        demo.total, lambda x, weight=1.0: weight * x.sum() + 0 * (x * x).sum() + (x - x.detach()).sum()
    )
    assert verdict.outcome is Outcome.WRONG
    assert "gradient" in verdict.seen


def test_a_requirement_names_the_line_that_breaks_it():
    def looped(x, weight=1.0):
        return weight * sum(item for item in x)

    verdict = check_answer(demo.total, looped)
    assert verdict.outcome is Outcome.WRONG
    assert verdict.diagnosis in ("A loop is slow.", "The answer breaks a rule that the task states.")
    assert "item for item in x" in verdict.seen
    assert "no loop in Python" in verdict.expected


def looped_elsewhere(x):
    return sum(item for item in x)


def test_a_requirement_follows_helpers_of_the_same_module():
    def total(x, weight=1.0):
        return weight * looped_elsewhere(x)

    verdict = check_answer(demo.total, total)
    assert verdict.outcome is Outcome.WRONG
    assert "item for item in x" in verdict.seen


class Looping:
    def total(self, x):
        return sum(item for item in x)


looping = lambda x: sum(item for item in x)  # noqa: E731
running_total = torch.cumsum


def with_a_class(x, weight=1.0):
    return weight * Looping().total(x)


def with_a_lambda(x, weight=1.0):
    return weight * looping(x)


def under_another_name(x, weight=1.0):
    added = torch.cumsum
    return weight * added(x, 0)[-1]


def under_another_name_outside(x, weight=1.0):
    return weight * running_total(x, 0)[-1]


def decorated(function):
    def around(x, weight=1.0):
        return weight * function(x)

    return around


@pytest.mark.parametrize(
    ("answer", "seen"),
    [
        (with_a_class, "item for item in x"),
        (with_a_lambda, "item for item in x"),
        (lambda x, weight=1.0: weight * sum(item for item in x), "item for item in x"),
        (decorated(looped_elsewhere), "item for item in x"),
        (under_another_name, "torch.cumsum"),
        (under_another_name_outside, "import cumsum as running_total"),
    ],
)
def test_a_requirement_follows_what_the_answer_uses(answer, seen):
    verdict = check_answer(demo.total, answer)
    assert verdict.outcome is Outcome.WRONG
    assert seen in verdict.seen


def test_a_requirement_leaves_variables_their_names():
    def total(x, weight=1.0):
        cumsum = x.sum()
        return weight * cumsum

    assert check_answer(demo.total, total).passed


def test_a_catalogued_answer_that_fails_mostly_elsewhere_is_only_partly_a_match():
    exercise = Exercise("demo.partly", **demo.text("Partly"))
    exercise.stub(demo.flatten_elements)
    exercise.reference(demo.by_reshape)
    exercise.wrong("One more.")(lambda x: x.reshape(-1) + 1)
    exercise.probe(lambda: torch.arange(2))
    exercise.probe(lambda: torch.arange(3))
    exercise.probe(lambda: torch.arange(4))
    sure = check_answer(exercise, lambda x: x.reshape(-1) + 1)
    partly = check_answer(exercise, lambda x: x.reshape(-1) + (len(x) == 2))
    assert sure.diagnosis == "One more."
    assert partly.diagnosis == "This looks partly like a known misunderstanding. One more."
    assert partly.wrong_answer == sure.wrong_answer


def test_ordinary_inputs_are_shown_before_degenerate_ones():
    exercise = Exercise("demo.ordinary", **demo.text("Ordinary"))
    exercise.stub(demo.flatten_elements)
    exercise.reference(demo.by_reshape)
    exercise.probe(demo.transposed)

    @exercise.probe
    def one_element():
        return torch.arange(1)

    assert 'probe "transposed"' in check_answer(exercise, lambda x: x.reshape(-1) + 1).seen


def test_what_torch_imports_for_a_reference_is_imported_once():
    code = (
        "import sys; sys.path.insert(0, 'tests'); from support import demo; from course.checking import check_answer\n"
        "print('torch._dynamo' in sys.modules, end=' ')\n"
        "check_answer(demo.train_step, demo.never_zeroed); print('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False True"


def test_values_name_the_property_and_never_the_value():
    verdict = check_answer(demo.strides, (4, 2))
    assert verdict.expected == "a tuple of two integers"
    assert verdict.seen == "(4, 2)"
    assert verdict.diagnosis == "The form is right, the value is not."
    assert check_answer(demo.strides, "x").diagnosis == "Expected a tuple of two integers."
    assert "(4, 1)" not in str(verdict)
    assert check_answer(demo.strides, [4, 1]).passed
    assert check_answer(demo.strides, (torch.tensor(4), np.int64(1))).passed
    assert not check_answer(demo.strides, (torch.tensor(4), torch.tensor(2))).passed
    assert not check_answer(demo.strides, torch.tensor([4, 1])).passed
    assert not check_answer(demo.strides, (torch.empty((), device="meta"), 1)).passed
    endless = [4, 1]
    endless.append(endless)
    assert not check_answer(demo.strides, endless).passed
    assert not check_answer(demo.strides, (4, 1, 1)).passed
    assert not check_answer(demo.strides, (4.0, 1)).passed


def test_choices_ignore_case_and_spaces():
    assert check_answer(demo.choice, " B ").passed
    assert check_answer(demo.choice, "d").outcome is Outcome.WRONG
    assert check_answer(demo.choice, "a").fault == "uint8-overflow"


def test_an_instance_where_a_class_is_wanted():
    verdict = check_answer(demo.scaled, demo.WithParameter())
    assert verdict.outcome is Outcome.ERROR
    assert "without calling it" in verdict.diagnosis


def test_mutated_inputs_are_seen():
    verdict = check_answer(demo.flatten, lambda x: x.add_(1).reshape(-1))
    assert "`x` was changed by the call" in verdict.seen


def test_the_learner_s_model_is_left_alone():
    model, x = demo.WithParameter().eval(), torch.ones(2)
    model(x).sum().backward()
    gradient = model.scale.grad.clone()

    def uses_the_model(x):
        model.train()
        model.scale.data.add_(1)
        model.zero_grad()
        return x.reshape(-1)

    assert check_answer(demo.flatten, uses_the_model).passed
    assert not model.training
    assert model.scale.item() == 1
    assert torch.equal(model.scale.grad, gradient)


def test_warnings_as_errors_do_not_change_a_verdict():
    import warnings

    def warns(x):
        warnings.warn("careful", UserWarning, stacklevel=1)
        return x.reshape(-1)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check_answer(demo.flatten, warns).passed


def test_verdicts_have_the_same_content_as_text_and_as_data():
    verdict = check_answer(demo.flatten, demo.always_copies)
    data = verdict.to_dict()
    assert list(data) == ["exercise", "verdict", "fault", "wrong_answer", "diagnosis", "seen", "expected", "seconds"]
    for key in ("exercise", "verdict", "diagnosis", "seen", "expected"):
        assert data[key] in str(verdict)
    assert str(verdict.seconds) not in str(verdict)


def test_mistakes_of_an_exercise_s_author_are_named():
    with pytest.raises(ValueError, match="compare has"):
        Exercise("x.y", **demo.text("X"), compare=("values",))
    exercise = Exercise("x.y", **demo.text("X"))
    exercise.reference(demo.by_reshape)
    with pytest.raises(ValueError, match="two references"):
        exercise.reference(demo.by_contiguous_view)
    with pytest.raises(ValueError, match="has no reference"):
        _ = Exercise("x.z", **demo.text("X")).answer_reference
