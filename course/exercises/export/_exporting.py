"""Exporting an answer and trying its program, for the probes of this folder."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

REASONS = ("must always be equal", "must always be related", "specialized it to be a constant", "Not all values of")


def outcome(program: Any, *inputs: Any) -> Any:
    """What an exported program returns for these inputs, or "refused"; in words what it is where it is none."""
    if not isinstance(program, torch.export.ExportedProgram):
        return f"a {type(program).__name__}, not an ExportedProgram"
    try:
        return program.module()(*inputs)
    except (AssertionError, RuntimeError):
        return "refused"


def attempt(export: Callable[..., Any], *arguments: Any) -> Any:
    """What the call returns; a violated constraint in words that do not depend on the names of the dimensions."""
    from torch._dynamo.exc import UserError

    try:
        return export(*arguments)
    except UserError as error:
        found = [reason for reason in REASONS if reason in str(error)]
        return f"not exported: {', '.join(found) or re.split('[.!`]', str(error))[0]}"


class Function(nn.Module):
    """A function of one tensor as a module, which is what torch.export takes."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)
