"""A live exception is explained with the numbers of its tensors, and close faults are told apart by them."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course.doctor.explain import explain


def explained(call):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is not the point
        call()
    return explain(caught.value)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 64, 3, stride=2)
        self.w1 = nn.Parameter(torch.zeros(3136, 10))

    def forward(self, x):
        maps = self.conv(x)
        return maps.flatten(1) @ self.w1


def test_numbers_of_the_user_s_own_weights():
    found = explained(lambda: Net()(torch.zeros(2, 1, 28, 28)))
    assert found[0].fault == "flatten-size-mismatch"
    assert "`self.w1` is (3136, 10)" in found[0].why
    assert "64 * 13 * 13 = 10816" in found[0].why


def test_unflattened_input_is_told_from_a_wrong_number():
    missing = explained(
        lambda: nn.Sequential(nn.Conv2d(1, 8, 3), nn.Linear(8 * 26 * 26, 10))(torch.zeros(2, 1, 28, 28))
    )
    wrong = explained(
        lambda: nn.Sequential(nn.Conv2d(1, 8, 3), nn.Flatten(), nn.Linear(99, 10))(torch.zeros(2, 1, 28, 28))
    )
    assert "not flattened" in missing[0].why
    assert "8 * 26 * 26 = 5408 would fit" in missing[0].why
    assert "not flattened" not in wrong[0].why
    assert "nn.Linear(5408, 10)" in wrong[0].fix


def test_product_without_flatten_is_no_flatten_mismatch():
    a, b = torch.zeros(3, 4), torch.zeros(5, 6)
    assert not explained(lambda: a @ b)


def test_the_double_tensor_is_named():
    features = torch.zeros(4, 3, dtype=torch.float64)
    found = explained(lambda: nn.Linear(3, 1)(features))
    assert found[0].fault == "float64-input"
    assert "`features` has shape (4, 3) and dtype float64" in found[0].why
    assert "`features = features.float()`" in found[0].fix


def test_a_discarded_conversion_comes_before_its_consequence():
    def train():
        features = torch.zeros(4, 3, dtype=torch.float64)
        features.float()
        return nn.Linear(3, 1)(features)

    found = explained(train)
    assert found[0].fault == "discarded-to-result"
    assert "features.float()" in found[0].why


def test_modules_are_converted_in_place():
    def train():
        net = nn.Linear(3, 1)
        net.float()
        features = torch.zeros(4, 3, dtype=torch.float64)
        return net(features)

    assert explained(train)[0].fault == "float64-input"


class Scaled(nn.Module):
    def __init__(self, registered: bool) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        if registered:
            self.register_buffer("mean", torch.zeros(2))
        else:
            self.mean = torch.zeros(2)

    def forward(self, x):
        return self.layer(x - self.mean)


def test_a_plain_attribute_that_stayed_behind():
    found = explained(lambda: Scaled(False).to("meta")(torch.zeros(3, 2, device="meta")))
    assert found[0].fault == "tensor-not-buffer"
    assert "`self.mean` is a plain attribute of Scaled on cpu" in found[0].why
    # The input itself is elsewhere: the module is whole.
    assert explained(lambda: Scaled(True).to("meta")(torch.zeros(3, 2)))[0].fault == "device-mismatch"


class Listed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(2, 2)]
        self.out = nn.Linear(2, 2)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


def test_layers_in_a_list_that_stayed_behind():
    found = explained(lambda: Listed().to("meta")(torch.zeros(3, 2, device="meta")))
    assert found[0].fault == "unregistered-submodule"


class Builds(nn.Module):
    def forward(self, x):
        return nn.Linear(2, 2)(x)


def test_a_layer_made_in_forward():
    assert explained(lambda: Builds()(torch.zeros(3, 2, device="meta")))[0].fault == "layer-built-in-forward"


def test_labels_are_quoted_with_the_number_of_classes():
    found = explained(lambda: F.cross_entropy(torch.zeros(2, 10), torch.tensor([3, 10])))
    assert found[0].why.startswith("A label is 10; 10 logits allow 0 to 9.")


def test_classes_last_are_told_from_a_target_of_another_length():
    last = explained(lambda: F.cross_entropy(torch.zeros(4, 7, 10), torch.zeros(4, 7, dtype=torch.long)))
    assert last[0].fault == "class-axis-misplaced"
    assert "(4, 7, 10)" in last[0].why
    longer = explained(lambda: F.cross_entropy(torch.zeros(4, 10, 7), torch.zeros(4, 9, dtype=torch.long)))
    assert "class-axis-misplaced" not in [found.fault for found in longer]


def test_state_of_a_last_short_batch_is_no_axis_mismatch():
    axes = explained(lambda: nn.GRU(3, 4)(torch.zeros(8, 5, 3), torch.zeros(1, 8, 4)))
    assert axes[0].fault == "batch-first-mismatch"
    assert "(8, 5, 3)" in axes[0].why
    short = explained(lambda: nn.GRU(3, 4, batch_first=True)(torch.zeros(3, 5, 3), torch.zeros(1, 8, 4)))
    assert not short or short[0].confidence < 0.6


def test_frozen_is_told_from_hard():
    def frozen():
        net = nn.Linear(2, 3).requires_grad_(False)
        targets = torch.zeros(4, 3).argmax(1)
        loss = F.cross_entropy(net(torch.zeros(4, 2)), targets)
        loss.backward()

    def hard():
        net = nn.Linear(2, 3)
        predicted = net(torch.zeros(4, 2)).argmax(1)
        loss = (predicted != torch.zeros(4)).float().mean()
        loss.backward()

    assert explained(frozen)[0].fault == "graph-cut"
    assert "None of the 2 parameters in reach requires grad" in explained(frozen)[0].why
    assert explained(hard)[0].fault == "nondifferentiable-loss"


def test_detached_state_and_two_losses_are_no_hidden_state():
    def two_losses():
        lstm = nn.LSTM(2, 3)
        state = None
        for _ in range(2):
            out, state = lstm(torch.zeros(5, 4, 2), state)
            state = tuple(part.detach() for part in state)
            hidden = out.tanh()
            hidden.mean().backward()
            hidden.pow(2).mean().backward()

    assert explained(two_losses)[0].fault == "backward-twice"


def test_a_step_is_told_from_an_edit_of_an_activation():
    def stepped():
        net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        out = net(torch.zeros(3, 2))
        out.mean().backward(retain_graph=True)
        optimizer.step()
        out.pow(2).mean().backward()

    def edited():
        net = nn.Sequential(nn.Linear(2, 4), nn.Tanh())
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        out = net(torch.zeros(3, 2))
        out += 1
        out.sum().backward()
        optimizer.step()

    assert explained(stepped)[0].fault == "step-before-second-backward"
    assert explained(edited)[0].fault == "inplace-on-saved"


def test_the_user_s_frame_is_not_the_library_s():
    def mine():
        return nn.Linear(3, 1)(torch.zeros(4, 5))

    assert explained(mine)[0].fault == "flatten-size-mismatch"


def test_chain_of_causes():
    def run():
        try:
            F.cross_entropy(torch.zeros(2, 3), torch.tensor([1, 5]))
        except IndexError as error:
            raise RuntimeError("training stopped") from error

    assert explained(run)[0].fault == "class-index-out-of-range"


def test_a_raised_stop_is_no_fault():
    for stop in (KeyboardInterrupt(), SystemExit(1)):
        found = explain(stop)
        assert not found
        assert "stopped" in found.note


def test_nothing_is_changed_or_called():
    class Watched(nn.Module):
        asked = 0

        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 2)

        @property
        def costly(self):
            type(self).asked += 1
            return torch.zeros(1)

        def forward(self, x):
            return self.layer(x) if x.shape[1] == 2 else self.layer(x) + self.costly

    net = Watched()
    before = {name: (value.clone(), value._version) for name, value in net.state_dict(keep_vars=True).items()}
    state = torch.get_rng_state()
    explained(lambda: net(torch.zeros(3, 5)))
    assert Watched.asked == 0
    assert torch.equal(state, torch.get_rng_state())
    for name, value in net.state_dict(keep_vars=True).items():
        assert torch.equal(before[name][0], value)
        assert before[name][1] == value._version
