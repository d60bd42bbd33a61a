"""`course explain`."""

from __future__ import annotations

import argparse
import json
import sys

from course.cli.shared import FAILED, OK, USAGE, say_error

_MOST = 64 * 2**20


def add(commands) -> None:
    """Add the command to the parser's `commands`."""
    explain = commands.add_parser("explain", help="say which fault an error message or traceback tells of")
    explain.add_argument(
        "file",
        nargs="?",
        default="-",
        metavar="FILE",
        help="a text, log or notebook that holds the error; - or nothing: standard input",
    )
    explain.add_argument("--json", action="store_true", help="print the findings as a JSON list, best first")
    explain.set_defaults(command=_explain)


def _explain(options: argparse.Namespace) -> int:
    from course.doctor.explain import explain

    try:
        if options.file == "-":
            if sys.stdin is None:
                return say_error("There is no standard input to read; name a file.", USAGE)
            if sys.stdin.isatty():
                print("Paste the error, then press Ctrl-D (Windows: Ctrl-Z and Enter).", file=sys.stderr)
            stream = getattr(sys.stdin, "buffer", None)
            text = stream.read(_MOST) if stream is not None else sys.stdin.read(_MOST)
        else:
            with open(options.file, "rb") as file:
                text = file.read(_MOST)
    except OSError as error:
        return say_error(f"{options.file} cannot be read: {error.strerror}.", USAGE)
    found = explain(text)
    if options.json:
        print(json.dumps(list(found), indent=1, ensure_ascii=False))
        if found.note:
            print(found.note, file=sys.stderr)
    else:
        print(found)
    return OK if found else FAILED
