# %% [markdown]
# # 11 Scaling out
# Several processes train one network: each takes a part of the batch, and they agree on the gradient. The code changes
# in ten lines. Most mistakes in them raise nothing: ranks repeat each other's work, drift apart, or wait for ever.
#
# **Goals.** You can start a job with `torchrun` and read its errors; say what `DistributedDataParallel` (DDP) sends,
# and when it equals one process with a large batch; share out samples, seeds, metrics and checkpoints; choose between
# DDP and FSDP from numbers; estimate what a step costs on many workers. **Prerequisites.** Lessons 04, 05 and 07.
# **Time.** About 150 minutes, two thirds of them for 11 exercises.
# **What it measures.** The sayings "DDP equals a large batch" and "manual_seed(seed + rank)"; bytes a rank under DDP
# and FSDP; and the time of an all-reduce between two processes, which a model carries on to 1024 workers.
#
# Real processes run, on the CPU of one machine. `torchrun` starts them, as in practice, or `run_ranks`, which forks
# this kernel in a fraction of a second (on Linux, so also on Binder, on Colab, and on Windows under WSL).

# %%
import contextlib
import inspect
import itertools
import math
import random
import socket
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler

from course import begin, check, choose_device, claim, hint, pitfall, solution
from course.distributed.costs import calibrate, forecast
from course.distributed.launch import LaunchError, torchrun
from course.distributed.memory import ddp_memory, fsdp_memory, shard_elements
from course.distributed.ranks import RankError, run_ranks
from course.distributed.ring import simulate_ring
from course.distributed.scripts import collectives, gradients, sharding
from course.figures.scaling import draw_scaling

begin("11")

# %% tags=["parameters"]
device = "auto"  # "auto", "cpu", "cuda" or "mps": the ranks run on the CPU, with two GPUs one script runs there as well
profile = "quick"  # how often each time is measured: "smoke", "quick" or "full"

# %%
run_device = choose_device(device)
repeats = {"smoke": 1, "quick": 15, "full": 60}[profile]
scratch = tempfile.TemporaryDirectory(prefix="lesson-11-")
folder = Path(scratch.name)


def show(*expressions: str) -> None:
    """Print each expression and its value."""
    for expression in expressions:
        print(f"{expression:<74} {eval(expression, globals())!s}")


# %% [markdown]
# ## Ranks and collectives
# A job has `world_size` processes. Each has a number, its **rank**, and memory of its own; all run the same program.
# They meet in **collectives**: calls that every rank makes, in the same order, with tensors of the same shape.
#
# `run_ranks(f, n)` calls `f(rank)` on n ranks and returns the n results. Rank r holds the number r + 1.
# > **Predict.** What do ranks 0 and 3 hold after `all_reduce`, after `broadcast` from rank 0, after `all_gather`?


