"""Lesson 14: look at a file before it is decoded."""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from unittest import mock

from PIL import Image, ImageFile, UnidentifiedImageError

from course.checking import Exercise

exercise = Exercise(
    "inference.inspect_file",
    title="Refuse a file before it is decoded",
    task="""
        `inspect_file(data, most)` looks at the `bytes` of a file from a stranger and returns one of four words:

        - `"unknown"`: not a PNG or JPEG image. Pillow can open many formats; only these two are accepted.
        - `"too large"`: an image of more than `most` pixels (width times height). **Not one pixel may be decoded**, and
          the promise counts: a file may promise a size and hold nothing.
        - `"damaged"`: of an allowed size, but its pixels cannot all be decoded: cut off or changed.
        - `"accepted"`: everything else.

        No exception and no warning leaves the function. Pillow warns (`Image.DecompressionBombWarning`) or raises
        (`Image.DecompressionBombError`) by itself for very many pixels.
        """,
    hints=(
        "`Image.open` reads the header only: format and size are known then. Which call decodes the pixels, and what "
        "has to be asked between the two?",
        "try Image.open(io.BytesIO(data), formats=...): DecompressionBombError means too large, UnidentifiedImageError "
        "unknown. Compare width * height with most. Only then image.load(), in a try: any exception means damaged.",
    ),
)


@exercise.stub
def inspect_file(data: bytes, most: int) -> str:
    """Return "unknown", "too large", "damaged" or "accepted" for the bytes of a file and the pixels it may have."""
    raise NotImplementedError


@exercise.reference
def header_then_pixels(data, most):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = Image.open(io.BytesIO(data), formats=("PNG", "JPEG"))
    except Image.DecompressionBombError:
        return "too large"
    except Exception:
        return "unknown"
    if image.width * image.height > most:
        return "too large"
    try:
        image.load()
    except Exception:
        return "damaged"
    return "accepted"


@exercise.alternative
def by_conversion(data, most):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(data))
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        return "too large"
    except OSError:
        return "unknown"
    if image.format not in {"PNG", "JPEG"}:
        return "unknown"
    width, height = image.size
    if width * height > most:
        return "too large"
    try:
        image.convert("RGB")
    except Exception:
        return "damaged"
    return "accepted"


@exercise.wrong(
    "The pixels are decoded before their number is asked. For a bomb that is too late: the memory is taken by then. "
    "The size stands in the header."
)
def decodes_first(data, most):
    try:
        image = Image.open(io.BytesIO(data), formats=("PNG", "JPEG"))
    except Image.DecompressionBombError:
        return "too large"
    except Exception:
        return "unknown"
    try:
        image.load()
    except Exception:
        return "damaged"
    return "too large" if image.width * image.height > most else "accepted"


@exercise.wrong(
    "Nothing is ever decoded. A file that was cut off has a header like any other, and raises later, in the middle of "
    "an answer."
)
def never_decodes(data, most):
    try:
        image = Image.open(io.BytesIO(data), formats=("PNG", "JPEG"))
    except Image.DecompressionBombError:
        return "too large"
    except Exception:
        return "unknown"
    return "too large" if image.width * image.height > most else "accepted"


@exercise.wrong(
    "`verify()` does not decode. It finds damage in a PNG by its checksums, and nothing in a JPEG, which has none."
)
def verifies_only(data, most):
    try:
        image = Image.open(io.BytesIO(data), formats=("PNG", "JPEG"))
    except Image.DecompressionBombError:
        return "too large"
    except Exception:
        return "unknown"
    if image.width * image.height > most:
        return "too large"
    try:
        image.verify()
    except Exception:
        return "damaged"
    return "accepted"


@exercise.wrong(
    "Whatever Pillow opens is accepted: GIF, and formats whose decoders are rarely tried by anybody but attackers. "
    "Name the formats: `formats=(...)`."
)
def any_format(data, most):
    try:
        image = Image.open(io.BytesIO(data))
    except Image.DecompressionBombError:
        return "too large"
    except Exception:
        return "unknown"
    if image.width * image.height > most:
        return "too large"
    try:
        image.load()
    except Exception:
        return "damaged"
    return "accepted"


