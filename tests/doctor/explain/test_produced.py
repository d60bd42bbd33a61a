"""Errors that real torch code raises here, and texts of other machines and versions, are explained by their fault."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import torch.utils.data as tud
from torch import nn

from course.doctor.explain import explain
from course.faults import FAULTS

from .literals import LITERAL, UNKNOWN
from .produced import RAISING

NAMES = {"torch": torch, "nn": nn, "F": F, "np": np, "tud": tud}


@pytest.mark.parametrize(("fault", "code"), RAISING, ids=[f"{n}-{fault}" for n, (fault, _) in enumerate(RAISING)])
def test_code_that_raises(fault, code, run_script):
    raised = run_script(code.removeprefix("warn: ").removeprefix("live: "), code.startswith("warn: "), **NAMES)
    assert [found.fault for found in explain(raised.error)][:1] == [fault]
    if not code.startswith("live: "):
        assert [found.fault for found in explain(raised.text)][:1] == [fault]


@pytest.mark.parametrize(("fault", "text"), LITERAL, ids=[f"{n}-{fault}" for n, (fault, _) in enumerate(LITERAL)])
def test_text_of_another_machine_or_version(fault, text):
    assert [found.fault for found in explain(text)][:1] == [fault]


@pytest.mark.parametrize("text", UNKNOWN)
def test_nothing_is_said_of_what_is_unknown(text):
    found = explain(text)
    assert list(found) == []
    assert found.note.endswith(".")


def test_tables_are_large_and_name_real_faults():
    assert len(RAISING) >= 200
    assert len(LITERAL) >= 100
    assert {fault for fault, _ in (*RAISING, *LITERAL)} <= set(FAULTS)
