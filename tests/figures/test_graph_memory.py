from __future__ import annotations

import torch

from course.figures.graph_memory import KeptTensors


def test_counts_what_a_graph_keeps_until_backward_frees_it():
    a = torch.ones(1000, requires_grad=True)
    with KeptTensors() as kept:
        y = a.exp().exp()
        assert (len(kept), kept.bytes) == (2, 8000)
        y.sum().backward()
        assert (len(kept), kept.bytes) == (0, 0)


def test_a_graph_that_is_let_go_is_gone_although_it_keeps_its_own_result():
    a = torch.ones(10, requires_grad=True)
    with KeptTensors() as kept:
        y = a.tanh().exp()
    assert len(kept) == 2
    del y
    assert len(kept) == 0


def test_storages_count_once():
    a = torch.ones(100, requires_grad=True)
    with KeptTensors() as kept:
        y = a * a
        assert len(kept) == 2
        assert kept.bytes == 400
    y.sum().backward()
    assert torch.equal(a.grad, torch.full((100,), 2.0))


def test_nothing_is_kept_without_recording_and_outside_of_the_block():
    a = torch.ones(10, requires_grad=True)
    with KeptTensors() as kept:
        with torch.no_grad():
            quiet = a.exp()
        assert len(kept) == 0
    recorded = a.exp()
    assert len(kept) == 0
    assert not quiet.requires_grad
    assert recorded.requires_grad
