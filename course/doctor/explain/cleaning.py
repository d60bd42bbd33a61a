"""Text as people paste it, made into plain lines: colours, boxes, log prefixes and most of a large log removed."""

from __future__ import annotations

import html
import json
import re

_LARGE = 200_000
_LONGEST_LINE = 4_000
_WINDOWS = (  # what marks a place worth reading in a large log, and how much is read from there on
    ("Traceback (most recent call last)", 12_000, 12),
    ("rror: ", 3_000, 24),
    ("xception: ", 3_000, 12),
    ("CUDA error", 2_000, 6),
    ("arning: ", 800, 24),
)
_BEFORE, _HEAD, _TAIL = 300, 8_000, 32_000

_ANSI = re.compile(
    r"(?:\x1b|\\x1b|\\u001b|\\033|\x9b)(?:\[[0-9;:?]{0,40}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,200}(?:\x07"
    r"|\x1b\\)|[()][A-B0-2])"
)
_BARE_SGR = re.compile(r"\[(?:\d{1,3}(?:;\d{1,3}){0,5})?m")
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|#0?39|#x27);")
# Ranks, pods and workers write their name before each line; their lines may interleave.
_WRITER = re.compile(
    r"^\s{0,8}(?:\[(?:rank|default|local_rank|worker)[ _]?(\d+)\]:? ?|\((?:[\w.]{1,60} )?(?:pid"
    r"|rank)=(\d+)[^)\n]{0,60}\) |"
    r"(\d{1,4}): (?=\s|Traceback|[A-Z]))"
)
_STAMP = re.compile(
    r"^\s{0,8}(?:\[?(?:\d{4}[-/.]\d\d[-/.]\d\d|\d\d[-/.]\d\d[-/.]\d{4}"
    r"|\d\d[/-]\d\d)?[T ]?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
    r"(?:Z|[+-]\d\d:?\d\d)?\]?)"
)
_AFTER_STAMP = re.compile(
    r"^(?:\s|[-|:,]|\[[^\]\n]{0,60}\]|\([^)\n]{0,60}\)|<[\w.]{1,60}>|"
    r"(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL|E|W|I)\b|[\w.\-/]{1,60}:\d{1,6}\b|[\w.\-/]{1,60}(?= ?[-|:] ))"
)
_BOX = re.compile(r"^\s{0,4}[│┃|] ?(.*?)\s*[│┃|]?\s*$")
_RULE = re.compile(r"[─━═╭╮╰╯┌┐└┘├┤]{3,}")
_QUOTE = re.compile(r"^(?:E {3,12}|> ?|\+ {1,4}| {2}\| ?)(?=\S| )")


def plain_lines(text: str) -> list[str]:
    """The lines of `text` that may tell something, without colours, boxes and prefixes; never fails on any text."""
    text = _notebook_errors(text) or text
    if text.count("\\n") > 3 and text.count("\n") <= 1:
        text = text.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')
    if len(text) > _LARGE:
        text = _telling_parts(text)
    text = _ANSI.sub("", text)
    if "[0m" in text:
        text = _BARE_SGR.sub("", text)
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")
    if _ENTITY.search(text):
        text = html.unescape(text)
    lines = [_unboxed(line[:_LONGEST_LINE]) for line in text.split("\n")]
    return [_without_stamp(line) for line in _by_writer(lines)]


def _notebook_errors(text: str) -> str | None:
    """The tracebacks and error streams that a notebook file holds; None when `text` is no notebook."""
    if not (text.lstrip()[:1] == "{" and '"cells"' in text):
        return None
    try:
        outputs = [output for cell in json.loads(text)["cells"] for output in cell.get("outputs", ())]
        parts = []
        for output in outputs:
            if output.get("output_type") == "error":
                parts.append("\n".join(output.get("traceback") or [f"{output.get('ename')}: {output.get('evalue')}"]))
            elif output.get("name") == "stderr":
                parts.append("".join(output.get("text", "")))
        return "\n\n".join(parts)
    except (ValueError, TypeError, AttributeError, KeyError):
        return None


def _telling_parts(text: str) -> str:
    """The beginning, the end, and what stands around words that name an error, in their order."""
    spans = [(0, _HEAD), (len(text) - _TAIL, len(text))]
    for mark, length, most in _WINDOWS:
        places = []
        place = text.find(mark)
        while place >= 0:
            places.append(place)
            place = text.find(mark, place + length // 4)
        half = most // 2
        chosen = places if len(places) <= most else places[:half] + places[-half:]
        spans += [(max(text.rfind("\n", 0, place) + 1, place - _BEFORE, 0), place + length) for place in chosen]
    pieces, end = [], 0
    for start, stop in sorted(spans):
        if stop > end:
            pieces.append(text[max(start, end) : stop])
            # Cut in the middle of a line, so that two pieces never read as one line.
            if start > end:
                pieces.insert(-1, "\n")
            end = stop
    return "".join(pieces)


def _unboxed(line: str) -> str:
    """A line of a Rich traceback, an exception group or a pytest report, without its frame."""
    if line[:12].strip()[:1] in ("│", "┃", "|"):
        match = _BOX.match(line)
        line = match[1] if match else line
    if "─" in line or "━" in line or "═" in line or "╭" in line:
        line = _RULE.sub("", line)
    return _QUOTE.sub("", line)


def _by_writer(lines: list[str]) -> list[str]:
    """Lines of one writer together, its name removed; others stay where they are."""
    found = [_WRITER.match(line) for line in lines]
    marked = [match for match in found if match]
    if len(marked) < 2:
        return lines
    by_writer: dict[str, list[str]] = {}
    plain = []
    for line, match in zip(lines, found, strict=True):
        if match is None:
            plain.append(line)
        else:
            by_writer.setdefault(next(filter(None, match.groups())), []).append(line[match.end() :])
    return [line for group in by_writer.values() for line in [*group, ""]] + plain


def _without_stamp(line: str) -> str:
    """A log line without time, level and logger; other lines as they are."""
    match = _STAMP.match(line)
    if match is None or match.end() == 0 or not any(c.isdigit() for c in match[0]):
        return line
    rest = line[match.end() :]
    while True:
        piece = _AFTER_STAMP.match(rest)
        if piece is None or not piece[0] or rest.startswith("  File "):
            return rest
        rest = rest[piece.end() :]
