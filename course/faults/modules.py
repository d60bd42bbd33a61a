"""Faults of modules, registration and initialisation."""

from __future__ import annotations

from course.faults.fault import Fault

FAULTS = (
    Fault(
        "unregistered-submodule",
        "layers held in a plain list or dict are not registered",
        "modules",
        "03",
        section="Assignment registers",
        why=(
            "A module registers what is assigned to its attributes if it is a `Parameter` or a `Module`. A "
            "list or dict is neither, and the module does not look inside: `parameters()`, `to`, `train`, "
            "`apply` and `state_dict` never reach the layers in it. The forward pass works, so nothing "
            "complains."
        ),
        fix=(
            "`nn.ModuleList` or `nn.ModuleDict` for layers, `nn.ParameterList` or `nn.ParameterDict` for "
            "parameters. Count `sum(p.numel() for p in model.parameters())` once by hand."
        ),
    ),
    Fault(
        "missing-super-init",
        "attributes assigned before Module.__init__()",
        "modules",
        "03",
        section="Assignment registers",
        why=(
            "`Module.__init__` makes the registers that an assignment writes into. Without it, or before it, "
            "there is nothing to write into: a layer, parameter or buffer raises. A plain tensor or number is"
            " just stored, and the error comes with the first call."
        ),
        fix="Make `super().__init__()` the first line of `__init__`.",
    ),
    Fault(
        "no-parameters",
        "the model registers no parameters at all",
        "modules",
        "03",
        section="Assignment registers",
        why=(
            "The optimizer asked `parameters()` and got nothing: all layers sit in lists or dicts, are built "
            "in `forward`, or the class has none; or an iterator over parameters was used up before the "
            "optimizer was built."
        ),
        fix=(
            "Register the layers in `__init__`, as attributes or in a `ModuleList`. Print "
            "`list(model.named_parameters())` to see what is found, and pass each consumer a fresh "
            "`model.parameters()`."
        ),
    ),
    Fault(
        "shared-by-list-multiplication",
        "[layer] * n repeats one object",
        "modules",
        "03",
        section="Assignment registers",
        why=(
            "Multiplying a list repeats the reference, so `[layer] * 3` is one layer that is used three "
            "times. It trains, with a third of the parameters. `nn.ModuleList` registers it under three names"
            " and keeps one set of weights."
        ),
        fix=(
            "Build each layer: `nn.ModuleList(make() for _ in range(3))`, or `copy.deepcopy(layer)` where the"
            " same start is wanted. Multiply only when sharing is what you mean."
        ),
    ),
    Fault(
        "tensor-not-buffer",
        "a plain tensor attribute is neither parameter nor buffer",
        "modules",
        "03",
        section="Parameters, buffers and plain tensors",
        why=(
            "A tensor assigned to an attribute is an ordinary Python attribute. `to`, `double` and `cuda` "
            "pass it over, and `state_dict` leaves it out: it stays on its old device, and a loaded model has"
            " another one."
        ),
        fix=(
            "`self.register_buffer('mean', mean)` or `self.mean = nn.Buffer(mean)`, with `persistent=False` "
            "for what can be computed again. What is to be trained is an `nn.Parameter`."
        ),
    ),
    Fault(
        "forward-called-directly",
        "model.forward(x) bypasses hooks",
        "modules",
        "03",
        section="Call the module, not forward",
        why=(
            "`model(x)` runs `__call__`, which calls the hooks around `forward`. `model.forward(x)` gives the"
            " same numbers without them, so whatever works by hooks is skipped: feature extractors, "
            "weight pruning, lazy modules, module profilers."
        ),
        fix="Call the module: `model(x)`, `self.layer(x)`.",
    ),
    Fault(
        "optimizer-misses-parameters",
        "trainable parameters that no optimizer group holds",
        "modules",
        "03",
        section="What the optimizer holds",
        why=(
            "An optimizer keeps the parameter objects that it was given. A layer that is replaced or added "
            "afterwards, or left out of hand-made groups, has parameters that it has never seen: they get "
            "gradients and never move."
        ),
        fix=(
            "Finish the model, then build the optimizer; for a layer that comes later use "
            "`optimizer.add_param_group`. Compare `{id(p) for p in model.parameters() if p.requires_grad}` "
            "with the ids in `optimizer.param_groups`."
        ),
    ),
    Fault(
        "frozen-batchnorm-drifts",
        "frozen BatchNorm still updates running statistics in train mode",
        "modules",
        "03",
        section="Freezing, and what it does not stop",
        why=(
            "`requires_grad=False` stops gradients. Running mean and variance are buffers, and no gradient "
            "changes them: every forward pass in training mode does. So a frozen backbone drifts, and gives "
            "other features each time that it is evaluated."
        ),
        fix=(
            "Put the frozen part into evaluation mode as well, after every `model.train()`: override `train` "
            "in the class that freezes, or call `model.backbone.eval()` each epoch."
        ),
    ),
    Fault(
        "freeze-typo",
        "requires_grad set on the module, not on its parameters",
        "modules",
        "03",
        section="Freezing, and what it does not stop",
        why=(
            "`module.requires_grad = False` makes a Python attribute of that name on the module; nothing "
            "reads it. `parameter.requires_grad_ = False` hides the method behind a bool. Both run silently, "
            "and everything goes on training."
        ),
        fix=(
            "`module.requires_grad_(False)`, a method call with an underscore, or a loop that sets "
            "`parameter.requires_grad = False`. Then list the names that are still trainable."
        ),
    ),
    Fault(
        "layer-built-in-forward",
        "a layer constructed inside forward",
        "modules",
        "03",
        section="Call the module, not forward",
        why=(
            "A layer made in `forward` is new in each call: new random weights, a different output for the "
            "same input, and no registration, so no optimizer ever holds it."
        ),
        fix=(
            "Build layers in `__init__`. If the input size is not known there, use `nn.LazyLinear` and its relatives."
        ),
    ),
    Fault(
        "module-used-as-function",
        "nn.ReLU(x) instead of F.relu(x)",
        "modules",
        "03",
        section="Call the module, not forward",
        why=(
            "`nn.ReLU` is a class: calling it makes a layer, and the tensor lands in the first argument of "
            "its constructor, `inplace`. The result is a module, and the next operation fails on it. Other "
            "layers, such as `nn.Sigmoid` or `nn.Softmax`, refuse the tensor at once."
        ),
        fix=(
            "`F.relu(x)`, `torch.relu(x)` or `x.relu()` for the function; `self.act = nn.ReLU()` in "
            "`__init__` and `self.act(x)` in `forward` for the layer."
        ),
    ),
    Fault(
        "functional-dropout-ignores-eval",
        "F.dropout without training=self.training",
        "modules",
        "03",
        section="train and eval",
        why=(
            "`F.dropout` is a function with the default `training=True`; it does not know which module calls "
            "it or in which mode that is. So `model.eval()` leaves it on, and predictions are random."
        ),
        fix=(
            "`F.dropout(x, p, training=self.training)`, or `self.drop = nn.Dropout(p)`, which follows the "
            "mode. Functions that need the mode: `dropout`, `batch_norm`, attention's `dropout_p`."
        ),
    ),
    Fault(
        "flatten-size-mismatch",
        "the first linear layer does not fit the flattened features",
        "modules",
        "03",
        section="Shapes without arithmetic",
        why=(
            "`in_features` was computed by hand, for another image size or without a stride, pooling or "
            "padding. Flattened features have channels times height times width, all of them as they come out"
            " of the last layer."
        ),
        fix=(
            "Run the features on one image of zeros and read the size, use `nn.LazyLinear`, or end with "
            "`nn.AdaptiveAvgPool2d`, whose output has the same size for every image."
        ),
    ),
    Fault(
        "batch-first-mismatch",
        "(batch, seq) fed to a layer that expects (seq, batch)",
        "modules",
        "03",
        section="Shapes without arithmetic",
        why=(
            "`nn.LSTM`, `nn.GRU`, `nn.RNN`, `nn.MultiheadAttention` and the Transformer layers take `(seq, "
            "batch, features)` unless they are made with `batch_first=True`. Both axes fit, so nothing fails:"
            " the layer runs along the batch, and samples influence each other."
        ),
        fix=(
            "Pass `batch_first=True` when the layer is made. Test: change one sample and see that the outputs"
            " of the others stay."
        ),
    ),
    Fault(
        "symmetric-init",
        "constant or zero initialisation keeps units identical",
        "modules",
        "03",
        section="Initialisation",
        why=(
            "Units with equal weights compute the same and receive the same gradient, so they stay equal for "
            "ever: a layer of 64 such units can do no more than one."
        ),
        fix=(
            "Draw weights at random: keep the default, or use `nn.init.kaiming_normal_` or `xavier_uniform_`."
            " Zeros are fine for biases, and for the last layer of a residual branch."
        ),
    ),
    Fault(
        "dead-activation",
        "units whose output and gradient are zero for all data (dead ReLU, saturation)",
        "modules",
        "03",
        section="Initialisation",
        why=(
            "ReLU passes neither signal nor gradient where its input is negative. If that is so for all data,"
            " after one step that was too large, say, or with a very negative bias, the unit gets no gradient"
            " and never comes back. Saturated sigmoid and tanh units are stuck in the same way."
        ),
        fix=(
            "Lower the learning rate or warm it up, initialise for ReLU, normalise the inputs, or use "
            "`LeakyReLU` or `GELU`. Measure with a hook the share of units that are zero on a whole batch."
        ),
    ),
)
