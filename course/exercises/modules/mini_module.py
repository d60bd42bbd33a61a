"""Lesson 03, build it: a Module class that registers, names, saves and switches as PyTorch's does."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from course.checking import Exercise
from course.exercises.modules._probing import numbers

exercise = Exercise(
    "modules.mini_module",
    title="Build it: nn.Module in 50 lines",
    task="""
        `MiniModule` is `nn.Module` rebuilt, without inheriting from it. Its results agree with PyTorch's for any
        nesting. `self` below is an object of a class derived from `MiniModule`, whose `__init__` first calls the
        parent's.

        - **Assignment** `self.x = value` registers a `nn.Parameter` as parameter and a `MiniModule` as submodule.
          Anything else becomes an ordinary attribute; lists are not looked into. A Parameter or MiniModule takes the
          name over from whatever had it. A tensor assigned to the name of a buffer replaces that buffer. Anything
          else assigned to the name of a parameter, buffer or submodule raises `TypeError` (what becomes of None is
          left open). Assigning a Parameter or MiniModule before `MiniModule.__init__` has run raises
          `AttributeError`.
        - **Reading** `self.x` gives what was assigned; an unknown name raises `AttributeError`.
        - `register_buffer(name, tensor, persistent=True)`. `training` is True at first.
        - `named_parameters()` yields pairs of dotted name and Parameter: first its own, then those of the submodules,
          each in order of registration. A Parameter that appears twice comes once, under its first name.
        - `state_dict()` is a dict from dotted names to tensors that share memory with the originals and require no
          gradient: own parameters, own persistent buffers, then the submodules' states. Shared ones have all names.
        - `load_state_dict(state)` copies values into the parameters and buffers that are there; if the names are not
          exactly those of `state_dict()` it raises `RuntimeError` and changes nothing.
        - `train(mode=True)` and `eval()` set `training` here and in all modules below, and return self.
        - Calling the object calls `forward` with the same arguments.
        """,
    hints=(
        "__setattr__ sees every assignment, __getattr__ is called only for names that are not found elsewhere. Keep "
        "three dictionaries, and make them without __setattr__: through self.__dict__. The recursion over submodules "
        "puts the submodule's name and a dot before each name.",
        "In __setattr__ choose the dictionary where the value belongs, remove the name from all the others, then "
        "store. state_dict can build on the state_dict of each submodule, and load_state_dict on state_dict, because "
        "a detached tensor shares memory.",
    ),
    seconds=20.0,
)


@exercise.stub
class MiniModule:
    """nn.Module in small: registration by assignment, names, state and mode."""

    def __init__(self) -> None:
        raise NotImplementedError

    def __setattr__(self, name: str, value: object) -> None:
        raise NotImplementedError

    def __getattr__(self, name: str) -> object:
        raise NotImplementedError

    def register_buffer(self, name: str, tensor: Tensor, persistent: bool = True) -> None:
        raise NotImplementedError

    def named_parameters(self):
        """Yield pairs (name, Parameter)."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Tensor]:
        raise NotImplementedError

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        raise NotImplementedError

    def train(self, mode: bool = True):
        raise NotImplementedError

    def eval(self):
        raise NotImplementedError

    def __call__(self, *args: object, **kwargs: object) -> object:
        raise NotImplementedError


