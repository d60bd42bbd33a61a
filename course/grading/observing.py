"""How observations leave the worker: a small binary form that is checked in every part when it is read.

Not pickle: what is read may have been written by an answer, and must neither run code nor take memory or time out of
proportion to its length. Each frame begins with a token that the answer is not told, so that bytes written at random
into the open descriptors of a process are noticed; it keeps out accidents and guesses, not someone who reads the
memory of their own process.
"""

from __future__ import annotations

import struct
from dataclasses import fields
from typing import Any

import torch

from course.checking.observation import (
    HASHED_APART,
    MAX_BYTES,
    MAX_ITEMS,
    SEEN_CLASSES,
    Observation,
    TensorSeen,
)

MAX_FRAME = 16 * 2**20
MAX_PARTS = 100_000
MAX_TEXT_BYTES = 8 * 2**20  # of a frame: a character that is no ASCII makes a text four times as large in memory
MAX_DEPTH = 24
MAX_INT_BYTES = 1_024
MAX_AXES = 64
TOKEN_BYTES = 16
HEADER = struct.Struct(f"!{TOKEN_BYTES}sI")

DTYPES = {
    str(value).removeprefix("torch."): value.itemsize
    for value in vars(torch).values()
    if isinstance(value, torch.dtype)
}
_CLASSES = {name.encode(): (cls, tuple(field.name for field in fields(cls))) for name, cls in SEEN_CLASSES.items()}
_LENGTH = struct.Struct("!I")


class Malformed(ValueError):
    """These bytes are no observation."""


def encode(value: Any) -> bytes:
    """Plain data and the classes of course.checking.observation as bytes. Raises TypeError for anything else."""
    out = bytearray()
    _write(value, out)
    return bytes(out)


def decode(data: bytes) -> Any:
    """Inverse of :func:`encode`. Raises Malformed for anything that an encoder would not have written."""
    return decode_and_count(data)[0]


def decode_and_count(data: bytes) -> tuple[Any, int]:
    """The same, and how many parts it has: reading takes time and memory by them, not by the length."""
    reader = _Reader(data)
    value = reader.read(0)
    if reader.place != len(data):
        raise Malformed("there are bytes after the end")
    return value, reader.parts


def frame(token: bytes, value: Any) -> bytes:
    data = encode(value)
    return HEADER.pack(token, len(data)) + data


def _sized(tag: bytes, data: bytes) -> bytes:
    return tag + _LENGTH.pack(len(data)) + data


