"""Where CIFAR-10 would come from."""

from __future__ import annotations

from typing import Literal

from course.environment.report import Finding

Found = Literal["archive", "images", "nothing", "no folder"]


def judge_data(found: Found, *, named: bool) -> Finding:
    """found: what the folder holds; named: whether COURSE_DATA names the folder, which is else the course's own."""
    where = "in the folder that COURSE_DATA names" if named else "in the course's own folder"
    if found == "archive":
        return Finding("data", f"CIFAR-10, the official archive, {where}")
    if found == "images":
        return Finding("data", f"images in folders train/<class> and test/<class>, {where}")
    if found == "no folder" and named:
        remedy = "Correct COURSE_DATA, or unset it: without it the lessons draw their own images."
        return Finding("data", "COURSE_DATA names a folder that does not exist", "problem", remedy)
    remedy = "COURSE_DATA may name a folder that has the archive; `cifar10(..., download=True)` fetches it (170 MB)."
    return Finding("data", f"no CIFAR-10 {where}: lessons draw a stand-in, which is enough for them", "note", remedy)


def cifar10() -> Finding:
    from course.data import folder as image_folder
    from course.data import official, places

    folder, named = places.data_folder()
    if not folder.is_dir():
        return judge_data("no folder", named=named)
    found: Found = "archive" if official.is_in(folder) else "images" if image_folder.is_in(folder) else "nothing"
    return judge_data(found, named=named)
