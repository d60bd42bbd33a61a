"""`course env`."""

from __future__ import annotations

import argparse
import json

from course.cli.shared import FAILED, OK


def add(commands) -> None:
    """Add the command to the parser's `commands`."""
    environment = commands.add_parser("env", help="say in plain words what this machine can do, and what to mend")
    environment.add_argument("--json", action="store_true", help="print the findings as JSON")
    environment.set_defaults(command=_environment)


def _environment(options: argparse.Namespace) -> int:
    from course.environment import examine

    report = examine()
    print(json.dumps(report.to_dict(), indent=1, ensure_ascii=False) if options.json else report)
    return OK if report.ready else FAILED
