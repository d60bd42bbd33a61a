"""A plugin for the pytest that runs nbval: writes which cells ran, and of which it compared an output."""

from __future__ import annotations

import json
import os
from pathlib import Path

from nbval.plugin import IPyNbCell

ran: list[int] = []
compared: set[int] = set()

_sanitize = IPyNbCell.sanitize


def _recording_sanitize(self, text):
    # nbval sanitises exactly the outputs that it compares.
    compared.add(self.cell_num)
    return _sanitize(self, text)


def pytest_configure(config):
    IPyNbCell.sanitize = _recording_sanitize


def pytest_runtest_logreport(report):
    if report.when == "call":
        ran.append(int(report.nodeid.rsplit(" ", 1)[1]))


def pytest_sessionfinish(session):
    record = {"ran": ran, "compared": sorted(compared)}
    Path(os.environ["NBVAL_RECORD"]).write_text(json.dumps(record), encoding="utf-8")
