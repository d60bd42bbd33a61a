"""Texts of the topic distributed, real ones and those of launchers, logs and other versions."""

from __future__ import annotations

import pytest
import torch.distributed as dist
from support.raised import raised

from course.doctor.explain import explain

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK")


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def group(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


SETUP = """
import os
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, SequentialSampler, WeightedRandomSampler
data = list(range(8))
class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.both = nn.Linear(2, 2), nn.Linear(2, 2), False
    def forward(self, x):
        return self.b(self.a(x)) if self.both else self.a(x)
"""

REAL = [
    ("not-launched-with-torchrun", "dist.init_process_group('gloo')", "`RANK`"),
    ("not-launched-with-torchrun", "dist.init_process_group('gloo', rank=0, world_size=2)", "`MASTER_ADDR`"),
    ("not-launched-with-torchrun", "rank = int(os.environ['LOCAL_RANK'])", "`LOCAL_RANK`"),
    ("not-launched-with-torchrun", "ranks = int(os.environ['WORLD_SIZE'])", "`WORLD_SIZE`"),
    ("not-launched-with-torchrun", "torch.distributed.device_mesh.init_device_mesh('cpu', (1,))", "`RANK`"),
    ("not-launched-with-torchrun", "DDP(nn.Linear(2, 2))", "init_process_group"),
    ("not-launched-with-torchrun", "DistributedSampler(data)", "init_process_group"),
    ("not-launched-with-torchrun", "dist.all_reduce(torch.ones(1))", "init_process_group"),
    (
        "not-launched-with-torchrun",
        "dist.init_process_group('gloo', init_method='tcp://localhost:1', world_size=1)",
        "rank",
    ),
    (
        "sampler-and-shuffle",
        "DataLoader(data, shuffle=True, sampler=DistributedSampler(data, num_replicas=2, rank=0))",
        "sampler",
    ),
    ("sampler-and-shuffle", "DataLoader(data, shuffle=True, sampler=WeightedRandomSampler([1] * 8, 8))", "sampler"),
    (
        "sampler-and-shuffle",
        "DataLoader(data, shuffle=True, batch_sampler=BatchSampler(SequentialSampler(data), 2, False))",
        "batch_sampler",
    ),
]


@pytest.mark.parametrize(("fault", "code", "quoted"), REAL)
def test_a_real_error_is_explained_with_what_it_says(fault, code, quoted):
    found = explain(raised(SETUP + code))
    assert found
    assert found[0]["fault"] == fault
    assert quoted in found[0]["why"] + found[0]["fix"]


@pytest.mark.slow
def test_an_unused_layer_is_named_by_its_number(group):
    step = "m = DDP(Two())\nfor _ in range(2): m(torch.ones(4, 2)).sum().backward()"
    found = explain(raised(SETUP + step))
    assert found[0]["fault"] == "ddp-unused-parameters"
    assert "2, 3" in found[0]["why"]


@pytest.mark.slow
def test_a_graph_that_is_not_static_is_told_so(group):
    step = """
m = DDP(Two(), static_graph=True)
for i in range(3):
    m.module.both = i == 0
    m(torch.ones(4, 2)).sum().backward()
"""
    found = explain(raised(SETUP + step))
    assert found[0]["fault"] == "ddp-unused-parameters"
    assert "static_graph" in found[0]["why"]


REDUCTION = (
    "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one. This error "
    "indicates that your module has parameters that were not used in producing loss. You can enable unused parameter "
    "detection by passing the keyword argument `find_unused_parameters=True` to `torch.nn.parallel."
    "DistributedDataParallel`, and by making sure all `forward` function outputs participate in calculating loss."
)
LITERAL = [
    (
        "ddp-unused-parameters",
        f"{REDUCTION}\nParameters which did not receive grad for rank 1: head.weight, "
        f"head.bias\nParameter indices which "
        "did not receive grad for rank 1: 60 61",
        "`head.weight`",
    ),
    ("ddp-unused-parameters", f"{REDUCTION}\nParameter indices which did not receive grad for rank 0: 2 3", "2, 3"),
    (
        "ddp-unused-parameters",
        "RuntimeError: It looks like your LightningModule has parameters that were not used in "
        "producing the loss returned "
        "by training_step. If this is intentional, you must enable the detection of unused parameters "
        "in DDP, either by "
        "setting the string value `strategy='ddp_find_unused_parameters_true'`",
        "DDP",
    ),
    (
        "ddp-unused-parameters",
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/w/train.py", line 41, in <module>\n[rank1]:     loss = model(x)\n'
        '[rank1]:   File "/opt/site-packages/torch/nn/parallel/distributed.py", line 1636, in forward\n'
        "[rank1]:     inputs, kwargs = self._pre_forward(*inputs, **kwargs)\n"
        f"[rank1]: {REDUCTION}\n"
        "E0101 10:00:00.000000 1 torch/distributed/elastic/multiprocessing/api.py:874] failed "
        "(exitcode: 1) local_rank: 1\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        "============================================================\ntrain.py FAILED\n"
        "------------------------------------------------------------\nRoot Cause (first observed failure):\n[0]:\n"
        "  rank      : 1 (local_rank: 1)\n  exitcode  : 1 (pid: 12)",
        "DDP",
    ),
    (
        "not-launched-with-torchrun",
        "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable MASTER_PORT "
        "expected, but not set",
        "`MASTER_PORT`",
    ),
    ("not-launched-with-torchrun", "KeyError: 'RANK'", "`RANK`"),
    (
        "not-launched-with-torchrun",
        "RuntimeError: Default process group has not been initialized, please make sure to call init_process_group.",
        "process group",
    ),
    (
        "not-launched-with-torchrun",
        "RuntimeError: Timed out initializing process group in store based barrier on rank: 0, for key: "
        "store_based_barrier_key:1 (world_size=2, worker_count=1, timeout=0:30:00)",
        "1 of 2",
    ),
    (
        "not-launched-with-torchrun",
        "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 1/4 clients joined.",
        "1 of 4",
    ),
    ("not-launched-with-torchrun", "train.py: error: unrecognized arguments: --local-rank=0", "LOCAL_RANK"),
    ("sampler-and-shuffle", "ValueError: sampler option is mutually exclusive with shuffle", "sampler"),
    (
        "wrapper-prefix",
        "[rank0]: RuntimeError: Error(s) in loading state_dict for DistributedDataParallel:\n[rank0]: "
        "\tMissing key(s) in "
        'state_dict: "module.fc.weight", "module.fc.bias". \n[rank0]: \tUnexpected key(s) in state_dict: "fc.weight", '
        '"fc.bias". ',
        "in the model",
    ),
]


@pytest.mark.parametrize(("fault", "text", "quoted"), LITERAL)
def test_a_text_of_a_log_or_another_version_is_known(fault, text, quoted):
    found = explain(text)
    assert found
    assert found[0]["fault"] == fault
    assert quoted in found[0]["why"] + found[0]["fix"]


SILENT = [
    "torch.distributed.DistNetworkError: The server socket has failed to listen on any local "
    "network address. port: 29500, "
    "useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
    "RuntimeError: Timed out initializing process group in store based barrier on rank: 2, for key: "
    "store_based_barrier_key:1 (world_size=2, worker_count=4, timeout=0:30:00)",
    "[rank0]:[W1130 reducer.cpp:1529] Warning: find_unused_parameters=True was specified in DDP "
    "constructor, but did not "
    "find any unused parameters in the forward pass.",
    "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:545] Connection closed by "
    "peer [127.0.0.1]:4242",
    "RuntimeError: DistributedDataParallel is not needed when a module doesn't have any parameter "
    "that requires a gradient.",
    "ValueError: DataLoader with IterableDataset: expected unspecified shuffle option, but got shuffle=True",
    "ValueError: trying to initialize the default process group twice!",
    "KeyError: 'HOME'",
    "INFO:torch.distributed.distributed_c10d:Rank 0: Completed store-based barrier for 2 nodes.",
    "W1130 torch/distributed/run.py:774] Setting OMP_NUM_THREADS environment variable for each "
    "process to be 1 in default",
    "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, Timeout(ms)=600000)",
    "train.py: error: unrecognized arguments: --epochs=3",
]


@pytest.mark.parametrize("text", SILENT)
def test_what_tells_of_no_known_fault_is_not_guessed(text):
    assert explain(text) == []
