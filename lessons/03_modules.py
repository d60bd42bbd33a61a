# %% [markdown]
# # 03 nn.Module registration
#
# A model is an object that knows its tensors. It learns of them at one moment: when you assign them to an attribute.
# What it knows is trained, moved, saved and switched; what it does not know is computed with, and nothing else.
#
# **Goals.** You can say of any attribute whether it is registered, and prove it; predict the names in a state; use hooks
# and the two modes; choose an initialisation by measuring; hand an optimizer exactly what it should train; freeze a part
# of a model so that it stays frozen; and put a new head on a pretrained one.
#
# **Prerequisites.** Lessons 01 and 02. **Time.** About 180 minutes, most of them for exercises.
#
# **What it measures.** Two sayings: "default initialisation explodes or vanishes in deep nets" and "frozen parameters
# still cost optimizer memory". Names, counts and bytes are exact; signals and accuracies are measured.
#
# **Predict** before you run a cell, and write your guess down. A wrong guess teaches most.

# %%
import copy
import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course import begin, check, claim, draw_registration, hint, pitfall, solution
from course.training.device import choose_device
from course.training.loop import evaluate, train_epoch
from course.training.tones import sound_network, sounds

begin("03")

# %% tags=["parameters"]
device = "auto"  # "auto", "cpu", "cuda" or "mps": where the deep networks and the small pretrained one run
profile = "quick"  # "smoke", "quick" or "full": how many random networks are measured; "smoke" hardly trains

# %%
run_device = choose_device(device)
repeats = {"smoke": 1, "quick": 2, "full": 20}[profile]


