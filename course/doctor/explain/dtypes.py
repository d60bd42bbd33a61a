"""Dtypes as error messages write them, and which fault a pair of them tells of."""

from __future__ import annotations

import re

INTEGERS = frozenset(("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64", "bool"))
HALVES = frozenset(("float16", "bfloat16"))
_NAMES = {
    "double": "float64",
    "float": "float32",
    "half": "float16",
    "long": "int64",
    "longint": "int64",
    "longlong": "int64",
    "int": "int32",
    "short": "int16",
    "char": "int8",
    "signedchar": "int8",
    "byte": "uint8",
    "unsignedchar": "uint8",
}
_TOKEN = re.compile(
    r"(?<![\w.'])(?:c10::|at::|torch\.(?:cuda\.|mps\.|xpu\.)?|numpy\.|MPS|CPU|CUDA)?"
    r"(unsigned char|signed char|long int|long long|bfloat16|double|float(?:16|32|64)?|half|long"
    r"|int(?:8|16|32|64)?|short|char|"
    r"byte|u?int8(?:_t)?|int64_t|bool)(?:Tensor|Type)?(?![\w(])",
    re.IGNORECASE,
)


def dtypes_in(text: str) -> list[str]:
    """The dtypes that a message names, in its order: ``["float64", "float32"]``."""
    return [canonical(match[1]) for match in _TOKEN.finditer(text)]


def canonical(name: str) -> str:
    """``float64`` for ``Double``, ``double``, ``torch.DoubleTensor`` and the like."""
    short = (
        name.lower().rpartition(".")[2].replace(" ", "").removesuffix("_t").removesuffix("tensor").removesuffix("type")
    )
    return _NAMES.get(short, short)
