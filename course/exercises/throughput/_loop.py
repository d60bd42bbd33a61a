"""Watch one epoch of an answer: what the host waits for, what is copied, and how many operations a step takes."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from course.checking.observation import leaves
from course.exercises.throughput._blocks import at_most, memory_of

# What makes the host wait for values of a device shows on the CPU as well: as a call of torch ...
READING_CALLS = {"tolist", "numpy", "cpu", "__array__", "__repr__"}
# ... or as an operation.
READING_OPERATIONS = {
    "_local_scalar_dense",
    "_unique2",
    "allclose",
    "bincount",
    "equal",
    "is_nonzero",
    "masked_select",
    "nonzero",
    "repeat_interleave",
    "unique_consecutive",
    "unique_dim",
}
CHOOSING_OPERATIONS = {"flip", "gather", "index", "index_select", "roll", "take", "where"}
SHAPE = (3, 16, 17)  # of an image: more elements than tables have that give each byte, in each channel, its float
PIXELS = 3 * 16 * 17
FLOAT_TENSORS = 2  # as the task says
BATCHES_ALIVE = 8  # bytes, mirrored bytes and floats of a batch, and as much again for the next one
GRAPHS_ALIVE = 2  # that of the last loss, and of one before it that a variable may hold
FEW_OPERATIONS = 3  # what a smaller last batch may differ in


class _Witness:
    """Held by a node of a graph and by nothing else."""


class _Marked(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, witnesses: weakref.WeakSet[_Witness]) -> Tensor:
        ctx.witness = _Witness()
        witnesses.add(ctx.witness)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


class SmallNet(nn.Module):
    """Images (N, *SHAPE) to scores (N, 4); every pixel has a weight of its own. ``graphs`` holds what is not freed."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(PIXELS, 4)
        weights = torch.sin(1.7 * torch.arange(4.0 * PIXELS)).reshape(4, PIXELS) / 30
        self.linear.load_state_dict({"weight": weights, "bias": torch.tensor([0.1, -0.2, 0.3, 0.0])})
        self.graphs: weakref.WeakSet[_Witness] = weakref.WeakSet()

    def forward(self, x: Tensor) -> Tensor:
        return _Marked.apply(self.linear(x.flatten(1)), self.graphs)


def reads_values(name: str, args: tuple[Any, ...]) -> bool:
    if name in ("index", "index_put_"):
        mask = any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in args[1])
        return mask and (name == "index" or args[2].numel() > 1)  # a single value is filled in without counting
    return name in READING_OPERATIONS


