"""What `explain` returns, as a list of dicts, as text and as HTML; and the command."""

from __future__ import annotations

import io
import json
import sys

import pytest

import course
from course import cli
from course.doctor.explain import explain
from course.doctor.explain.rank import rules
from course.faults import FAULTS

TEXT = "RuntimeError: expected scalar type Float but found Double"
UNKNOWN = "NameError: name 'x' is not defined"


def test_findings_are_dicts_with_attributes():
    found = course.explain(TEXT)
    assert isinstance(found[0], dict)
    assert found.findings == list(found)
    assert found[0]["fault"] == found[0].fault == "float64-input"
    assert found[0].lesson == "01"
    assert found[0].link == "01_tensors_and_strides.ipynb#Dtypes:-inferred,-promoted,-wrapped"
    with pytest.raises(AttributeError, match="it has fault, title"):
        found[0].nothing  # noqa: B018


def test_text_and_html_say_the_same():
    found = explain(TEXT)
    html = found._repr_html_()
    for piece in (found[0].title, "float64-input", "Why", "Fix", "Dtypes: inferred, promoted, wrapped"):
        assert piece in found.text()
        assert piece in html
    assert f'href="{found[0].link}"' in html
    assert repr(found) == str(found) == found.text()


def test_html_of_a_hostile_message():
    found = explain(
        "RuntimeError: \"<script>alert(1)</script>\" not implemented for 'Long'\n\"<b>\" not implemented for 'Long'"
    )
    assert "<script>" not in found._repr_html_()


def test_unknown_has_a_sentence():
    found = explain(UNKNOWN)
    assert not found
    assert found.text() == found.note
    assert found.note in found._repr_html_()


def test_every_rule_names_a_fault_of_the_catalogue():
    assert len(rules()) > 250
    for rule in rules():
        assert rule.fault in FAULTS
        assert 0.3 <= rule.confidence <= 1


def test_command_reads_standard_input(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert cli.main(["explain"]) == cli.OK
    assert "[float64-input]" in capsys.readouterr().out


def test_command_reads_a_file_and_writes_json(tmp_path, capsys):
    file = tmp_path / "log.txt"
    file.write_bytes("Größe\n".encode("latin-1") + TEXT.encode())
    assert cli.main(["explain", str(file), "--json"]) == cli.OK
    (found,) = json.loads(capsys.readouterr().out)
    assert {"fault", "title", "lesson", "why", "fix", "confidence"} <= set(found)


def test_command_on_what_is_unknown(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(UNKNOWN.encode())))
    assert cli.main(["explain", "-", "--json"]) == cli.FAILED
    out = capsys.readouterr()
    assert json.loads(out.out) == []
    assert "not one that the course knows" in out.err


def test_command_without_the_file(tmp_path, capsys):
    assert cli.main(["explain", str(tmp_path / "none.txt")]) == cli.USAGE
    assert "cannot be read: No such file" in capsys.readouterr().err
    assert cli.main(["explain", str(tmp_path)]) == cli.USAGE