def count(module: nn.Module) -> int:
    """Return the number of trainable numbers that a module knows of."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


def show(*expressions: str) -> None:
    """Print each expression and its value."""
    for expression in expressions:
        print(f"{expression:<52} {eval(expression, globals())!s}")


# %% [markdown]
# ## Assignment registers
#
# `self.first = nn.Linear(4, 8)` is no ordinary assignment: `nn.Module` defines `__setattr__`, which looks at the *value*.
# A `Parameter` goes into one dictionary, a `Module` into another, buffers (next section) into a third. Anything else is
# stored as in every Python object, and forgotten.
# > **Predict.** Layers of 4 · 8 + 8 and twice 8 · 8 + 8 numbers, and a scale of 8: how many does this network know?


# %%
class Network(nn.Module):
    def __init__(self, container: type) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.scale = nn.Parameter(torch.ones(8))
        self.register_buffer("calls", torch.zeros(()))
        self.hidden = container(nn.Linear(8, 8) for _ in range(2))
        self.offset = torch.zeros(8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x) * self.scale + self.offset
        for layer in self.hidden:
            x = F.relu(layer(x))
        return x


network, registered = Network(list), Network(nn.ModuleList)
with pitfall("unregistered-submodule") as p:
    p.shows(seen=count(network), wanted=(4 * 8 + 8) + 8 + 2 * (8 * 8 + 8))
show("network(torch.ones(2, 4)).shape", "count(registered)", "list(network._parameters)", "list(network._modules)")
draw_registration(network, title="Network(list)")

# %% [markdown]
# **Explain.** The forward pass works, and only a part of the network would learn. A list is stored as it is, and nobody
# looks inside. `nn.ModuleList` is used like a list and *is* a module: it is registered, and registers what it holds,
# under the names 0, 1, 2. `nn.ModuleDict` does the same for dicts, `nn.ParameterList` and `nn.ParameterDict` for
# parameters. The plain tensor `offset` is lost, too.
# > **Predict.** What does each of these three blocks raise, if anything? (`hiding` has its only layer in a dict.)


# %%
class TooEarly(nn.Module):
    def __init__(self) -> None:
        self.layer = nn.Linear(2, 2)
        super().__init__()


hiding = nn.Module()
hiding.layers = {"only": nn.Linear(2, 2)}
with pitfall("missing-super-init", AttributeError):
    TooEarly()

with pitfall("no-parameters", ValueError):
    torch.optim.SGD(hiding.parameters(), lr=0.1)

with pitfall("shared-by-list-multiplication") as p:
    p.shows(seen=count(nn.ModuleList([nn.Linear(8, 8)] * 3)), wanted=3 * (8 * 8 + 8))
claim("three layers from a loop", count(nn.ModuleList(nn.Linear(8, 8) for _ in range(3))), equals=216, unit="numbers")

# %% [markdown]
# **Explain.** `Module.__init__` makes the dictionaries, so it comes first. An optimizer without parameters is refused;
# with one registered layer beside the hidden ones it would not be. `[layer] * 3` is one layer under three names.
#
# Reading goes the other way round: `__getattr__` is called for names that are no ordinary attributes, and looks into the
# dictionaries. An assignment to a registered name is checked.
# > **Predict.** May a parameter be replaced by a tensor? By None? May `in_features` become 7? Is a new layer accepted?

# %%
layer = nn.Linear(2, 2)
with pitfall("parameter-rebound", TypeError):
    layer.weight = layer.weight - 0.1
layer.bias, layer.in_features, layer.extra = None, 7, nn.ReLU()
show("layer", "[name for name, _ in layer.named_parameters()]")

# %% [markdown]
# **Explain.** A tensor in its place would end a parameter's training. None is how layers without bias are made. The number
# `in_features` changes what is printed, and nothing else.

# %%
# exercise: modules.mlp

# %% [markdown]
# ## Parameters, buffers and plain tensors
#
# A tensor that belongs to a model comes in three kinds. A **parameter** is trained. A **buffer** is state that is not
# trained: running statistics, a mask, the mean of the data. A **plain tensor** is a Python attribute like any other.
# > **Predict.** A module keeps `mean` as a plain tensor. What is its dtype after `.to(torch.float64)`, and what happens
# > on another device (here `meta`: shapes and no numbers)? Is the weight of a layer the same object after a move?


# %%
class Centred(nn.Module):
    def __init__(self, mean: Tensor) -> None:
        super().__init__()
        self.mean = mean

    def forward(self, x: Tensor) -> Tensor:
        return x - self.mean


plain, buffered = Centred(torch.ones(3)), Centred(nn.Buffer(torch.ones(3)))
with pitfall("tensor-not-buffer") as p:
    plain.to(torch.float64)
    p.shows(seen=(plain.mean.dtype, list(plain.state_dict())), wanted=(torch.float64, ["mean"]))

with pitfall("tensor-not-buffer", RuntimeError):
    plain.to("meta")(torch.ones(2, 3, device="meta"))
show("buffered.to(torch.float64).mean.dtype", "list(buffered.state_dict())", "list(buffered.parameters())")
show("buffered.to('meta')(torch.ones(2, 3, device='meta')).shape")
weight = (layer := nn.Linear(2, 2)).weight
show("layer.to(torch.float64).weight is weight", "layer.to('meta').weight is weight")

# %% [markdown]
# **Explain.** `to` walks over the dictionaries; so does `state_dict`. `nn.Buffer` marks a tensor so that assignment
# registers it; `self.register_buffer("mean", mean)` says the same by name. With `persistent=False` a buffer moves and is
# not saved: for what can be computed again.
#
# `to` on a *module* works in place: it puts new numbers into the same `Parameter` objects, so an optimizer that was built
# before still holds the right ones. (Older advice says "move first"; it comes from a time when that was not sure.) The
# device `meta`, which has no numbers, is different: there the objects are new.

# %%
# exercise: modules.standardise

# %%
# exercise: modules.registered_names

# %% [markdown]
# ## Names and state
#
# A name is the path of attributes: `hidden.0.weight`. `named_parameters()` gives each parameter once. `state_dict()`
# gives parameters and persistent buffers under all their names, and its tensors *share memory* with the model.
# > **Predict.** A model has two layers that share their weight. How many parameters and how many names has it?

# %%
tied = nn.Sequential(nn.Embedding(5, 2), nn.Linear(2, 5, bias=False))
tied[1].weight = tied[0].weight
tied[1](tied[0](torch.tensor([0, 3]))).sum().backward()
show("[name for name, _ in tied.named_parameters()]", "list(tied.state_dict())")
claim("rows of the shared gradient that are not zero", tied[0].weight.grad.any(1).sum().item(), equals=5)
claim("the tie survives .to(torch.float64)", tied.to(torch.float64)[0].weight is tied[1].weight, equals=True)

# %% [markdown]
# **Explain.** Sharing is one `Parameter` in two places. Its gradient is the sum over both uses: the embedding alone would
# have touched two rows. (On `meta` a tie is lost.) Names are all that loading goes by. Wrap a model, and they change.
# > **Predict.** `nn.DataParallel(model)` holds the model as an attribute called `module`. Does its state fit the model?

# %%
state = nn.DataParallel(nn.Linear(2, 2)).state_dict()
with pitfall("wrapper-prefix", RuntimeError):
    nn.Linear(2, 2).load_state_dict(state)
nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
show("list(state)", "nn.Linear(2, 2).load_state_dict(state)")

# %%
# exercise: modules.tied_weights

# %% [markdown]
# ## Call the module, not forward
#
# `model(x)` runs `__call__`, which runs the **hooks** around `forward`. A hook is a function that you hang on a module
# from outside: to read shapes, keep features, check for NaN, or count.
# > **Predict.** How often does the hook run?

# %%
layer, outputs = nn.Linear(3, 2), []
handle = layer.register_forward_hook(lambda module, args, output: outputs.append(output))
with pitfall("forward-called-directly") as p:
    layer.forward(torch.ones(1, 3))
    p.shows(seen=len(outputs), wanted=1)
layer(torch.ones(1, 3))
handle.remove()
layer(torch.ones(1, 3))
show("len(outputs)")

# %% [markdown]
# **Explain.** Only the call in the middle ran it. The numbers are the same either way, which is why nobody notices. There
# are `register_forward_pre_hook` (given module and arguments), `register_forward_hook` (module, arguments, output) and
# `register_full_backward_hook` (module, gradients of inputs and outputs). What a hook returns, unless None, *replaces*
# the arguments, the output, the input gradients. Each returns a handle: `handle.remove()`, or `with handle:`.
# > **Predict.** Two more ways not to use a layer. What does `nn.ReLU(x)` return? And what does the second class learn?

# %%
x = torch.tensor([[1.0, -1.0, 2.0]])
with pitfall("module-used-as-function", TypeError):
    layer(nn.ReLU(x))
show("layer(F.relu(x)).shape", "layer(nn.ReLU()(x)).shape")


class BuiltInForward(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.Linear(x.shape[1], 2)(x)


moody = BuiltInForward()
with pitfall("layer-built-in-forward") as p:
    p.shows(seen=(torch.equal(moody(x), moody(x)), count(moody)), wanted=(True, 8))
show("count(nn.Linear(3, 2))")

# %% [markdown]
# **Explain.** `nn.ReLU(x)` makes a layer whose argument `inplace` is your tensor; the error comes where that layer meets an
# operation. Layers are built once, in `__init__`, and called in `forward`.

# %%
# exercise: modules.layer_outputs

# %%
# exercise: modules.residual_block

# %% [markdown]
# ## train and eval
#
# `train()` and `eval()` set one flag, `training`, on the module and on all below it. Nothing else happens until a layer
# reads its flag, as dropout and BatchNorm do. `eval()` does not stop gradients; `no_grad()` does not switch the mode.
# > **Predict.** After `eval()`, does this network give the same answer twice? And does `eval()` on a part stay a part's?


# %%
class Dropping(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.5)


ones, dropping, mended = torch.ones(1, 1000), Dropping().eval(), nn.Dropout(0.5).eval()
with pitfall("functional-dropout-ignores-eval") as p:
    p.shows(seen=torch.equal(dropping(ones), dropping(ones)), wanted=True)
show("torch.equal(mended(ones), mended(ones))")
small = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(2), nn.ReLU()))
small[1].eval()
small.apply(lambda module: print(f"{type(module).__name__:<12} training: {module.training}"))
show("small.train() is small", "small[1][0].training")

# %% [markdown]
# **Explain.** A function cannot know who calls it: tell it, `F.dropout(x, 0.5, training=self.training)`. `nn.Dropout` as
# a submodule is simpler: it is registered, so the mode reaches it. `apply(function)` is the same walk, open to you: it
# calls a function for each module, the inner ones first.
#
# ## Shapes without arithmetic
#
# `nn.Sequential` is enough while each layer takes one tensor and returns one. Leave it for a class of your own when an
# input is used twice (a shortcut), when there are two inputs or outputs, or when a layer returns a tuple, as LSTM does.
# > **Predict.** Images of 3 x 32 x 32, a 3 x 3 convolution to 8 channels, pooling by 2: is 8 · 16 · 16 the right size?

# %%
features = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
images = torch.zeros(4, 3, 32, 32)
with pitfall("flatten-size-mismatch", RuntimeError):
    nn.Sequential(features, nn.Linear(8 * 16 * 16, 10))(images)
shapes = "{:<10} {}".format
hooks = [
    layer.register_forward_hook(lambda layer, args, output: print(shapes(type(layer).__name__, tuple(output.shape))))
    for layer in features
]
features(images)
for hook in hooks:
    hook.remove()

# %% [markdown]
# **Explain.** Without padding, 32 pixels become 30, and pooling makes 15. A hook reads sizes where arithmetic guesses.
# **Lazy** layers go one step further: they take their input size from the first call.
# > **Predict.** What is a lazy weight's shape before that call? Is the weight in an older optimizer the same afterwards?

# %%
lazy = nn.Sequential(features, nn.LazyLinear(10))
optimizer = torch.optim.SGD(lazy.parameters(), lr=0.1)
show("lazy[1]", "lazy[1].weight")
lazy(images)
show("lazy[1]", "optimizer.param_groups[0]['params'][2] is lazy[1].weight")

# %% [markdown]
# **Explain.** The class changes and the `Parameter` object stays. Before the first call a lazy weight has no shape: it
# cannot be counted or initialised, so run one batch first.
#
# Some sizes fit and are wrong. Recurrent and attention layers take `(sequence, batch, features)` by default.
# > **Predict.** An LSTM is given `(batch, sequence, features)`. Sample 0 changes. Does the output for sample 1?

# %%
samples = torch.ones(2, 5, 3)
changed = torch.stack([samples[0] * 2, samples[1]])
by_default, batch_first = nn.LSTM(3, 4), nn.LSTM(3, 4, batch_first=True)
with pitfall("batch-first-mismatch") as p:
    p.shows(seen=torch.equal(by_default(samples)[0][1], by_default(changed)[0][1]), wanted=True)
show("torch.equal(batch_first(samples)[0][1], batch_first(changed)[0][1])")

# %%
# exercise: modules.flattened_size

# %% [markdown]
# ## Initialisation
# > **Predict.** All 8 units of a layer start with the same weights. How many different ones are there after 20 steps?

# %%
inputs = torch.linspace(-1, 1, 64).reshape(32, 2)
different = {}
for init in (nn.init.ones_, nn.init.xavier_uniform_):
    model = nn.Sequential(nn.Linear(2, 8, bias=False), nn.Tanh(), nn.Linear(8, 1))
    init(model[0].weight), init(model[2].weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(20):
        optimizer.zero_grad()
        (model(inputs).squeeze(1) - inputs.prod(1)).square().mean().backward()
        optimizer.step()
    different[init.__name__] = len(model[0].weight.detach().round(decimals=4).unique(dim=0))
with pitfall("symmetric-init") as p:
    p.shows(seen=different["ones_"], wanted=8)
show("different")

# %% [markdown]
# **Explain.** Equal weights get equal gradients. Chance breaks the tie; how much chance is a question of variance. A layer
# that sums n inputs multiplies the variance of its signal by n · Var(weight), and ReLU halves the square of what passes.
# To keep the size, **Kaiming** takes Var = 2/n, for ReLU; **Xavier** 2/(inputs + outputs), for activations that are linear
# around 0. The **default** of `nn.Linear` and `nn.Conv2d` is uniform with Var = 1/(3n), and the bias likewise.
#
# **Saying: "default initialisation explodes or vanishes in deep nets".**
# > **Predict.** Thirty layers, 256 wide. By which factor does the difference between two inputs shrink or grow from the
# > first layer to the last? And the gradient, on its way back?

# %% tags=["measured"]
inits = {"Kaiming": nn.init.kaiming_normal_, "Xavier": nn.init.xavier_normal_, "normal(0, 1)": nn.init.normal_}


def deep(init: str, activation: type, norm: bool, seed: int) -> list[float]:
    """Return signal (deviation between samples) at layer 30 over layer 1, and gradient at layer 1 over layer 30."""
    torch.manual_seed(seed)
    layers, signals, model = [nn.Linear(256, 256) for _ in range(30)], [], nn.Sequential()
    for layer in layers:
        if init in inits:
            inits[init](layer.weight), nn.init.zeros_(layer.bias)
        model.extend([layer, *[nn.BatchNorm1d(256)] * norm, activation()])
        model[-1].register_forward_hook(lambda layer, args, output: signals.append(output.std(0).mean().item()))
    model.to(run_device)(torch.randn(128, 256).to(run_device)).sum().backward()
    first, last = (layer.weight.grad.norm().item() for layer in (layers[0], layers[-1]))
    return [signals[-1] / signals[0], first / last]


measured = {}
cases = itertools.product(["default", *inits], (nn.ReLU, nn.Tanh), [False])
for init, activation, norm in (*cases, ("default", nn.ReLU, True)):
    runs = torch.tensor([deep(init, activation, norm, seed) for seed in range(repeats)])
    case = f"{init}, {activation.__name__}{', BatchNorm' * norm}"
    measured[case] = runs.log().mean(0).exp().tolist()
    print("{:<26} signal {:>8.1e}   gradient {:>8.1e}".format(case, *measured[case]))
claim("default, ReLU: signal left", measured["default, ReLU"][0], stated="vanishes", high=1e-3, unit="x")
claim("default, ReLU: growth of the signal", measured["default, ReLU"][0], stated="explodes", low=1e3, unit="x")
claim("default, ReLU: gradient left at layer 1", measured["default, ReLU"][1], stated="vanishes", high=1e-3, unit="x")
for case in ("Kaiming, ReLU", "Xavier, ReLU", "Xavier, Tanh", "default, ReLU, BatchNorm"):
    claim(f"{case}: signal left", measured[case][0], stated="keeps its size", low=0.02, high=5, unit="x")

# %% [markdown]
# **Explain.** The default vanishes. What explodes is a normal distribution of deviation 1: with ReLU the signal, with tanh
# the gradient. With the default, activations do not go to zero: they settle at what the *biases* give, the same for each
# input. So look at the difference between samples. Kaiming belongs to ReLU, Xavier to tanh. BatchNorm keeps the signal,
# and its gradient grows towards the first layer. The default survives because deep nets have norms and shortcuts.
# > **Predict.** A unit can also die later. After one step with a learning rate that is far too large, how many of 64 ReLU
# > units are zero for *all* data?


# %%
def dead_units(rate: float) -> int:
    """Return how many of 64 ReLU units are zero on all of 256 samples after one step with this learning rate."""
    torch.manual_seed(0)
    model, inputs = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 1)), torch.randn(256, 4)
    (model(inputs) + 5).square().mean().backward()
    torch.optim.SGD(model.parameters(), lr=rate).step()
    return (model[:2](inputs) == 0).all(0).sum().item()


with pitfall("dead-activation") as p:
    p.shows(seen=dead_units(2.0) > 4, wanted=False)
show("dead_units(0.1)")

# %%
# exercise: modules.initialise

# %% [markdown]
# ## What the optimizer holds
#
# An optimizer gets parameter *objects* when it is built and never looks at the model again.
# > **Predict.** The head of a model is replaced after the optimizer was built. Which parameters does a step change?

# %%
model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
model[2] = nn.Linear(4, 3)
start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
model(torch.ones(8, 2)).square().sum().backward()
optimizer.step()
with pitfall("optimizer-misses-parameters") as p:
    p.shows(seen=torch.equal(model[2].bias, start["2.bias"]), wanted=False)
optimizer.add_param_group({"params": model[2].parameters(), "lr": 0.1})
optimizer.step()
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.LayerNorm, nn.GroupNorm)  # for the exercise below
show("torch.equal(model[2].bias, start['2.bias'])", "[len(group['params']) for group in optimizer.param_groups]")

# %% [markdown]
# **Explain.** Build the optimizer last, or add a group. A **parameter group** is a dict with `params` and options of its
# own, such as a learning rate. Weight decay pulls towards zero: sensible for a matrix, pointless for a bias, harmful for
# the scale of a norm. So most recipes make two groups.

# %%
# exercise: modules.parameter_groups

# %% [markdown]
# ## Freezing, and what it does not stop
#
# A frozen parameter has `requires_grad=False`: no gradient is computed for it. Gradients still pass *through* its layer
# to layers below. Two things look like freezing and are not.
# > **Predict.** How many trainable numbers are left after `backbone.requires_grad = False`? And does the output of a
# > frozen backbone with BatchNorm change after a batch in training mode?

# %%
backbone = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
with pitfall("freeze-typo") as p:
    backbone.requires_grad = False
    p.shows(seen=count(backbone), wanted=0)
backbone.requires_grad_(False)
show("count(backbone)")


def drifts(mode: bool) -> bool:
    """Return whether the backbone's output in evaluation changes after one batch in this mode."""
    before = backbone.eval()(torch.ones(1, 3))
    backbone.train(mode)(torch.arange(24.0).reshape(8, 3))
    return not torch.equal(before, backbone.eval()(torch.ones(1, 3)))