@exercise.reference
class ThreeRegisters:
    def __init__(self):
        self.__dict__.update(_parameters={}, _buffers={}, _modules={}, _unsaved=set())
        self.training = True

    def __setattr__(self, name, value):
        registers = [self.__dict__.get(key, {}) for key in ("_parameters", "_buffers", "_modules")]
        if isinstance(value, nn.Parameter):
            home = self._parameters
        elif isinstance(value, ThreeRegisters):
            home = self._modules
        elif isinstance(value, Tensor) and name in registers[1]:
            home = self._buffers
        elif any(name in register for register in registers):
            raise TypeError(f"{name!r} is registered and cannot become a {type(value).__name__}")
        else:
            home = self.__dict__
        for place in (self.__dict__, *registers):
            if place is not home:
                place.pop(name, None)
        home[name] = value

    def __getattr__(self, name):
        for key in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__.get(key, {}):
                return self.__dict__[key][name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def register_buffer(self, name, tensor, persistent=True):
        self._buffers[name] = tensor
        (self._unsaved.discard if persistent else self._unsaved.add)(name)

    def _all_parameters(self, prefix):
        for name, parameter in self._parameters.items():
            yield prefix + name, parameter
        for name, module in self._modules.items():
            yield from module._all_parameters(f"{prefix}{name}.")

    def named_parameters(self):
        seen = set()
        for name, parameter in self._all_parameters(""):
            if id(parameter) not in seen:
                seen.add(id(parameter))
                yield name, parameter

    def state_dict(self):
        saved = {name: buffer for name, buffer in self._buffers.items() if name not in self._unsaved}
        state = {name: tensor.detach() for name, tensor in (self._parameters | saved).items()}
        for name, module in self._modules.items():
            state |= {f"{name}.{below}": tensor for below, tensor in module.state_dict().items()}
        return state

    def load_state_dict(self, state):
        own = self.state_dict()
        if own.keys() != state.keys():
            raise RuntimeError(f"the state does not fit: names that differ are {sorted(own.keys() ^ state.keys())}")
        for name, tensor in own.items():
            tensor.copy_(state[name])

    def train(self, mode=True):
        self.training = mode
        for module in self._modules.values():
            module.train(mode)
        return self

    def eval(self):
        return self.train(False)

    def __call__(self, *args, **kwargs):
        return self.forward(*args, **kwargs)


@exercise.alternative
class KindsOfAttributes:
    """Everything stays an ordinary attribute; one dictionary says of which kind each name is."""

    def __init__(self):
        object.__setattr__(self, "_kinds", {})
        self.training = True

    def __setattr__(self, name, value):
        kind = "parameter" if isinstance(value, nn.Parameter) else "module"
        if isinstance(value, (nn.Parameter, KindsOfAttributes)):
            if self._kinds.get(name) != kind:
                self._kinds.pop(name, None)
                self._kinds[name] = kind
        elif not (isinstance(value, Tensor) and self.__dict__.get("_kinds", {}).get(name, "buffer").endswith("buffer")):
            if name in self.__dict__.get("_kinds", {}):
                raise TypeError(name)
        object.__setattr__(self, name, value)

    def __getattr__(self, name):
        raise AttributeError(name)

    def register_buffer(self, name, tensor, persistent=True):
        self._kinds[name] = "buffer" if persistent else "unsaved buffer"
        object.__setattr__(self, name, tensor)

    def _of_kind(self, kind):
        return [(name, getattr(self, name)) for name, its_kind in self._kinds.items() if its_kind == kind]

    def named_parameters(self, seen=None):
        seen = [] if seen is None else seen
        for name, parameter in self._of_kind("parameter"):
            if not any(parameter is other for other in seen):
                seen.append(parameter)
                yield name, parameter
        for name, module in self._of_kind("module"):
            for below, parameter in module.named_parameters(seen):
                yield ".".join((name, below)), parameter

    def state_dict(self):
        state = dict(self._of_kind("parameter") + self._of_kind("buffer"))
        state = {name: tensor.detach() for name, tensor in state.items()}
        for name, module in self._of_kind("module"):
            for below, tensor in module.state_dict().items():
                state[f"{name}.{below}"] = tensor
        return state

    def load_state_dict(self, state):
        own = self.state_dict()
        if set(own) != set(state):
            raise RuntimeError("other names")
        with torch.no_grad():
            for name in own:
                own[name].copy_(state[name])

    def train(self, mode=True):
        for _, module in self._of_kind("module"):
            module.train(mode)
        self.training = mode
        return self

    def eval(self):
        return self.train(mode=False)

    def __call__(self, *args, **kwargs):
        return self.forward(*args, **kwargs)


@exercise.wrong(
    "The parameters of submodules come without the submodule's name, so two layers have the same names. Each level of "
    "nesting puts its own name and a dot in front of what comes from below."
)
class WithoutPrefix(ThreeRegisters):
    def _all_parameters(self, prefix):
        yield from self._parameters.items()
        for module in self._modules.values():
            yield from module._all_parameters("")


@exercise.wrong(
    "A parameter that two modules share is listed twice. An optimizer would hold it twice, or refuse it. Remember "
    "which objects have been given out, by identity: comparing tensors with == compares numbers."
)
class SharedOnesTwice(ThreeRegisters):
    def named_parameters(self):
        yield from self._all_parameters("")


@exercise.wrong(
    "Submodules come before the module's own parameters. PyTorch lists a module's own first and then goes down, and "
    "the order matters: optimizers save their state by position."
)
class SubmodulesFirst(ThreeRegisters):
    def _all_parameters(self, prefix):
        for name, module in self._modules.items():
            yield from module._all_parameters(prefix + name + ".")
        for name, parameter in self._parameters.items():
            yield prefix + name, parameter


@exercise.wrong(
    "An earlier value of the same name is left where it was. Ordinary attributes are found first, so the old value "
    "shadows the new parameter; and a name that changes its kind is in two registers. A new value takes the name away "
    "from every other place."
)
class OldValueShadows(ThreeRegisters):
    def __setattr__(self, name, value):
        if isinstance(value, (nn.Parameter, ThreeRegisters)):
            home = self._parameters if isinstance(value, nn.Parameter) else self._modules
            home[name] = value
        else:
            super().__setattr__(name, value)


@exercise.wrong(
    "Every tensor is registered as a parameter, also those that are no nn.Parameter. A plain tensor attribute stays "
    "an ordinary attribute; that it does not is a comfort that PyTorch does not offer.",
    fault="tensor-not-buffer",
)
class EveryTensorIsAParameter(ThreeRegisters):
    def __setattr__(self, name, value):
        if isinstance(value, Tensor) and name not in self._buffers:
            value = nn.Parameter(value, requires_grad=False)
        super().__setattr__(name, value)


@exercise.wrong(
    "A tensor that is assigned to the name of a buffer becomes an ordinary attribute beside the buffer: reading finds "
    "the new one, state_dict() saves the old one. It has to replace the buffer."
)
class AssignedBufferIsLost(ThreeRegisters):
    def __setattr__(self, name, value):
        if isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
            self.__dict__[name] = value
        else:
            super().__setattr__(name, value)


@exercise.wrong(
    "Buffers that were registered with persistent=False are saved as well. They move with the module, and are left out "
    "of its state."
)
class EveryBufferSaved(ThreeRegisters):
    def register_buffer(self, name, tensor, persistent=True):
        super().register_buffer(name, tensor)


@exercise.wrong(
    "The state holds copies. PyTorch's state_dict() shares memory with the module, which is cheap, and dangerous for "
    "whoever keeps one: it follows the training.",
    fault="state-dict-aliased",
)
class StateOfCopies(ThreeRegisters):
    def state_dict(self):
        return {name: tensor.clone() for name, tensor in super().state_dict().items()}

    def load_state_dict(self, state):
        if self.state_dict().keys() != state.keys():
            raise RuntimeError("the names differ")
        for name, tensor in super().state_dict().items():
            tensor.copy_(state[name])


@exercise.wrong(
    "Names that are missing or not expected are passed over. Then a state with other names loads without a word, and "
    "nothing is loaded.",
    fault="nothing-loaded",
)
class LoadsWhatFits(ThreeRegisters):
    def load_state_dict(self, state):
        for name, tensor in self.state_dict().items():
            if name in state:
                tensor.copy_(state[name])


@exercise.wrong(
    "The mode is set on this module alone. Layers below it keep theirs: dropout inside would stay on in evaluation."
)
class ModeOfItselfOnly(ThreeRegisters):
    def train(self, mode=True):
        self.training = mode
        return self


@exercise.wrong("train() and eval() return None. PyTorch's return the module, so that `model = Net().eval()` works.")
class NothingReturned(ThreeRegisters):
    def train(self, mode=True):
        super().train(mode)


@exercise.wrong(
    "Any value may take the name of a parameter or submodule here. PyTorch refuses, because that is nearly always a "
    "mistake: a parameter replaced by the number that an update returned would silently leave the model.",
    fault="parameter-rebound",
)
class AnythingTakesTheName(ThreeRegisters):
    def __setattr__(self, name, value):
        if name in (*self.__dict__.get("_parameters", ()), *self.__dict__.get("_modules", ())):
            self._parameters.pop(name, None)
            self._modules.pop(name, None)
        super().__setattr__(name, value)


def nested(base: type) -> Any:
    """The same nested example on any base class: shared parts, buffers of both kinds, a list that hides a module."""

    class Scale(base):
        def __init__(self, size, start):
            super().__init__()
            self.label = f"scale {size}"
            self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
            self.register_buffer("cache", torch.ones(size), persistent=False)
            self.weight = nn.Parameter(numbers(size, start=start))

        def forward(self, x, power=1):
            self.calls += 1
            return x * self.weight**power

    class Block(base):
        def __init__(self, size):
            super().__init__()
            self.first = Scale(size, 1.0)
            self.offset = nn.Parameter(numbers(size, start=4.0))
            self.second = Scale(size, 2.0)
            self.hidden = [Scale(size, 3.0)]

        def forward(self, x):
            return self.second(self.first(x), power=2) + self.offset

    class Model(base):
        def __init__(self):
            super().__init__()
            self.left = Block(3)
            self.right = Block(2)
            self.register_buffer("mean", numbers(3))
            self.gain = nn.Parameter(numbers(1, start=6.0))
            self.right.first = self.left.second
            self.right.offset = self.left.first.weight
            self.alias = self.left

        def forward(self, x):
            return self.left(x - self.mean) * self.gain

    return Model()


@exercise.wrong(
    "A tensor assigned to a buffer's name is copied into the old buffer. It has to replace it: another shape is not "
    "possible with a copy, and whoever holds the old tensor sees it change."
)
class CopiesIntoTheBuffer(ThreeRegisters):
    def __setattr__(self, name, value):
        if isinstance(value, Tensor) and name in self.__dict__.get("_buffers", {}):
            self._buffers[name].copy_(value)
        else:
            super().__setattr__(name, value)


@exercise.wrong(
    "The names are compared together with their order. A state with the same names in another order fits: each name "
    "says where its tensor belongs."
)
class OrderOfTheStateMatters(ThreeRegisters):
    def load_state_dict(self, state):
        if list(self.state_dict()) != list(state):
            raise RuntimeError("the names differ")
        super().load_state_dict(state)


@exercise.wrong(
    "Asking for the state freezes the model: requires_grad_(False) acts on the Parameter itself. detach() gives "
    "another tensor over the same memory.",
    fault="graph-cut",
)
class StateFreezesTheModel(ThreeRegisters):
    def state_dict(self):
        for _, parameter in self.named_parameters():
            parameter.requires_grad_(False)
        return super().state_dict()


@exercise.wrong(
    "In evaluation mode the call records no graph. eval() changes what dropout and BatchNorm do; gradients are another "
    "switch, torch.no_grad()."
)
class NoGradientsInEvaluation(ThreeRegisters):
    def __call__(self, *args, **kwargs):
        with torch.set_grad_enabled(self.training):
            return self.forward(*args, **kwargs)


def beside_pytorch(answer, look):
    """What `look` finds on a MiniModule, and whether it finds the same on nn.Module."""
    mine = look(answer)
    return mine, mine == look(nn.Module)


def raised(action) -> str:
    try:
        action()
    except (TypeError, RuntimeError, AttributeError) as error:
        if isinstance(error, NotImplementedError):
            raise
        return next(kind.__name__ for kind in (TypeError, RuntimeError, AttributeError) if isinstance(error, kind))
    return "nothing"


@exercise.probe
def one_level(answer):
    class Affine(answer):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([2.0, 3.0]))
            self.register_buffer("shift", torch.tensor([1.0, -1.0]))

        def forward(self, x, times=1):
            return times * (self.weight * x + self.shift)

    module = Affine()
    return module(torch.ones(2), times=2), [name for name, _ in module.named_parameters()], dict(module.state_dict())


