"""What the catalogue says of torch, tried: a new torch that behaves otherwise fails here, by fault."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from course.faults import FAULTS


def refuses(call: Callable[[], object], kind: type[Exception] = RuntimeError) -> bool:
    try:
        call()
    except kind:
        return True
    return False


def warns(call: Callable[[], object]) -> bool:
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
    finally:
        torch.set_warn_always(always)
    return bool(caught)


def changed(tensor: torch.Tensor, change: Callable[[torch.Tensor], object]) -> list:
    change(tensor)
    return tensor.tolist()


def first_row_written() -> list:
    expanded = torch.zeros(1, 2).expand(3, 2)
    expanded[1] = 7
    return expanded.tolist()


def add_in_place(x: torch.Tensor) -> None:
    x[[0, 1]] += 1


X = torch.arange(6).reshape(2, 3)
UINT8 = torch.tensor([250, 5], dtype=torch.uint8)
READ_ONLY = np.frombuffer(bytes(4), dtype=np.uint8)
HWC = torch.arange(24).reshape(2, 3, 4)

FACTS: dict[str, list[Callable[[], bool]]] = {
    "view-of-noncontiguous": [
        lambda: refuses(lambda: X.t().view(6)),
        lambda: refuses(lambda: X[:, :2].view(4)),
        lambda: X.t().reshape(6).tolist() == X.t().contiguous().view(6).tolist() == [0, 3, 1, 4, 2, 5],
    ],
    "reshape-instead-of-permute": [
        lambda: HWC.reshape(4, 2, 3).shape == HWC.permute(2, 0, 1).shape,
        lambda: not torch.equal(HWC.reshape(4, 2, 3), HWC.permute(2, 0, 1)),
    ],
    "write-into-expanded": [
        lambda: torch.zeros(1, 2).expand(3, 2).stride()[0] == 0,
        lambda: refuses(lambda: torch.zeros(1, 2).expand(3, 2).add_(1)),
        lambda: first_row_written() == [[7, 7]] * 3,
    ],
    "write-into-index-copy": [
        lambda: changed(torch.zeros(3), lambda x: x[[0, 1]].add_(1)) == [0, 0, 0],
        lambda: changed(torch.zeros(3), lambda x: x[x == 0][:1].fill_(1)) == [0, 0, 0],
        lambda: changed(torch.zeros(3), add_in_place) == [1, 1, 0],
    ],
    "float64-input": [
        lambda: torch.from_numpy(np.zeros(2)).dtype == torch.float64,
        lambda: (torch.zeros(2) + torch.zeros(2, dtype=torch.float64)).dtype == torch.float64,
        lambda: refuses(lambda: torch.nn.Linear(2, 1)(torch.zeros(1, 2, dtype=torch.float64))),
        lambda: refuses(lambda: torch.nn.Conv1d(1, 1, 1)(torch.zeros(1, 1, 2, dtype=torch.float64))),
    ],
    "integer-tensor-arithmetic": [
        lambda: torch.tensor([1, 2]).dtype == torch.arange(4).dtype == torch.int64,
        lambda: refuses(lambda: X.mean()) and refuses(lambda: X.std()),
        lambda: refuses(lambda: torch.tensor([1, 2], requires_grad=True)),
        lambda: refuses(lambda: torch.tensor([1, 2]).add_(0.5)),
        lambda: X.mean(dtype=torch.float32) == X.float().mean() == 2.5,
    ],
    "legacy-tensor-constructor": [
        lambda: torch.Tensor(5).shape == (5,) and torch.Tensor(5).dtype == torch.float32,
        lambda: torch.Tensor([5]).tolist() == [5.0] and torch.Tensor([5]).dtype == torch.float32,
        lambda: torch.tensor(5).shape == (),
    ],
    "broadcast-outer-product": [
        lambda: (torch.zeros(4, 1) == torch.zeros(4)).shape == (4, 4),
        lambda: warns(lambda: F.mse_loss(torch.zeros(4, 1), torch.zeros(4))),
        lambda: not warns(lambda: torch.zeros(4, 1) == torch.zeros(4)),
    ],
    "device-mismatch": [
        lambda: refuses(lambda: torch.zeros(2) + torch.zeros(2, device="meta")),
        lambda: (torch.zeros(2, device="meta") + torch.tensor(1.0)).device.type == "meta",
    ],
    "discarded-to-result": [
        lambda: changed(torch.zeros(1, dtype=torch.int64), lambda x: x.to(torch.float32)) == [0],
        lambda: torch.nn.Linear(1, 1).to(torch.float64).weight.dtype == torch.float64,
    ],
    "squeeze-drops-batch": [
        lambda: torch.zeros(1, 1).squeeze().shape == (),
        lambda: torch.zeros(1, 1).squeeze(1).shape == torch.zeros(1, 1).squeeze(-1).shape == (1,),
        lambda: torch.zeros(1, 1, 1).flatten(1).shape == (1, 1),
    ],
    "uint8-overflow": [
        lambda: (UINT8 + 10)[0] == 4 and (UINT8 - 10)[1] == 251,
        lambda: (UINT8 + 300).dtype == torch.uint8,
        lambda: UINT8.sum() == 255 and UINT8.sum().dtype == torch.int64 and torch.cat([UINT8, UINT8]).sum() == 510,
        lambda: (UINT8.to(torch.int16) + 10).clamp(0, 255).to(torch.uint8).tolist() == [255, 15],
    ],
    "tensor-truth-value": [
        lambda: refuses(lambda: bool(X > 0)),
        lambda: refuses(lambda: X > 0 and X < 2),
        lambda: ((X > 0) & ~(X < 2)).any().item() and not (X > 0).all().item(),
    ],
    "numpy-shared-memory": [
        lambda: np.shares_memory(READ_ONLY, READ_ONLY) and _shares(torch.from_numpy) and _shares(torch.as_tensor),
        lambda: not _shares(torch.tensor),
        lambda: np.shares_memory(X.numpy(), X.numpy()) and not np.shares_memory(X.numpy().copy(), X.numpy()),
    ],
    "numpy-readonly-alias": [
        lambda: warns(lambda: torch.from_numpy(READ_ONLY)),
        lambda: not warns(lambda: torch.tensor(READ_ONLY)) and not warns(lambda: torch.from_numpy(READ_ONLY.copy())),
    ],
    "numpy-negative-stride": [
        lambda: refuses(lambda: torch.from_numpy(np.arange(4)[::-1]), ValueError),
        lambda: refuses(lambda: torch.from_numpy(np.flip(np.arange(4))), ValueError),
        lambda: refuses(lambda: torch.tensor(np.arange(4)[::-1]), ValueError),
        lambda: torch.from_numpy(np.arange(4)[::-1].copy()).tolist() == torch.flip(torch.arange(4), dims=(0,)).tolist(),
    ],
    "numpy-of-grad-tensor": [
        lambda: refuses(lambda: torch.ones(1, requires_grad=True).numpy()),
        lambda: torch.ones(1, requires_grad=True).detach().cpu().numpy()[0] == 1,
        lambda: torch.ones(1, requires_grad=True).item() == 1,
    ],
    "numpy-object-array": [
        lambda: refuses(lambda: torch.tensor(np.array([1, None], dtype=object)), TypeError),
        lambda: refuses(lambda: torch.from_numpy(np.array([[1, 2], [3]], dtype=object)), TypeError),
        lambda: torch.nn.utils.rnn.pad_sequence([torch.ones(2), torch.ones(1)]).shape == (2, 2),
    ],
    "tensor-of-list-of-arrays": [
        lambda: warns(lambda: torch.tensor([np.zeros(2), np.zeros(2)])),
        lambda: torch.from_numpy(np.stack([np.zeros(2), np.zeros(2)])).shape == (2, 2),
    ],
}


def _shares(convert: Callable[[np.ndarray], torch.Tensor]) -> bool:
    array = np.zeros(2, dtype=np.float32)
    convert(array)[0] = 1
    return bool(array[0] == 1)


def test_every_fault_of_tensors_and_numpy_is_tried():
    assert set(FACTS) == {entry.id for entry in FAULTS.values() if entry.topic in ("tensors", "numpy")}


@pytest.mark.parametrize("fault_id", FACTS)
def test_facts(fault_id):
    failed = [number for number, fact in enumerate(FACTS[fault_id], start=1) if not fact()]
    assert failed == []


def test_a_cpu_build_has_no_runtime_and_cuda_needs_one():
    assert torch.version.cuda is not None or not torch.cuda.is_available()


def test_new_tensors_and_modules_live_on_the_cpu():
    assert torch.zeros(1).device.type == torch.nn.Linear(1, 1).weight.device.type == "cpu"
