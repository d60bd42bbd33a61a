"""Plain pieces that every text matched by a pattern holds: a quick look for them spares most searches."""

from __future__ import annotations

_LEAST = 4
_REPEATS = "?*{+"


def needles(pattern: str) -> tuple[str, ...]:
    """Lower-case pieces of which a text that `pattern` matches has at least one; () where none can be named."""
    found = []
    for alternative in _alternatives(pattern):
        longest = max(_runs(alternative), key=len, default="")
        if len(longest) < _LEAST:
            return ()
        found.append(longest.lower())
    return tuple(found)


def _alternatives(pattern: str) -> list[str]:
    """The pattern cut at the bars that are in no group and no class."""
    parts, start = [], 0
    for place, depth, character in _walk(pattern):
        if character == "|" and depth == 0:
            parts.append(pattern[start:place])
            start = place + 1
    return [*parts, pattern[start:]]


def _runs(alternative: str) -> list[str]:
    """Stretches of characters that stand for themselves, outside groups and classes, each there at least once."""
    runs, run = [], ""
    for place, depth, character in _walk(alternative):
        plain = _plain(character) if depth == 0 else None
        following = alternative[place + len(character) : place + len(character) + 1]
        if plain is not None and following not in (*_REPEATS, ""):
            run += plain
            continue
        if plain is not None and following in ("", "+"):
            run += plain
        runs.append(run)
        run = ""
    return [*runs, run]


def _plain(character: str) -> str | None:
    if len(character) == 2:  # an escape
        return None if character[1].isalnum() else character[1]
    return character if character.isalnum() or character in " _'\"-:/,;<>=!@&~`#%" else None


def _walk(pattern: str):
    """(place, depth of groups, character or escape), of a class its first character alone at a depth of its own."""
    depth, place = 0, 0
    while place < len(pattern):
        character = pattern[place : place + 2] if pattern[place] == "\\" else pattern[place]
        if character == "[":
            end = place + 2 if pattern[place + 1 : place + 2] not in ("^", "]") else place + 3
            while end < len(pattern) and pattern[end] != "]":
                end += 2 if pattern[end] == "\\" else 1
            yield place, depth + 1, character
            place = end + 1
            continue
        if character == "{" and pattern[place + 1 : place + 2].isdigit():
            yield place, depth + 1, character
            place = pattern.index("}", place) + 1
            continue
        if character == "(":
            depth += 1
        yield place, depth, character
        if character == ")":
            depth -= 1
        place += len(character)
