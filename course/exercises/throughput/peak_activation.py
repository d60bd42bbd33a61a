"""Lesson 10: which layer makes the graph keep how many bytes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from course.checking import Exercise

exercise = Exercise(
    "throughput.peak_activation",
    title="Who holds the memory",
    task="""
        Activations are most of the memory at the peak of a training step: autograd **saves** tensors in the forward
        pass and keeps them until backward. `saved_bytes(model, images)` runs the `nn.Sequential` `model` on `images`
        once, layer by layer, and returns a list of `int`, one number for each layer in turn: the bytes that are kept
        because of it.

        - Count what is saved, whatever it is: inputs, results, masks, indices.
          `torch.autograd.graph.saved_tensors_hooks` shows each tensor at the moment it is saved.
        - Count **storages**, each once and whole, as a saved view keeps all of the memory behind it. A storage that
          several layers save belongs to the first of them. (`x.untyped_storage()` has `data_ptr()` and `nbytes()`.)
        - The storages of parameters and buffers do not count: they exist anyway. Those of `images` do, if they are
          saved.
        - A layer that saves nothing new has 0. The same layer may stand at two places of the model. Leave the mode of
          the model as it is.
        """,
    hints=(
        "A hook is a pair of functions, pack and unpack. pack gets each tensor when it is saved; return it as it is, "
        "and note something about it. What has two saved tensors in common that share memory?",
        "Keep a dict from storage address to bytes, or a set of addresses that starts with those of parameters and "
        "buffers. Loop over the layers of the model within the hooks; a new layer starts with 0, and pack adds what is "
        "new to the last number.",
    ),
)


@exercise.stub
def saved_bytes(model: nn.Sequential, images: Tensor) -> list[int]:
    """Return for each layer the bytes of the storages that autograd saves first in this layer."""
    raise NotImplementedError


@exercise.reference
def noted_by_address(model, images):
    known = {tensor.untyped_storage().data_ptr() for tensor in [*model.parameters(), *model.buffers()]}
    kept, x = [], images

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            known.add(storage.data_ptr())
            kept[-1] += storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        for layer in model:
            kept.append(0)
            x = layer(x)
    return kept


@exercise.alternative
def by_module_hooks(model, images):
    own = {tensor.untyped_storage() for tensor in (*model.parameters(), *model.buffers())}
    started, place = [], {}

    def note(tensor):
        if tensor.untyped_storage() not in own:
            place.setdefault(tensor.untyped_storage(), len(started) - 1)
        return tensor

    handles = [layer.register_forward_pre_hook(lambda *_: started.append(1)) for layer in model.children()]
    with saved_tensors_hooks(note, lambda tensor: tensor):
        model(images)
    for handle in handles:
        handle.remove()
    return [sum(storage.nbytes() for storage, i in place.items() if i == number) for number in range(len(model))]


@exercise.alternative
def all_tensors_first(model, images):
    saved, x = [], images
    for number, layer in enumerate(model):
        with saved_tensors_hooks(lambda tensor, n=number: saved.append((n, tensor)) or tensor, lambda t: t):
            x = layer(x)
    seen = {t.data_ptr() - t.storage_offset() * t.element_size() for t in (*model.parameters(), *model.buffers())}
    table = [0] * len(model)
    for number, tensor in saved:
        start = tensor.data_ptr() - tensor.storage_offset() * tensor.element_size()
        if start not in seen:
            table[number] += tensor.untyped_storage().nbytes()
        seen.add(start)
    return table


# What the wrong answers have in common.


def saved_by_layer(layers, images):
    """(number of the layer, tensor) for each tensor that is saved."""
    saved, x = [], images
    for number, layer in enumerate(layers):
        with saved_tensors_hooks(lambda tensor, n=number: saved.append((n, tensor)) or tensor, lambda t: t):
            x = layer(x)
    return saved


def address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def storage_bytes(tensor: Tensor) -> int:
    return tensor.untyped_storage().nbytes()


def owned(model):
    return {address(tensor) for tensor in (*model.parameters(), *model.buffers())}


def table(model, saved, known, key: Any = address, size: Any = storage_bytes):
    """The sums of the layers: each key once, without those that are known."""
    kept, seen = [0] * len(model), set(known)
    for number, tensor in saved:
        if key(tensor) not in seen:
            seen.add(key(tensor))
            kept[number] += size(tensor)
    return kept


@exercise.wrong(
    "Each saved tensor counts, also when its memory was saved before. The result of a ReLU is saved by itself and by "
    "the layer that comes next: one memory, kept once."
)
def each_tensor_counts(model, images):
    own, kept = owned(model), [0] * len(model)
    for number, tensor in saved_by_layer(model, images):
        kept[number] += 0 if address(tensor) in own else storage_bytes(tensor)
    return kept


@exercise.wrong(
    "The weights are among the saved tensors, and they are counted. They exist with or without a graph: this is not "
    "memory that a smaller batch gives back."
)
def parameters_counted(model, images):
    buffers = {address(tensor) for tensor in model.buffers()}
    return table(model, saved_by_layer(model, images), buffers)


@exercise.wrong(
    "Only tensors of the class nn.Parameter are left out. A linear layer saves its weight transposed: a view, which is "
    "no nn.Parameter but has the same storage."
)
def only_instances_of_parameter(model, images):
    saved = [(n, t) for n, t in saved_by_layer(model, images) if not isinstance(t, nn.Parameter)]
    return table(model, saved, {address(tensor) for tensor in model.buffers()})


@exercise.wrong(
    "Buffers are counted. The running statistics of a BatchNorm belong to the model and exist anyway, as its "
    "parameters do."
)
def buffers_counted(model, images):
    return table(model, saved_by_layer(model, images), {address(tensor) for tensor in model.parameters()})


@exercise.wrong(
    "The buffers are taken from the state dict. One that is registered with `persistent=False` is not in there, and is "
    "a buffer all the same: `model.buffers()` has it."
)
def buffers_of_the_state_dict(model, images):
    return table(model, saved_by_layer(model, images), {address(tensor) for tensor in model.state_dict().values()})


@exercise.wrong(
    "The model runs on a copy of `images`. If they are a part of a larger storage, a saved view of them keeps all of "
    "it; a copy has a storage of its own."
)
def on_a_copy(model, images):
    return table(model, saved_by_layer(model, images.clone()), owned(model))


@exercise.wrong(
    "The size is that of the saved tensor. A view keeps its whole storage, also the elements that it does not show; "
    "and an expanded tensor has more elements than bytes behind them."
)
def size_of_the_view(model, images):
    return table(model, saved_by_layer(model, images), owned(model), size=lambda t: t.numel() * t.element_size())


@exercise.wrong(
    "Tensors are told apart by the address of their first element. Two views of one storage start at different places, "
    "and their memory is counted twice."
)
def address_of_the_first_element(model, images):
    return table(model, saved_by_layer(model, images), owned(model), key=lambda t: t.data_ptr())


@exercise.wrong(
    "Four bytes are taken for every element. The indices of a max pooling are int64, eight bytes each, and not "
    "everything is float32."
)
def four_bytes_each(model, images):
    return table(
        model,
        saved_by_layer(model, images),
        owned(model),
        size=lambda t: 4 * (storage_bytes(t) // t.element_size()),
    )


@exercise.wrong("These are numbers of elements. The task asks for bytes.")
def elements(model, images):
    return table(
        model, saved_by_layer(model, images), owned(model), size=lambda t: storage_bytes(t) // t.element_size()
    )


@exercise.wrong(
    "This is the size of each layer's result. Which results are kept is for the next operations to say: that of a "
    "convolution before BatchNorm is, that of a last layer is not; and masks, indices and the input are missing."
)
def results_of_the_layers(model, images):
    kept, x = [], images
    for layer in model:
        x = layer(x)
        kept.append(storage_bytes(x))
    return kept


@exercise.wrong(
    "The batch itself is left out. The first layer saves it for the gradient of its weights, so it is kept until "
    "backward as everything else."
)
def without_the_batch(model, images):
    return table(model, saved_by_layer(model, images), owned(model) | {address(images)})


@exercise.wrong(
    "The model was put into evaluation mode, where dropout has no mask and BatchNorm saves no statistics of the batch. "
    "What is asked for is what training keeps: use the model as it is."
)
def in_evaluation_mode(model, images):
    model.eval()
    return table(model, saved_by_layer(model, images), owned(model))


@exercise.wrong("Under no_grad there is no graph, and nothing is saved at all.")
def without_a_graph(model, images):
    with torch.no_grad():
        return table(model, saved_by_layer(model, images), owned(model))


@exercise.wrong(
    "A storage belongs to the last layer that saves it here. The task gives it to the first, which makes it be kept."
)
def to_the_last_layer(model, images):
    return table(model, saved_by_layer(model, images)[::-1], owned(model))


@exercise.wrong(
    "Each layer is counted for itself: what an earlier one has saved already is counted again. The sum of the layers "
    "is then more than what is kept."
)
def each_layer_for_itself(model, images):
    saved, own = saved_by_layer(model, images), owned(model)
    return [table(model, [row for row in saved if row[0] == n], own)[n] for n in range(len(model))]


@exercise.wrong(
    "unpack gives nothing back. It is called when a backward pass needs what was saved, which a layer may run within "
    "its forward: autograd expects the tensor that pack was given."
)
def unpack_gives_nothing(model, images):
    own, saved, x = owned(model), [], images
    for number, layer in enumerate(model):
        with saved_tensors_hooks(lambda tensor, n=number: saved.append((n, tensor)), lambda _: None):
            x = layer(x)
    return table(model, saved, own)


@exercise.wrong(
    "Layers that save nothing new are missing. They are to be there, with 0, so that place i stays that of layer i."
)
def without_zeros(model, images):
    return [size for size in table(model, saved_by_layer(model, images), owned(model)) if size]


@exercise.wrong(
    "A layer that stands at two places runs once only: `children()` and `named_children()` give each module once. "
    "The model itself, an nn.Sequential, is iterated over place by place."
)
def each_module_once(model, images):
    return table(list(model.children()), saved_by_layer(model.children(), images), owned(model))


class Halves(nn.Module):
    """Half of the channels times the other half: two views of one storage."""

    def forward(self, x):
        first, second = x.chunk(2, dim=1)
        return first * second


class Head(nn.Module):
    """Uses a part of what it is given."""

    def forward(self, x):
        return x[:, :2].square()


class Scale(nn.Module):
    """One number for each image, expanded to all of its pixels."""

    def forward(self, x):
        return x * x.mean((1, 2, 3), keepdim=True).exp().expand(x.shape)


class Masked(nn.Module):
    """A weight for each feature, and a mask that is no part of the state dict."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("mask", torch.ones(4), persistent=False)

    def forward(self, x):
        return x * self.weight * self.mask