with pitfall("frozen-batchnorm-drifts") as p:
    p.shows(seen=drifts(True), wanted=False)
show("drifts(False)")

# %% [markdown]
# **Explain.** Running statistics are buffers: no gradient moves them, each batch in training mode does. And the next
# `model.train()` reaches every module, so the evaluation mode has to be set again after it.
#
# **Saying: "frozen parameters still cost optimizer memory".** Adam keeps two numbers for each parameter.
# > **Predict** the bytes of state of 10,000 frozen `float32`: frozen from the start, with Adam or Adagrad; frozen later.


# %%
def frozen_bytes(make: type, steps_before: int) -> int:
    """Return the bytes of optimizer state of a frozen weight of 10,000 numbers after a step of the whole model."""
    model = nn.Sequential(nn.Linear(100, 100, bias=False), nn.Linear(100, 1))
    optimizer = make(model.parameters(), lr=0.1)
    for step in range(steps_before + 1):
        model[0].requires_grad_(step < steps_before)
        optimizer.zero_grad()
        model(torch.ones(1, 100)).sum().backward()
        optimizer.step()
    return sum(value.nbytes for value in optimizer.state.get(model[0].weight, {}).values() if value.dim())


claim("Adam, frozen from the start", frozen_bytes(torch.optim.Adam, 0), equals=0, unit="bytes")
claim("Adagrad, frozen from the start", frozen_bytes(torch.optim.Adagrad, 0), equals=40_000, unit="bytes")
claim("Adam, frozen after a step", frozen_bytes(torch.optim.Adam, 1), equals=80_000, unit="bytes")

