"""Faults of training in several processes."""

from __future__ import annotations

from course.faults.fault import Fault

FAULTS = (
    Fault(
        "ddp-unused-parameters",
        "parameters without gradient in DDP",
        "distributed",
        "11",
        section="DDP averages gradients",
        why=(
            "DDP reduces gradients bucket by bucket and waits until every parameter of a bucket has reported its "
            "gradient. A parameter that did not take part in the loss never reports, so the reduction of that step "
            "stays unfinished, and the next forward pass raises."
        ),
        fix=(
            "Remove what is not used, set `requires_grad_(False)` before wrapping, or use every output in the loss. "
            "Where branches change from step to step: `DDP(model, find_unused_parameters=True)`, which searches the "
            "graph in every step."
        ),
    ),
    Fault(
        "sampler-set-epoch",
        "set_epoch never called",
        "distributed",
        "11",
        section="Each rank takes a share",
        why=(
            "`DistributedSampler` shuffles with a generator seeded by `seed + epoch`, so that all ranks compute the "
            "same order without talking. It does not count epochs itself: without `set_epoch` the epoch stays 0, and "
            "every epoch has one order, one set of batches and one share for each rank."
        ),
        fix="Call `sampler.set_epoch(epoch)` at the start of every epoch, before the loader is walked.",
    ),
    Fault(
        "sampler-and-shuffle",
        "sampler and shuffle together",
        "distributed",
        "11",
        section="Each rank takes a share",
        why=(
            "`shuffle=True` asks the loader to make a random sampler of its own. Together with `sampler=...` there are "
            "two answers to the same question, and `DataLoader` refuses."
        ),
        fix=(
            "Shuffle in the sampler: `DistributedSampler(dataset, shuffle=True)`, which is its default. In code that "
            "also runs alone: `DataLoader(dataset, sampler=sampler, shuffle=sampler is None)`."
        ),
    ),
    Fault(
        "sampler-duplicates-in-metric",
        "padded duplicates counted",
        "distributed",
        "11",
        section="Each rank takes a share",
        why=(
            "All ranks need equally many batches in training, so `DistributedSampler` repeats samples until its shares "
            "are equal. In an evaluation the repeated samples count twice, and the metric depends on the number of "
            "ranks."
        ),
        fix=(
            "Evaluate on `range(rank, len(dataset), ranks)` and reduce sums and counts; or gather the predictions, put "
            "them in order and cut at `len(dataset)`."
        ),
    ),
    Fault(
        "not-launched-with-torchrun",
        "rendezvous variables missing",
        "distributed",
        "11",
        section="torchrun starts the ranks",
        why=(
            "`init_process_group` reads from the environment who it is and where the others meet: `RANK`, "
            "`WORLD_SIZE`, `MASTER_ADDR`, `MASTER_PORT`. torchrun sets them for every process that it starts. Plain "
            "`python` does not."
        ),
        fix=(
            "Start the script with `torchrun --standalone --nproc-per-node 2 script.py`. For one process alone, in a "
            "test or a notebook, name a file instead: `init_process_group('gloo', init_method='file:///tmp/meeting', "
            "rank=0, world_size=1)`."
        ),
    ),
    Fault(
        "ddp-forward-bypassed",
        "ddp.module(x) skips gradient sync",
        "distributed",
        "11",
        section="DDP averages gradients",
        why=(
            "DDP prepares the reduction in its own `forward`. `ddp.module(x)`, or a method of the wrapped network, "
            "goes around it: the backward pass then averages nothing, each rank steps by its own gradients, and their "
            "weights drift apart without an error."
        ),
        fix=(
            "Train through `ddp(x)` alone; put other entry points behind `forward`. `ddp.module` is for evaluation and "
            "for saving. Now and then compare a sum of the weights across ranks."
        ),
    ),
    Fault(
        "same-seed-on-all-ranks",
        "ranks draw the same noise",
        "distributed",
        "11",
        section="Seeds: equal weights, different noise",
        why=(
            "After `manual_seed(seed)` on every rank all ranks draw the same numbers: the same flips, crops and "
            "dropout masks, each of them once a rank. A batch then holds less variety than its size says."
        ),
        fix=(
            "Seed equally, build the model, then seed again with a number that knows the rank, such as "
            "`manual_seed(seed * ranks + rank)`."
        ),
    ),
    Fault(
        "metric-not-reduced",
        "metric of one rank reported",
        "distributed",
        "11",
        section="Metrics are sums and counts",
        why=(
            "DDP averages gradients and nothing else. A loss or an accuracy that a rank computes is that of its own "
            "share; printed by rank 0 alone it looks like the whole, and early stopping may stop on some ranks only."
        ),
        fix=(
            "`all_reduce` the sum and the count, in one tensor, and divide afterwards; the mean of the ranks' means is "
            "right only where all counts are equal."
        ),
    ),
)
