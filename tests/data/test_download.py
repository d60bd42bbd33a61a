"""The download, against a server on this machine that can be told to misbehave."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from torchvision.datasets import CIFAR10

from course.data import DataError, cifar10


@dataclass
class Site:
    """What the server has, how it behaves, and which ranges it was asked for."""

    content: bytes
    url: str = ""
    cut_after: int | None = None
    """bytes of an answer after which the connection is closed"""
    ranges: bool = True
    status: int = 200
    announce: bool = True
    """whether the length is told"""
    asked: list[str | None] = field(default_factory=list)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        wanted = handler.headers.get("Range")
        self.asked.append(wanted)
        if self.status != 200:
            handler.send_error(self.status)
            return
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and self.ranges else 0
        if start and start >= len(self.content):
            handler.send_error(416)
            return
        handler.send_response(206 if start else 200)
        rest = self.content[start:]
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(self.content) - 1}/{len(self.content)}")
        if self.announce:
            handler.send_header("Content-Length", str(len(rest)))
        handler.end_headers()
        handler.wfile.write(rest[: self.cut_after])


@pytest.fixture
def site(official: Path, monkeypatch) -> Iterator[Site]:
    """A server that has the official archive, which is in no folder any more."""
    site = Site(official.read_bytes())
    official.unlink()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.answer(self)

        def log_message(self, *_) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    site.url = f"http://127.0.0.1:{server.server_port}/{CIFAR10.filename}"
    monkeypatch.setattr(CIFAR10, "url", site.url)
    yield site
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "new" / "data"


def archive(root: Path) -> Path:
    return root / CIFAR10.filename


def part(root: Path) -> Path:
    return root / f"{CIFAR10.filename}.part"


def test_archive_is_downloaded_once(site: Site, root: Path, capsys):
    assert len(cifar10("train", root, download=True)) == 100
    assert len(cifar10("test", root, download=True)) == 20
    assert site.asked == [None]
    assert archive(root).read_bytes() == site.content
    assert not part(root).exists()
    captured = capsys.readouterr()
    assert captured.out == f"Data: CIFAR-10, the official archive in {root}\n"
    assert CIFAR10.filename in captured.err  # the progress bar


def test_nothing_is_downloaded_unless_asked_for(site: Site, root: Path, monkeypatch):
    root.mkdir(parents=True)
    monkeypatch.setattr("course.data.standin.load", lambda split: (None, []))
    cifar10("train", root)
    assert site.asked == []


def interrupted(site: Site, root: Path, after: int) -> str:
    """Let one download be cut off; return the message."""
    site.cut_after = after
    with pytest.raises(DataError, match=r"call again") as caught:
        cifar10("train", root, download=True)
    assert not archive(root).exists()
    site.cut_after = None
    return str(caught.value)


def test_interrupted_download_goes_on_where_it_stopped(site: Site, root: Path):
    message = interrupted(site, root, 5000)
    assert "stopped after 5,000 bytes" in message
    assert f"{len(site.content):,} bytes" in message
    assert site.url in message
    assert part(root).read_bytes() == site.content[:5000]
    interrupted(site, root, 3000)
    assert part(root).read_bytes() == site.content[:8000]
    assert len(cifar10("train", root, download=True)) == 100
    assert site.asked == [None, "bytes=5000-", "bytes=8000-"]
    assert archive(root).read_bytes() == site.content
    assert not part(root).exists()


def test_server_that_cannot_send_the_rest_sends_all(site: Site, root: Path):
    interrupted(site, root, 5000)
    site.ranges = False
    assert len(cifar10("train", root, download=True)) == 100
    assert site.asked == [None, "bytes=5000-"]
    assert archive(root).read_bytes() == site.content


def test_interruption_by_the_user_keeps_the_part(site: Site, root: Path, monkeypatch):
    from course.data import download

    read = download._read

    monkeypatch.setattr(download, "CHUNK", 4096)
    chunks = iter([True, False])

    def then_interrupt(response):
        if next(chunks):
            return read(response)
        raise KeyboardInterrupt

    monkeypatch.setattr(download, "_read", then_interrupt)
    with pytest.raises(KeyboardInterrupt):
        cifar10("train", root, download=True)
    assert part(root).read_bytes() == site.content[:4096]
    monkeypatch.setattr(download, "_read", read)
    assert len(cifar10("train", root, download=True)) == 100
    assert site.asked == [None, "bytes=4096-"]


def test_part_that_is_complete_already_is_taken(site: Site, root: Path):
    root.mkdir(parents=True)
    part(root).write_bytes(site.content)
    assert len(cifar10("train", root, download=True)) == 100
    assert site.asked == [f"bytes={len(site.content)}-"]


@pytest.mark.parametrize("announce", [True, False], ids=["length told", "length not told"])
def test_wrong_content_is_removed_so_that_the_next_call_starts_afresh(site: Site, root: Path, announce: bool):
    right, site.content, site.announce = site.content, b"<html>please log in</html>", announce
    with pytest.raises(DataError, match="is not the file: 26 bytes") as caught:
        cifar10("train", root, download=True)
    assert CIFAR10.tgz_md5 in str(caught.value)
    assert list(root.iterdir()) == []
    site.content = right
    assert len(cifar10("train", root, download=True)) == 100


def test_part_of_another_file_is_found_out(site: Site, root: Path):
    root.mkdir(parents=True)
    part(root).write_bytes(b"x" * 5000)
    with pytest.raises(DataError, match="is not the file"):
        cifar10("train", root, download=True)
    assert len(cifar10("train", root, download=True)) == 100


@pytest.mark.parametrize("status", [403, 404, 503])
def test_refusal_of_the_server_is_told(site: Site, root: Path, status: int):
    site.status = status
    with pytest.raises(DataError, match=f"the server answered {status}"):
        cifar10("train", root, download=True)


def test_server_out_of_reach_is_told(site: Site, root: Path, monkeypatch):
    monkeypatch.setattr(CIFAR10, "url", "http://127.0.0.1:9/archive")
    with pytest.raises(DataError, match=r"stopped after 0 bytes .*Connection refused"):
        cifar10("train", root, download=True)
    assert not archive(root).exists()


def test_folder_that_cannot_be_written_is_named(site: Site, open_folder: Path, unprivileged):
    root = open_folder / "data"
    root.mkdir(mode=0o555)
    with unprivileged(), pytest.raises(DataError, match="cannot be written") as caught:
        cifar10("train", root, download=True)
    root.chmod(0o755)
    assert caught.value.path == root
    assert site.asked == []
