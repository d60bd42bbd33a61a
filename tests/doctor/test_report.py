"""The report: the same content as text and as HTML, one finding a root cause."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn

from course.doctor import FaultsFound, Finding, Report, examine
from course.doctor.causes import EXPLAINS, root_causes
from course.faults import FAULTS, UnknownFault


def plain(page: str) -> str:
    text = re.sub(r"<[^>]+>", " ", page)
    return re.sub(r"\s+", " ", html.unescape(text))


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.replace("`", " "))


@pytest.fixture
def report() -> Report:
    return Report(
        findings=[
            Finding("double-softmax", "The rows of the input sum to 1.0000, and `x < 1` & more."),
            Finding("symmetric-init", "8 units are equal.", severity="warning", consequences=["the loss stays"]),
        ],
        notes=["a note"],
        not_examined=["evaluate: it was not given"],
        examined=["modules", "losses"],
        seconds=1.0,
    )


def test_a_finding_knows_its_lesson() -> None:
    finding = Finding("double-softmax", "Rows sum to 1.")
    assert finding.title == FAULTS["double-softmax"].title
    assert finding.where == "lesson 05, “Losses want logits”"
    assert re.fullmatch(r"05_\w+\.ipynb#Losses-want-logits", finding.link)
    assert (finding.why, finding.fix) == (FAULTS["double-softmax"].why, FAULTS["double-softmax"].fix)


def test_a_finding_needs_evidence_and_a_known_fault() -> None:
    with pytest.raises(ValueError, match="no evidence"):
        Finding("double-softmax", " ")
    with pytest.raises(UnknownFault, match="double-softmax"):
        Finding("double-softmx", "x")
    with pytest.raises(ValueError, match="error, warning, note"):
        Finding("double-softmax", "x", severity="fatal")


def test_text_and_html_say_the_same(report: Report) -> None:
    shown = plain(report._repr_html_())
    missing = [word for word in words(report.text) if word not in words(shown)]
    assert missing == []
    for finding in report.findings:
        for part in (finding.title, finding.fault, finding.evidence.replace("`", " "), finding.where):
            assert words(part) == [word for word in words(part) if word in words(shown)]
        assert f'href="{finding.link}"' in report._repr_html_()
    assert "<x" not in report._repr_html_().replace("<code>x", "")


def test_the_page_is_well_formed(report: Report) -> None:
    from xml.etree import ElementTree

    ElementTree.fromstring(report._repr_html_())


def test_raise_if_any(report: Report) -> None:
    with pytest.raises(FaultsFound, match="double-softmax"):
        report.raise_if_any()
    Report().raise_if_any()
    notes_only = Report(findings=[Finding("symmetric-init", "x", severity="note")])
    notes_only.raise_if_any()
    with pytest.raises(FaultsFound):
        notes_only.raise_if_any("note")


def test_the_report_is_json(report: Report) -> None:
    data = json.loads(json.dumps(report.to_dict()))
    assert [finding["fault"] for finding in data["findings"]] == report.faults == ["double-softmax", "symmetric-init"]


def test_headlines() -> None:
    assert Report(examined=["modules"]).headline == "The doctor found nothing."
    assert Report().headline == "The doctor could examine nothing."
    assert Report(findings=[Finding("double-softmax", "x")]).headline == "The doctor found 1 error."


def test_consequences_become_part_of_their_cause() -> None:
    cause = Finding("zero-grad-before-step", "zero_grad() came after backward().")
    effect = Finding("step-missing", "No parameter moved in 3 steps.")
    (found,) = root_causes([effect, cause])
    assert found is cause
    assert "No parameter moved in 3 steps." in found.consequences[0]


def test_a_chain_of_causes_ends_at_its_root() -> None:
    names = ["vanishing-gradient", "dead-activation", "symmetric-init"]
    found = root_causes([Finding(name, f"saw {name}") for name in names])
    assert [finding.fault for finding in found] == ["symmetric-init"]
    assert len(found[0].consequences) == 2


def test_a_note_is_no_cause_of_an_error() -> None:
    found = root_causes([Finding("symmetric-init", "x", severity="note"), Finding("vanishing-gradient", "y")])
    assert [finding.fault for finding in found] == ["vanishing-gradient", "symmetric-init"]


def test_one_fault_is_one_finding() -> None:
    found = root_causes(
        [
            Finding("double-softmax", "seen in a batch", severity="warning"),
            Finding("double-softmax", "seen in a step", confidence=0.99),
            Finding("double-softmax", "seen in a step", confidence=0.5),
        ]
    )
    assert [(finding.evidence, finding.consequences) for finding in found] == [("seen in a step", ["seen in a batch"])]


def test_the_table_of_causes_has_known_ids_and_no_circle() -> None:
    ids = {*EXPLAINS, *(effect for effects in EXPLAINS.values() for effect in effects)}
    assert ids <= set(FAULTS)

    def below(fault: str, path: tuple[str, ...]) -> None:
        assert fault not in path, f"{' -> '.join((*path, fault))} is a circle"
        for effect in EXPLAINS.get(fault, ()):
            below(effect, (*path, fault))

    for fault in EXPLAINS:
        below(fault, ())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": nn.Linear}, "the class Linear.*Give an instance"),
        ({"model": 3}, "model is an int"),
        ({"loss_fn": nn.CrossEntropyLoss}, r"CrossEntropyLoss\(\)"),
        ({"step": 3}, "can be called"),
        ({"loader": 3}, "gives? batches"),
        ({"loader": torch.utils.data.TensorDataset(torch.zeros(2))}, "give the DataLoader"),
        ({"optimizer": torch.optim.SGD}, "the class SGD"),
        ({"optimizer": [nn.Linear(1, 1)]}, "optimizer is a Linear"),
        ({"budget_s": "10"}, "number of seconds"),
    ],
)
def test_bad_arguments_are_named(arguments: dict, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        examine(**arguments)


def test_a_budget_has_to_be_positive() -> None:
    for budget in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="more than 0"):
            examine(budget_s=budget)


def test_nothing_given_is_nothing_found() -> None:
    report = examine()
    assert report.findings == []


def test_an_error_in_the_step_becomes_the_finding() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(10, 2))

    def step(batch: Tensor) -> None:
        net(batch).sum().backward()

    report = examine(loader=[torch.randn(4, 3, 4)] * 3, step=step, budget_s=2)
    assert report.faults == ["flatten-size-mismatch"]
    assert "mat1 and mat2" in report.findings[0].evidence + "".join(report.findings[0].consequences)


def test_an_unknown_error_is_a_note() -> None:
    def step(batch: Tensor) -> None:
        raise LookupError("the moon is not there")

    report = examine(loader=[torch.zeros(1)] * 3, step=step, budget_s=2)
    assert report.findings == []
    assert any("the moon is not there" in note for note in report.notes)


def test_batches_that_are_no_pairs_are_no_fault() -> None:
    loader = [{"x": torch.zeros(2, 3), "y": torch.zeros(2)}] * 3
    report = examine(nn.Linear(3, 1), loader, nn.MSELoss(), budget_s=2)
    assert report.worst() == []
    assert "step(batch)" in report.text


def test_a_failing_family_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    from course.doctor import examination

    monkeypatch.setattr(examination, "FAMILIES", ("family_none", "family_modules"))
    report = examine(nn.Linear(2, 2), budget_s=2)
    assert "family none" in report.not_examined[0]
    assert report.examined == ["modules"]


def test_importing_the_doctor_does_not_import_torch() -> None:
    code = "import sys, course.doctor; print('torch' in sys.modules, sorted(dir(course.doctor))[:1])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("False")
