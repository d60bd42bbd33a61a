"""One checkpoint file: written whole or not at all, and read only when it is whole, undamaged and safe."""

from __future__ import annotations

import contextlib
import os
import pickle
import platform
import re
import sys
import warnings
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch

from course.training.checkpoint.atomic import replacing

FORMAT = 1
HEADER, CONTENT = "course checkpoint", "content"
PLAIN = (type(None), bool, int, float, complex, str, bytes, bytearray, torch.dtype, torch.device, torch.Size)


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be used; the message says what was seen, what was expected and what to do."""


class CheckpointWarning(UserWarning):
    """A checkpoint that is used although something about it is not as expected, or that is passed over."""


def warn(message: str) -> None:
    """Give a CheckpointWarning at the line of the caller outside of course.training."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("course.training."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, CheckpointWarning, stacklevel=level)


def save_atomically(obj: dict[str, Any], path: str | Path) -> Path:
    """Write a dict of tensors and plain values to a file, so that the path always holds a whole file: old or new.

    obj: nested dict, list, tuple, set, tensors, numbers, str, bytes, bool, None, torch.dtype, device and Size.
        Anything else would not load again with ``weights_only=True``; CheckpointError names where it is.
    The folder must exist. Raises OSError when the file cannot be written (for a full disk errno is ENOSPC, and the
    message says how many bytes were written); then the previous file is untouched and no temporary file stays.
    A symbolic link stays one, and its target is replaced. Returns the path.
    """
    if not isinstance(obj, dict):
        raise CheckpointError(f"a checkpoint should be a dict, not {_kind(obj)}; wrap it: {{'model': ...}}")
    require_plain(obj)
    header = {
        "format": FORMAT,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    with replacing(path) as file, _checksums():
        torch.save({HEADER: header, CONTENT: obj}, file)
    return Path(path)


def load(path: str | Path, *, map_location: Any = "cpu") -> dict[str, Any]:
    """The dict in a file of :func:`save_atomically`, or of ``torch.save(dict, path)``.

    Every byte is checked against the checksums in the file, and nothing but tensors and plain containers is unpickled.
    Raises CheckpointError for a file that is empty, cut short, damaged, of another kind, of a newer format, or that
    holds other objects (names the first); FileNotFoundError and PermissionError as usual. Another torch version is
    loaded with a CheckpointWarning.
    """
    header, content = _read(Path(path), map_location)
    there, here = (str(version).partition("+")[0] for version in (header.get("torch", ""), torch.__version__))
    if header and there != here:
        warn(
            f"{Path(path).name} was saved with torch {there}, this is {here}: the values load as they are, "
            "but a run that goes on from them may differ in the last bits"
        )
    return content


def read_header(path: str | Path) -> dict[str, Any]:
    """What a file says about itself: "format" (int), "torch", "python" (versions) and "time" (UTC, ISO 8601).

    Empty for a plain file of torch.save. Checks the file and raises as :func:`load` does; allocates no tensors.
    """
    return _read(Path(path), "meta")[0]


def _read(path: Path, map_location: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    if path.is_dir():
        raise CheckpointError(f"{path} is a folder; give the path of a file in it")
    with path.open("rb") as file:  # opened once: what is checked is what is loaded, also if the path changes meanwhile
        _check_bytes(file, path)
        file.seek(0)
        try:
            whole = torch.load(file, map_location=map_location, weights_only=True)
        except (OSError, MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            raise CheckpointError(_why_not(path, error)) from error
    if not isinstance(whole, dict):
        raise CheckpointError(f"{path} holds {_kind(whole)}, not a dict; read it with torch.load(weights_only=True)")
    if HEADER not in whole:
        return {}, whole
    header = whole[HEADER]
    if header["format"] > FORMAT:
        raise CheckpointError(
            f"{path} has format {header['format']}, and this code reads up to {FORMAT}; read it with the newer code "
            f"that wrote it (saved {header.get('time', 'at an unknown time')} with torch {header.get('torch')})"
        )
    return header, whole[CONTENT]


def _check_bytes(file: Any, path: Path) -> None:
    """Check the checksum of each record. torch.load does not: a flipped bit in a weight would pass."""
    start = file.read(4)
    size = file.seek(0, os.SEEK_END)
    if not size:
        raise CheckpointError(f"{path} is empty (0 bytes); the program that wrote it was cut off, take an older file")
    damaged = f"{path} is cut short or damaged ({size:,} bytes); take an older file or a copy"
    if start != b"PK\x03\x04"[: len(start)]:
        raise CheckpointError(
            f"{path} is not a file of torch.save, or is damaged: it begins with {start!r}, not with b'PK\\x03\\x04'. "
            "If torch before 1.6 wrote it, read it with torch.load(path, weights_only=True) and save it again"
        )
    try:
        with zipfile.ZipFile(file) as records:
            wrong = records.testzip()
            names = records.namelist()
    except Exception as error:  # zipfile raises many kinds for damaged files
        raise CheckpointError(f"{damaged}. It should end with a list of its records: {error}") from error
    if wrong is not None:
        raise CheckpointError(f"{damaged}. The bytes of {wrong} do not fit their checksum")
    if not any(name.endswith("/data.pkl") for name in names):
        raise CheckpointError(f"{path} is a zip archive, but not one of torch.save: it has no data.pkl")


def _why_not(path: Path, error: Exception) -> str:
    text = str(error)
    refused = re.search(r"(?:GLOBAL|Unsupported class|Unsupported type:?) ([\w.]+)", text)
    if refused:
        return (
            f"{path} holds a {refused[1]}, which was not unpickled: unpickling runs code. Save tensors and plain "
            "values instead, such as model.state_dict() in the place of the model"
        )
    kind = "holds more than tensors and plain values" if isinstance(error, pickle.UnpicklingError) else "does not load"
    reason = re.sub(r"\x1b\[\d*m", "", text).strip().splitlines()
    return f"{path} is whole but {kind}: {type(error).__name__}: {reason[0] if reason else ''}"


def require_plain(obj: Any, where: str = "state") -> None:
    """Raise CheckpointError, which names the place, unless an object loads again with ``weights_only=True``."""
    if type(obj) in PLAIN or isinstance(obj, torch.Tensor):
        return
    if type(obj) in (dict, OrderedDict, Counter):
        for key, value in obj.items():
            require_plain(key, f"key {key!r} of {where}")
            require_plain(value, f"{where}[{key!r}]")
    elif type(obj) in (list, tuple, set):
        for number, value in enumerate(obj):
            require_plain(value, f"{where}[{number}]")
    else:
        raise CheckpointError(
            f"{where} is {_kind(obj)}: {obj!r:.60}. A checkpoint holds tensors and plain values only; "
            "convert it, for example with float(), str(), list() or torch.from_numpy()"
        )


def _kind(obj: Any) -> str:
    return f"a {type(obj).__module__}.{type(obj).__qualname__}".replace("builtins.", "")


@contextlib.contextmanager
def _checksums() -> Iterator[None]:
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(True)
    try:
        yield
    finally:
        torch.serialization.set_crc32_options(before)