@exercise.wrong("Only the first bytes are read as a signature. A text that begins like a PNG is none.")
def by_signature(data, most):
    if not (data.startswith(b"\x89PNG\r\n\x1a\n") or data.startswith(b"\xff\xd8")):
        return "unknown"
    try:
        image = Image.open(io.BytesIO(data))
        if image.width * image.height > most:
            return "too large"
        image.load()
    except Image.DecompressionBombError:
        return "too large"
    except Exception:
        return "damaged"
    return "accepted"


@exercise.wrong(
    "The bytes of the file are compared with `most`. A bomb is a small file: what counts is what it becomes."
)
def length_of_the_file(data, most):
    if len(data) > most:
        return "too large"
    try:
        image = Image.open(io.BytesIO(data), formats=("PNG", "JPEG"))
    except Exception:
        return "unknown"
    try:
        image.load()
    except Exception:
        return "damaged"
    return "accepted"


@exercise.wrong(
    "Pillow's own DecompressionBombError leads to another word: it counts as unknown. The header was read, and "
    "promises too many pixels."
)
def pillows_error_is_unknown(data, most):
    try:
        image = Image.open(io.BytesIO(data), formats=("PNG", "JPEG"))
    except Exception:
        return "unknown"
    if image.width * image.height > most:
        return "too large"
    try:
        image.load()
    except Exception:
        return "damaged"
    return "accepted"


@exercise.wrong(
    "Pillow's limit is left to do the work. It stands at many millions of pixels, and `most` is not asked at all."
)
def pillows_limit_only(data, most):
    try:
        image = Image.open(io.BytesIO(data), formats=("PNG", "JPEG"))
    except Image.DecompressionBombError:
        return "too large"
    except Exception:
        return "unknown"
    try:
        image.load()
    except Exception:
        return "damaged"
    return "accepted"


@exercise.wrong(
    "`MAX_IMAGE_PIXELS = most` raises for more than twice as many pixels, and only warns in between. And it is a "
    "global setting: it changes every other use of Pillow meanwhile."
)
def pillows_limit_moved(data, most):
    with mock.patch.object(Image, "MAX_IMAGE_PIXELS", most):
        try:
            image = Image.open(io.BytesIO(data), formats=("PNG", "JPEG"))
        except Image.DecompressionBombError:
            return "too large"
        except Exception:
            return "unknown"
        try:
            image.load()
        except Exception:
            return "damaged"
        return "accepted"


@exercise.wrong("An image of exactly `most` pixels is refused. More than `most` are too large.")
def limit_excluded(data, most):
    try:
        image = Image.open(io.BytesIO(data), formats=("PNG", "JPEG"))
    except Image.DecompressionBombError:
        return "too large"
    except Exception:
        return "unknown"
    if image.width * image.height >= most:
        return "too large"
    try:
        image.load()
    except Exception:
        return "damaged"
    return "accepted"


@exercise.wrong("Each side is compared with `most`, not their product. 30 times 30 are 900 pixels.")
def longer_side(data, most):
    try:
        image = Image.open(io.BytesIO(data), formats=("PNG", "JPEG"))
    except Image.DecompressionBombError:
        return "too large"
    except Exception:
        return "unknown"
    if max(image.size) > most:
        return "too large"
    try:
        image.load()
    except Exception:
        return "damaged"
    return "accepted"


@exercise.wrong("One word for two cases: a file that breaks off is an image, of a known format, that is damaged.")
def damaged_is_unknown(data, most):
    try:
        image = Image.open(io.BytesIO(data), formats=("PNG", "JPEG"))
        if image.width * image.height > most:
            return "too large"
        image.load()
    except Image.DecompressionBombError:
        return "too large"
    except Exception:
        return "unknown"
    return "accepted"


