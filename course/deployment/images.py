"""Image files and PIL images from strangers: checked by header before a pixel is decoded, then RGB of one size."""

from __future__ import annotations

import io
import os
import stat
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

# Formats whose header says everything. Others run programs (EPS), or set up their decoder when they are opened (WebP).
FORMATS = ("JPEG", "PNG", "BMP")
MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK")
MAX_PIXELS = 25_000_000
MAX_FILE_BYTES = 20_000_000
# How files begin that people send in place of an image.
BEGINNINGS = {
    b"PK\x03\x04": "a zip archive, such as torch.save writes",
    b"\x80": "a pickle",
    b"GIF8": "a GIF",
    b"RIFF": "a RIFF file, such as WebP",
    b"%PDF": "a PDF",
    b"%!PS": "PostScript",
    b"<": "HTML, XML or SVG",
}


class BadInput(ValueError):
    """What was given is no image that the model can answer; the message says what was seen, expected, and to do."""


def read_bytes(path: str | os.PathLike[str], *, most: int = MAX_FILE_BYTES) -> bytes:
    """The bytes of a regular file. Raises BadInput for what is missing, no regular file, unreadable or larger."""
    path = Path(path)
    try:
        mode, data = path.stat().st_mode, b""
        if stat.S_ISREG(mode):  # opening a named pipe would wait for ever
            with path.open("rb") as file:
                data = file.read(most + 1)
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput(f"the file {path.name or path} cannot be read ({reason}); check the path") from error
    if not stat.S_ISREG(mode):
        kind = "a directory" if stat.S_ISDIR(mode) else "no regular file"
        raise BadInput(f"{path.name or path} is {kind}; expected the path of an image file")
    return _within(data, most)


def decode(
    data: bytes, size: tuple[int, int], *, max_pixels: int = MAX_PIXELS, max_bytes: int = MAX_FILE_BYTES
) -> Tensor:
    """A JPEG, PNG or BMP file as a uint8 tensor (3, height, width); of an animation the first frame.

    The header alone is read first: format, mode and number of pixels are refused before memory is taken for them.
    See :func:`to_rgb` for what happens to the pixels. Raises BadInput.
    """
    from PIL import Image, UnidentifiedImageError

    formats, data = ", ".join(FORMATS), _within(data, max_bytes)
    try:
        with warnings.catch_warnings():
            # Pillow warns above MAX_IMAGE_PIXELS and raises above twice as many; both are refusals here.
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(data), formats=FORMATS)
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise BadInput(
            f"the header promises more pixels than Pillow decodes ({error}); expected at most {max_pixels:,} pixels"
        ) from error
    except UnidentifiedImageError as error:
        raise BadInput(
            f"{len(data):,} bytes that are no image of a known format{_beginning(data)}; expected one of {formats}: "
            "save the image in one of these formats"
        ) from error
    except Exception as error:  # plugins raise OSError, SyntaxError, struct.error and more for a damaged header
        raise BadInput(f"the header of the image is damaged ({error}); expected a whole {formats} file") from error
    with image:
        return to_rgb(image, size, max_pixels=max_pixels)


def to_rgb(image: Any, size: tuple[int, int], *, max_pixels: int = MAX_PIXELS) -> Tensor:
    """A PIL image as a uint8 tensor (3, height, width) of the wanted size.

    The orientation noted in EXIF is applied. Greyscale, palette and CMYK become RGB; what is transparent is laid on
    white. An image of another size is scaled and cut at its longer axis, so that it keeps its proportions.
    Raises BadInput for more than `max_pixels`, other modes (16 bits, floats), and data that cannot be decoded.
    """
    from PIL import Image, ImageOps

    width, height = image.size
    if width < 1 or height < 1:
        raise BadInput(f"the image is {width} x {height}: it has no pixels; expected at least one")
    if width * height > max_pixels:
        raise BadInput(
            f"the image is {width:,} x {height:,}, {width * height:,} pixels; expected at most {max_pixels:,}: "
            "scale it down before you send it"
        )
    if image.mode not in MODES:
        raise BadInput(
            f"the image has mode {image.mode!r}; expected 8 bits a channel ({', '.join(MODES)}): convert it, "
            "and decide there how its range becomes 0..255"
        )
    try:
        image = ImageOps.exif_transpose(image)
        if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
            image = image.convert("RGBA")
            white = Image.new("RGBA", image.size, (255, 255, 255, 255))
            image = Image.alpha_composite(white, image)
        image = image.convert("RGB")
        if image.size != size[::-1]:
            image = ImageOps.fit(image, size[::-1], method=Image.Resampling.BILINEAR)
    except Exception as error:  # decoding a damaged file: OSError, SyntaxError, zlib.error and more
        raise BadInput(f"the image breaks off or is damaged ({error}); expected a whole file: send it again") from error
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()


def _within(data: bytes, most: int) -> bytes:
    if len(data) > most:
        raise BadInput(f"the image has more than {most:,} bytes; expected at most that: make it smaller")
    if not data:
        raise BadInput("the image has 0 bytes; expected a whole image file")
    return data


def _beginning(data: bytes) -> str:
    return next((f" (it begins like {what})" for start, what in BEGINNINGS.items() if data.startswith(start)), "")
