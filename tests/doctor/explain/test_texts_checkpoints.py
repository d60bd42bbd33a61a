"""Texts of the topic checkpoints, real ones and those of other versions and devices."""

from __future__ import annotations

import pytest
from support.raised import raised, warned

from course.doctor.explain import explain

LOAD = """
def load(value, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return torch.load(buffer, **options)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(2, 3)
        self.head = nn.Linear(3, 2)
def save_on(tag):
    import torch.serialization as serialization
    before, serialization.location_tag = serialization.location_tag, lambda storage: tag
    buffer = io.BytesIO()
    try:
        torch.save({"w": torch.ones(2)}, buffer)
    finally:
        serialization.location_tag = before
    buffer.seek(0)
    return buffer
def optimizers(first, second, *kinds):
    a = nn.Parameter(torch.ones(first)); b = nn.Parameter(torch.ones(second))
    old, new = kinds[0]([a], lr=0.1), kinds[1]([b], lr=0.1)
    a.sum().backward(); old.step()
    new.load_state_dict(old.state_dict())
    b.sum().backward(); new.step()
"""

REAL = [
    ("cuda-checkpoint-on-cpu", "torch.load(save_on('cuda:0'))", "CUDA"),
    ("cuda-checkpoint-on-cpu", "torch.load(save_on('cuda:1'), weights_only=False)", "CUDA"),
    ("cuda-checkpoint-on-cpu", "torch.load(save_on('xpu:0'))", "XPU"),
    ("cuda-checkpoint-on-cpu", "torch.load(save_on('hpu:0'))", "hpu"),
    ("cuda-checkpoint-on-cpu", "torch.load(save_on('npu:0'))", "npu:0"),
    ("cuda-checkpoint-on-cpu", "load({'w': torch.ones(2)}, map_location='cuda')", "CUDA"),
    ("wrapper-prefix", "Net().load_state_dict(nn.DataParallel(Net()).state_dict())", "`module.`"),
    ("wrapper-prefix", "nn.DataParallel(Net()).load_state_dict(Net().state_dict())", "in the model"),
    ("wrapper-prefix", "Net().load_state_dict(torch.optim.swa_utils.AveragedModel(Net()).state_dict())", "`module.`"),
    (
        "wrapper-prefix",
        "torch.optim.swa_utils.AveragedModel(Net()).load_state_dict(Net().state_dict())",
        "in the model",
    ),
    ("wrapper-prefix", "Net().load_state_dict(torch.compile(Net(), backend='eager').state_dict())", "torch.compile"),
    ("wrapper-prefix", "Net().load_state_dict({'model.' + k: v for k, v in Net().state_dict().items()})", "`model.`"),
    (
        "wrapper-prefix",
        "Net().load_state_dict({'module._orig_mod.' + k: v for k, v in Net().state_dict().items()})",
        "module.",
    ),
    (
        "wrapper-prefix",
        "Net().load_state_dict({k.replace('head', 'head._orig_mod'): v for k, v in Net().state_dict().items()})",
        "_orig_mod",
    ),
    (
        "wrapper-prefix",
        "own = Net().state_dict()\nfor name in nn.DataParallel(Net()).state_dict(): own[name].zero_()",
        "module.body.weight",
    ),
    ("nothing-loaded", "Net().load_state_dict({'model': Net().state_dict(), 'epoch': 3})", "checkpoint['model']"),
    (
        "nothing-loaded",
        "Net().load_state_dict({'state_dict': Net().state_dict(), 'optimizer': {}, 'best_acc': 0.5})",
        "checkpoint['state_dict']",
    ),
    ("shape-mismatch-on-load", "nn.Linear(4, 3).load_state_dict(nn.Linear(4, 10).state_dict())", "(10, 4)"),
    ("shape-mismatch-on-load", "nn.Linear(4, 3).load_state_dict(nn.Linear(4, 10).state_dict(), strict=False)", "10"),
    ("shape-mismatch-on-load", "nn.BatchNorm2d(3).load_state_dict(nn.BatchNorm2d(8).state_dict())", "(8,)"),
    ("shape-mismatch-on-load", "nn.Embedding(5, 2).load_state_dict(nn.Embedding(9, 2).state_dict())", "(9, 2)"),
    ("weights-only-refused", "load(torch.optim.swa_utils.AveragedModel(nn.Linear(2, 2)))", "AveragedModel"),
    ("weights-only-refused", "load(nn.Sequential(nn.Linear(2, 2)))", "whole module"),
    ("weights-only-refused", "load({'best': np.float64(0.5)})", "float(value)"),
    ("weights-only-refused", "load({'rng': np.random.get_state()})", "NumPy array"),
    ("weights-only-refused", "import pathlib; load({'p': pathlib.Path('a')})", "str(path)"),
    ("weights-only-refused", "import argparse; load({'args': argparse.Namespace(lr=1)})", "vars(args)"),
    ("weights-only-refused", "import functools; load({'f': functools.partial(print)})", "functools.partial"),
    ("weights-only-refused", "import pickle; torch.load(io.BytesIO(pickle.dumps({'a': 1})))", "operand"),
    ("weights-only-refused", "torch.load(io.BytesIO(b'<!DOCTYPE html><html>'))", "would not help"),
    ("weights-only-refused", "torch.load(io.BytesIO(b'version https://git-lfs'))", "Git LFS"),
    (
        "optimizer-groups-mismatch",
        "optim = torch.optim.SGD\na, b, c = (nn.Parameter(torch.ones(1)) for _ in range(3))\n"
        "optim([a], lr=1).load_state_dict(optim([b, c], lr=1).state_dict())",
        "of the parameters",
    ),
    (
        "optimizer-groups-mismatch",
        "optim = torch.optim.Adam\na, b, c = (nn.Parameter(torch.ones(1)) for _ in range(3))\n"
        "optim([a]).load_state_dict(optim([{'params': [b]}, {'params': [c]}]).state_dict())",
        "numbers of groups differ",
    ),
    ("optimizer-groups-mismatch", "optimizers(3, 4, torch.optim.Adam, torch.optim.Adam)", "3 and 4"),
    ("optimizer-groups-mismatch", "optimizers(3, 3, torch.optim.SGD, torch.optim.Adam)", "another class"),
    (
        "optimizer-groups-mismatch",
        "torch.optim.Adam([nn.Parameter(torch.ones(1))]).load_state_dict({})",
        "param_groups",
    ),
    (
        "scheduler-not-restored",
        "o = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1)\ntorch.optim.lr_scheduler.StepLR(o, 3, last_epoch=4)",
        "last_epoch",
    ),
    ("optimizer-not-restored", "checkpoint = {'model': {}}\ncheckpoint['optimizer_state_dict']", "no entry"),
    (
        "nondeterministic-kernel",
        "torch.use_deterministic_algorithms(True)\n"
        "try: torch.ones(3).put_(torch.tensor([0]), torch.ones(1))\n"
        "finally: torch.use_deterministic_algorithms(False)",
        "put_",
    ),
]


