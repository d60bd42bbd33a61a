from __future__ import annotations

import pytest
import torch
from torch import nn

from course.distributed.memory import Memory, ddp_memory, fsdp_memory, shard_elements


def test_adam_in_float32_takes_sixteen_bytes_a_parameter():
    memory = ddp_memory(1000)
    assert memory == Memory(parameters=4000, gradients=4000, optimizer=8000)
    assert memory.total == memory.peak == 16000


@pytest.mark.parametrize(("optimizer", "total"), [("sgd", 8), ("momentum", 12), ("adam", 16)])
def test_optimizers(optimizer, total):
    assert ddp_memory(10, optimizer=optimizer).total == 10 * total


def test_bfloat16_with_a_master_copy_takes_sixteen_bytes_too():
    memory = ddp_memory(1000, parameter_bytes=2, master_copy=True)
    assert memory == Memory(parameters=2000, gradients=2000, optimizer=12000)


def test_gradients_and_state_have_their_own_types():
    memory = ddp_memory(1000, parameter_bytes=2, gradient_bytes=4, state_bytes=2)
    assert memory == Memory(parameters=2000, gradients=4000, optimizer=4000)


def test_buckets_besides_the_gradients():
    memory = ddp_memory(1000, bucket_view=False)
    assert memory.buckets == memory.gradients == 4000
    assert memory.total == 20000


def test_fsdp_divides_all_and_gathers_a_block():
    memory = fsdp_memory(1001, 4, largest_block=100)
    assert memory == Memory(parameters=1004, gradients=1004, optimizer=2008, gathered=800)
    assert memory.total == 4016
    assert memory.peak == 4816
    assert fsdp_memory(1000, 4, largest_block=100, gathered_bytes=2).gathered == 400
    assert fsdp_memory(1000, 1) == ddp_memory(1000)


def test_the_model_counts_what_an_optimizer_keeps():
    model = nn.Linear(30, 20)
    count = sum(p.numel() for p in model.parameters())
    for name, optimizer in {
        "sgd": torch.optim.SGD(model.parameters(), lr=0.1),
        "momentum": torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        "adam": torch.optim.AdamW(model.parameters()),
    }.items():
        model(torch.ones(2, 30)).sum().backward()
        optimizer.step()
        kept = sum(
            value.nbytes
            for state in optimizer.state.values()
            for key, value in state.items()
            if key != "step" and value is not None
        )
        assert kept == ddp_memory(count, optimizer=name).optimizer


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 7])
def test_shards_are_the_chunks_of_torch(workers):
    shapes = [(97, 16), (97,), (10, 3, 2), (1, 5), (2,)]
    for rank in range(workers):
        expected = 0
        for shape in shapes:
            chunks = torch.zeros(shape).chunk(workers)
            expected += chunks[rank].numel() if rank < len(chunks) else 0
        assert shard_elements(shapes, workers, rank) == expected


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match="known: sgd, momentum, adam"):
        ddp_memory(10, optimizer="lion")
    with pytest.raises(ValueError, match="at least one worker"):
        fsdp_memory(10, 0)
    with pytest.raises(ValueError, match="0 or more"):
        ddp_memory(-1)
