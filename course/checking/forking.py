"""Whether a forked child of this process can compute with torch, and how to keep it so."""

from __future__ import annotations

import os
import sys

import torch


def can_fork() -> bool:
    """True on Linux as long as no accelerator holds state that a forked child could not use."""
    if not sys.platform.startswith("linux") or not hasattr(os, "fork"):
        return False
    return not (torch.cuda.is_available() and torch.cuda.is_initialized())


def backward_works() -> bool:
    """False in a child of a process whose autograd has started threads for accelerators: torch refuses it there."""
    try:
        torch.zeros((), requires_grad=True).exp().backward()
    except RuntimeError:
        return False
    return True


def settle_autograd() -> None:
    """Let autograd start its threads now, which are none where there is no accelerator.

    It starts them at the first backward pass, one for each device that torch knows of then. Tracing (torch.export,
    torch.compile) makes torch know of a CUDA device that does not exist, so a first backward pass after it would start
    a thread, and from then on torch refuses to differentiate in any forked child.
    """
    if not torch.accelerator.is_available():
        torch.zeros((), requires_grad=True).backward()
