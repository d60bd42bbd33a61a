from __future__ import annotations

import copy
from collections import OrderedDict

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from course.training.checkpoint import CheckpointError, LoadReport, load_weights, strip_prefixes


class Net(nn.Module):
    def __init__(self, classes=3, width=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, width), nn.BatchNorm1d(width))
        self.head = nn.Linear(width, classes)


class Wrapped(nn.Module):
    """What DistributedDataParallel and DataParallel do to the names."""

    def __init__(self, module):
        super().__init__()
        self.module = module


WRAPPERS = {
    "ddp": Wrapped,
    "compile": torch.compile,
    "averaged": AveragedModel,
    "ddp of compile": lambda m: Wrapped(torch.compile(m)),
    "compile of ddp": lambda m: torch.compile(Wrapped(m)),
    "averaged ddp of compile": lambda m: AveragedModel(Wrapped(torch.compile(m))),
    "compile of averaged": lambda m: torch.compile(AveragedModel(m)),
    "ddp twice": lambda m: Wrapped(Wrapped(m)),
}


def net(seed, **options):
    torch.manual_seed(seed)
    model = Net(**options)
    with torch.no_grad():
        for value in model.state_dict().values():
            value.copy_(torch.randn(value.shape).mul(10).to(value.dtype))
    return model


def values(model):
    return copy.deepcopy(model.state_dict())


def equal(ours, theirs):
    return list(ours) == list(theirs) and all(torch.equal(ours[name], theirs[name]) for name in ours)


# strip_prefixes


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_names_of_any_wrapper_become_the_models_own(wrap):
    model = net(0)
    state = wrap(model).state_dict()
    before = list(state)
    assert equal(strip_prefixes(state), model.state_dict())
    assert list(state) == before


def test_a_prefix_that_some_names_lack_stays():
    state = {"module.a": 1, "b": 2}
    assert strip_prefixes(state) == state
    assert strip_prefixes({}) == {}
    assert strip_prefixes({"module.n_averaged": 1}) == {"n_averaged": 1}
    assert strip_prefixes({"n_averaged": 1, "a": 2}) == {"n_averaged": 1, "a": 2}
    assert strip_prefixes({"n_averaged": 1}) == {"n_averaged": 1}
    assert strip_prefixes({"modules.a": 1}) == {"modules.a": 1}
    assert strip_prefixes({"a.module.b": 1}) == {"a.module.b": 1}
    assert strip_prefixes({"module.": 1}) == {"module.": 1}


def test_other_prefixes():
    assert strip_prefixes({"net.model.a": 1}, ("model.", "net.")) == {"a": 1}
    assert strip_prefixes({"module.a": 1}, ()) == {"module.a": 1}
    with pytest.raises(ValueError, match="empty prefix"):
        strip_prefixes({"a": 1}, ("",))


# load_weights


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
@pytest.mark.parametrize("direction", ["from wrapped", "into wrapped"])
def test_wrapped_models_load_into_bare_ones_and_back(wrap, direction):
    source, target = net(0), net(1)
    ours, theirs = (target, wrap(source)) if direction == "from wrapped" else (wrap(target), source)
    report = load_weights(ours, theirs.state_dict(), strict=True)
    assert equal(
        target.state_dict() if direction == "from wrapped" else strip_prefixes(ours.state_dict()), values(source)
    )
    assert len(report.loaded) == 9
    assert report.complete


def test_an_averaged_model_keeps_its_counter():
    source, target = AveragedModel(net(0)), AveragedModel(net(1))
    for _ in range(3):
        source.update_parameters(net(2))
    assert "n_averaged" in load_weights(target, source.state_dict(), strict=True).loaded
    assert target.n_averaged == 3


def test_a_part_that_was_compiled():
    source, target = net(0), net(1)
    wanted = values(source)
    source.body = torch.compile(source.body)
    assert "body._orig_mod.0.weight" in source.state_dict()
    assert load_weights(target, source.state_dict(), strict=True).complete
    assert equal(values(target), wanted)


def test_a_model_whose_only_child_is_called_module():
    source, target = Wrapped(net(0)), Wrapped(net(1))
    report = load_weights(target, source.state_dict(), strict=True)
    assert report.loaded[0] == "module.body.0.weight"
    assert equal(values(target), values(source))


def test_another_head():
    source, target = net(0, classes=5), net(1)
    before = values(target)
    report = load_weights(target, source.state_dict())
    assert report.mismatched == (("head.weight", (5, 4), (3, 4)), ("head.bias", (5,), (3,)))
    assert report.mismatched[0].in_file == (5, 4)
    assert (len(report.loaded), report.missing, report.unexpected, report.skipped) == (7, (), (), ())
    assert torch.equal(target.head.weight, before["head.weight"])
    assert torch.equal(target.body[1].running_var, source.body[1].running_var)
    text = str(report)
    assert "loaded 7 tensors" in text
    assert "of another shape, 2 tensors: head.weight (5, 4) in the file, (3, 4) in the model" in text


