"""What a page of the site says about a fault: the catalogue's entry, how lessons show it, and where to practise."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from course.faults import FAULTS, Fault
from course.publishing import PublishingError
from course.publishing.site_lessons import LessonPage, Shown
from course.publishing.site_text import shortened

MOST_TITLE = 90
MOST_DESCRIPTION = 300

_CLASS = re.compile(r"(?:[\w.]+\.)?(\w+): (.*)", re.DOTALL)


@dataclass(frozen=True)
class Place:
    """Something to link to: the text, and the label of the target or None where it is not on the site."""

    text: str
    label: str | None


@dataclass(frozen=True)
class FaultPage:
    """What the template of a fault's page is given.

    title: of the browser's tab and of search results; the error's text where there
    is one. messages: exceptions and warnings as lessons show them. more: other messages of this fault. taught: the
    lesson's section. exercises: those with a wrong answer that shows the fault.
    """

    fault: Fault
    title: str
    description: str
    messages: tuple[str, ...]
    more: tuple[str, ...]
    shown: tuple[Shown, ...]
    taught: Place
    exercises: tuple[Place, ...]

    @property
    def heading(self) -> str:
        """The catalogue's title."""
        return _capital(self.fault.title)

    @property
    def searched(self) -> str:
        """A message that people search for, short; the first of them, or ""."""
        texts = _as_met((*self.messages, *self.more))
        return shortened(_headline(texts[0]), MOST_TITLE) if texts else ""


def fault_pages(
    pages: Sequence[LessonPage], messages: Mapping[str, Sequence[str]], load_exercise: Callable
) -> list[FaultPage]:
    """Return a page for each fault of the catalogue, in its order.

    messages: fault id -> further messages, see `site_messages`. load_exercise: id -> Exercise.
    Raises PublishingError when a fault names a section that its lesson lacks.
    """
    by_number = {page.lesson.number: page for page in pages}
    shown: dict[str, list[Shown]] = {}
    for page in pages:
        for event in page.pitfalls:
            shown.setdefault(event.fault, []).append(event)
    exercises: dict[str, list[Place]] = {}
    for page in pages:
        for identifier, label in page.exercises.items():
            faults = {wrong.fault for wrong in load_exercise(identifier).wrong_answers}
            for fault_id in faults - {None}:
                place = Place(f"{page.titles[identifier]} (lesson {page.lesson.number})", label)
                exercises.setdefault(fault_id, []).append(place)
    return [
        _page(
            fault,
            _in_its_lesson_first(fault, shown.get(fault.id, ())),
            messages.get(fault.id, ()),
            _taught(fault, by_number.get(fault.lesson)),
            exercises.get(fault.id, ()),
        )
        for fault in FAULTS.values()
    ]


def _page(
    fault: Fault, shown: Sequence[Shown], more: Sequence[str], taught: Place, exercises: Sequence[Place]
) -> FaultPage:
    found = tuple(dict.fromkeys(event.message for event in shown if event.message))
    known = " ".join(" ".join(found).lower().split())
    more = tuple(text for text in more if text.lower() not in known)
    searched = [_headline(text) for text in _as_met((*found, *more))]
    heading = _capital(fault.title)
    if found:
        title = shortened(searched[0], MOST_TITLE)
    else:
        title = shortened(": ".join([heading, *searched[:1]]), MOST_TITLE + len(heading))
    plain = ". ".join(part for part in (*searched[:2], heading, fault.why) if part).replace("`", "")
    return FaultPage(
        fault=fault,
        title=f"{title} ({fault.id})",
        description=shortened(plain, MOST_DESCRIPTION),
        messages=found,
        more=more,
        shown=tuple(shown),
        taught=taught,
        exercises=tuple(exercises),
    )


def _as_met(messages: Sequence[str]) -> list[str]:
    """The messages, those last that name the device `meta`: lessons use it in place of an accelerator."""
    return sorted(messages, key=lambda text: "device meta" in text)


def _headline(message: str) -> str:
    """A message in one line: the class without its module, and of what follows the first sentence."""
    line = " ".join(message.split())
    known = _CLASS.fullmatch(line)
    kind, text = (f"{known[1]}: ", known[2]) if known else ("", line)
    sentence = re.split(r"(?<=[a-z)\]'\"`])[.!?] (?=[A-Z])|(?<=\w) \((?:at|or|triggered|You)\b", text)[0]
    # What torch.compile adds to its messages.
    sentence = sentence.partition(" Explanation: ")[0]
    return kind + sentence.rstrip(".")


def _in_its_lesson_first(fault: Fault, shown: Sequence[Shown]) -> list[Shown]:
    return sorted(shown, key=lambda event: event.lesson.number != fault.lesson)


def _taught(fault: Fault, page: LessonPage | None) -> Place:
    part = f", “{fault.section}”" if fault.section else ""
    if page is None:
        return Place(f"Lesson {fault.lesson}{part}", None)
    if fault.section is not None and fault.section not in page.sections:
        raise PublishingError(
            f"The fault {fault.id} is taught in the section {fault.section!r} of lesson {fault.lesson}, which has no "
            f"such section. It has: {', '.join(page.sections)}. Mend `section` in course/faults/, or build the lesson."
        )
    return Place(f"Lesson {page.lesson.number} {page.lesson.title}{part}", page.sections.get(fault.section or ""))


def _capital(text: str) -> str:
    """The text with a capital, unless it begins with a name of code."""
    first = re.split(r"[\s,:]", text, maxsplit=1)[0]
    return text[:1].upper() + text[1:] if re.fullmatch(r"[a-z]+(?:-[a-z]+)*", first) else text
