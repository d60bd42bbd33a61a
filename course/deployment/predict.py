"""``predict``: from whatever somebody hands over to classes with probabilities, or to a refusal that says why."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from course.deployment.images import MAX_FILE_BYTES, MAX_PIXELS, BadInput, decode, read_bytes, to_rgb
from course.deployment.parity import TrainingMode

__all__ = ["BadInput", "Prediction", "Predictor"]

ACCEPTED = "a PIL image, an array or tensor, the path or the bytes of an image file, or a list of these"


@dataclass(frozen=True)
class Prediction:
    """An answer. label: the most probable class. probabilities: of all `classes`, in their order; they add up to 1."""

    label: str
    probability: float
    classes: tuple[str, ...]
    probabilities: tuple[float, ...]

    def top(self, k: int = 3) -> list[tuple[str, float]]:
        """The k most probable classes with their probabilities; equally probable ones in the order of the classes."""
        return sorted(zip(self.classes, self.probabilities, strict=True), key=lambda pair: -pair[1])[:k]

    def __str__(self) -> str:
        return f"{self.label} ({100 * self.probability:.1f} %)"


class Predictor:
    """A network behind one function that answers or refuses.

    call: normalised images float32 (N, 3, H, W), channels_last, to logits (N, classes): a module in evaluation mode, an
        exported or compiled one, an :class:`~course.deployment.runtime.OnnxModel`.
    classes: names in the order of the logits. mean, std: per channel, on the scale 0 to 1. size: (H, W).
    device: where the network is; by default that of a module's first parameter, else the CPU. Images travel there
        as they came, in one transfer for each batch, and are scaled and normalised there.
    batch: images of one call at most. max_pixels, max_file_bytes: what one image may have.

    Raises TrainingMode for a module with a part in training mode.
    """

    def __init__(
        self,
        call: Callable[[Tensor], Tensor],
        classes: Sequence[str],
        mean: Tensor | Sequence[float],
        std: Tensor | Sequence[float],
        size: tuple[int, int] = (32, 32),
        *,
        device: str | torch.device | None = None,
        batch: int = 64,
        max_pixels: int = MAX_PIXELS,
        max_file_bytes: int = MAX_FILE_BYTES,
    ) -> None:
        self.call, self.classes, self.size = call, tuple(classes), (int(size[0]), int(size[1]))
        if batch < 1:
            raise ValueError(f"batch should be at least 1, not {batch}")
        if device is None:
            first = next(call.parameters(), None) if isinstance(call, nn.Module) else None
            device = first.device if first is not None else "cpu"
        self.device, self.batch = torch.device(device), batch
        self.max_pixels, self.max_file_bytes = max_pixels, max_file_bytes
        mean, std = (torch.as_tensor(value, dtype=torch.float32).reshape(-1, 1, 1) for value in (mean, std))
        if mean.numel() not in (1, 3) or std.numel() not in (1, 3) or not (std > 0).all():
            raise ValueError("mean and std should have one number for each of 3 channels, std above 0")
        self._mean, self._std = mean.to(self.device), std.to(self.device)
        self._require_evaluation()

    def predict(self, what: Any) -> Prediction | list[Prediction]:
        """One image gives a Prediction; a batch, or a list of images, a list in the same order.

        Accepted as an image: a PIL image; the path (str or PathLike) or the bytes of a JPEG, PNG or BMP file; an array
        or a tensor with three channels, first (3, H, W) or last (H, W, 3), of exactly the predictor's size, uint8 in
        0..255 or float32 in 0..1, not normalised. With an axis in front of it, an array or tensor is a batch. Files and
        PIL images of another size or mode are converted (:func:`course.deployment.images.to_rgb`).

        Raises BadInput. In a list the message begins with the number of the image; nothing of the list is answered
        then. Raises RuntimeError where the network itself returns another shape, NaN or infinity.
        """
        if isinstance(what, (list, tuple)):
            if not what:
                raise BadInput(f"the list is empty; expected at least one image: {ACCEPTED}")
            return self._answer([self._item(number, item) for number, item in enumerate(what)])
        if isinstance(what, (np.ndarray, Tensor)) and what.ndim == 4:
            return self._answer(list(self._checked(what)))
        return self._answer([self._image(what)])[0]

    __call__ = predict

    def _item(self, number: int, item: Any) -> Tensor:
        try:
            return self._image(item)
        except BadInput as error:
            raise BadInput(f"image {number}: {error}") from error

    def _image(self, what: Any) -> Tensor:
        """One image as a tensor (3, H, W), uint8 or float32 in 0..1."""
        from PIL import Image

        if isinstance(what, (np.ndarray, Tensor)):
            if what.ndim != 3:
                height, width = self.size
                raise BadInput(
                    f"the image has shape {tuple(what.shape)}; expected (3, {height}, {width}) or "
                    f"({height}, {width}, 3){self._advice(what)}"
                )
            return self._checked(what)
        if isinstance(what, Image.Image):
            return to_rgb(what, self.size, max_pixels=self.max_pixels)
        if isinstance(what, (str, os.PathLike)):
            what = read_bytes(what, most=self.max_file_bytes)
        if isinstance(what, (bytes, bytearray, memoryview)):
            return decode(bytes(what), self.size, max_pixels=self.max_pixels, max_bytes=self.max_file_bytes)
        raise BadInput(f"this is of type {type(what).__name__}; expected {ACCEPTED}")

    @staticmethod
    def _advice(what: np.ndarray | Tensor) -> str:
        if what.ndim == 2:
            return ": repeat a greyscale image three times, or hand it over as a PIL image"
        return ": give a batch as (N, 3, H, W), not inside a list" if what.ndim == 4 else ""

    def _checked(self, what: np.ndarray | Tensor) -> Tensor:
        """An array or tensor of 3 or 4 axes with channels first, uint8 or float32 in 0..1."""
        dtype = str(what.dtype).removeprefix("torch.")
        if dtype not in ("uint8", "float32"):
            raise BadInput(
                f"the dtype is {dtype}; expected uint8 (0..255) or float32 (0..1): convert it, and mind the range"
            )
        if isinstance(what, np.ndarray):
            what = torch.from_numpy(np.array(what, order="C"))  # a copy: read-only or reversed arrays have no tensor
        if what.layout != torch.strided or what.is_meta:
            raise BadInput(
                f"the tensor has layout {what.layout} on {what.device}; expected an ordinary one with values"
            )
        shape, (height, width) = tuple(what.shape), self.size
        first, last = shape[-3:] == (3, height, width), shape[-3:] == (height, width, 3)
        if not (first or last):
            n = "N, " if what.ndim == 4 else ""
            raise BadInput(
                f"the shape is {shape}; expected ({n}3, {height}, {width}) or ({n}{height}, {width}, 3): "
                "scale and cut the image before, or hand it over as a PIL image"
            )
        if shape[0] == 0:
            raise BadInput(f"the batch is empty (shape {shape}); expected at least one image")
        images = what.detach() if first else what.detach().movedim(-1, -3)
        if images.dtype == torch.float32:
            self._check_range(images)
        return images

    @staticmethod
    def _check_range(images: Tensor) -> None:
        broken = int((~images.isfinite()).sum())
        if broken:
            raise BadInput(f"{broken:,} of {images.numel():,} values are NaN or infinite; expected 0..1")
        low, high = images.min().item(), images.max().item()
        if low >= 0 and high <= 1:
            return
        if low < 0:
            advice = "it looks normalised already: give it before normalisation, which happens here"
        elif high <= 255:
            advice = "it looks like 0..255: divide by 255, or give uint8"
        else:
            advice = "bring it to 0..1"
        raise BadInput(f"float32 values from {low:.4g} to {high:.4g}; expected 0..1: {advice}")

    def _answer(self, images: list[Tensor]) -> list[Prediction]:
        self._require_evaluation()
        answers: list[Prediction] = []
        with torch.inference_mode():
            for start in range(0, len(images), self.batch):
                answers += self._call_once(images[start : start + self.batch])
        return answers

    def _call_once(self, images: list[Tensor]) -> list[Prediction]:
        dtypes = {image.dtype for image in images}
        if len(dtypes) > 1:
            images = [image.float() / 255 if image.dtype == torch.uint8 else image for image in images]
        if len({image.device for image in images}) > 1:
            images = [image.to(self.device) for image in images]
        batch = torch.stack(images).to(self.device)  # the one transfer: uint8 has a quarter of float32's bytes
        scaled = batch.float() / 255 if batch.dtype == torch.uint8 else batch
        normalised = ((scaled - self._mean) / self._std).contiguous(memory_format=torch.channels_last)
        logits = self.call(normalised)
        wanted = (len(images), len(self.classes))
        if not isinstance(logits, Tensor) or tuple(logits.shape) != wanted:
            seen = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise RuntimeError(f"the network returned {seen}; expected logits of shape {wanted}")
        probabilities = logits.float().softmax(dim=1).cpu()  # and the one way back, which waits for the device
        if not probabilities.isfinite().all():
            raise RuntimeError("the network returned NaN or infinity: its weights or its conversion are broken")
        return [self._prediction(row) for row in probabilities.tolist()]

    def _prediction(self, row: list[float]) -> Prediction:
        best = max(range(len(row)), key=row.__getitem__)
        return Prediction(self.classes[best], row[best], self.classes, tuple(row))

    def _require_evaluation(self) -> None:
        modules = self.call.named_modules() if isinstance(self.call, nn.Module) else ()
        training = next((name or "the model itself" for name, module in modules if module.training), None)
        if training is not None:
            raise TrainingMode(f"the model is in training mode ({training}); call model.eval() before it answers")