@exercise.probe
def names_of_a_nested_model(answer):
    return beside_pytorch(answer, lambda base: [name for name, _ in nested(base).named_parameters()])


@exercise.probe
def parameters_are_the_objects_themselves(answer):
    model = nested(answer)
    found = dict(model.named_parameters())
    return [found["gain"] is model.gain, found.get("left.second.weight") is model.right.first.weight]


@exercise.probe
def names_of_the_state(answer):
    return beside_pytorch(answer, lambda base: list(nested(base).state_dict()))


@exercise.probe
def output_and_counters(answer):
    def look(base):
        model = nested(base)
        output = model(numbers(2, 3, start=8.0))
        return output.tolist(), model.left.first.calls.item(), model.state_dict()["left.second.calls"].item()

    return beside_pytorch(answer, look)


@exercise.probe
def state_follows_the_model(answer):
    def look(base):
        model = nested(base)
        state = model.state_dict()
        with torch.no_grad():
            model.gain.fill_(5.0)
            model.mean.fill_(7.0)
        return state["gain"].tolist(), state["mean"].tolist(), [tensor.requires_grad for tensor in state.values()]

    return beside_pytorch(answer, look)


@exercise.probe
def round_trip_into_another_model(answer):
    def look(base):
        source, target = nested(base), nested(base)
        source(numbers(2, 3))
        with torch.no_grad():
            for number, (_, parameter) in enumerate(source.named_parameters()):
                parameter.add_(number + 1)
        kept = [parameter for _, parameter in target.named_parameters()]
        target.load_state_dict({name: tensor.clone() for name, tensor in source.state_dict().items()})
        same = [one is other for one, (_, other) in zip(kept, target.named_parameters(), strict=True)]
        return {name: tensor.tolist() for name, tensor in target.state_dict().items()}, same

    return beside_pytorch(answer, look)