def test_missing_and_unexpected_names():
    source, target = net(0), net(1)
    state = {name: value for name, value in source.state_dict().items() if not name.startswith("head")}
    report = load_weights(target, {**state, "extra": torch.zeros(1)})
    assert (report.missing, report.unexpected) == (("head.weight", "head.bias"), ("extra",))
    assert not report.complete
    assert str(report).splitlines() == [
        "loaded 7 tensors",
        "missing in the file, 2 tensors: head.weight, head.bias",
        "not in the model, 1 tensor: extra",
    ]


@pytest.mark.parametrize("change", ["missing", "unexpected", "shape"])
def test_strict_refuses_each_difference_and_changes_nothing(change):
    source, target = net(0, classes=5 if change == "shape" else 3), net(1)
    state = source.state_dict()
    if change == "missing":
        del state["head.bias"]
    if change == "unexpected":
        state["extra"] = torch.zeros(1)
    before = values(target)
    with pytest.raises(CheckpointError, match=r"head.bias|extra"):
        load_weights(target, state, strict=True)
    assert equal(values(target), before)


def test_skip_keeps_what_the_model_has():
    source, target = net(0, classes=5), net(1)
    before = values(target)
    report = load_weights(target, source.state_dict(), strict=True, skip=("head", "body.1.running_mean"))
    assert report.skipped == ("body.1.running_mean", "head.weight", "head.bias")
    assert torch.equal(target.body[1].running_mean, before["body.1.running_mean"])
    assert torch.equal(target.head.bias, before["head.bias"])
    assert load_weights(target, source.state_dict(), skip="head").skipped == ("head.weight", "head.bias")
    assert "skipped as asked, 2 tensors" in str(load_weights(target, source.state_dict(), skip="head"))
    for wrong in ("heads", "hea", "body.1.running", "ead"):
        with pytest.raises(ValueError, match=f"'{wrong}', which neither"):
            load_weights(target, source.state_dict(), skip=(wrong,))


def test_skip_may_name_what_only_the_file_has():
    state = {**net(0).state_dict(), "old.weight": torch.zeros(1)}
    report = load_weights(net(1), state, strict=True, skip=("old",))
    assert report.skipped == ("old.weight",)
    assert len(report.loaded) == 9


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (
            {"encoder.weight": torch.zeros(2)},
            "no name in the file is a name in the model. File: encoder.weight. Model: body",
        ),
        ({}, "no name in the file is a name in the model. File: none."),
        ({"model": {"a": torch.zeros(2)}, "epoch": 3}, r"keys model, epoch; pass the weights in it, state\['model'\]"),
        ({"head.weight": torch.zeros(7, 7)}, "nothing was left to load"),
        ({"head.weight": "text"}, "holds a str for head.weight"),
        ([torch.zeros(2)], "should be a dict of names to tensors"),
        ({0: torch.zeros(2)}, "should be a dict of names to tensors"),
    ],
    ids=["other names", "empty", "nested", "shapes", "text", "list", "numbers"],
)
def test_nothing_that_fits(state, message):
    model = net(1)
    before = values(model)
    with pytest.raises(CheckpointError, match=message):
        load_weights(model, state)
    assert equal(values(model), before)


def test_a_model_that_raises_half_way_is_set_back():
    class Late(nn.Linear):
        def _load_from_state_dict(self, *arguments):
            super()._load_from_state_dict(*arguments)
            raise ValueError("half way")

    model = net(1)
    model.head = Late(4, 3)
    before = values(model)
    with pytest.raises(CheckpointError, match="set back: half way"):
        load_weights(model, net(0).state_dict())
    assert equal(values(model), before)


def test_tied_weights():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.out = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
            self.out.weight = self.embedding.weight

    source, target = Tied(), Tied()
    report = load_weights(target, {"embedding.weight": source.embedding.weight.detach()}, strict=True)
    assert report.loaded == ("embedding.weight",)
    assert target.out.weight is target.embedding.weight
    assert torch.equal(target.out.weight, source.out.weight)


def test_parameters_stay_the_same_objects_and_the_state_is_not_changed():
    source, target = net(0), net(1)
    objects = list(map(id, target.parameters()))
    state = OrderedDict(source.state_dict())
    load_weights(target, state)
    assert list(map(id, target.parameters())) == objects
    assert equal(state, source.state_dict())
    with torch.no_grad():
        target.head.bias.add_(1)
    assert not torch.equal(target.head.bias, source.head.bias)


def test_long_lists_are_shortened_in_the_text_only():
    report = LoadReport(loaded=("a",), missing=tuple(f"layer.{n}" for n in range(20)))
    assert str(report).endswith("layer.7, and 12 more")


def test_half_precision_files_load_into_full_precision():
    source, target = net(0), net(1)
    load_weights(target, {name: value.half() for name, value in source.state_dict().items()})
    assert target.head.weight.dtype == torch.float32
    assert torch.equal(target.head.weight, source.head.weight.half().float())
