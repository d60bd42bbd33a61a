"""Hostile and unusual image files, made in memory: refused before they cost anything, or converted as documented."""

from __future__ import annotations

import io
import os
import pickle
import struct
import sys
import zlib

import pytest
import torch
from PIL import Image, ImageFile

from course.deployment.images import MAX_PIXELS, BadInput, decode, read_bytes, to_rgb

SIZE = (4, 4)


def file_of(image, kind="PNG", **options):
    image.save(buffer := io.BytesIO(), kind, **options)
    return buffer.getvalue()


def noise(width=64, height=64):
    return Image.effect_noise((width, height), 90).convert("RGB")


def png_header(width, height):
    """A PNG that promises a size and holds no pixels."""
    chunks = b"\x89PNG\r\n\x1a\n"
    for kind, body in (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", b""),
        (b"IEND", b""),
    ):
        chunks += struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    return chunks


@pytest.mark.parametrize(("width", "height"), [(5001, 5000), (10_000, 10_000), (60_000, 60_000)])
def test_bombs_are_refused_by_their_header(width, height, monkeypatch):
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda self: pytest.fail("the pixels were decoded"))
    with pytest.raises(BadInput, match=rf"pixels.*expected at most {MAX_PIXELS:,}"):
        decode(png_header(width, height), SIZE)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_real_bomb_of_few_bytes(monkeypatch):
    data = file_of(Image.new("L", (6000, 6000)))
    assert len(data) < 100_000
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda self: pytest.fail("the pixels were decoded"))
    with pytest.raises(BadInput, match="6,000 x 6,000, 36,000,000 pixels; expected at most 25,000,000"):
        decode(data, SIZE)


def test_the_limit_itself_is_allowed():
    data = file_of(noise(10, 10))
    assert decode(data, SIZE, max_pixels=100).shape == (3, 4, 4)
    with pytest.raises(BadInput, match="100 pixels; expected at most 99"):
        decode(data, SIZE, max_pixels=99)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "BMP"])
@pytest.mark.parametrize("share", [0.3, 0.5, 0.9])
def test_truncated_files(kind, share):
    data = file_of(noise(), kind)
    with pytest.raises(BadInput, match="damaged"):
        decode(data[: int(share * len(data))], SIZE)


def test_a_flipped_byte_in_a_png():
    data = bytearray(file_of(noise()))
    data[len(data) // 2] ^= 255
    with pytest.raises(BadInput, match="damaged"):
        decode(bytes(data), SIZE)


def test_any_cut_of_any_kind_is_a_refusal_or_an_image():
    for kind in ("PNG", "JPEG", "BMP"):
        data = file_of(noise(8, 8), kind)
        for end in range(len(data)):
            try:
                image = decode(data[:end], SIZE)
            except BadInput:
                continue
            assert image.shape == (3, 4, 4)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "0 bytes"),
        (b"hello", "5 bytes that are no image"),
        (pickle.dumps({"a": 1}), "begins like a pickle"),
        (b"PK\x03\x04....", "zip archive, such as torch.save"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "SVG"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "PostScript"),
        (file_of(noise(), "GIF"), "begins like a GIF"),
    ],
    ids=["empty", "text", "pickle", "zip", "svg", "eps", "gif"],
)
def test_what_is_no_image(data, message):
    with pytest.raises(BadInput, match=message):
        decode(data, SIZE)


def test_too_many_bytes():
    with pytest.raises(BadInput, match="more than 100 bytes"):
        decode(file_of(noise()), SIZE, max_bytes=100)


def test_paths(tmp_path):
    (tmp_path / "a.png").write_bytes(file_of(noise()))
    assert decode(read_bytes(tmp_path / "a.png"), SIZE).shape == (3, 4, 4)
    for path, message in (
        (tmp_path, "is a directory"),
        (tmp_path / "none.png", "No such file"),
        ("a\0b", "cannot be read"),
        ("", "directory"),
    ):
        with pytest.raises(BadInput, match=message):
            read_bytes(path)
    with pytest.raises(BadInput, match="more than 50 bytes"):
        read_bytes(tmp_path / "a.png", most=50)


@pytest.mark.skipif(sys.platform == "win32", reason="no named pipes in the file system")
def test_a_named_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(BadInput, match="no regular file"):
        read_bytes(tmp_path / "pipe.png")


def test_a_huge_sparse_file_is_not_read(tmp_path):
    with (tmp_path / "huge.png").open("wb") as file:
        file.truncate(10 * 2**30)
    with pytest.raises(BadInput, match="more than 20,000,000 bytes"):
        read_bytes(tmp_path / "huge.png")


def flat(image):
    return to_rgb(image, (2, 2))[:, 0, 0].tolist()


@pytest.mark.parametrize(
    ("image", "colour"),
    [
        (Image.new("L", (2, 2), 7), [7, 7, 7]),
        (Image.new("1", (2, 2), 1), [255, 255, 255]),
        (Image.new("RGB", (2, 2), (1, 2, 3)), [1, 2, 3]),
        (Image.new("RGB", (2, 2), (1, 2, 3)).convert("P", palette=Image.Palette.ADAPTIVE), [1, 2, 3]),
        (Image.new("RGBA", (2, 2), (1, 2, 3, 255)), [1, 2, 3]),
        (Image.new("RGBA", (2, 2), (1, 2, 3, 0)), [255, 255, 255]),
        (Image.new("LA", (2, 2), (9, 0)), [255, 255, 255]),
        (Image.new("CMYK", (2, 2), (0, 0, 0, 255)), [0, 0, 0]),
    ],
    ids=["grey", "bilevel", "rgb", "palette", "opaque", "transparent", "grey with alpha", "cmyk"],
)
def test_modes(image, colour):
    assert flat(image) == colour


def test_a_transparent_palette_colour_is_white():
    image = Image.new("P", (2, 2), 0)
    image.putpalette([10, 20, 30] * 256)
    again = Image.open(io.BytesIO(file_of(image, transparency=0)))
    assert flat(again) == [255, 255, 255]


@pytest.mark.parametrize("mode", ["I;16", "I", "F"])
def test_deep_pixels_are_refused(mode):
    with pytest.raises(BadInput, match="expected 8 bits a channel"):
        to_rgb(Image.new(mode, (2, 2)), (2, 2))


def test_orientation_of_a_camera_is_applied():
    image = Image.new("RGB", (2, 2), (0, 0, 0))
    image.putpixel((0, 0), (255, 255, 255))
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: show it a quarter turn clockwise
    again = decode(file_of(image, exif=exif), (2, 2))
    assert again[0].tolist() == [[0, 255], [0, 0]]


def test_other_sizes_keep_their_proportions():
    image = Image.new("RGB", (8, 4), (0, 0, 0))
    image.paste((255, 255, 255), (2, 0, 6, 4))
    assert (to_rgb(image, (4, 4)) == 255).all()  # the middle square
    assert to_rgb(Image.new("RGB", (1, 500)), (4, 4)).shape == (3, 4, 4)


def test_the_wanted_size_is_left_as_it_is():
    image = noise(5, 3)
    assert torch.equal(to_rgb(image, (3, 5)), torch.tensor(list(image.tobytes())).view(3, 5, 3).permute(2, 0, 1))


def test_an_image_without_pixels():
    with pytest.raises(BadInput, match="no pixels"):
        to_rgb(Image.new("RGB", (0, 3)), SIZE)