@exercise.probe
def states_that_do_not_fit(answer):
    def look(base):
        model, outcomes = nested(base), []
        for change in ({"gain": None}, {"other": torch.zeros(1)}):
            state = {name: torch.zeros_like(tensor) for name, tensor in model.state_dict().items()} | change
            state = {name: tensor for name, tensor in state.items() if tensor is not None}
            outcomes.append(raised(lambda state=state: model.load_state_dict(state)))
        return outcomes

    before = nested(answer)
    raised(lambda: before.load_state_dict({"gain": torch.zeros(1)}))
    return *beside_pytorch(answer, look), before.gain


@exercise.probe
def modes(answer):
    def look(base):
        model = nested(base)
        inside = model.left.second, model.right, model.right.second, model.left.hidden[0]
        seen = [model.training, *(module.training for module in inside)]
        for mode in (False, True):
            chained = model.right.train(mode) is model.right
            seen += [chained, model.training, *(module.training for module in inside)]
        for switch in (model.eval, model.left.train, model.right.eval, model.train):
            chained = switch() is switch.__self__
            seen += [chained, model.training, *(module.training for module in inside)]
        return seen

    return beside_pytorch(answer, look)


@exercise.probe
def names_that_change_hands(answer):
    def look(base):
        module = base()
        module.a, module.b, module.d = 3, nn.Parameter(torch.ones(1)), base()
        module.c = nn.Parameter(torch.ones(2))
        module.register_buffer("e", torch.zeros(2))
        module.a = nn.Parameter(torch.full((1,), 4.0))
        module.b = base()
        module.b.w = nn.Parameter(torch.ones(3))
        module.d = nn.Parameter(torch.ones(4))
        module.c = nn.Parameter(torch.zeros(2))
        module.e = torch.ones(2)
        names = [name for name, _ in module.named_parameters()]
        return (
            names,
            module.a.tolist(),
            {name: t.tolist() for name, t in module.state_dict().items()},
            module.e.tolist(),
        )

    return beside_pytorch(answer, look)


