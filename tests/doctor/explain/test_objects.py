"""Causes that only the objects of a live exception tell apart: what a module left behind, whom a gradient went to."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

from course.doctor.explain import explain


def explained(call):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is not the point
        call()
    return explain(caught.value)


class LeftBehind(nn.Module):
    """Layers and tensors that `double()` and `to()` do or do not find."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.first = nn.Linear(4, 4)
        self.table = torch.ones(4)
        self.in_dict = {"a": nn.Linear(4, 4)}
        if how != "dict":
            self.in_dict = nn.ModuleDict(self.in_dict)
        if how != "plain":
            del self.table

    def forward(self, x):
        x = self.first(x)
        if self.how == "plain":
            x = F.linear(x, torch.eye(4).to(x)) + self.table
            return self.in_dict["a"](x)
        if self.how == "built":
            last = nn.Linear(4, 2)
            return last(x)
        return torch.stack([layer(x) for layer in self.in_dict.values()])


@pytest.mark.parametrize(
    ("how", "dtype", "wanted", "told"),
    [
        ("dict", torch.double, "unregistered-submodule", "in float32, the registered parameters in float64"),
        ("built", torch.double, "layer-built-in-forward", "in float32, with new weights"),
        ("plain", torch.bfloat16, "tensor-not-buffer", "of LeftBehind in float32, its parameters in bfloat16"),
    ],
)
def test_what_a_cast_leaves_behind(how, dtype, wanted, told):
    found = explained(lambda: LeftBehind(how).to(dtype)(torch.ones(3, 4, dtype=dtype)))
    assert found[0].fault == wanted
    assert told in found[0].why


def test_an_input_of_another_dtype_is_not_the_module_s_fault():
    found = explained(lambda: LeftBehind("none")(torch.ones(3, 4, dtype=torch.double)))
    assert [each.fault for each in found] == ["float64-input"]


@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        ("replaced", "optimizer-misses-parameters"),
        ("cut", "graph-cut"),
    ],
)
def test_no_gradient_for_the_scaler_to_check(how, wanted):
    def call():
        model = nn.Linear(3, 2)
        opt, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu", init_scale=8.0)
        if how == "replaced":
            model = nn.Linear(3, 2)
        loss = model(torch.ones(4, 3)).sum()
        if how == "cut":
            loss = loss.detach().requires_grad_()
        scaler.scale(loss).backward()
        scaler.step(opt)

    assert explained(call)[0].fault == wanted


def test_gradients_cleared_before_the_scaler_looked():
    def call():
        model = nn.Linear(3, 2)
        opt, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu", init_scale=8.0)
        scaler.scale(model(torch.ones(4, 3)).sum()).backward()
        opt.zero_grad()
        scaler.step(opt)

    found = explained(call)
    assert found[0].fault == "zero-grad-before-step"
    assert "`opt.zero_grad()` stands between backward() and the step" in found[0].why


def test_parameters_in_two_groups():
    def repeated():
        layers = nn.ModuleList([nn.Linear(2, 2)] * 3)
        torch.optim.SGD([{"params": layer.parameters()} for layer in layers], lr=0.1)

    def given_twice():
        layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
        torch.optim.SGD([{"params": layers.parameters()}, {"params": layers[0].parameters()}], lr=0.1)

    found = explained(repeated)
    assert found[0].fault == "shared-by-list-multiplication"
    assert "`layers` has 3 places for 1 different modules" in found[0].why
    assert not explained(given_twice)


def test_what_is_copied_tells_a_log_from_a_module():
    weight = nn.Linear(2, 1).weight
    losses = [weight.sum(), (weight**2).sum()]
    assert explained(lambda: copy.deepcopy(losses))[0].fault == "graph-retained-in-log"
    module = nn.Module()
    module.scaled = weight * 2
    assert explained(lambda: copy.deepcopy(module))[0].fault == "nonleaf-parameter"


def test_a_list_of_columns_where_a_batch_was_meant():
    def call():
        for image, box in DataLoader([(torch.zeros(3), [0.1, 0.2])] * 6, batch_size=3):
            image, box = image.to("cpu"), box.to("cpu")

    found = explained(call)
    assert found[0].fault == "list-sample-transposed"
    assert "`box` is a list of 2 tensors of shape (3,)" in found[0].why
    assert not explained(lambda: [1, 2].to("cpu"))


def test_a_distribution_of_nan():
    def call(poisoned):
        policy = nn.Linear(3, 2)
        if poisoned:
            nn.init.constant_(policy.weight, float("nan"))
        observation = torch.ones(4, 3) if poisoned else torch.full((4, 3), float("nan"))
        torch.distributions.Categorical(logits=policy(observation), validate_args=True)

    assert explained(lambda: call(False))[0].fault == "nonfinite-data"
    assert "`policy.weight` holds NaN" in explained(lambda: call(True))[0].why


def test_largest_over_the_batch():
    logits, target = torch.zeros(20, 5), torch.zeros(20)

    def call():
        guess = logits.softmax(1).argmax(0)
        return (guess == target).sum()

    assert explained(call)[0].fault == "argmax-wrong-axis"
    assert not explained(lambda: logits.argmax(1) + target[:5])


def test_a_square_of_differences_where_a_row_was_meant():
    errors, prediction, target = torch.zeros(40), torch.zeros(10, 1), torch.zeros(10)

    def call(target):
        errors[:10] = prediction - target

    assert explained(lambda: call(target))[0].fault == "broadcast-outer-product"
    assert not explained(lambda: call(target[:7]))


def test_a_new_leaf_before_backward_leaves_the_parameters_without_gradient():
    def call():
        model = nn.Linear(2, 1)
        loss = torch.tensor(model(torch.ones(3, 2)).mean().item(), requires_grad=True)
        loss.backward()
        for weight in model.parameters():
            weight.data -= 0.1 * weight.grad.clamp(-1, 1)

    assert explained(call)[0].fault == "loss-rewrapped"


@pytest.mark.parametrize("frozen", [False, True])
def test_nothing_to_train_in_parallel(frozen, tmp_path):
    class Filter(nn.Module):
        def __init__(self, frozen):
            super().__init__()
            self.register_buffer("kernel", torch.ones(3))
            if frozen:
                self.weight = nn.Parameter(torch.ones(3), requires_grad=False)

    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    try:
        found = explained(lambda: nn.parallel.DistributedDataParallel(Filter(frozen)))
    finally:
        dist.destroy_process_group()
    assert [each.fault for each in found] == ([] if frozen else ["no-parameters"])


def test_pixels_of_bytes_for_normalize():
    v1 = pytest.importorskip("torchvision.transforms")
    found = explained(lambda: v1.Normalize((0.5,), (0.5,))(torch.zeros(1, 2, 2, dtype=torch.uint8)))
    assert found[0].fault == "integer-tensor-arithmetic"