# %%
def meet(rank: int) -> dict[str, list[float]]:
    mine = torch.tensor([rank + 1.0])
    summed, sent, gathered = mine.clone(), mine.clone(), [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_reduce(summed)
    dist.broadcast(sent, src=0)
    dist.all_gather(gathered, mine)
    return {"all_reduce": summed.tolist(), "broadcast": sent.tolist(), "all_gather": torch.cat(gathered).tolist()}


for number, result in enumerate(run_ranks(meet, 4)):
    print(f"rank {number}: {result}")

# %% [markdown]
# **Explain.** `all_reduce` writes the sum into the tensor of every rank, `broadcast` the tensor of one rank;
# `all_gather` gives everyone all of them. All three work in place and return nothing.
# > **Predict.** Rank 0 enters a `barrier`, rank 1 does not. Which error comes, and when?

# %%
try:
    run_ranks(lambda rank: dist.barrier() if rank == 0 else None, 2, timeout=2)
except RankError as error:
    print(error)

# %% [markdown]
# **Explain.** None, until a timeout: half an hour for gloo and ten minutes for NCCL, unless you set
# `init_process_group(timeout=...)`. A collective inside `if rank == 0:` is the classic hang.

# %%
# exercise: distributed.who_hangs

# %% [markdown]
# ## torchrun starts the ranks
# In practice a job is a script, and `torchrun` starts it once a rank. It tells each process its `RANK`, its
# `LOCAL_RANK` on this machine, the `WORLD_SIZE`, and where to meet. Plain `python` does not.

# %%
with pitfall("not-launched-with-torchrun", ValueError):
    dist.init_process_group("gloo")

# %% [markdown]
# For one process alone a file is enough to meet in. It makes a group of one, which is useful in tests and below.

# %%
alone_in = {"backend": "gloo", "init_method": f"file://{folder}/meeting", "rank": 0, "world_size": 1}
dist.init_process_group(**alone_in)
show("dist.get_rank(), dist.get_world_size(), dist.get_backend()")
dist.destroy_process_group()

# %% [markdown]
# A complete script. Each rank takes its half of a batch, and beside it computes the gradient of the whole batch alone,
# to compare. `report` hands rank 0's result back to this notebook.

# %%
script = folder / "first.py"
script.write_text("""
import os, sys, torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from course.distributed.worker import report

cuda = sys.argv[1] == "cuda"
dist.init_process_group("nccl" if cuda else "gloo")  # reads RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
rank, ranks = dist.get_rank(), dist.get_world_size()
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
if cuda:
    torch.cuda.set_device(device)
torch.manual_seed(0)
x, y, alone = torch.randn(16, 8).to(device), torch.randn(16, 1).to(device), nn.Linear(8, 1).to(device)
ddp = DDP(nn.Linear(8, 1).to(device), device_ids=[device.index] if cuda else None)
alone.load_state_dict(ddp.module.state_dict())
for turn in range(ranks):  # one after the other, so that the lines come in order
    if turn == rank:
        mine = slice(16 * rank // ranks, 16 * (rank + 1) // ranks)
        print(f"rank {rank} of {ranks}, {dist.get_backend()}: samples {mine.start} to {mine.stop - 1}", flush=True)
    dist.barrier()
(ddp(x[mine]) - y[mine]).square().mean().backward()
(alone(x) - y).square().mean().backward()
report(max((p.grad - q.grad).abs().max().item() for p, q in zip(ddp.parameters(), alone.parameters())))
dist.destroy_process_group()
""")
job = torchrun(script, "cpu", processes=2)
claim("gradients of two halves and of the whole agree within 1e-6", job.value < 1e-6, equals=True)

# %% tags=["measured"]
claim("gradients of two ranks against one process", job.value, stated="equal up to rounding", high=1e-6)
claim("starting and ending two processes", job.seconds, stated="5 to 20 s", low=5, high=20, unit="s")

# %% [markdown]
# In a terminal this is `torchrun --standalone --nproc-per-node 2 first.py cpu`. Most of the seconds go into importing
# torch in each process. On GPUs the same script runs with the backend NCCL, one GPU a rank:

# %%
if run_device.type == "cuda" and torch.cuda.device_count() >= 2:
    claim("on two GPUs the gradients agree", torchrun(script, "cuda").value < 1e-5, equals=True)
else:
    print("not run here: no two CUDA devices. There:  torchrun --standalone --nproc-per-node 2 first.py cuda")

# %% [markdown]
# ## DDP averages gradients
# `DDP(model)` sends rank 0's parameters and buffers to all ranks (buffers again in each forward pass). Then, when
# `backward()` has made a gradient, DDP replaces it by its **mean** over the ranks. Optimizers, metrics, seeds and data
# are your business.
# > **Predict.** The weight is 1, the loss is `w * x`, and `x` is 1 on rank 0, 3 on rank 1. Which gradients do the ranks
# > see? And through `ddp.module(x)`?


# %%
def slope(rank: int, bypass: bool) -> float:
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    ddp = DDP(model)
    call = ddp.module if bypass else ddp
    call(torch.tensor([[1.0 + 2.0 * rank]])).sum().backward()
    return model.weight.grad.item()


with pitfall("ddp-forward-bypassed") as p:
    p.shows(seen=run_ranks(slope, 2, True), wanted=[2.0, 2.0])
claim("gradients of the two ranks through ddp(x)", run_ranks(slope, 2, False), equals=[2.0, 2.0])

# %% [markdown]
# **Explain.** The hooks sit on the parameters, but DDP's own `forward` arms them. `ddp.module` is to save and evaluate.
#
# An all-reduce for each parameter would pay its latency often. DDP collects gradients in **buckets** of 25 MiB, filled
# from the last layer backwards, the order in which `backward()` makes them. A full bucket leaves at once.
# > **Predict.** The network below has 6 parameter tensors. How many all-reduces does a step make? With 0.01 MiB?

# %%
megabytes = (25, 0.01)
buckets = [run_ranks(lambda rank, size: gradients.buckets_of(size)["second_pass"], 2, size)[0] for size in megabytes]
tensor_bytes = [parameter.nbytes for parameter in gradients.network().parameters()]
show("tensor_bytes", "buckets[0]", "buckets[1]")
claim("bytes reduced in a step", list(map(sum, buckets)), equals=[sum(tensor_bytes)] * 2)

# %% [markdown]
# **Explain.** One all-reduce of all gradients, or a few; the bytes are the same. Several leave earlier and overlap with
# the backward pass; too many pay latency. Measure before you change the default.
#
# A bucket leaves when all of its parameters have reported. What if one never does?


# %%
def two_steps(ddp: DDP) -> None:
    for _ in range(2):
        ddp(torch.ones(3, 32)).sum().backward()


print(inspect.getsource(gradients.Branches.forward))
dist.init_process_group(**alone_in)
with pitfall("ddp-unused-parameters", RuntimeError):
    two_steps(DDP(gradients.Branches()))
two_steps(DDP(gradients.Branches(), find_unused_parameters=True))
two_steps(DDP(gradients.Branches().heads[0]))
dist.destroy_process_group()

# %% [markdown]
# **Explain.** The error comes one step late, in the next forward pass, and names the parameters by index.
# `find_unused_parameters=True` searches the graph in every step, so first ask whether the layer is needed.
#
# ## "DDP equals a large batch"
# **Saying: "DDP equals a large batch".** Two ranks with half of the batch each, against one process with all of it.
# > **Predict.** In which of the four cases are the gradients equal: halves of 8 and 8; shares of 4 and 12; the same
# > with each loss weighted by its share; halves, with BatchNorm in the network?


# %%
def apart(rank: int, sizes: list[int], norm: bool = False, weighted: bool = False) -> float:
    """The largest difference between DDP's gradients and those of one process with the whole batch."""
    x, y = gradients.whole_batch(sum(sizes))
    alone, ddp = gradients.network(norm=norm), DDP(gradients.network(norm=norm))
    F.cross_entropy(alone(x), y).backward()
    mine = slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
    loss = F.cross_entropy(ddp(x[mine]), y[mine])
    if weighted:  # DDP divides by the number of ranks; undo that, and count samples
        loss = loss * len(sizes) * sizes[rank] / sum(sizes)
    loss.backward()
    return gradients.difference(gradients.gradients(ddp), gradients.gradients(alone))


cases = {"equal halves": ([8, 8],), "shares of 4 and 12": ([4, 12],), "4 and 12, weighted": ([4, 12], False, True)}
cases["equal halves, BatchNorm"] = ([8, 8], True)
differences = {name: run_ranks(apart, 2, *arguments)[0] for name, arguments in cases.items()}
equal = {name: difference < 1e-6 for name, difference in differences.items()}
claim("cases in which the gradients agree within 1e-6", [name for name in equal if equal[name]], equals=[*cases][:3:2])

# %% tags=["measured"]
claim("equal halves: largest difference", differences["equal halves"], stated="equal up to rounding", high=1e-6)
claim("shares of 4 and 12: largest difference", differences["shares of 4 and 12"], stated="not equal", low=1e-3)
claim("BatchNorm: largest difference", differences["equal halves, BatchNorm"], stated="not equal", low=1e-3)

# %% [markdown]
# **Explain.** The mean of two means is the mean of all only where both count equally many samples. With unequal shares
# a sample on the small rank weighs more. BatchNorm normalises each rank's share by itself, so it sees a smaller batch;
# on GPUs `nn.SyncBatchNorm.convert_sync_batchnorm` shares the statistics. And where the saying holds, it means that n
# ranks with the old batch size each are a batch n times as large: the learning rate may have to follow (lesson 05).

# %%
# exercise: distributed.average_gradients

# %% [markdown]
# ## Each rank takes a share
# `DistributedSampler` gives every rank its own samples. All ranks compute the same order, and each takes every n-th
# element. It can be tried without a process group, by naming `num_replicas` and `rank`.
# > **Predict.** Two epochs in a row: does rank 0 see other samples in the second?

# %%
samplers = [DistributedSampler(range(10), num_replicas=2, rank=rank) for rank in range(2)]
show("list(samplers[0])", "list(samplers[1])")
with pitfall("sampler-set-epoch") as p:
    p.shows(seen=len({tuple(samplers[0]) for epoch in range(5)}), wanted=5)
orders = set()
for epoch in range(5):
    samplers[0].set_epoch(epoch)
    orders.add(tuple(samplers[0]))
claim("different orders in five epochs with set_epoch", len(orders), equals=5)

with pitfall("sampler-and-shuffle", ValueError):
    DataLoader(range(10), sampler=samplers[0], shuffle=True)

# %% [markdown]
# **Explain.** The order comes from `seed + epoch`, and the sampler does not count epochs. The loader must not shuffle.
# > **Predict.** Five samples on four ranks, evaluated. How many predictions are counted?

# %%
padded = [list(DistributedSampler(range(5), num_replicas=4, rank=rank, shuffle=False)) for rank in range(4)]
counted = list(itertools.chain(*padded))
with pitfall("sampler-duplicates-in-metric") as p:
    p.shows(seen=f"{len(counted)} predictions of {len(set(counted))} samples", wanted="5 predictions of 5 samples")
shares = [list(range(rank, 5, 4)) for rank in range(4)]
show("padded", "shares")
claim("samples counted with range(rank, count, ranks)", sorted(itertools.chain(*shares)), equals=[0, 1, 2, 3, 4])

# %% [markdown]
# **Explain.** Training needs equally many batches on each rank: a rank that is done early leaves the others in an
# all-reduce. So the sampler repeats samples. An evaluation makes no all-reduce in each batch and needs no padding, as
# long as it calls the plain module.

# %%
# exercise: distributed.shard_indices

# %%
# exercise: distributed.merge_predictions

# %% [markdown]
# ## Metrics are sums and counts
# > **Predict.** Rank 0 has 4 samples, 3 of them right; rank 1 has 2, 1 of them right. Which accuracy does rank 0 print?
# > What is the mean of the ranks' accuracies, and what is the accuracy?


# %%
def accuracies(rank: int) -> dict[str, float]:
    right, count = [(3, 4), (1, 2)][rank]
    both, mean = torch.tensor([right, count]), torch.tensor(right / count)
    dist.all_reduce(both)
    dist.all_reduce(mean)
    return {"own": right / count, "mean of means": mean.item() / 2, "reduced": round((both[0] / both[1]).item(), 3)}


results = run_ranks(accuracies, 2)
show("results[0]", "results[1]")
with pitfall("metric-not-reduced") as p:
    p.shows(seen=results[0]["own"], wanted=results[0]["reduced"])
claim("accuracy of 4 right out of 6, on both ranks", [result["reduced"] for result in results], equals=[0.667, 0.667])

# %% [markdown]
# **Explain.** DDP averages gradients and nothing else. Reduce sums and counts once an epoch, in one tensor, and divide
# then. A decision, such as early stopping, must be taken from reduced numbers: else one rank stops and the others wait.

# %%
# exercise: distributed.epoch_mean

# %% [markdown]
# ## Seeds: equal weights, different noise
# **Saying: "manual_seed(seed + rank)".** It is one line for two purposes, which want opposite things.
# > **Predict.** Both ranks seed with `7 + rank` and build a model. Are its weights equal? After `DDP(model)`? Is the
# > noise that they draw then? And which other run draws what rank 1 draws?


# %%
def start(rank: int, seed: int, knows_the_rank: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The weights before and after DDP, and the noise after that."""
    torch.manual_seed(seed + rank if knows_the_rank else seed)
    model = nn.Linear(3, 3)
    before = model.weight.detach().clone()
    DDP(model)
    return before, model.weight.detach().clone(), torch.rand(5)


weights, _, noises = zip(*run_ranks(start, 2, 7, False), strict=True)
with pitfall("same-seed-on-all-ranks") as p:
    p.shows(seen=noises[0].equal(noises[1]), wanted=False)
before, after, noises = zip(*run_ranks(start, 2, 7, True), strict=True)
equal_weights = [before[0].equal(before[1]), after[0].equal(after[1])]
claim("seed + rank: equal weights before DDP, and after", equal_weights, equals=[False, True])
claim("seed + rank: the ranks draw equal noise", noises[0].equal(noises[1]), equals=False)
next_seed = run_ranks(start, 2, 8, True)[0][2]
claim("rank 1 of seed 7 draws what rank 0 of seed 8 draws", noises[1].equal(next_seed), equals=True)

# %% [markdown]
# **Explain.** The ranks start from different weights, and DDP hides it: it sends rank 0's to all. Under FSDP, or with
# an average by hand, nobody does. The noise differs as it should, but neighbouring seeds share it. Better: seed
# equally, build, then seed with a number for each pair of seed and rank.

# %%
# exercise: distributed.seed_ranks

# %% [markdown]
# ## Accumulate, then communicate
# To accumulate gradients of several micro-batches (lesson 05), only the last has to communicate: `ddp.no_sync()`.
# > **Predict.** Four micro-batches, one bucket. How many all-reduces without `no_sync`? With it around forward and
# > backward of the first three? With it around their `backward()` alone?


# %%
def reductions(rank: int, inside: str) -> int:
    """All-reduces of one update from four micro-batches; no_sync stands around "forward", "backward", both or nothing."""
    ddp, sizes = DDP(gradients.network()), []
    ddp.register_comm_hook(None, lambda state, bucket: sizes.append(1) or allreduce_hook(state, bucket))
    for micro in range(4):
        early, nothing = micro < 3, contextlib.nullcontext()
        with ddp.no_sync() if early and "forward" in inside else nothing:
            loss = ddp(torch.ones(4, 32)).sum() / 4
        with ddp.no_sync() if early and "backward" in inside else nothing:
            loss.backward()
    return len(sizes)


found = {inside: run_ranks(reductions, 2, inside)[0] for inside in ("nothing", "forward and backward", "backward")}
claim("all-reduces: no_sync around nothing, around both, around backward", list(found.values()), equals=[4, 1, 4])

# %% [markdown]
# **Explain.** DDP decides in the forward pass whether the next backward pass will reduce. The gradients are the same
# either way; only the traffic differs.

# %%
# exercise: distributed.accumulate

# %% [markdown]
# ## Save once, resume anywhere
# After an update all ranks hold the same weights and the same optimizer state, so rank 0 saves, under `ddp.module`'s
# own names, and all ranks load. A `barrier` keeps the others from reading half a file. To go on in the middle of an
# epoch with another number of ranks, save the **global** position: how many samples of the epoch are done.
# > **Predict.** Two ranks do 2 steps of 4 samples each, of 40. Three ranks go on. How many samples does each still
# > take?


# %%
def train(rank: int, steps: int, batch: int = 4) -> list[int]:
    """Go on from the checkpoint, if there is one, for some steps; returns the samples that this rank took."""
    ranks, checkpoint, done = dist.get_world_size(), folder / "last.pt", 0
    ddp = DDP(nn.Linear(1, 1))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=1e-4, momentum=0.9)
    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True)
        ddp.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["samples"]
    order = torch.randperm(40, generator=torch.Generator().manual_seed(0)).tolist()[done:]
    mine = order[rank::ranks][: steps * batch]
    for start in range(0, len(mine), batch):
        x = torch.tensor(mine[start : start + batch]).float()[:, None]
        optimizer.zero_grad()
        F.mse_loss(ddp(x), 2 * x).backward()
        optimizer.step()
    if rank == 0:
        done += steps * batch * ranks
        torch.save({"model": ddp.module.state_dict(), "optimizer": optimizer.state_dict(), "samples": done}, checkpoint)
    dist.barrier()
    return mine


first, rest = run_ranks(train, 2, 2), run_ranks(train, 3, 2)
show("[len(share) for share in first], [len(share) for share in rest]")
claim("every sample of the epoch once", sorted(itertools.chain(*first, *rest)) == list(range(40)), equals=True)

# %% [markdown]
# **Explain.** 16 of 40 are done, and the other 24 are shared anew. "Skip 2 batches on each rank" would have skipped 24.
# The rest is not bit-equal to the old job: samples meet in other batches.

# %%
# exercise: distributed.resume_shard

# %% [markdown]
# ## When a rank dies
# A rank can fail: an exception, out of memory, a node that goes away. The others sit in a collective that will never
# end. `torchrun` watches the processes: when one is gone, it ends the rest, and says which was first.
# > **Predict.** Rank 1 is killed while rank 0 waits in an all-reduce. What becomes of rank 0?

# %%
dying = folder / "dying.py"
dying.write_text("""
import os, signal, torch, torch.distributed as dist
dist.init_process_group("gloo")
for step in range(1, 4):
    if step == 3 and dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(torch.ones(1))
    if dist.get_rank() == 0:
        print(f"step {step} of 3", flush=True)
""")
try:
    torchrun(dying, echo=False)
except LaunchError as error:
    print([line for line in error.lines if line.startswith("step")], f"rank {error.rank} ended by {error.signal}")
commands = [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
claim("processes of the job that are left", sum(str(dying) in command for command in commands), equals=0)

# %% [markdown]
# **Explain.** Rank 0's call fails, because its partner's connection is gone, or `torchrun` ends it. The first failure
# is the cause; what the other ranks say afterwards is what came of it. Started again, the job reads its last
# checkpoint. If `torchrun` itself is killed with SIGKILL, its workers stay; the course's launcher ends those too.
#
# Another failure of the start: a fixed `--master-port` that someone else uses. Leave it out on one machine.

# %%
with socket.socket() as taken_by_another:
    taken_by_another.bind(("127.0.0.1", 0))
    taken_by_another.listen()
    port = taken_by_another.getsockname()[1]
    try:
        torchrun(script, "cpu", port=port)
    except LaunchError as error:
        print(str(error).replace(str(port), "PORT"))

# %% [markdown]
# ## FSDP shares out what DDP repeats
# Under DDP every rank keeps all parameters, all gradients and all of the optimizer's state. `fully_shard` (FSDP2) cuts
# each parameter along its first axis, and a rank keeps its piece, with its gradient and its state. A block's parameters
# are gathered when it computes, and dropped again.
# > **Predict.** 116,992 parameters in float32, AdamW. How many bytes does a rank of two keep, under DDP and under FSDP?

# %%
print(inspect.getsource(sharding.sharded))
sharding.say = lambda *words: None  # forked ranks inherit it: the lines below say all
sharded = run_ranks(lambda rank: sharding.compare(None), 2)[0]
for name in ("ddp", "fsdp"):
    for number, kept in enumerate(sharded[name]["bytes"]):
        print(f"{name:<5} rank {number}: {kept}  together {sum(kept.values())}")
everything = 16 * sharded["parameters"]
claim("bytes a rank under DDP", [sum(kept.values()) for kept in sharded["ddp"]["bytes"]], equals=[everything] * 2)
pieces = [16 * shard_elements(sharded["shapes"], 2, rank) for rank in range(2)]
claim("bytes a rank under FSDP, as computed", [sum(kept.values()) for kept in sharded["fsdp"]["bytes"]], equals=pieces)
claim("FSDP's weights equal one process's within 1e-5", sharded["fsdp"]["difference"] < 1e-5, equals=True)

# %% [markdown]
# **Explain.** 16 bytes a parameter: itself, its gradient, two moments of AdamW. Rank 0's piece is a little larger,
# because no odd axis can be halved. For a network of 7 billion parameters, whose largest block has 0.22 billion,
# without activations:

# %%
for ranks in (1, 8, 64):
    whole, cut = ddp_memory(7_000_000_000), fsdp_memory(7_000_000_000, ranks, largest_block=220_000_000)
    kept = f"FSDP {cut.total / 1e9:.1f} GB, {cut.peak / 1e9:.1f} GB while the block is gathered"
    print(f"{ranks:>2} ranks: DDP {whole.total / 1e9:.1f} GB a rank, {kept}")

# %% [markdown]
# | | what a rank keeps | what it sends in a step | choose it when |
# | --- | --- | --- | --- |
# | `nn.DataParallel` | one process with a thread a GPU; the network is copied to every GPU in each forward pass | outputs and gradients through GPU 0 | never: the documentation advises DDP even on one machine |
# | DDP | everything | an all-reduce of the gradients | 16 bytes a parameter and the activations fit |
# | FSDP | 1/n of everything, and a gathered block | two all-gathers of the parameters, a reduce-scatter of the gradients: half as much again | they do not fit |

# %%
# exercise: distributed.memory_per_rank

# %%
# exercise: distributed.ddp_or_fsdp

# %% [markdown]
# ## What a step costs
# A message of b bytes takes about α + β b seconds: a **latency**, and a time for each byte. An all-reduce among n ranks
# in a **ring** makes 2(n - 1) steps, each with an n-th of the bytes; up and down a **tree**, 2 log₂ n steps with all of
# them. α and β are fitted to all-reduces of two processes here. Then the model is carried on to 1024.
# > **Predict.** Every worker keeps its batch size. What grows with the number of workers: latency, or bytes?


# %% tags=["measured"]
def measure(rank: int) -> tuple[list[tuple[int, float]], dict[str, list[float]]]:
    """(bytes, seconds) of all-reduces, and seconds of steps; in turn, so that a busy moment hits all alike."""
    tensors = [torch.zeros(4**power) for power in range(0, 11, 2)]  # 4 bytes to 4 MiB
    models = {"alone": sharding.network(256), "ddp": DDP(sharding.network(256))}
    optimizers = {name: torch.optim.SGD(model.parameters(), lr=0.01) for name, model in models.items()}

    def step(name: str) -> None:
        optimizers[name].zero_grad()
        models[name](torch.ones(64, 16)).square().mean().backward()
        optimizers[name].step()

    reductions, steps = [], {name: [] for name in models}
    for _ in range(repeats + 1):
        reductions.append([(one.nbytes, collectives.seconds_of(dist.all_reduce, one)) for one in tensors])
        for name in models:
            steps[name].append(collectives.seconds_of(step, name))
    return list(itertools.chain(*reductions[1:])), {name: times[1:] for name, times in steps.items()}


reductions, steps = run_ranks(measure, 2, timeout=120)[0]
link, compute, together = calibrate(reductions), statistics.median(steps["alone"]), statistics.median(steps["ddp"])
gradient_bytes = sum(p.nbytes for p in sharding.network(256).parameters())
rows = forecast(compute, gradient_bytes, link, workers=(1, 2, 8, 64, 1024))
print(f"alpha {link.alpha * 1e6:.0f} µs, {link.bandwidth / 1e9:.2f} GB/s; {gradient_bytes / 1e6:.1f} MB of gradients")
for row in rows:
    print(f"{row.workers:>5} {row.algorithm}: {row.seconds * 1e3:8.1f} ms a step, {row.efficiency:4.0%} computing")
lines = {name: [(row.workers, row.seconds) for row in rows if row.algorithm == name] for name in ("ring", "tree")}
assumptions = [
    "alpha and beta are those of two processes on this machine; a network between machines has others.",
    "Every worker has a link of its own, all are equally fast, and nobody else uses the links.",
    "Nothing overlaps: DDP hides a part behind the backward pass. Adding numbers is free.",
]
draw_scaling(lines, (2, together), compute=compute, assumptions=assumptions)
ring = {row.workers: row for row in rows if row.algorithm == "ring"}
claim(
    "modelled step of two processes against the measured one", ring[2].seconds / together, low=0.5, high=2.0, unit="x"
)
latency = 2 * 1023 * link.alpha / ring[1024].communication
claim("latency's share of a ring of 1024", 100 * latency, stated="most of it", low=50, high=100, unit="%")

# %% [markdown]
# **Explain.** In the ring the bytes that a rank sends hardly grow: nearly twice the tensor, however many ranks there
# are. The 2(n - 1) latencies do grow, and a tree has few of them. So libraries choose by size and number. The cures are
# few and large messages (buckets), overlap, a larger batch a worker, fewer reductions (`no_sync`), and numbers of two
# bytes. A forecast from two points tells which term grows, not what a cluster will do.
#
# ## Build it: all-reduce in a ring
# > **Predict.** 8000 numbers of 4 bytes on 8 ranks: how many messages and bytes does a rank send in a ring? And when
# > everyone sends everything to everyone?

# %%
trace = simulate_ring([torch.full((8000,), float(rank)) for rank in range(8)])
claim("messages of each rank", set(trace.messages), equals={14})
claim("bytes that each rank sends in a ring", set(trace.sent_bytes), equals={56_000}, unit="bytes")
show("7 * 8000 * 4  # everyone to everyone, each rank", "[result[0].item() for result in trace.results]")
scratch.cleanup()

# %%
# exercise: distributed.ring_all_reduce

# %% [markdown]
# ## From symptom to understanding
# | what you see | fault | why | fix |
# | --- | --- | --- | --- |
# | "environment variable RANK expected" | not-launched-with-torchrun | nobody said who and where | `torchrun`, or `init_method="file://..."` |
# | "Expected to have finished reduction" | ddp-unused-parameters | a gradient never came | drop the layer, or `find_unused_parameters=True` |
# | weights of the ranks differ | ddp-forward-bypassed | `ddp.module(x)` reduces nothing | `ddp(x)` |
# | the same batches in every epoch | sampler-set-epoch | the epoch is 0 | `sampler.set_epoch(epoch)` |
# | "sampler option is mutually exclusive with shuffle" | sampler-and-shuffle | two orders | shuffle in the sampler |
# | a metric that depends on the number of ranks | sampler-duplicates-in-metric | padding | `range(rank, count, ranks)`, or cut |
# | ranks print different metrics | metric-not-reduced | each has its share | reduce sum and count |
# | the same crops on all ranks | same-seed-on-all-ranks | one seed | seed again, with the rank, after building |
# | silence, then a timeout | | ranks made different calls | every rank, the same calls, the same order |
#
# ## A table to keep
# | line | on which ranks | why |
# | --- | --- | --- |
# | `dist.init_process_group(backend)` | all | gloo for CPUs, nccl for GPUs |
# | `manual_seed(seed)`, build, `manual_seed(seed * ranks + rank)` | all | equal weights, different noise |
# | `DDP(model)`, then the optimizer | all | rank 0's weights go to all |
# | `sampler.set_epoch(epoch)` | all | another order in each epoch |
# | `ddp(x)`, `loss.backward()` | all | gradients are averaged |
# | `with ddp.no_sync():` around forward and backward | all | accumulate without traffic |
# | `dist.all_reduce(sum_and_count)` | all, the empty ones too | one metric |
# | `torch.save(ddp.module.state_dict(), path)` | 0 | then `dist.barrier()` on all |
#
# **Read on:** [distributed communication](https://docs.pytorch.org/docs/stable/distributed.html), [DistributedDataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html)
# and [its design](https://docs.pytorch.org/docs/stable/notes/ddp.html), [torchrun](https://docs.pytorch.org/docs/stable/elastic/run.html), [fully_shard](https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html),
# [checkpoints of sharded models](https://docs.pytorch.org/docs/stable/distributed.checkpoint.html).
