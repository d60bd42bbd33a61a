"""Downloading one file, with a progress bar, so that an interruption costs nothing and leaves nothing half done."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from pathlib import Path

from course.data.errors import DataError, no_access

CHUNK = 1 << 18
TIMEOUT = 30.0
"""Seconds without an answer after which a connection counts as lost."""


def download(url: str, file: Path, md5: str) -> None:
    """Fetch `url` to `file`, unless `file` is there already.

    What has arrived is collected in `file` + ``.part`` and renamed when its MD5 is right. After an interruption of any
    kind the part stays, and the next call asks the server for the rest; a server that cannot send just the rest sends
    everything. A part with a wrong MD5 is removed. Raises DataError.
    """
    if file.exists():
        return
    part = file.with_name(file.name + ".part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.open("ab").close()
    except OSError as error:
        raise no_access(file.parent, error, write=True) from None
    expected = f"the whole of {url}"
    try:
        _fetch(url, part)
    except _Lost as lost:
        raise DataError(
            part,
            f"the download stopped after {part.stat().st_size:,} bytes ({lost})",
            expected=expected,
            remedy="call again, and it goes on from there; without a network, leave download out",
        ) from None
    except OSError as error:
        raise no_access(part, error, write=True) from None
    _accept(part, file, md5, expected)


class _Lost(Exception):
    """The server or the way to it failed."""


def _fetch(url: str, part: Path) -> None:
    """Append to `part` until it is complete. Raises _Lost, or OSError when `part` cannot be written."""
    from tqdm import tqdm

    have = part.stat().st_size
    response = _open(url, have)
    if response is None:
        return
    with response:
        if response.status != http.HTTPStatus.PARTIAL_CONTENT or _start(response) != have:
            have = 0
        length = response.headers.get("Content-Length")
        total = have + int(length) if length is not None else None
        bar = tqdm(total=total, initial=have, desc=part.stem, unit="B", unit_scale=True, leave=False)
        with bar, part.open("r+b") as stream:
            stream.truncate(have)
            stream.seek(have)
            while chunk := _read(response):
                stream.write(chunk)
                have += len(chunk)
                bar.update(len(chunk))
    if total is not None and have < total:
        raise _Lost(f"the connection closed before all {total:,} bytes had come")


def _open(url: str, have: int) -> http.client.HTTPResponse | None:
    """The answer to a request for what follows the first `have` bytes; None when nothing follows."""
    headers = {"Range": f"bytes={have}-"} if have else {}
    try:
        return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if have and error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return None
        raise _Lost(f"the server answered {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        raise _Lost(str(getattr(error, "reason", error)) or type(error).__name__) from None


def _start(response: http.client.HTTPResponse) -> int | None:
    """Where the bytes of a partial answer begin, from a header such as ``Content-Range: bytes 100-199/200``."""
    start = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0]
    return int(start) if start.isdigit() else None


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise _Lost(str(error) or type(error).__name__) from None


def _accept(part: Path, file: Path, md5: str, expected: str) -> None:
    from torchvision.datasets.utils import calculate_md5

    seen, size = calculate_md5(part), part.stat().st_size
    if seen != md5:
        part.unlink()
        raise DataError(
            part,
            f"what came is not the file: {size:,} bytes with MD5 {seen}; it has been removed",
            expected=f"{expected}, with MD5 {md5}",
            remedy="call again for a fresh start; a proxy or a login page may have answered in the server's place",
        )
    part.replace(file)