@exercise.wrong(
    "Only OSError is caught while the pixels are decoded. A PNG with a wrong checksum raises SyntaxError in Pillow: it "
    "leaves the function."
)
def only_os_errors(data, most):
    try:
        picture = Image.open(io.BytesIO(data), formats=["PNG", "JPEG"])
    except Image.DecompressionBombError:
        return "too large"
    except Exception:
        return "unknown"
    if picture.width * picture.height > most:
        return "too large"
    try:
        picture.load()
    except OSError:
        return "damaged"
    return "accepted"


@exercise.wrong(
    "Pillow's warning about very many pixels leaves the function. In a strict program a warning is an error."
)
def warning_leaves(data, most):
    try:
        picture = Image.open(io.BytesIO(data), formats=["PNG", "JPEG"])
    except Image.DecompressionBombError:
        return "too large"
    except UnidentifiedImageError:
        return "unknown"
    if picture.width * picture.height > most:
        return "too large"
    try:
        picture.load()
    except Exception:
        return "damaged"
    return "accepted"


def picture(kind="PNG", width=6, height=5):
    shades = bytes((37 * n) % 251 for n in range(3 * width * height))
    Image.frombytes("RGB", (width, height), shades).save(file := io.BytesIO(), kind)
    return file.getvalue()


def promise(width, height):
    """A PNG whose header promises a size, and that holds no pixels."""
    data = b"\x89PNG\r\n\x1a\n"
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    for kind, body in ((b"IHDR", header), (b"IDAT", b""), (b"IEND", b"")):
        data += struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    return data


def said(answer, data, most):
    """The answer, and whether pixels were decoded on the way to it. Warnings are errors in here."""
    decoded, load = [], ImageFile.ImageFile.load

    def noted(self):
        decoded.append(self.size)
        return load(self)

    with mock.patch.object(ImageFile.ImageFile, "load", noted), warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        word = answer(data, most)
    if word == "too large":
        return word, f"{'some' if decoded else 'no'} pixels decoded"
    return word


@exercise.probe
def a_png(answer):
    return said(answer, picture(), 100)


@exercise.probe
def a_jpeg(answer):
    return said(answer, picture("JPEG"), 100)


@exercise.probe
def exactly_the_limit(answer):
    return said(answer, picture(), 30)


@exercise.probe
def one_pixel_too_many(answer):
    return said(answer, picture(), 29)


@exercise.probe
def more_than_twice_the_limit(answer):
    return said(answer, picture("JPEG", 30, 30), 100)


@exercise.probe
def long_and_thin(answer):
    return [said(answer, picture(width=40, height=1), most) for most in (39, 40)]


@exercise.probe
def a_promise(answer):
    return said(answer, promise(200, 200), 1000)


@exercise.probe
def a_promise_that_pillow_warns_of(answer):
    return said(answer, promise(10_000, 10_000), 1000)


@exercise.probe
def a_promise_that_pillow_refuses(answer):
    return said(answer, promise(60_000, 60_000), 1000)


@exercise.probe
def a_promise_that_is_allowed(answer):
    return said(answer, promise(3, 3), 1000)


@exercise.probe
def half_a_png(answer):
    data = picture(width=20, height=20)
    return said(answer, data[: len(data) // 2], 1000)


@exercise.probe
def most_of_a_jpeg(answer):
    data = picture("JPEG", 40, 40)
    return said(answer, data[: 3 * len(data) // 4], 2000)


@exercise.probe
def a_wrong_checksum(answer):
    data = bytearray(picture())
    data[data.index(b"IEND") - 5] ^= 255  # the checksum of the pixels, which end before the last chunk
    return said(answer, bytes(data), 100)


@exercise.probe
def another_format(answer):
    return said(answer, picture("GIF"), 100)


@exercise.probe
def no_image(answer):
    return [said(answer, data, 100) for data in (b"", b"hello", b"\x80\x04K\x01.")]


@exercise.probe
def a_signature_alone(answer):
    return said(answer, b"\x89PNG\r\n\x1a\n and nothing else", 100)