class Slope(nn.Module):
    """The derivative of the sine, by autograd: a layer that runs a backward pass of its own."""

    def forward(self, x):
        (slope,) = torch.autograd.grad(x.sin().sum(), x, create_graph=True)
        return slope


def flattened(layer):
    """A linear layer whose parameters are views of one storage, and do not start where it starts."""
    flat = torch.linspace(-1, 1, 4 + layer.weight.numel() + layer.bias.numel())
    layer.bias = nn.Parameter(flat[4 : 4 + layer.bias.numel()])
    layer.weight = nn.Parameter(flat[4 + layer.bias.numel() :].view(layer.weight.shape))
    return layer


class Doubled(nn.Module):
    """Another dtype from here on, which saves nothing."""

    def forward(self, x):
        return x.double()


def run(answer, *layers, shape=(2, 3, 8, 8), train=True, images=slice(None)):
    torch.manual_seed(1)
    model = nn.Sequential(*layers).train(train)
    modes, runs = [module.training for module in model.modules()], []
    model[-1].register_forward_hook(lambda *_: runs.append(1))
    kept = answer(model, torch.rand(shape)[images])
    same = modes == [module.training for module in model.modules()]
    return kept, f"last layer run {len(runs)} times, mode {'unchanged' if same else 'changed'}"


