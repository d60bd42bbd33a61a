"""Texts that loading a file leaves: where it was saved, and what it holds."""

from __future__ import annotations

import re

from course.doctor.explain.errors import ParsedError
from course.doctor.explain.rules import Rule, Seen

_GLOBAL = re.compile(r"(?:Unsupported global: GLOBAL|unsupported GLOBAL|Unsupported class) ([\w.]{1,200})", re.I)
_GOT = re.compile(r"but got <class '([\w.]{1,200})'>", re.I)
_OPERAND = re.compile(r"Unsupported operand (\d{1,3})", re.I)
# First bytes of files that are no pickle at all.
_NO_PICKLE = {
    0: "binary data, such as a safetensors file",
    10: "text",
    58: "text",
    60: "`<`: a page in HTML or XML, such as an error page that was downloaded",
    118: "`v`: text, such as the pointer file that Git LFS leaves (`version https://...`)",
    123: "`{`: JSON",
}
_PLAIN = {
    "scalar": "a NumPy scalar. Save `float(value)`",
    "_reconstruct": "a NumPy array. Save `torch.from_numpy(array)`",
    "dtype": "a NumPy dtype. Save `str(dtype)`",
    "Namespace": "the arguments of argparse. Save `vars(args)`",
    "PosixPath": "a path. Save `str(path)`",
    "WindowsPath": "a path. Save `str(path)`",
    "defaultdict": "a defaultdict. Save `dict(...)`",
    "DictConfig": "a configuration of OmegaConf. Save `OmegaConf.to_container(config)`",
    "ListConfig": "a configuration of OmegaConf. Save `OmegaConf.to_container(config)`",
}


def _refused(error: ParsedError, match: re.Match[str]) -> Seen | None:
    named = _GLOBAL.search(error.flat) or _GOT.search(error.flat)
    if named:
        name = named[1].rstrip(".")
        last = name.rpartition(".")[2]
        if last in _PLAIN:
            return Seen(0.97, f"The file holds `{name}`: {_PLAIN[last]}.")
        if name.startswith(("torch.nn.modules.", "torchvision.models.", "torch.fx.")):
            return Seen(0.97, f"The file holds a whole module (`{name}`). Save `model.state_dict()`.")
        return Seen(0.97, f"The file holds an object of `{name}`.")
    operand = _OPERAND.search(error.flat)
    if operand and int(operand[1]) in _NO_PICKLE:
        return Seen(
            0.5,
            f"Where an instruction of pickle should be, the file has byte {operand[1]}, {_NO_PICKLE[int(operand[1])]}. "
            "That is no file of `torch.save`, and `weights_only=False` would not help.",
            "Look at the file's size and its first line, and fetch it again; `safetensors.torch.load_file` reads "
            "safetensors files.",
        )
    if operand:
        return Seen(
            0.85, f"The file has an instruction of pickle (operand {operand[1]}) that `torch.save` does not write."
        )
    return Seen()


def _from_torch_load(error: ParsedError) -> bool:
    return any("serialization.py" in frame.file for frame in error.frames) or "torch.load(" in error.code


def _pickled_module(error: ParsedError, match: re.Match[str]) -> Seen | None:
    if not _from_torch_load(error):
        return None
    return Seen(
        0.93,
        f"`torch.load` looks for `{match['name']}`: the file holds the object itself, and with it the place where its "
        "class was defined at that time.",
        "Save `model.state_dict()`, build the model from its code and load the entries into it. For the file as it "
        "is: import the class under the same name and in the same module as when it was saved.",
    )


def _device(error: ParsedError, match: re.Match[str]) -> Seen:
    names = [name for name in match.groups() if name]
    if "device_count" in error.flat:
        return Seen(None, f"The file was saved on device {names[0].lower()}, and this machine has only {names[-1]}.")
    where = names[0].rstrip(":").lower() if names else "cuda"
    return Seen(None, f"The file was saved on {where!r}, and this torch has no such device now.")


