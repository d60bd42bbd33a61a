"""Messages that `course explain` reads as a fault, written out from its rules for people who search for them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from course.doctor.explain import explain
from course.doctor.explain.rank import rules

try:
    from re import _constants as code
    from re import _parser as parser
except ImportError:  # Python 3.10
    import sre_constants as code
    import sre_parse as parser

MOST_FORMS = 24  # looked at, of one rule
MOST_MESSAGES = 6  # kept, of one rule
LEAST_CONFIDENCE = 0.6
# What stands in a message where a rule takes any text: for people, and for the explainer. The numbers of digits or
# letters that a rule asks for are small.
GAP = "…"
_WORD_FOR = {code.CATEGORY_DIGIT: "2", code.CATEGORY_SPACE: " ", code.CATEGORY_WORD: "x"}

Form = tuple[str, str]  # as people read it, as the explainer gets it


def messages() -> dict[str, list[str]]:
    """Return fault id -> messages, in the order of the rules.

    A message is kept where the explainer, given nothing else, names that fault first: so it stands with one fault.
    """
    found: dict[str, list[str]] = {}
    for rule in rules():
        if rule.confidence < LEAST_CONFIDENCE:
            continue
        kind = rule.types[0] if rule.types else "RuntimeError"
        known = found.setdefault(rule.fault, [])
        enough = len(known) + MOST_MESSAGES
        for readable, sample in forms(rule.pattern):
            if len(known) == enough:
                break
            if not _worth_a_search(readable) or any(readable.lower() in each.lower() for each in known):
                continue
            first = next(iter(explain(f"{kind}: {sample}").findings), None)
            if first is not None and first.fault == rule.fault and first.confidence >= LEAST_CONFIDENCE:
                known.append(readable)
    return {fault: texts for fault, texts in found.items() if texts}


def forms(pattern: str) -> list[Form]:
    """Return texts that a pattern matches, one for each way through its alternatives, at most MOST_FORMS."""
    ways = itertools.islice(_sequence(list(parser.parse(pattern, re.IGNORECASE))), MOST_FORMS)
    return [(_tidy(readable), sample.strip()) for readable, sample in ways]


def _sequence(items: list) -> Iterator[Form]:
    parts = [list(itertools.islice(_item(*item), MOST_FORMS)) for item in items]
    for chosen in itertools.product(*parts):
        yield "".join(readable for readable, _ in chosen), "".join(sample for _, sample in chosen)


def _item(operation: object, value: object) -> Iterator[Form]:
    if operation is code.LITERAL:
        yield chr(value), chr(value)
    elif operation is code.SUBPATTERN:
        yield from _sequence(list(value[-1]))
    elif operation is code.BRANCH:
        for branch in value[1]:
            yield from _sequence(list(branch))
    elif operation in (code.MAX_REPEAT, code.MIN_REPEAT):
        yield from _repeated(*value)
    elif operation is code.IN:
        yield from _class(value)
    elif operation in (code.ANY, code.NOT_LITERAL):
        yield GAP, "x"
    else:  # positions and looks ahead or back take no text
        yield "", ""


def _repeated(least: int, most: int, items: object) -> Iterator[Form]:
    inner = list(items)
    plain = all(operation in (code.LITERAL, code.SUBPATTERN) for operation, _ in inner)
    if plain and most == 1:
        # A word that may be there: with it, unless it is a single letter such as a plural's.
        if len(inner) > 1 or inner[0][0] is code.SUBPATTERN:
            yield from _sequence(inner)
        else:
            yield "", ""
    elif least == 0:
        yield (GAP, "") if most > 1 else ("", "")
    else:
        for readable, sample in _sequence(inner):
            yield (readable if plain else GAP), sample * least


def _class(choices: list) -> Iterator[Form]:
    operation, value = choices[0]
    if operation is code.LITERAL:
        yield chr(value), chr(value)
    elif operation is code.RANGE:
        yield GAP, chr(value[0])
    elif operation is code.CATEGORY:
        yield GAP, _WORD_FOR.get(value, "x")
    else:  # a class of what is left out
        yield GAP, "x"


def _tidy(text: str) -> str:
    return re.sub(rf"{GAP}(?:\s*{GAP})+", GAP, text).strip()


def _worth_a_search(text: str) -> bool:
    """Whether a text says enough to be searched for: some words beside the gaps."""
    return len(re.findall(r"[A-Za-z_]{2,}", text)) >= 3
