"""Lesson 00: two CUDA numbers, and which must not be the smaller."""

from __future__ import annotations

from course.checking import Exercise

exercise = Exercise(
    "start.driver_fits",
    title="Do driver and runtime fit",
    task="""
        `driver_fits(driver, runtime)` says whether an NVIDIA driver can run a build of torch.

        - `driver`: the highest CUDA version that the driver supports, as text such as `"12.8"`; `None` if there is no
          NVIDIA driver.
        - `runtime`: `torch.version.cuda`, as text such as `"13.0"`; `None` for a CPU build.

        Return `True` if the driver's version is equal to the runtime's or higher, else `False`; `False` when either is
        `None`. A version is two whole numbers: 12.10 comes after 12.9. (NVIDIA's exception for an older driver of the
        same major version, which works with limits, does not count here.)
        """,
    hints=(
        'Compare versions as pairs of whole numbers. As text, "9.2" comes after "10.2", and as a decimal number 12.10 '
        "is the same as 12.1. And do not forget the two cases of None.",
        "Split each text at the dot and turn both parts into integers. Python compares tuples from the left: "
        "(12, 10) > (12, 9).",
    ),
)


@exercise.stub
def driver_fits(driver: str | None, runtime: str | None) -> bool:
    """Return whether a driver that supports CUDA up to `driver` runs a build of torch for CUDA `runtime`."""
    raise NotImplementedError


@exercise.reference
def by_pairs_of_numbers(driver, runtime):
    if driver is None or runtime is None:
        return False
    return [int(part) for part in driver.split(".")] >= [int(part) for part in runtime.split(".")]


@exercise.alternative
def by_one_number(driver, runtime):
    def number(version):
        major, minor = version.split(".")
        return 1000 * int(major) + int(minor)

    return bool(driver and runtime) and number(driver) >= number(runtime)


@exercise.wrong(
    'Text is compared letter by letter, so "9.2" comes after "10.2" and "12.10" before "12.9". Turn the parts into '
    "integers first."
)
def as_text(driver, runtime):
    return driver is not None and runtime is not None and driver >= runtime


@exercise.wrong(
    "A version is not a decimal number: as one, 12.10 is 12.1 and comes before 12.9. Its two parts count separately."
)
def as_decimals(driver, runtime):
    return driver is not None and runtime is not None and float(driver) >= float(runtime)


@exercise.wrong(
    "The two are the wrong way round. The runtime comes with torch and calls the driver, so the driver must know at "
    "least what the runtime asks for: a newer driver runs older builds, not the other way.",
    fault="cpu-build-installed",
)
def runtime_must_be_larger(driver, runtime):
    if driver is None or runtime is None:
        return False
    return [int(part) for part in runtime.split(".")] >= [int(part) for part in driver.split(".")]


@exercise.wrong("Equal versions fit: such a driver supports exactly the CUDA that this build brings.")
def strictly_larger(driver, runtime):
    if driver is None or runtime is None:
        return False
    return [int(part) for part in driver.split(".")] > [int(part) for part in runtime.split(".")]


@exercise.wrong(
    "Only the major versions are compared here. Within one major version an older driver works with limits, and the "
    "task leaves that exception out: there, the minor version counts too.",
    fault="cpu-build-installed",
)
def major_versions_only(driver, runtime):
    if driver is None or runtime is None:
        return False
    return int(driver.split(".")[0]) >= int(runtime.split(".")[0])


@exercise.wrong(
    "The parts are compared one by one here, so 13.0 is taken for older than 12.8 because 0 is less than 8. The minor "
    "version decides only between equal major versions."
)
def both_parts_larger(driver, runtime):
    if driver is None or runtime is None:
        return False
    parts = zip(driver.split("."), runtime.split("."), strict=True)
    return all(int(mine) >= int(wanted) for mine, wanted in parts)


@exercise.wrong(
    "A CPU build has no CUDA runtime, so there is nothing for a driver to run: it will not use the GPU, however new "
    "the driver is. That is the usual reason for a GPU that stays idle.",
    fault="cpu-build-installed",
)
def a_cpu_build_fits_everything(driver, runtime):
    if runtime is None:
        return True
    if driver is None:
        return False
    return [int(part) for part in driver.split(".")] >= [int(part) for part in runtime.split(".")]


@exercise.wrong(
    "Major and minor version make one number, ten for a major version. That breaks at the tenth minor version: 12.10 "
    "becomes 130, as 13.0 does. Compare the major versions first, and the minor ones only where those are equal."
)
def ten_for_a_major_version(driver, runtime):
    if driver is None or runtime is None:
        return False
    (major, minor), (wanted, least) = (map(int, version.split(".")) for version in (driver, runtime))
    return 10 * major + minor >= 10 * wanted + least


@exercise.wrong(
    "The dot is taken out and the digits are read as one number: 12.10 becomes 1210 and 13.0 becomes 130. The two "
    "parts have to be compared one after the other."
)
def without_the_dot(driver, runtime):
    if driver is None or runtime is None:
        return False
    return int(driver.replace(".", "")) >= int(runtime.replace(".", ""))


@exercise.wrong(
    "Equal texts are let through before None is asked for, and None equals None. Without a driver and without a CUDA "
    "build nothing runs on a GPU."
)
def nothing_equals_nothing(driver, runtime):
    if driver == runtime:
        return True
    if driver is None or runtime is None:
        return False
    return [int(part) for part in driver.split(".")] >= [int(part) for part in runtime.split(".")]


@exercise.probe
def equal():
    return "13.0", "13.0"


@exercise.probe
def newer_driver():
    return "13.1", "12.8"


@exercise.probe
def older_driver():
    return "12.8", "13.0"


@exercise.probe
def older_minor_version():
    return "12.4", "12.8"


@exercise.probe
def newer_minor_version():
    return "12.8", "12.6"


@exercise.probe
def two_digits_in_front():
    return "10.2", "9.2"


@exercise.probe
def one_digit_in_front():
    return "9.2", "10.2"


@exercise.probe
def two_digits_behind():
    return "12.10", "12.9"


@exercise.probe
def no_driver():
    return None, "13.0"


@exercise.probe
def a_cpu_build():
    return "13.0", None


@exercise.probe
def neither():
    return None, None


@exercise.probe
def tenth_minor_version_of_an_older_driver():
    return "12.10", "13.0"


@exercise.probe
def tenth_minor_version_of_an_older_runtime():
    return "13.0", "12.10"


@exercise.probe
def far_older_driver():
    return "9.2", "12.10"