# %% [markdown]
# **Explain.** Most optimizers make their state when they first meet a gradient: frozen from the start costs none. Adagrad
# makes it when it is built. State that is there stays, also after freezing. (The weights take memory in any case.)
# > **Predict.** A weight is frozen between `backward` and `step`. Does it still move? And in the next step, after
# > `zero_grad()`, or after `zero_grad(set_to_none=False)`, with momentum?

# %%
for to_none in (True, False):
    layer, moves = nn.Linear(2, 1), []
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
    layer(torch.ones(1, 2)).sum().backward()
    layer.weight.requires_grad_(False)
    for _ in range(2):
        before = layer.weight.clone()
        optimizer.step()
        moves.append(not torch.equal(before, layer.weight))
        optimizer.zero_grad(set_to_none=to_none)
    print(f"set_to_none={to_none!s:<6} moves: {moves}")

# %% [markdown]
# **Explain.** The gradient that is left in `.grad` is used. The default `zero_grad()` sets it to None, and None is passed
# over; a gradient of *zeros* is not, and momentum and weight decay go on moving the weight. Freeze after `zero_grad()`.

# %%
# exercise: modules.frozen_backbone

# %% [markdown]
# ## Fine-tuning
#
# To show the whole way without a download, this section pretrains a small network of its own, on sounds of one tone in
# four pitches. The task that counts comes later: chords of two tones, with twelve examples.