def _write(value: Any, out: bytearray) -> None:
    kind = type(value)
    if value is None or value is True or value is False or value is ...:
        out += {None: b"N", True: b"T", False: b"F", ...: b"E"}[value]
    elif kind is int:
        data = value.to_bytes((value.bit_length() + 8) // 8, "big", signed=True)
        if len(data) > MAX_INT_BYTES:
            _write(SEEN_CLASSES["ObjectSeen"](f"an int of {value.bit_length()} bits"), out)
        else:
            out += _sized(b"i", data)
    elif kind is float:
        out += b"f" + struct.pack("!d", value)
    elif kind is complex:
        out += b"c" + struct.pack("!dd", value.real, value.imag)
    elif kind is str:
        out += _sized(b"s", value.encode("utf-8", errors="surrogatepass"))
    elif kind is bytes:
        out += _sized(b"b", value)
    elif kind in (tuple, list):
        out += (b"t" if kind is tuple else b"l") + _LENGTH.pack(len(value))
        for item in value:
            _write(item, out)
    elif kind is dict:
        out += b"d" + _LENGTH.pack(len(value))
        for key, item in value.items():
            _write(key, out)
            _write(item, out)
    elif kind.__name__ in SEEN_CLASSES and SEEN_CLASSES[kind.__name__] is kind:
        out += _sized(b"o", kind.__name__.encode())
        for name in _CLASSES[kind.__name__.encode()][1]:
            _write(getattr(value, name), out)
    else:
        raise TypeError(f"a {kind.__name__} is no part of an observation")


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.place, self.parts, self.texts = data, 0, 0, 0

    def take(self, count: int) -> bytes:
        piece = self.data[self.place : self.place + count]
        if len(piece) != count:
            raise Malformed("it ends in the middle")
        self.place += count
        return piece

    def length(self) -> int:
        return _LENGTH.unpack(self.take(_LENGTH.size))[0]

    def read(self, depth: int) -> Any:
        self.parts += 1
        if depth > MAX_DEPTH or self.parts > MAX_PARTS:
            raise Malformed("too many or too deeply nested parts")
        tag = self.take(1)
        if tag in _CONSTANTS:
            return _CONSTANTS[tag]
        reader = _READERS.get(tag)
        if reader is None:
            raise Malformed(f"an unknown tag {tag!r}")
        return reader(self, depth)

    def integer(self, depth: int) -> int:
        size = self.length()
        if size > MAX_INT_BYTES:
            raise Malformed("an int that is too long")
        return int.from_bytes(self.take(size), "big", signed=True)

    def text(self, depth: int) -> str:
        size = self.length()
        self.texts += size
        if self.texts > MAX_TEXT_BYTES:
            raise Malformed("too much text")
        try:
            return self.take(size).decode("utf-8", errors="surrogatepass")
        except UnicodeDecodeError:
            raise Malformed("a text that is not UTF-8") from None

    def items(self, depth: int) -> list[Any]:
        return [self.read(depth + 1) for _ in range(self.length())]

    def mapping(self, depth: int) -> dict[Any, Any]:
        found, count = {}, self.length()
        if count > MAX_ITEMS:
            raise Malformed("a mapping that is too large")
        for _ in range(count):
            key = self.read(depth + 1)
            if type(key) not in _KEYS or (type(key) is int and abs(key) >= HASHED_APART):
                raise Malformed("a key that is not plain")
            found[key] = self.read(depth + 1)
        return found

    def instance(self, depth: int) -> Any:
        name = self.take(min(self.length(), 40))
        if name not in _CLASSES:
            raise Malformed("an unknown class")
        cls, names = _CLASSES[name]
        made = cls(*(self.read(depth + 1) for _ in names))
        _CHECKS[cls.__name__](made)
        return made


_CONSTANTS = {b"N": None, b"T": True, b"F": False, b"E": ...}
# No complex: as for large ints, it is easy to find any number of them with the same hash.
_KEYS = (type(None), bool, int, float, str, bytes, type(...))
_READERS = {
    b"i": _Reader.integer,
    b"f": lambda reader, depth: struct.unpack("!d", reader.take(8))[0],
    b"c": lambda reader, depth: complex(*struct.unpack("!dd", reader.take(16))),
    b"s": _Reader.text,
    b"b": lambda reader, depth: reader.take(reader.length()),
    b"t": lambda reader, depth: tuple(reader.items(depth)),
    b"l": _Reader.items,
    b"d": _Reader.mapping,
    b"o": _Reader.instance,
}


def _require(sound: bool, what: str) -> None:
    if not sound:
        raise Malformed(what)


def _ints(value: Any, low: int) -> bool:
    return type(value) is tuple and len(value) <= MAX_AXES and all(type(i) is int and low <= i < 2**63 for i in value)


def _text_or_none(value: Any) -> bool:
    return value is None or type(value) is str


def _check_tensor(seen: TensorSeen) -> None:
    _require(
        _ints(seen.shape, 0) and type(seen.dtype) is str and seen.dtype in DTYPES, "a tensor without shape or dtype"
    )
    _require(
        seen.stride is None or (_ints(seen.stride, -(2**63)) and len(seen.stride) == len(seen.shape)), "odd strides"
    )
    _require(type(seen.shares) is tuple and all(type(i) is int and i >= 0 for i in seen.shares), "odd sharing")
    _require(type(seen.device) is str and len(seen.device) < 20, "an odd device")
    _require(type(seen.requires_grad) is bool and type(seen.array) is bool, "odd flags")
    if seen.data is not None:
        count = 1
        for size in seen.shape:
            count *= size
        _require(type(seen.data) is bytes and len(seen.data) == count * DTYPES[seen.dtype], "data of another size")
        _require(len(seen.data) <= MAX_BYTES, "a tensor that is too large")


def _check_module(seen: Any) -> None:
    _require(type(seen.type) is str and type(seen.training) is bool and type(seen.state) is dict, "an odd module")


def _check_object(seen: Any) -> None:
    _require(type(seen.type) is str and _text_or_none(seen.text), "an odd object")


def _check_error(seen: Any) -> None:
    _require(type(seen.type) is str and type(seen.message) is str and _text_or_none(seen.line), "an odd exception")
    _require(type(seen.bases) is tuple and all(type(base) is str for base in seen.bases), "odd base classes")


def _check_observation(seen: Observation) -> None:
    _require(type(seen.inputs) is tuple and type(seen.mutated) is tuple and _text_or_none(seen.note), "odd fields")
    pairs = all(type(pair) is tuple and len(pair) == 2 and type(pair[0]) is int for pair in seen.mutated)
    _require(pairs and (seen.gradients is None or type(seen.gradients) is tuple), "odd changes or gradients")


_CHECKS = {
    "TensorSeen": _check_tensor,
    "ModuleSeen": _check_module,
    "ObjectSeen": _check_object,
    "ErrorSeen": _check_error,
    "Observation": _check_observation,
}