@pytest.mark.parametrize(("fault", "code", "quoted"), REAL)
def test_a_real_error_is_explained_with_what_it_says(fault, code, quoted):
    found = explain(raised(LOAD + code))
    assert found
    assert found[0]["fault"] == fault
    assert quoted in found[0]["why"] + found[0]["fix"]


def test_a_copy_to_the_meta_device_is_heard():
    lines = warned("nn.Linear(2, 2, device='meta').load_state_dict(nn.Linear(2, 2).state_dict())")
    assert {explain(line)[0]["fault"] for line in lines} == {"nothing-loaded"}


SIZES = "torch.Size([{}]) from checkpoint, the shape in current model is torch.Size([{}])"
LITERAL = [
    # Other devices and versions.
    (
        "cuda-checkpoint-on-cpu",
        "RuntimeError: Attempting to deserialize object on CUDA device 3 but torch.cuda.device_count() "
        "is 1. Please use "
        "torch.load with map_location to map your storages to an existing device.",
    ),
    (
        "cuda-checkpoint-on-cpu",
        "RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() "
        "is False. If you "
        "are running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your "
        "storages to the CPU.",
    ),
    (
        "cuda-checkpoint-on-cpu",
        "RuntimeError: Attempting to deserialize object on MPS device but torch.backends.mps.is_available() is False.",
    ),
    (
        "cuda-checkpoint-on-cpu",
        "RuntimeError: don't know how to restore data location of torch.FloatStorage (tagged with cuda:0)",
    ),
    (
        "weights-only-refused",
        "_pickle.UnpicklingError: Weights only load failed. Re-running `torch.load` with `weights_only` set to `False` "
        "will likely succeed, but it can result in arbitrary code execution.Do it only if you get the file from a "
        "trusted source. WeightsUnpickler error: Unsupported class numpy.core.multiarray.scalar",
    ),
    (
        "weights-only-refused",
        "UnpicklingError: Weights only load failed. This file can still be loaded, to do so you have two options, do "
        "those steps only if you trust the source of the checkpoint.\n (1) In PyTorch 2.6, we changed "
        "the default value "
        "...\n WeightsUnpickler error: Unsupported global: GLOBAL ultralytics.nn.tasks.DetectionModel "
        "was not an allowed "
        "global by default. Please use `torch.serialization.add_safe_globals([DetectionModel])`",
    ),
    (
        "weights-only-refused",
        "_pickle.UnpicklingError: Weights only load failed. ... WeightsUnpickler error: Can only build "
        "Tensor, Parameter, "
        "OrderedDict or types allowlisted via `add_safe_globals`, but got <class 'omegaconf.dictconfig.DictConfig'>",
    ),
    (
        "weights-only-refused",
        "_pickle.UnpicklingError: Weights only load failed. ... WeightsUnpickler error: Trying to load "
        "unsupported GLOBAL "
        "posix.system whose module posix is blocked.",
    ),
    (
        "weights-only-refused",
        "RuntimeError: Cannot use ``weights_only=True`` with TorchScript archives passed to "
        "``torch.load``. In PyTorch 2.6",
    ),
    (
        "weights-only-refused",
        "Traceback (most recent call last):\n"
        '  File "serve.py", line 4, in <module>\n    net = torch.load("net.pt", weights_only=False)\n'
        '  File "/opt/lib/python3.12/site-packages/torch/serialization.py", line 1516, in load\n    return _load(\n'
        '  File "/opt/lib/python3.12/site-packages/torch/serialization.py", line 2106, in find_class\n'
        "    return super().find_class(mod_name, name)\n"
        "AttributeError: Can't get attribute 'Net' on <module '__main__' from 'serve.py'>",
    ),
    (
        "weights-only-refused",
        "Traceback (most recent call last):\n"
        '  File "serve.py", line 4, in <module>\n    net = torch.load("yolo.pt", weights_only=False)\n'
        '  File "/opt/lib/python3.12/site-packages/torch/serialization.py", line 1516, in load\n    return _load(\n'
        "ModuleNotFoundError: No module named 'models'",
    ),
    (
        "wrapper-prefix",
        'RuntimeError: Error(s) in loading state_dict for ResNet:\n\tMissing key(s) in state_dict: "conv1.weight", '
        '"bn1.weight", "layer1.0.conv1.weight", "fc.bias". \n\tUnexpected key(s) in state_dict: "module.conv1.weight", '
        '"module.bn1.weight", "module.layer1.0.conv1.weight", "module.fc.bias". ',
    ),
    (
        "wrapper-prefix",
        "RuntimeError: Error(s) in loading state_dict for GPT:\n\tMissing key(s) in state_dict: "
        '"wte.weight", "h.0.ln.bias", '
        '"h.1.ln.bias".\n\tUnexpected key(s) in state_dict: "_orig_mod.module.wte.weight", '
        '"_orig_mod.module.h.0.ln.bias", '
        '"_orig_mod.module.h.1.ln.bias".',
    ),
    (
        "wrapper-prefix",
        'RuntimeError: Error(s) in loading state_dict for Block:\n\tMissing key(s) in state_dict: "mlp.0.weight", '
        '"mlp.0.bias".\n\tUnexpected key(s) in state_dict: "_fsdp_wrapped_module.mlp.0.weight", '
        '"_fsdp_wrapped_module.mlp.0.bias".',
    ),
    (
        "wrapper-prefix",
        'RuntimeError: Error(s) in loading state_dict for Linear:\n    Missing key(s) in state_dict: "bias", "weight"\n'
        '    Unexpected key(s) in state_dict: "module.bias", "module.weight"',
    ),
    ("wrapper-prefix", "KeyError: '_orig_mod.encoder.layers.0.weight'"),
    ("wrapper-prefix", "KeyError: 'unexpected key \"module.features.0.weight\" in state_dict'"),
    ("wrapper-prefix", "RuntimeError: Missing key in checkpoint state_dict: module.layers.3.weight."),
    (
        "nothing-loaded",
        "_IncompatibleKeys(missing_keys=['conv1.weight', 'fc.bias'], unexpected_keys=['module.conv1.weight', "
        "'module.fc.bias'])",
    ),
    (
        "shape-mismatch-on-load",
        "RuntimeError: Error(s) in loading state_dict for BertForSequenceClassification:\n\tsize mismatch for "
        f"classifier.weight: copying a param with shape {SIZES.format('2, 768', '3, 768')}.\n\tYou may consider adding "
        "`ignore_mismatched_sizes=True` in the model `from_pretrained` method.",
    ),
    (
        "shape-mismatch-on-load",
        f"size mismatch for pos_embed: copying a param with shape {SIZES.format('1, 197, 768', '1, 577, 768')}.",
    ),
    (
        "shape-mismatch-on-load",
        "ValueError: Size mismatch between saved torch.Size([10, 4]) and current: torch.Size([3, 4]) for fc.weight",
    ),
    (
        "nondeterministic-kernel",
        "RuntimeError: Deterministic behavior was enabled with either `torch.use_deterministic_algorithms(True)` or "
        "`at::Context::setDeterministicAlgorithms(true)`, but this operation is not deterministic "
        "because it uses CuBLAS "
        "and you have CUDA >= 10.2. To enable deterministic behavior in this case, you must set an "
        "environment variable "
        "before running your PyTorch application: CUBLAS_WORKSPACE_CONFIG=:4096:8 or CUBLAS_WORKSPACE_CONFIG=:16:8.",
    ),
    (
        "nondeterministic-kernel",
        "RuntimeError: adaptive_avg_pool2d_backward_cuda does not have a deterministic implementation, but you set "
        "'torch.use_deterministic_algorithms(True)'. You can turn off determinism just for this operation",
    ),
    (
        "nondeterministic-kernel",
        "/a/b.py:3: UserWarning: upsample_bilinear2d_backward_out_cuda does not have a deterministic "
        "implementation, but "
        "you set 'torch.use_deterministic_algorithms(True, warn_only=True)'.",
    ),
    (
        "nondeterministic-kernel",
        "/a/b.py:3: UserWarning: Memory Efficient attention defaults to a non-deterministic algorithm. To explicitly "
        "enable determinism call torch.use_deterministic_algorithms(True, warn_only=False).",
    ),
    (
        "optimizer-not-restored",
        "KeyError: 'Trying to restore optimizer state but checkpoint contains only the model. This is probably due to "
        "`ModelCheckpoint.save_weights_only` being set to `True`.'",
    ),
    ("optimizer-groups-mismatch", "KeyError: 'exp_avg'"),
    ("optimizer-groups-mismatch", "ValueError: loaded state dict has a different number of parameter groups"),
    (
        "scheduler-not-restored",
        "KeyError: \"param 'initial_lr' is not specified in param_groups[0] when resuming an optimizer\"",
    ),
]