@exercise.probe
def assignments_that_are_refused(answer):
    def look(base):
        module = base()
        module.weight, module.part = nn.Parameter(torch.ones(2)), base()
        module.register_buffer("mean", torch.zeros(1))

        def put(name, value):
            return lambda: setattr(module, name, value)

        outcomes = [raised(put("weight", torch.zeros(2))), raised(put("part", 3)), raised(put("weight", "text"))]
        outcomes += [raised(put("mean", 0.5)), raised(put("mean", torch.ones(1))), raised(put("other", 3))]
        return outcomes, [name for name, _ in module.named_parameters()], sorted(module.state_dict())

    return beside_pytorch(answer, look)


@exercise.probe
def a_buffer_of_another_shape(answer):
    def look(base):
        module = base()
        module.register_buffer("mean", torch.zeros(1))
        old = module.mean
        module.mean = torch.ones(3)
        return module.mean.tolist(), old.tolist(), {name: t.tolist() for name, t in module.state_dict().items()}

    return beside_pytorch(answer, look)


@exercise.probe
def a_state_in_another_order_and_with_another_name(answer):
    def look(base):
        module = base()
        module.a, module.b = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
        other_name = raised(lambda: module.load_state_dict({"a": torch.ones(1), "c": torch.ones(1)}))
        untouched = module.b.tolist()
        module.load_state_dict({"b": torch.full((1,), 5.0), "a": torch.full((1,), 4.0)})
        return other_name, untouched, module.a.tolist(), module.b.tolist(), module.a.requires_grad

    return beside_pytorch(answer, look)


@exercise.probe
def gradients_in_evaluation(answer):
    def look(base):
        class Scaled(base):
            def __init__(self):
                super().__init__()
                self.scale = nn.Parameter(torch.tensor([2.0]))

            def forward(self, x):
                return self.scale * x

        module = Scaled().eval()
        return module(torch.ones(1)).requires_grad, module.training

    return beside_pytorch(answer, look)


@exercise.probe
def ordinary_attributes(answer):
    def look(base):
        module = base()
        module.count, module.values, module.parts = 3, torch.ones(2), {"a": base()}
        module.count = "three"
        names = [name for name, _ in module.named_parameters()]
        unknown = raised(lambda: module.nothing), hasattr(module, "nothing")
        return module.count, module.values.tolist(), names, list(module.state_dict()), unknown

    return beside_pytorch(answer, look)


@exercise.probe
def before_the_parent_is_set_up(answer):
    def look(base):
        class TooEarly(base):
            def __init__(self, value):
                self.part = value

        values = nn.Parameter(torch.ones(1)), base(), 3
        return [raised(lambda value=value: TooEarly(value)) for value in values]

    return beside_pytorch(answer, look)
