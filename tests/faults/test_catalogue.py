from __future__ import annotations

import re
from pathlib import Path

import pytest

from course.curriculum import LESSONS
from course.faults import FAULTS, Fault, UnknownFault, _by_id, fault


def test_ids_are_words_joined_by_hyphens_and_keys():
    for key, entry in FAULTS.items():
        assert key == entry.id
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", key), key


def test_an_id_used_twice_is_refused():
    twice = [Fault("a-b", "one", "tensors", "01"), Fault("a-b", "other", "numpy", "01")]
    with pytest.raises(ValueError, match="'a-b' is used twice"):
        _by_id(twice)


def test_the_catalogue_cannot_be_changed():
    with pytest.raises(TypeError):
        FAULTS["new"] = None  # type: ignore[index]


TAUGHT = [(entry, taught) for taught in LESSONS for entry in FAULTS.values() if entry.lesson == taught.number]


@pytest.mark.parametrize(("entry", "taught"), TAUGHT, ids=lambda x: getattr(x, "id", ""))
def test_a_fault_of_a_lesson_is_explained_and_shown_there(entry, taught, root):
    assert entry.why
    assert entry.fix
    source = (root / "lessons" / f"{taught.name}.py").read_text(encoding="utf-8")
    assert f"# ## {entry.section}\n" in source
    assert f'pitfall("{entry.id}"' in source


def test_titles_and_lessons_are_given():
    for entry in FAULTS.values():
        assert entry.title.strip(), entry.id
        assert re.fullmatch(r"\d\d", entry.lesson), entry.id


def test_code_in_texts_is_closed():
    for entry in FAULTS.values():
        for text in (entry.why, entry.fix):
            assert (text or "").count("`") % 2 == 0, entry.id


def test_lookup():
    assert fault("uint8-overflow").lesson == "01"


def test_unknown_id_names_close_ones():
    with pytest.raises(UnknownFault, match="Close ids: view-of-noncontiguous"):
        fault("view-of-noncontigous")


@pytest.mark.parametrize("nonsense", ["zzzz", "", 3, None])
def test_unknown_id_without_close_ones(nonsense):
    with pytest.raises(UnknownFault, match="lists them all"):
        fault(nonsense)


def _published_catalogue(root: Path) -> Path:
    return root.parent / "shared" / "cases" / "faults.md"


def test_no_published_id_is_missing(root):
    path = _published_catalogue(root)
    if not path.is_file():
        pytest.skip("the published list of fault ids is not beside this checkout")
    row = re.compile(r"^\| `([^`]+)` \| ([^|]+) \| (\d\d) \|", re.MULTILINE)
    published = row.findall(path.read_text(encoding="utf-8"))
    assert len(published) > 100
    ours = {entry.id: (entry.topic, entry.lesson) for entry in FAULTS.values()}
    different = [key for key, topic, lesson in published if ours.get(key) != (topic, lesson)]
    assert different == []


def test_sections_are_headings_of_the_lesson(root):
    sources = {path.name[:2]: path.read_text(encoding="utf-8") for path in (root / "lessons").glob("[0-9][0-9]_*.py")}
    missing = [
        entry.id
        for entry in FAULTS.values()
        if entry.section and entry.lesson in sources and f"# ## {entry.section}\n" not in sources[entry.lesson]
    ]
    assert missing == []
