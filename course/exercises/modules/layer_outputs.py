"""Lesson 03: a feature extractor by hook."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from course.checking import Exercise
from course.exercises.modules._probing import hook_count, numbers

exercise = Exercise(
    "modules.layer_outputs",
    title="A feature extractor by hook",
    task="""
        `layer_outputs(model, name, x)` runs `model` on `x` once and returns what its submodule called `name` (a dotted
        name such as `"blocks.1.norm"`) returned: a list with one tensor for each call of that submodule during the
        run, in order. A layer that is used twice gives two, one that is not reached gives an empty list.

        - Each tensor holds the values that the layer returned, also where a later layer writes over them in place.
        - It belongs to the graph: gradients flow back from it to `x` and to the weights.
        - The model computes what it always computes, and afterwards carries no hook of yours, even when the run ends
          in an error (which is not caught). Its mode stays, and its own hooks run, too, and stay. A layer that two
          names lead to is found by either. `x` stays as it is.
        """,
    hints=(
        "register_forward_hook takes a function of (module, args, output) and returns a handle. What does PyTorch do "
        "with the value that a hook returns? And who else holds the tensor that the hook was given?",
        "Keep output.clone() in a list, return None from the hook, call model(x) inside try, and remove the handle in "
        "finally.",
    ),
)


@exercise.stub
def layer_outputs(model: nn.Module, name: str, x: Tensor) -> list[Tensor]:
    """Run model on x and return what the submodule called name returned, once for each of its calls."""
    raise NotImplementedError


@exercise.reference
def by_forward_hook(model, name, x):
    kept = []

    def keep(module, args, output):
        kept.append(output.clone())

    handle = model.get_submodule(name).register_forward_hook(keep)
    try:
        model(x)
    finally:
        handle.remove()
    return kept


@exercise.alternative
def by_a_handle_as_context(model, name, x):
    found = []
    layer = dict(model.named_modules(remove_duplicate=False))[name]
    with layer.register_forward_hook(lambda *call: found.append(call[-1] * 1)):
        model(x)
    return found


@exercise.alternative
def by_a_hook_on_all_modules(model, name, x):
    kept = []
    wanted = model.get_submodule(name)

    def keep(module, args, output):
        if module is wanted:
            kept.append(torch.clone(output))

    with nn.modules.module.register_module_forward_hook(keep):
        model(x)
    return kept


@exercise.wrong(
    "The hook stays on the layer after the call. The next run calls it again, it holds its tensors and their graph in "
    "memory, and each further call adds one more hook. The handle that registering returns can take it off."
)
def hook_left_behind(model, name, x):
    kept = []
    model.get_submodule(name).register_forward_hook(lambda module, args, output: kept.append(output.clone()))
    model(x)
    return kept


@exercise.wrong(
    "The hook is taken off after the run, but not when the run fails: an error jumps over the line that removes it. "
    "What has to happen in any case belongs into a finally, or the handle into a with statement."
)
def removed_only_after_success(model, name, x):
    kept = []
    layer = model.get_submodule(name)
    handle = layer.register_forward_hook(lambda module, args, output: kept.append(output.clone()))
    model(x)
    handle.remove()
    return kept


@exercise.wrong(
    "The hook keeps the tensor itself, and the next layer may write into it: after nn.ReLU(inplace=True) the negative "
    "numbers are gone from what you have kept. Keep the values as they are at that moment."
)
def kept_without_a_copy(model, name, x):
    kept = []
    with model.get_submodule(name).register_forward_hook(lambda module, args, output: kept.append(output)):
        model(x)
    return kept


@exercise.wrong(
    "detach() (or .data) cuts the tensor off the graph, and without a copy it still shares its memory with what the "
    "model goes on to use. Here gradients are to flow back from the features.",
    fault="graph-cut",
)
def kept_detached(model, name, x):
    kept = []
    with model.get_submodule(name).register_forward_hook(lambda module, args, output: kept.append(output.detach())):
        model(x)
    return kept


@exercise.wrong(
    "What a forward hook returns replaces the layer's output, unless it is None. This hook returns something, so the "
    "model computes with other numbers from that layer on."
)
def hook_that_replaces(model, name, x):
    kept = []

    def keep(module, args, output):
        kept.append(output.clone())
        return output * 0

    with model.get_submodule(name).register_forward_hook(keep):
        model(x)
    return kept


@exercise.wrong(
    "forward is called directly. The layer's hook runs, because the model calls its layers in the usual way, but hooks "
    "on the model itself are passed over. Call the model.",
    fault="forward-called-directly",
)
def forward_of_the_model(model, name, x):
    kept = []
    with model.get_submodule(name).register_forward_hook(lambda module, args, output: kept.append(output.clone())):
        model.forward(x)
    return kept


@exercise.wrong(
    "These are the layer's inputs: the second argument of a forward hook is the tuple of positional arguments, the "
    "third is the output."
)
def inputs_of_the_layer(model, name, x):
    kept = []
    with model.get_submodule(name).register_forward_hook(lambda module, args, output: kept.append(args[0].clone())):
        model(x)
    return kept


@exercise.wrong(
    "The layers are run one after another, in the order in which they were registered, until the wanted one. Only for "
    "an nn.Sequential is that what the model does; what forward does besides is missing. Let the model run and listen."
)
def children_in_a_row(model, name, x):
    for child_name, child in model.named_children():
        x = child(x)
        if child_name == name.split(".")[0]:
            break
    return [x.clone()]


@exercise.wrong(
    "Only the last call is kept. A layer that is used twice has two outputs, and one that is never reached has none: "
    "collect them in a list."
)
def last_call_only(model, name, x):
    kept = {}
    with model.get_submodule(name).register_forward_hook(lambda module, args, output: kept.update(last=output.clone())):
        model(x)
    return list(kept.values())


@exercise.wrong(
    "The model was put into evaluation mode and left there. Whether the layer is observed in training or evaluation "
    "is the caller's choice."
)
def switched_to_eval(model, name, x):
    kept = []
    with model.eval().get_submodule(name).register_forward_hook(lambda m, args, output: kept.append(output.clone())):
        model(x)
    return kept


@exercise.wrong(
    "named_modules() gives each module once, under its first name. A layer that is registered under two names is not "
    "found by the second. get_submodule() follows the dots instead of looking through a list."
)
def first_names_only(model, name, x):
    kept = []
    layer = dict(model.named_modules())[name]
    with layer.register_forward_hook(lambda module, args, output: kept.append(output.clone())):
        model(x)
    return kept


@exercise.wrong(
    "All hooks of the layer are thrown away at the end, also those that somebody else had put there. The handle that "
    "registering returns takes off one hook, yours."
)
def all_hooks_cleared(model, name, x):
    kept = []
    layer = model.get_submodule(name)
    layer.register_forward_hook(lambda module, args, output: kept.append(output.clone()))
    try:
        model(x)
    finally:
        layer._forward_hooks.clear()
    return kept


@exercise.wrong(
    "The hook returns a detached tensor, and what a hook returns replaces the output: the model's numbers are the "
    "same, but its graph is cut at this layer, and nothing before it learns.",
    fault="graph-cut",
)
def graph_of_the_model_cut(model, name, x):
    kept = []

    def keep(module, args, output):
        kept.append(output.clone())
        return output.detach()

    with model.get_submodule(name).register_forward_hook(keep):
        model(x)
    return kept


@exercise.wrong(
    "Every layer whose name ends like the one asked for is observed, so `1` also brings the outputs of `0.1`. A dotted "
    "name leads to one layer."
)
def names_that_end_so(model, name, x):
    kept, handles = [], []
    for found, layer in model.named_modules():
        if found.endswith(name):
            handles.append(layer.register_forward_hook(lambda module, args, output: kept.append(output.clone())))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return kept


@exercise.wrong(
    "x was made to require gradients, and stays so after the call. Gradients flow to x if the caller asked for them; "
    "those of the weights need nothing of the kind."
)
def x_made_to_require_gradients(model, name, x):
    kept = []
    with model.get_submodule(name).register_forward_hook(lambda module, args, output: kept.append(output.clone())):
        model(x.requires_grad_())
    return kept


class Network(nn.Module):
    """Two blocks, a layer that is used twice, one that is never used, and an in-place ReLU."""

    def __init__(self):
        super().__init__()
        self.unused = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)
        blocks = [nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True)) for _ in range(2)]
        self.blocks = nn.Sequential(*blocks)
        self.twice = nn.Linear(3, 3)
        with torch.no_grad():
            for start, parameter in enumerate(self.parameters()):
                parameter.copy_(numbers(*parameter.shape, start=float(start)))

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return self.twice(self.twice(self.norm(x)))


def outcome(answer, name, model=None):
    """What was found, what the model gave to its own hook meanwhile, and how it is afterwards."""
    model = model or Network()
    given = []
    model.register_forward_hook(lambda module, args, output: given.append(output.detach().clone()))
    before, mode = hook_count(model), [module.training for module in model.modules()]
    found = answer(model, name, numbers(4, 3))
    return {
        "found": found,
        "output of the model": given,
        "hooks": hook_count(model) - before,
        "mode changed": mode != [module.training for module in model.modules()],
    }


@exercise.probe
def layer_in_a_block(answer):
    return outcome(answer, "blocks.1.0")["found"]


@exercise.probe
def model_afterwards(answer):
    return outcome(answer, "norm")


@exercise.probe
def layer_used_twice(answer):
    return outcome(answer, "twice")


@exercise.probe
def layer_never_used(answer):
    return outcome(answer, "unused")["found"]


@exercise.probe
def whole_block(answer):
    return outcome(answer, "blocks.0")["found"]


@exercise.probe
def in_evaluation_mode(answer):
    return outcome(answer, "norm", Network().eval())


@exercise.probe
def gradients_from_the_features(answer):
    model, x = Network(), numbers(4, 3, start=2.0).requires_grad_()
    (features,) = answer(model, "blocks.1.0", x)
    features.square().sum().backward()
    return x.grad, model.blocks[0][0].weight.grad, model.blocks[1][0].bias.grad


@exercise.probe
def hooks_after_a_failed_run(answer):
    """The model refuses to go on after its blocks; then its hooks, and those that are on all modules, are counted."""

    class Refused(Exception):
        pass

    def refuse(module, args):
        raise Refused("no")

    model = Network()
    model.norm.register_forward_pre_hook(refuse)
    try:
        answer(model, "blocks.0", numbers(4, 3))
        ending = "no error"
    except Refused as error:
        ending = str(error)
    return ending, hook_count(model), len(nn.modules.module._global_forward_hooks)


@exercise.probe
def images_given_are_left_alone(answer):
    x = numbers(2, 3)
    layers = nn.Sequential(nn.Identity(), nn.Linear(3, 2))
    found = answer(layers, "0", x)
    return found, x, x.requires_grad


@exercise.probe
def a_layer_with_two_names(answer):
    first = nn.Linear(3, 3)
    nn.init.constant_(first.weight, 0.5)
    nn.init.constant_(first.bias, -0.25)
    return answer(nn.Sequential(first, nn.Tanh(), first), "2", numbers(2, 3))


@exercise.probe
def names_of_one_ending(answer):
    return answer(nn.Sequential(nn.Sequential(nn.Tanh(), nn.Sigmoid()), nn.ReLU()), "1", numbers(2, 3))


@exercise.probe
def a_hook_of_the_layer_itself(answer):
    model, heard = Network(), []
    model.norm.register_forward_hook(lambda module, args, output: heard.append(tuple(output.shape)))
    answer(model, "norm", numbers(4, 3))
    return heard, hook_count(model)


@exercise.probe
def gradients_of_the_model_meanwhile(answer):
    model, given = Network(), []
    model.register_forward_hook(lambda module, args, output: given.append(output))
    answer(model, "norm", numbers(4, 3))
    given[0].square().sum().backward()
    return model.blocks[0][0].weight.grad