# %%
tones = [[3], [5], [8], [12]]  # waves in a sound
(x, y), (tests, answers) = sounds(tones, 1000, seed=0), sounds(tones, 400, seed=1)
mean, std = x.mean(), x.std()
batches = [((x[i] - mean) / std, y[i]) for i in torch.arange(1000).split(50)] * 2
steps = {"smoke": 2}.get(profile, 40)
torch.manual_seed(0)
pretrained = sound_network(4).to(run_device)
trained = train_epoch(pretrained, batches[:steps], torch.optim.Adam(pretrained.parameters(), lr=1e-2))

# %% [markdown]
# > **Predict.** The network has learned on standardised sounds. What accuracy has it on the test sounds as they are?

# %% tags=["measured"]
right = evaluate(pretrained, [((tests - mean) / std, answers)]).accuracy
raw = evaluate(pretrained, [(tests, answers)]).accuracy
claim("accuracy, standardised as in training", right, low=0.9, high=1)
claim("accuracy, sounds as they are", raw, stated="wrong without an error", low=0, high=0.6)
if profile != "smoke":
    with pitfall("pretrained-normalisation") as p:
        p.shows(seen=f"{raw:.0%}", wanted=f"{right:.0%}")

# %% [markdown]
# **Explain.** Shapes and dtypes are right, so nothing complains. torchvision keeps mean and deviation of its models in
# `weights.transforms()`; of your own model, save them with it, as buffers (the exercise above).
#
# Three ways to learn chords: from scratch; a **new head** on the frozen backbone, whose features are computed once; or
# everything, with a **learning rate for each stage**, smallest at the bottom, where features are most general.
# > **Predict** their order.

