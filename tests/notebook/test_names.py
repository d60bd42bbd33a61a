from __future__ import annotations

import subprocess
import sys

import pytest

import course


@pytest.mark.parametrize("name", course.__all__)
def test_every_name_is_there(name):
    value = getattr(course, name)
    assert callable(value)
    assert value.__name__ == name
    assert (value.__doc__ or "").strip()


def test_all_is_sorted_and_listed():
    assert course.__all__ == sorted(course.__all__)
    assert set(course.__all__) == set(course._HOMES)
    assert set(course.__all__) <= set(dir(course))


def test_unknown_name_lists_the_names():
    with pytest.raises(AttributeError, match=r"no attribute 'chek'; it offers .*check"):
        course.chek  # noqa: B018


def test_version_is_the_distribution_s():
    from importlib.metadata import version

    assert course.__version__ == version("pytorch-course")


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import course", ("torch", "numpy", "matplotlib", "IPython", "importlib.metadata")),
        ("import course.faults", ("torch", "numpy", "IPython")),
        ("from course import begin, claim, pitfall", ("torch", "numpy", "matplotlib", "IPython")),
        ("from course import check, hint, solution", ("matplotlib", "torchvision", "IPython")),
        ("from course import draw_strides, stride_explorer, show_figure", ("torch", "matplotlib", "ipywidgets")),
        ("from course import choose_device, compare_times", ("torch", "matplotlib")),
    ],
)
def test_heavy_packages_come_when_used(code, absent):
    probe = f"{code}; import sys; print([name for name in {absent!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