@pytest.mark.parametrize(("fault", "text"), LITERAL)
def test_a_text_of_another_version_or_device_is_known(fault, text):
    found = explain(text)
    assert found
    assert found[0]["fault"] == fault


SILENT = [
    'RuntimeError: Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: "extra.weight". ',
    'RuntimeError: Error(s) in loading state_dict for Net:\n\tUnexpected key(s) in state_dict: "extra.weight". ',
    'RuntimeError: Error(s) in loading state_dict for A:\n\tMissing key(s) in state_dict: "conv.weight".\n\t'
    'Unexpected key(s) in state_dict: "attention.q.weight".',
    "_IncompatibleKeys(missing_keys=['head.weight', 'head.bias'], unexpected_keys=['fc.weight', 'fc.bias'])",
    "_IncompatibleKeys(missing_keys=['head.fc.weight'], unexpected_keys=['fc.weight'])",
    "<All keys matched successfully>",
    "ModuleNotFoundError: No module named 'einops'",
    "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
    "KeyError: 'step'",
    "KeyError: 'labels'",
    "KeyError: 'optimizer'",
    "KeyError: 'scheduler'",
    "KeyError: 'module'",
    "KeyError: 'eps'",
    "FileNotFoundError: [Errno 2] No such file or directory: 'best.pt'",
    "TypeError: Expected state_dict to be dict-like, got <class 'str'>.",
    "INFO epoch 3: saved the optimizer and the scheduler to best.pt",
]


@pytest.mark.parametrize("text", SILENT)
def test_what_tells_of_no_known_fault_is_not_guessed(text):
    assert explain(text) == []


def test_names_that_differ_in_one_layer_are_no_wrapper():
    error = raised(
        LOAD + "own = Net().state_dict(); own['top.weight'] = own.pop('head.weight'); Net().load_state_dict(own)"
    )
    assert explain(error) == []


def test_a_long_list_of_names_is_read_where_it_was_cut_off():
    missing = ", ".join(f'"layers.{i}.weight"' for i in range(400))
    unexpected = ", ".join(f'"module.layers.{i}.weight"' for i in range(400))
    text = (
        f"RuntimeError: Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: {missing}. \n\t"
        f"Unexpected key(s) in state_dict: {unexpected}. "
    )
    assert explain(text)[0]["fault"] == "wrapper-prefix"