def _cuda_kernel(error: ParsedError, match: re.Match[str]) -> Seen | None:
    if not (_from_torch_load(error) or error.went_through("jit.load", "load", "torch.load")):
        return None
    return Seen(0.8, "The file's tensors are on CUDA, and this torch was built without it.")


_LOAD_TYPES = (
    "RuntimeError",
    "UnpicklingError",
    "ValueError",
    "AssertionError",
    "NotImplementedError",
    "AcceleratorError",
)

RULES: tuple[Rule, ...] = (
    Rule(
        "cuda-checkpoint-on-cpu",
        r"attempting to deserialize object on (?:a )?(\w{2,20}) device(?: (\d+))? "
        r"but torch\.[\w.]{1,40}\(\) is (\w{1,5})",
        _LOAD_TYPES,
        0.97,
        lambda error, match: Seen(None, _where(match)),
    ),
    Rule(
        "cuda-checkpoint-on-cpu",
        r"the (\w{2,20}) device module is not registered\. .{0,80}use torch\.load with map_location",
        _LOAD_TYPES,
        look=_device,
    ),
    Rule(
        "cuda-checkpoint-on-cpu",
        r"don't know how to restore data location of [\w.]{1,80} \(tagged with ([\w:]{1,40})\)",
        _LOAD_TYPES,
        0.9,
        _device,
    ),
    Rule("cuda-checkpoint-on-cpu", r"storage device not recognized: ([\w:]{1,40})", _LOAD_TYPES, 0.85, _device),
    Rule(
        "cuda-checkpoint-on-cpu",
        r"could not run '(aten::empty[\w.]{0,40})' with arguments from the 'CUDA' backend",
        look=_cuda_kernel,
    ),
    Rule("weights-only-refused", r"weights only load failed|weightsunpickler error", look=_refused),
    Rule(
        "weights-only-refused",
        r"unsupported global: global [\w.]{1,200} was not an allowed global"
        r"|unsupported global [\w.]{1,200} whose module|trying to call reduce for unrecognized function"
        r"|can only (?:build tensor|create new object for nn\.parameter)",
        ("UnpicklingError", "RuntimeError"),
        look=_refused,
    ),
    Rule(
        "weights-only-refused",
        r"cannot use `{0,2}weights_only=true`{0,2} with (?P<what>torchscript archives|files saved in the legacy \.tar)",
        ("RuntimeError", "UnpicklingError"),
        0.85,
        lambda error, match: Seen(
            None,
            "The file is not one of plain tensors: " + match["what"] + ".",
            "Read it with `torch.jit.load`." if "torchscript" in match["what"].lower() else "",
        ),
    ),
    Rule(
        "weights-only-refused",
        r"you are using `torch\.load` with `weights_only=false`",
        ("FutureWarning", "UserWarning"),
        0.5,
    ),
    Rule(
        "weights-only-refused",
        r"can't get attribute '(?P<name>[\w.]{1,80})' on <module",
        ("AttributeError",),
        look=_pickled_module,
    ),
    Rule(
        "weights-only-refused",
        r"no module named '(?P<name>[\w.]{1,80})'",
        ("ModuleNotFoundError", "ImportError"),
        look=_pickled_module,
    ),
    Rule(
        "weights-only-refused",
        r"key `(?P<key>[^`]{1,200})` is invalid, expected torch\.tensor but received <class '(?P<kind>[\w.]{1,80})'>",
        ("ValueError",),
        0.6,
        lambda error, match: Seen(
            None,
            f"A safetensors file holds tensors alone, and `{match['key']}` is of {match['kind']}.",
            "Put numbers and texts into `metadata` (as strings) or into a JSON file beside it.",
        ),
    ),
)


def _where(match: re.Match[str]) -> str:
    device = match[1].upper()
    if match[2]:
        return f"The file was saved on {device} device {match[2]}, and this machine has {match[3]}."
    return f"The file was saved on a {device} device, and `is_available()` is {match[3]} here."
