"""What is noted while a step runs: calls in their order, seen however they were imported, and nothing patched after."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.functional import cross_entropy, dropout
from torch.nn.utils import clip_grad_norm_

from course.doctor.clock import Clock
from course.doctor.setup import Setup
from course.doctor.watch import Recording, Seen, origin


def batches(number: int = 3) -> list[tuple[Tensor, Tensor]]:
    return [(torch.randn(8, 6), torch.randint(0, 3, (8,))) for _ in range(number)]


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))


def recorded(step: Callable[..., Any], loader: Any = None, **more: Any) -> Recording:
    setup = Setup(loader=batches() if loader is None else loader, step=step, **more)
    recording = setup.training
    assert recording is not None
    assert setup.not_examined == []
    return recording


def kinds(recording: Recording, call: int = 0, *, without: tuple[str, ...] = ()) -> list[str]:
    return [event.kind for event in recording.of(*{e.kind for e in recording.events} - set(without), call=call)]


def test_one_step_in_order() -> None:
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)

    def step(batch: tuple[Tensor, Tensor]) -> float:
        x, y = batch
        net.train()
        optimizer.zero_grad()
        loss = cross_entropy(net(x), y)
        loss.backward()
        clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        return loss.item()

    recording = recorded(step)
    order = kinds(recording, without=("forward", "dropout"))
    assert order == [
        "call",
        "mode",
        "zero_grad",
        "loss",
        "backward",
        "clip",
        "optimizer_step",
        "scheduler_step",
        "read",
    ]
    assert recording.calls >= 3
    assert recording.error is None
    (forward,) = [event for event in recording.of("forward", call=0) if event.root]
    assert forward.module is net
    assert (forward.name, forward.training, forward.grad_enabled, forward.autocast) == ("net", True, True, None)
    assert forward.outputs[0].shape == (8, 3)
    assert [event.name for event in recording.of("forward", call=0)] == ["net", "net.0", "net.1", "net.2", "net.3"]
    loss = recording.of("loss", call=0)[0]
    assert (loss.name, loss.origin[0]) == ("cross_entropy", "AddmmBackward0")
    assert loss.value == pytest.approx(recording.returned[0])
    assert loss.options["label_smoothing"] == 0.0
    assert loss.input.grad_fn is None
    assert recording.of("scheduler_step", call=0)[0].after == [0.05]
    assert recording.of("optimizer_step", call=1)[0].rates == [0.05]
    assert set(recording.moved) == {"net.0.weight", "net.0.bias", "net.3.weight", "net.3.bias"}
    assert all(change > 0 for change in recording.moved.values())
    (dropped,) = recording.of("dropout", call=0)
    assert (dropped.p, dropped.training, dropped.module_name) == (0.5, True, "net.2")
    assert net[0].weight.grad is None
    assert optimizer.param_groups[0]["lr"] == 0.1


def test_the_standard_step_with_several_optimizers() -> None:
    net = network()
    optimizers = torch.optim.SGD(net[0].parameters(), lr=0.1), torch.optim.Adam(net[3].parameters())
    setup = Setup(model=net, loader=batches(), loss_fn=nn.CrossEntropyLoss(), optimizers=optimizers)
    assert setup.standard
    recording = setup.training
    stepped = [event.optimizer for event in recording.of("optimizer_step", call=0)]
    assert stepped == list(optimizers)
    assert [event.module for event in recording.of("forward", call=0) if event.root] == [net]
    assert all(change > 0 for change in recording.moved.values())


def test_lbfgs_runs_its_closure_inside_of_the_step() -> None:
    net = network()
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=3)
    setup = Setup(model=net, loader=batches(), loss_fn=nn.CrossEntropyLoss(), optimizers=(optimizer,))
    recording = setup.training
    assert len(recording.of("backward", call=0)) >= 2
    assert recording.error is None


def test_dropout_of_the_functional_kind_is_told_from_a_module() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 3)

        def forward(self, x: Tensor) -> Tensor:
            return dropout(self.layer(x), 0.3)

    net = Net().eval()

    def step(batch: tuple[Tensor, Tensor]) -> None:
        net.eval()
        net(batch[0])

    event = recorded(step).of("dropout")[0]
    assert event.module is net
    assert (event.p, event.training, event.module.training) == (0.3, True, False)


def test_modes_and_grad_mode_of_an_evaluation() -> None:
    net = network()
    data = batches()

    def evaluate() -> float:
        net.eval()
        with torch.no_grad():
            return sum(F.cross_entropy(net(x), y).item() for x, y in data)

    setup = Setup(model=net, evaluate=evaluate)
    recording = setup.evaluation
    assert recording.modes_before[""] is True
    assert recording.modes_after[""] is False
    assert [event.training for event in recording.of("mode")] == [False]
    assert {event.grad_enabled for event in recording.of("forward")} == {False}
    assert net.training
    assert setup.training is None


def test_step_evaluation_step() -> None:
    net = network()
    data = batches()

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        return F.cross_entropy(net(batch[0]), batch[1])

    def evaluate() -> None:
        net.eval()

    recording = Setup(model=net, loader=data, step=step, evaluate=evaluate).after_evaluation
    assert [event.phase for event in recording.of("call")] == ["step", "evaluate", "step", "step"]
    assert [event.training for event in recording.of("forward") if event.root] == [True, False, False]


def test_autocast_and_scaler() -> None:
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")

    def step(batch: tuple[Tensor, Tensor]) -> None:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(net(batch[0]), batch[1])
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()

    recording = recorded(step)
    assert recording.of("forward")[0].autocast is torch.bfloat16
    assert recording.of("backward")[0].autocast is None
    assert {"scale", "unscale", "scaler_step", "scaler_update"} <= set(kinds(recording))


def test_models_and_optimizers_that_nobody_passed_are_kept() -> None:
    holder: dict[str, Any] = {}

    def step(batch: tuple[Tensor, Tensor]) -> None:
        if not holder:
            holder["net"] = network()
            holder["optimizer"] = torch.optim.SGD(holder["net"].parameters(), lr=0.1)
        F.cross_entropy(holder["net"](batch[0]), batch[1]).backward()
        holder["optimizer"].step()

    recording = recorded(step)
    assert len(recording.of("optimizer_step")) >= 3
    assert holder == {}


def test_kept_graphs_name_where_they_are() -> None:
    net = network()
    losses: list[Tensor] = []
    state = {"total": torch.zeros(())}

    def step(batch: tuple[Tensor, Tensor]) -> None:
        loss = F.cross_entropy(net(batch[0]), batch[1])
        loss.backward()
        losses.append(loss)
        state["total"] = state["total"] + loss

    kept = recorded(step).kept_graphs
    assert {path for path, _ in kept} >= {"losses[0]", "losses[1]", "losses[2]", "state['total']"}
    assert losses == []

    def clean(batch: tuple[Tensor, Tensor]) -> None:
        losses.append(F.cross_entropy(net(batch[0]), batch[1]).item())

    assert recorded(clean).kept_graphs == []


def test_an_error_ends_the_recording_and_is_kept() -> None:
    net = network()

    def step(batch: tuple[Tensor, Tensor]) -> None:
        F.cross_entropy(net(batch[0][:, :5]), batch[1])

    recording = recorded(step)
    assert isinstance(recording.error, RuntimeError)
    assert recording.calls == 1
    assert "RuntimeError" in recording.of("forward")[0].error
    assert "RuntimeError" in recording.of("call")[0].error


def test_checkpointed_layers_are_noted_once() -> None:
    from torch.utils.checkpoint import checkpoint

    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(batch: tuple[Tensor, Tensor]) -> None:
        optimizer.zero_grad()
        loss = F.cross_entropy(checkpoint(net, batch[0], use_reentrant=False), batch[1])
        loss.backward()
        optimizer.step()

    recording = recorded(step)
    assert len([event for event in recording.of("forward", call=0) if event.root]) == 1


@pytest.mark.parametrize("how", ["whole", "in place"])
def test_a_compiled_model_is_seen_module_by_module(how: str) -> None:
    net = network()
    model = torch.compile(net, backend="eager") if how == "whole" else net
    if how == "in place":
        net.compile(backend="eager")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x, y = batches(1)[0]
    F.cross_entropy(model(x), y).backward()
    setup = Setup(model=model, loader=batches(), loss_fn=F.cross_entropy, optimizers=(optimizer,))
    recording = setup.training
    assert recording.error is None
    assert {"0", "1", "2", "3"} <= {event.name for event in recording.of("forward")}
    assert setup.raw_model is net
    assert set(setup.parameters) == {"0.weight", "0.bias", "3.weight", "3.bias"}
    F.cross_entropy(model(x), y).backward()


def test_a_wrapped_model_is_named_without_its_wrapper(tmp_path: Any) -> None:
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        net = network()
        model = nn.parallel.DistributedDataParallel(net)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(batch: tuple[Tensor, Tensor]) -> None:
            optimizer.zero_grad()
            F.cross_entropy(model(batch[0]), batch[1]).backward()
            optimizer.step()

        for more in ({"step": step}, {"loss_fn": F.cross_entropy}):
            setup = Setup(model=model, loader=batches(), optimizers=(optimizer,), **more)
            recording = setup.training
            assert recording.error is None
            assert recording.moved["0.weight"] > 0
            assert "0.weight" in setup.parameters
        step(batches(1)[0])
    finally:
        dist.destroy_process_group()


def test_other_threads_are_not_recorded() -> None:
    net, other = network(), nn.Linear(2, 2)
    threads = []

    def step(batch: tuple[Tensor, Tensor]) -> None:
        thread = threading.Thread(target=lambda: other(torch.zeros(1, 2)).sum().backward())
        thread.start()
        thread.join()
        threads.append(thread.name)
        net(batch[0])

    recording = recorded(step)
    assert {event.name.split(".")[0] for event in recording.of("forward")} == {"net"}
    assert recording.of("backward") == []


def test_a_slow_evaluation_is_broken_off_and_then_shortened() -> None:
    import time

    from torch.utils.data import DataLoader, TensorDataset

    net = network()
    loader = DataLoader(TensorDataset(torch.randn(4000, 6)), batch_size=1)
    finished: list[int] = []

    def evaluate() -> None:
        for (x,) in loader:
            try:
                time.sleep(0.005)
                net(x)
            except Exception:  # what breaks the evaluation off must not end here
                continue
        finished.append(1)

    setup = Setup(model=net, evaluate=evaluate, clock=Clock(1.0))
    recording = setup.evaluation
    assert recording.complete
    assert recording.shortened
    assert len([event for event in recording.of("forward") if event.root]) == 2
    assert setup.clock.spent() < 1.5
    assert any("evaluate" in line for line in setup.not_examined)


def test_what_is_printed_and_warned_of_is_kept(capfd: pytest.CaptureFixture[str]) -> None:
    def step(batch: Any) -> None:
        print("a line")
        F.mse_loss(torch.zeros(3, 1), torch.zeros(3))

    recording = recorded(step)
    assert "a line" in recording.printed
    assert "different to the input size" in recording.warnings[0][1]
    assert capfd.readouterr().out == ""


def test_a_step_without_parameters_fetches_its_own_batch() -> None:
    calls = []
    setup = Setup(step=lambda: calls.append(1))
    assert setup.training.calls >= 3
    needs_batch = Setup(step=lambda batch: None)
    assert needs_batch.training is None
    assert "give the loader" in needs_batch.not_examined[0]


def test_seen_tells_of_values_that_are_not_finite() -> None:
    seen = Seen.of(torch.tensor([1.0, float("nan")]), numbers=True)
    assert seen.finite is False
    assert Seen.of(torch.tensor([1.0, float("inf")]), numbers=True).finite is False
    assert Seen.of(torch.tensor([-1, 3]), numbers=True).low == -1
    assert Seen.of(torch.zeros(0), numbers=True).finite is None
    weight = torch.ones(2, requires_grad=True)
    assert origin((weight * 2).softmax(0)) == ("SoftmaxBackward0", "MulBackward0", "AccumulateGrad")


def test_transforms_of_torch_func_are_left_alone() -> None:
    from torch.func import functional_call, grad, vmap

    net = nn.Linear(6, 3)

    def step(batch: tuple[Tensor, Tensor]) -> None:
        parameters = dict(net.named_parameters())

        def loss(parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
            return F.cross_entropy(functional_call(net, parameters, (x[None],)), y[None])

        gradients = vmap(grad(loss), (None, 0, 0))(parameters, *batch)
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter -= 0.1 * gradients[name].mean(0)

    recording = recorded(step)
    assert recording.error is None
    assert recording.moved["net.weight"] > 0


def test_compiled_code_is_traced_once_as_it_was_given() -> None:
    @torch.compile(fullgraph=True)
    def halved(x: Tensor) -> Tensor:
        return x / 2 if x.sum() > 0 else x

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        return halved(batch[0]).sum()

    setup = Setup(loader=batches(), step=step)
    assert setup.untraced
    assert setup.training.error is None
    assert "Data-dependent" in str(setup.run_traced())

    @torch.compile
    def doubled(x: Tensor) -> Tensor:
        return x * 2

    setup = Setup(loader=batches(), step=lambda batch: doubled(batch[0]).sum())
    assert setup.run_traced() is None
    assert setup.untraced, "what was compiled for the examination has to be forgotten"


def test_an_error_that_shortened_loaders_cause_is_none() -> None:
    import time

    from torch.utils.data import DataLoader, TensorDataset

    loader = DataLoader(TensorDataset(torch.randn(400, 6)), batch_size=1)
    net = network()

    def evaluate() -> None:
        seen = 0
        for (x,) in loader:
            time.sleep(0.01)
            net(x)
            seen += 1
        assert seen == 400

    setup = Setup(model=net, evaluate=evaluate, clock=Clock(1.0))
    assert isinstance(setup.evaluation.error, AssertionError)
    assert setup.errors == []
    assert "two batches" in setup.not_examined[-1]
