"""int8_support: what the flags of a processor say."""

from __future__ import annotations

import pytest

from course.deployment.processor import int8_support


def cpuinfo(folder, text):
    path = folder / "cpuinfo"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("machine", "line", "flags", "reduce_range"),
    [
        ("x86_64", "flags\t\t: fpu avx2 fma", (), True),
        ("x86_64", "flags\t\t: fpu avx2 avx512_vnni amx_int8", ("amx_int8", "avx512_vnni"), False),
        ("x86_64", "flags\t\t: avx2 avx_vnni", ("avx_vnni",), False),
        ("aarch64", "Features\t: fp asimd asimddp", ("asimddp",), False),
        ("aarch64", "Features\t: fp asimd", (), False),
    ],
    ids=["avx2", "avx512 and amx", "avx vnni", "arm", "old arm"],
)
def test_flags_decide(tmp_path, machine, line, flags, reduce_range):
    seen = int8_support(cpuinfo(tmp_path, f"processor\t: 0\n{line}\n\nprocessor\t: 1\n{line}\n"), machine)
    assert (seen.known, seen.flags, seen.reduce_range) == (True, flags, reduce_range)


@pytest.mark.parametrize("machine", ["x86_64", "arm64"])
def test_a_system_that_does_not_tell_is_taken_for_the_weaker(tmp_path, machine):
    for seen in (int8_support(tmp_path / "none", machine), int8_support(cpuinfo(tmp_path, "model: x\n"), machine)):
        assert not seen.known
        assert seen.reduce_range
        assert "does not tell" in str(seen)


def test_text_says_what_follows(tmp_path):
    weak = int8_support(cpuinfo(tmp_path, "flags : avx2"), "x86_64")
    assert "without VNNI or AMX" in str(weak)
    strong = int8_support(cpuinfo(tmp_path, "flags : avx_vnni"), "x86_64")
    assert "avx_vnni: 8-bit products are summed in 32 bits" in str(strong)


def test_this_machine_is_asked():
    assert int8_support().machine
