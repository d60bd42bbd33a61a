"""What this processor can do with 8-bit integers, and what follows for quantization."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
# 8-bit products summed in 32 bits, in one instruction: on x86 the VNNI family and AMX, on Arm the dot product.
DOT_PRODUCT_FLAGS = frozenset({"avx512_vnni", "avx_vnni", "avx_vnni_int8", "amx_int8", "asimddp", "i8mm"})


@dataclass(frozen=True)
class Int8Support:
    """known: whether this system tells; flags: the instructions found that multiply 8-bit integers without saturating.

    On x86 without them, kernels use a 16-bit instruction (vpmaddubsw) that adds two products u8 x s8 and *saturates* at
    32767: 2 * 255 * 127 = 64,770 does not fit. Weights of 7 bits (`reduce_range`) do: 2 * 255 * 64 = 32,640.
    """

    machine: str
    known: bool
    flags: tuple[str, ...]

    @property
    def saturates(self) -> bool:
        """Whether 8-bit weights may overflow a 16-bit sum: x86 without VNNI or AMX, or a system that does not tell."""
        return not self.flags and (self.machine.lower() in ("x86_64", "amd64", "x86", "i686") or not self.known)

    @property
    def reduce_range(self) -> bool:
        """What to pass as `reduce_range=`: 7-bit weights where 8-bit products saturate."""
        return self.saturates

    def __str__(self) -> str:
        if self.flags:
            return f"{self.machine} with {', '.join(self.flags)}: 8-bit products are summed in 32 bits"
        if not self.known:
            return f"{self.machine}, whose instructions this system does not tell: 7-bit weights, to be safe"
        if self.saturates:
            return f"{self.machine} without VNNI or AMX: 8-bit products saturate in sums of 16 bits; 7-bit weights fit"
        return f"{self.machine} without a dot product of 8-bit integers"


def int8_support(cpuinfo: Path = CPUINFO, machine: str | None = None) -> Int8Support:
    """Read the processor's flags from Linux' cpuinfo; elsewhere `known` is False.

    torch has no public question for VNNI: `torch.backends.cpu.get_cpu_capability()` tells AVX2 from AVX512 only.
    """
    name = machine or platform.machine() or "unknown"
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return Int8Support(name, known=False, flags=())
    flags = next((line for line in lines if line.lower().startswith(("flags", "features"))), None)
    if flags is None:
        return Int8Support(name, known=False, flags=())
    words = flags.partition(":")[2].split()
    return Int8Support(name, known=True, flags=tuple(sorted(DOT_PRODUCT_FLAGS.intersection(words))))