@exercise.probe
def one_linear_layer(answer):
    return run(answer, nn.Linear(5, 3), shape=(4, 5))


@exercise.probe
def two_linear_layers(answer):
    return run(answer, nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 3), shape=(4, 5))


@exercise.probe
def nothing_to_save(answer):
    return run(answer, nn.Flatten(), nn.Linear(12, 3), nn.Identity(), shape=(2, 3, 4))


@exercise.probe
def one_layer_at_two_places(answer):
    squash = nn.Tanh()
    return run(answer, nn.Linear(5, 6), squash, nn.Linear(6, 3), squash, nn.Linear(3, 2), shape=(4, 5))


@exercise.probe
def the_reference_network(answer):
    layers = [nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(4, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(24, 5)]
    return run(answer, *layers)


@exercise.probe
def batch_norm_and_dropout(answer):
    return run(
        answer, nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Conv2d(4, 2, 3)
    )


@exercise.probe
def in_the_mode_that_it_has(answer):
    return run(answer, nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5), train=False)


@exercise.probe
def two_views_of_one_storage(answer):
    return run(answer, nn.Conv2d(3, 4, 1), Halves(), nn.Conv2d(2, 2, 1))


@exercise.probe
def a_part_of_a_storage(answer):
    return run(answer, nn.Conv2d(3, 5, 1), Head())


@exercise.probe
def an_expanded_tensor(answer):
    return run(answer, nn.Conv2d(3, 2, 1), Scale(), nn.ReLU())


@exercise.probe
def a_frozen_layer(answer):
    return run(answer, nn.Conv2d(3, 4, 3).requires_grad_(False), nn.ReLU(), nn.Conv2d(4, 2, 3))


@exercise.probe
def parameters_in_one_storage(answer):
    return run(answer, flattened(nn.Linear(5, 6)), nn.Tanh(), flattened(nn.Linear(6, 2)), shape=(4, 5))


@exercise.probe
def a_buffer_outside_of_the_state_dict(answer):
    return run(answer, Masked(), shape=(3, 4))


@exercise.probe
def images_that_are_a_part_of_a_storage(answer):
    return run(answer, nn.Linear(4, 2), shape=(9, 4), images=slice(3))


@exercise.probe
def a_layer_that_differentiates(answer):
    return run(answer, nn.Linear(5, 6), Slope(), nn.Linear(6, 2), shape=(4, 5))


@exercise.probe
def double_precision(answer):
    return run(answer, nn.Linear(5, 6), nn.Tanh(), Doubled(), nn.Linear(6, 2, dtype=torch.float64), shape=(4, 5))