# %% tags=["measured"]
results, chords = {}, [[3, 8], [5, 12], [3, 12]]
(few, labels), (many, truth) = sounds(chords, 12, seed=3), sounds(chords, 400, seed=4)
few, many = ((sound.to(run_device) - mean) / std for sound in (few, many))
torch.manual_seed(1)
scratch, tuned, head = sound_network(3).to(run_device), copy.deepcopy(pretrained), nn.Linear(32, 3).to(run_device)
backbone, tuned[2] = copy.deepcopy(pretrained[:2]).requires_grad_(False).eval(), copy.deepcopy(head)
stages = [{"params": stage.parameters(), "lr": lr} for stage, lr in zip(tuned, (1e-4, 1e-3, 1e-2), strict=True)]
for way, part, groups, training, testing in [
    ("from scratch", scratch, scratch.parameters(), few, many),
    ("new head", head, head.parameters(), backbone(few), backbone(many)),
    ("learning rate for each stage", tuned, stages, few, many),
]:
    train_epoch(part, [(training, labels)] * steps, torch.optim.Adam(groups, lr=1e-2))
    results[way] = evaluate(part, [(testing, truth)]).accuracy
    print(f"{way:<30} {results[way]:.1%}")
claim("new head minus from scratch", results["new head"] - results["from scratch"], stated="better", low=0.01)