class Watch(TorchDispatchMode):
    """Counts what happens while a model is trained; its hooks tell the parts of a step apart.

    copy: elements from which on a new tensor is a copy of the data set."""

    def __init__(self, model: SmallNet, optimizer: torch.optim.Optimizer, copy: float) -> None:
        super().__init__()
        self.model, self.optimizer, self.copy = model, optimizer, copy
        self.reads = self.reads_before_last_step = self.sent = self.sent_before_last_step = self.operations = 0
        self.floats = self.floats_chosen = self.batches_alive = self.graphs_alive = 0
        self.by_step: list[int] = []
        self.copies: set[str] = set()
        self.preparing = True
        self.new: list[tuple[int, bool]] = []  # elements, floating or not, of what this step has made so far
        self.chosen: list[int] = []  # elements of the floating tensors that were chosen from or mirrored in this step
        self.made: list[tuple[int, Any]] = []  # elements and memory of all that was made for batches

    def __enter__(self) -> Watch:
        self.handles = [
            self.model.register_forward_pre_hook(self.before_forward),
            self.optimizer.register_step_post_hook(self.after_step),
        ]
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        for handle in self.handles:
            handle.remove()

    def before_forward(self, _: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        size = inputs[0].numel()
        self.floats = max(self.floats, sum(floating for elements, floating in self.new if elements >= size))
        self.floats_chosen += sum(elements >= size for elements in self.chosen)
        memory = [reference for elements, reference in self.made if elements == size]
        self.batches_alive = max(self.batches_alive, sum(not reference.expired() for reference in memory))
        self.preparing = False

    def after_step(self, *_: object) -> None:
        self.reads_before_last_step, self.sent_before_last_step = self.reads, self.sent
        self.graphs_alive = len(self.model.graphs)
        self.by_step.append(self.operations)
        self.operations = 0
        self.new, self.chosen = [], []
        self.preparing = True

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        self.operations += 1
        name = function.overloadpacket.__name__
        self.reads += reads_values(name, args)
        if name in CHOOSING_OPERATIONS and self.preparing:
            self.chosen += [t.numel() for t in args if isinstance(t, Tensor) and t.is_floating_point()]
        # Made of Python's numbers; a single one travels with the operation that uses it.
        self.sent += name == "lift_fresh" and result.numel() > 1 and 0 < len(self.by_step)
        if not function.is_view and not function._schema.is_mutable:
            for tensor in leaves((result,)):
                if isinstance(tensor, Tensor):
                    self.note(tensor)
        return result

    def note(self, tensor: Tensor) -> None:
        if tensor.numel() >= self.copy:
            self.copies.add(str(tensor.dtype).removeprefix("torch."))
        elif self.preparing:
            self.new.append((tensor.numel(), tensor.is_floating_point()))
            self.made.append((tensor.numel(), memory_of(tensor)))

    @property
    def grows(self) -> bool:
        """Whether a later full batch takes more operations than the last, smaller one."""
        return len(self.by_step) > 2 and self.by_step[1] > self.by_step[-1] + FEW_OPERATIONS


class _Calls(TorchFunctionMode):
    """Notes calls that read values without any operation, and those that would mix tensors of two devices."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch
        self.mixed = 0
        self.named: list[torch.device] = []  # by tensors: here the CPU plays the accelerator

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        result = function(*args, **kwargs)
        if function is not torch.device:
            self.named += [device for device in leaves((result,)) if isinstance(device, torch.device)]
        devices = (*args[1:], kwargs.get("device")) if name == "to" else ()
        to_host = name == "cpu" or any(map(self.is_host, devices))
        self.watch.reads += name in READING_CALLS or to_host
        if to_host or any(isinstance(device, (str, torch.device, Tensor)) for device in devices):
            if to_host or hasattr(result, "of_host"):
                result = result.view_as(result)  # where nothing moves, the result is the tensor itself
            if to_host and result.dim():
                result.of_host = True
        elif name not in ("copy_", "type_as"):
            self.note(leaves((args, kwargs)), kwargs.get("device"), leaves((result,)))
        return result

    def is_host(self, device: object) -> bool:
        if isinstance(device, torch.device):
            return device.type == "cpu" and not any(device is named for named in self.named)
        return isinstance(device, str) and device.startswith("cpu")

    def note(self, inputs: Iterable[object], device: object, results: Iterable[object]) -> None:
        """What is made without a device is the host's, and so is what is made of it. A single number fits anywhere."""
        tensors = [tensor for tensor in inputs if isinstance(tensor, Tensor)]
        of_host = [hasattr(tensor, "of_host") for tensor in tensors]
        if all(of_host) and device is None:
            for tensor in results:
                if isinstance(tensor, Tensor) and tensor.dim():
                    tensor.of_host = True  # type: ignore[attr-defined]
        elif any(of_host):
            self.mixed += any(tensor.dim() for tensor, host in zip(tensors, of_host, strict=True) if not host)


Epoch = Callable[[nn.Module, torch.optim.Optimizer, Tensor, Tensor, Tensor, Tensor, int], float]


def observed(
    answer: Epoch, count: int, batch_size: int, *, trained: int | None = None, epochs: int = 1, training: bool = True
) -> dict[str, Any]:
    """The losses and weights that an answer arrives at, and what it did on the way. All images differ.

    count: images; it is no multiple of 5. trained: how many of them are in the order, all where None."""
    places = torch.arange(count * PIXELS)
    images = (places * 37 + places.square() % 251).remainder(256).to(torch.uint8).reshape(count, *SHAPE)
    targets = torch.arange(count) % 4
    order = ((torch.arange(count) * 5 + 3) % count)[:trained]
    mirrored = torch.arange(count) % 3 == 1
    given = (images, targets, order, mirrored)
    before = [tensor.clone() for tensor in given]
    model = SmallNet().train(training)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.004, momentum=0.5)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 3.0)  # of an earlier batch
    losses = []
    copy = images.numel() if batch_size < count else float("inf")
    with Watch(model, optimizer, copy) as watch, _Calls(watch) as calls:
        losses.append(answer(model, optimizer, *given, batch_size))
    for _ in range(1, epochs):
        losses.append(answer(model, optimizer, images, targets, order.flip(0), ~mirrored, batch_size))
    return {
        "mean loss of each epoch": losses,
        "weights": list(model.linear.parameters()),
        "values that the host read before the last step": watch.reads_before_last_step,
        "lists that the later steps sent to the device": watch.sent_before_last_step,
        "calls that take tensors of the host and of the device": calls.mixed,
        "a larger batch takes more operations": watch.grows,
        "copies of the whole data set, by dtype": sorted(watch.copies),
        "floating point tensors to prepare a batch": at_most(watch.floats, FLOAT_TENSORS),
        "floating point tensors chosen from or mirrored": watch.floats_chosen,
        "tensors of the size of a batch alive at a time": at_most(watch.batches_alive, BATCHES_ALIVE),
        "graphs alive after the last step": at_most(watch.graphs_alive, GRAPHS_ALIVE),
        "mode of the model": model.training,
        "images, targets, order and flags as before": all(map(torch.equal, given, before)),
    }
