"""What the groups of commands share."""

from __future__ import annotations

import argparse
import sys

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence."""

    def error(self, message: str) -> None:
        self.exit(USAGE, f"{self.prog}: {message}. See `{self.prog} --help`.\n")


def say_error(message: str, code: int = FAILED) -> int:
    """Print `message` to standard error and return `code`."""
    print(message, file=sys.stderr)
    return code


def positive(text: str) -> int:
    """The type of an option that counts something: a whole number of at least 1."""
    number = int(text) if text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return number