# %% [markdown]
# **Explain.** The fewer numbers twelve examples have to decide, the better; with more examples the order may change.

# %%
# exercise: modules.new_head

# %% [markdown]
# ## Build it
#
# Three dictionaries, `__setattr__`, and a walk: that is all of this lesson. Now write them.

# %%
# exercise: modules.mini_module

# %% [markdown]
# ## From error to understanding
#
# | fault | how it looks | why | fix |
# | --- | --- | --- | --- |
# | `unregistered-submodule` | silent: too few parameters | a list is no module | `nn.ModuleList`, `nn.ModuleDict` |
# | `missing-super-init` | AttributeError: cannot assign ... | no registers yet | `super().__init__()` first |
# | `no-parameters` | ValueError: empty parameter list | nothing registered | layers in `__init__`, as attributes |
# | `shared-by-list-multiplication` | silent: too few parameters | one object, many names | build each layer |
# | `tensor-not-buffer` | silent, or another device | a plain attribute | `nn.Buffer`, `register_buffer` |
# | `wrapper-prefix` | RuntimeError: missing and unexpected keys | the wrapper's name in front | save `wrapper.module` |
# | `forward-called-directly` | silent: hooks do not run | `__call__` runs them | `model(x)` |
# | `module-used-as-function` | TypeError: must be Tensor, not ReLU | the call makes a layer | `F.relu(x)` |
# | `layer-built-in-forward` | silent: a new answer each time | new weights in each call | build it in `__init__` |
# | `functional-dropout-ignores-eval` | silent: random after `eval()` | a function has no mode | `training=self.training` |
# | `flatten-size-mismatch` | RuntimeError: mat1 and mat2 ... | arithmetic by hand | ask the layers, or lazy |
# | `batch-first-mismatch` | silent: samples mix | sequence comes first | `batch_first=True` |
# | `symmetric-init` | silent: units stay equal | equal gradients | random weights |
# | `dead-activation` | silent: zeros for all data | no gradient below zero | smaller steps; look with a hook |
# | `optimizer-misses-parameters` | silent: a layer never moves | it holds older objects | build it last, or add a group |
# | `freeze-typo` | silent: all goes on training | an attribute nobody reads | `requires_grad_(False)` |
# | `frozen-batchnorm-drifts` | silent: features change | buffers need no gradient | `eval()` after each `train()` |
# | `pretrained-normalisation` | silent: accuracy falls | another scale of inputs | the model's own mean and std |
#
# ## A table to keep
#
# | assigned to an attribute | trained | moved by `to` | in `state_dict` |
# | --- | --- | --- | --- |
# | `nn.Parameter`; frozen: `requires_grad_(False)` | yes; no | yes | yes |
# | buffer; with `persistent=False` | no | yes | yes; no |
# | module, `nn.ModuleList`, `nn.ModuleDict` | what they hold | what they hold | what they hold |
# | plain tensor; list or dict of anything | no | no | no |
#
# ## Read on
#
# - [Module](https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html)
# - [torch.nn.init](https://docs.pytorch.org/docs/stable/nn.init.html),
#   [optimizers and parameter groups](https://docs.pytorch.org/docs/stable/optim.html)
# - [Transfer learning tutorial](https://docs.pytorch.org/tutorials/beginner/transfer_learning_tutorial.html)
