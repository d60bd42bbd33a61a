"""The programs of course.distributed.scripts; what they find is what lesson 11 says."""

from __future__ import annotations

import ast
import sys

import pytest
import torch
import torch._dynamo  # optimizers import it; once here saves doing so in each forked rank

from course.distributed.costs import calibrate
from course.distributed.launch import SCRIPTS, torchrun
from course.distributed.memory import ddp_memory, fsdp_memory, shard_elements
from course.distributed.ranks import run_ranks
from course.distributed.scripts import sharding, train

pytestmark = pytest.mark.slow


def test_each_says_how_to_run_it():
    for path in SCRIPTS.glob("[!_]*.py"):
        documentation = ast.get_docstring(ast.parse(path.read_text()))
        assert f"torchrun --standalone --nproc-per-node 2 -m course.distributed.scripts.{path.stem}" in documentation


def test_gradients():
    found = torchrun("gradients", echo=False).value
    scale = found["equal halves"]["largest_gradient"]
    assert found["equal halves"]["difference"] < 1e-5 * scale
    assert found["equal halves"]["across_ranks"] == 0
    # The mean of the ranks' means is not the mean of all, and BatchNorm sees a rank's half alone.
    assert found["unequal halves"]["difference"] > 0.01 * scale
    assert found["with BatchNorm"]["difference"] > 0.01 * found["with BatchNorm"]["largest_gradient"]

    parameters = (32 * 64 + 64 + 64 * 64 + 64 + 64 * 10 + 10) * 4
    for passes in found["buckets"].values():
        assert [sum(sizes) for sizes in passes.values()] == [parameters, parameters]
    assert len(found["buckets"]["25 MiB"]["second_pass"]) == 1
    assert len(found["buckets"]["0.01 MiB"]["second_pass"]) > 1

    assert found["accumulation"]["across_ranks_after_first"] > 0.01 * scale
    assert found["accumulation"]["across_ranks_after_second"] == 0
    assert found["accumulation"]["difference"] < 1e-5 * scale
    assert found["unused parameters"]["error"].startswith("RuntimeError: Expected to have finished reduction")
    assert found["unused parameters"]["error_when_told"] == ""
    assert found["bypass"]["ddp(x)"] == 0
    assert found["bypass"]["ddp.module(x)"] > 0.01 * scale
    assert found["seeds"]["noise_same_seed"] == 0
    assert found["seeds"]["noise_seed_plus_rank"] > 0.1
    assert found["seeds"]["weights_before_ddp"] > 0.01
    assert found["seeds"]["weights_after_ddp"] == 0


def test_collectives():
    found = torchrun("collectives", "--repeats", 5, "--largest", 1048576, echo=False).value
    assert found["world"] == 2
    assert found["difference"] == 0
    assert [row["bytes"] for row in found["rows"]] == [4, 4096, 65536, 262144, 1048576]
    assert all(row["torch"] > 0 and row["ring"] > 0 for row in found["rows"])
    link = calibrate([(row["bytes"], row["torch"]) for row in found["rows"]])
    assert link.alpha > 0
    assert link.beta > 0


def test_sharding_and_its_memory(tmp_path):
    folder = tmp_path / "checkpoint"
    found = torchrun("sharding", "--save", folder, echo=False).value
    count, shapes = found["parameters"], found["shapes"]
    assert found["kind"] == "DTensor (Shard(dim=0),)"

    whole = ddp_memory(count)
    for kept in found["ddp"]["bytes"]:
        assert kept == {"parameters": whole.parameters, "gradients": whole.gradients, "optimizer": whole.optimizer}
    remainder = 0
    for rank, kept in enumerate(found["fsdp"]["bytes"]):
        exact = fsdp_memory(shard_elements(shapes, 2, rank), 1)
        assert kept == {"parameters": exact.parameters, "gradients": exact.gradients, "optimizer": exact.optimizer}
        remainder = max(remainder, abs(sum(kept.values()) / fsdp_memory(count, 2).total - 1))
    assert remainder < 0.02

    assert found["ddp"]["difference"] < 1e-5
    assert found["fsdp"]["difference"] < 1e-5

    loaded = torchrun("sharding", "--load", folder, processes=3, echo=False).value
    assert loaded["world"] == 3
    assert loaded["steps"] == [3]
    assert loaded["difference"] < 1e-5
    assert [kept["parameters"] for kept in loaded["bytes"]] == [4 * shard_elements(shapes, 3, n) for n in range(3)]


def test_train_and_resume_on_another_number_of_ranks(tmp_path):
    first = torchrun("train", "--folder", tmp_path, "--epochs", 2, echo=False).value
    assert first["resumed"] is None
    assert first["losses"][1] < first["losses"][0]
    assert first["weights_across_ranks"] == 0
    assert first["orders_differ"]
    assert first["seen_by_rank"] == [601, 601]  # 1201 examples: one is seen twice
    assert first["seen_different"] == 1201
    assert (first["after"]["examples"], first["after"]["examples_padded"]) == (301, 302)
    assert first["after"]["accuracy"] > first["before"]["accuracy"] + 0.2
    assert first["after"]["accuracy"] != first["after"]["accuracy_rank_0"]
    assert [path.name for path in tmp_path.iterdir()] == ["last.pt"]

    second = torchrun("train", "--folder", tmp_path, "--epochs", 3, processes=3, echo=False).value
    assert second["resumed"] == {"epoch": 2, "world": 2}
    assert second["before"]["accuracy"] == first["after"]["accuracy"]
    assert len(second["losses"]) == 1
    assert second["batch_a_rank"] == 16
    # 48 examples a step whatever the number of ranks; only the step that is filled up differs.
    assert second["against_checkpoint"] == {
        "steps": [26, 26],
        "same_batches": 25,
        "examples_with_repeats": [1202, 1203],
    }


def resume(folder, epochs, world, dropout):
    """Run train.main on forked ranks; the weights it saves."""

    def main(rank, init=train.dist.init_process_group):
        # The group exists already, and main ends it.
        train.dist.init_process_group = lambda *_: None
        train.dist.destroy_process_group = lambda: None
        sys.argv = ["train", "--folder", str(folder), "--epochs", str(epochs), "--dropout", str(dropout)]
        train.main()

    run_ranks(main, world)
    saved = torch.load(folder / "last.pt", weights_only=True)
    return torch.cat([weight.reshape(-1) for weight in saved["model"].values()])


def test_without_noise_another_number_of_ranks_trains_almost_the_same(tmp_path):
    apart = {}
    for dropout in (0.0, 0.1):
        through = resume(tmp_path / f"through-{dropout}", 2, 2, dropout)
        resume(tmp_path / f"again-{dropout}", 1, 2, dropout)
        changed = resume(tmp_path / f"again-{dropout}", 2, 3, dropout)
        apart[dropout] = (through - changed).abs().max().item()
    assert 0 < apart[0.0] < apart[0.1]


def test_saving_needs_ranks_that_divide_the_batch():
    assert all(sharding.BATCH % n == 0 for n in (1, 2, 3, 4, 6))
    assert all(train.GLOBAL_BATCH % n == 0 for n in (1, 2, 3, 4, 6))
