"""Predictor: one answer for one image, a list for many, the same whatever the form, and a refusal with three parts."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from course.deployment.parity import TrainingMode
from course.deployment.predict import BadInput, Prediction, Predictor

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)
CLASSES = ("left", "middle", "right")


@pytest.fixture
def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5), nn.Flatten(), nn.Linear(16, 3)).eval()


@pytest.fixture
def predictor(network):
    return Predictor(network, CLASSES, MEAN, STD, size=(4, 4))


@pytest.fixture
def images():
    return torch.randint(0, 256, (5, 3, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


def by_hand(network, image):
    scaled = (image.float() / 255 - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
    return network(scaled[None]).softmax(1)[0].tolist()


def test_one_image(predictor, network, images):
    answer = predictor.predict(images[0])
    wanted = by_hand(network, images[0])
    assert isinstance(answer, Prediction)
    assert answer.probabilities == pytest.approx(wanted, rel=1e-5)
    assert sum(answer.probabilities) == pytest.approx(1)
    assert answer.label == CLASSES[int(np.argmax(wanted))]
    assert answer.probability == max(answer.probabilities)
    assert answer.top(2)[0] == (answer.label, answer.probability)
    assert len(answer.top(2)) == 2
    assert str(answer) == f"{answer.label} ({100 * answer.probability:.1f} %)"


def png(image):
    Image.fromarray(image.permute(1, 2, 0).numpy()).save(buffer := io.BytesIO(), "PNG")
    return buffer.getvalue()


FORMS = {
    "channels last": lambda image, _: image.permute(1, 2, 0),
    "array": lambda image, _: image.permute(1, 2, 0).numpy(),
    "array, channels first": lambda image, _: image.numpy(),
    "float": lambda image, _: image.float() / 255,
    "PIL": lambda image, _: Image.fromarray(image.permute(1, 2, 0).numpy()),
    "bytes": lambda image, _: png(image),
    "bytearray": lambda image, _: bytearray(png(image)),
    "path": lambda image, folder: path_of(image, folder),
    "text": lambda image, folder: str(path_of(image, folder)),
}


def path_of(image, folder):
    (folder / "a.png").write_bytes(png(image))
    return folder / "a.png"


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_same_answer(predictor, images, tmp_path, form):
    wanted = predictor.predict(images[0])
    seen = predictor.predict(FORMS[form](images[0], tmp_path))
    assert seen.label == wanted.label
    assert seen.probabilities == pytest.approx(wanted.probabilities, rel=1e-5)
    (inside,) = predictor.predict([FORMS[form](images[0], tmp_path)])
    assert inside.probabilities == pytest.approx(wanted.probabilities, rel=1e-5)


@pytest.mark.parametrize("batch", [1, 2, 5, 64])
def test_a_batch_answers_like_its_images(network, images, batch):
    predictor = Predictor(network, CLASSES, MEAN, STD, size=(4, 4), batch=batch)
    alone = [predictor.predict(image).probabilities for image in images]
    for many in (images, list(images), tuple(images), images.permute(0, 2, 3, 1).numpy(), images.float() / 255):
        answers = predictor.predict(many)
        assert len(answers) == 5
        for answer, wanted in zip(answers, alone, strict=True):
            assert answer.probabilities == pytest.approx(wanted, rel=1e-4)


def test_a_list_of_mixed_forms_keeps_its_order(predictor, images):
    mixed = [images[0], png(images[1]), images[2].float() / 255, images[3].permute(1, 2, 0).numpy()]
    for answer, image in zip(predictor.predict(mixed), images, strict=False):
        assert answer.probabilities == pytest.approx(predictor.predict(image).probabilities, rel=1e-4)


def test_calls_of_at_most_a_batch_without_gradients_and_channels_last(images):
    calls = []

    def network(x):
        calls.append((len(x), torch.is_inference_mode_enabled(), x.is_contiguous(memory_format=torch.channels_last)))
        return torch.zeros(len(x), 3)

    Predictor(network, CLASSES, MEAN, STD, size=(4, 4), batch=2).predict(images)
    assert calls == [(2, True, True), (2, True, True), (1, True, True)]


def test_what_is_given_stays_as_it_is(predictor, images):
    before, array = images.clone(), (images[0].float() / 255).numpy()
    kept = array.copy()
    predictor.predict(images)
    predictor.predict(array)
    assert torch.equal(images, before)
    assert (array == kept).all()


def test_read_only_and_reversed_arrays(predictor, images):
    array = images[0].permute(1, 2, 0).numpy().copy()
    array.flags.writeable = False
    assert predictor.predict(array) == predictor.predict(images[0])
    turned = predictor.predict(images[0].permute(1, 2, 0).numpy()[::-1])
    assert turned.probabilities == pytest.approx(predictor.predict(images[0].flip(1)).probabilities)


UINT8 = torch.zeros(3, 4, 4, dtype=torch.uint8)
FLOAT = torch.zeros(3, 4, 4)
REFUSED = {
    "shape": (UINT8[:, :3], r"shape is \(3, 3, 4\); expected \(3, 4, 4\) or \(4, 4, 3\): scale"),
    "four channels": (torch.zeros(4, 4, 4, dtype=torch.uint8), r"shape is \(4, 4, 4\); expected"),
    "two axes": (UINT8[0], r"shape \(4, 4\); expected \(3, 4, 4\).*greyscale"),
    "five axes": (UINT8[None, None], r"\(1, 1, 3, 4, 4\); expected"),
    "no axes": (torch.tensor(1), r"shape \(\); expected"),
    "batch of another shape": (torch.zeros(2, 3, 4, 5, dtype=torch.uint8), r"expected \(N, 3, 4, 4\)"),
    "int64": (UINT8.long(), r"dtype is int64; expected uint8 \(0..255\) or float32 \(0..1\): convert"),
    "float64": (np.zeros((4, 4, 3)), "dtype is float64"),
    "float16": (FLOAT.half(), "dtype is float16"),
    "bool": (UINT8.bool(), "dtype is bool"),
    "objects": (np.full((4, 4, 3), None), "dtype is object"),
    "complex": (FLOAT.to(torch.complex64), "dtype is complex64"),
    "0..255": (FLOAT + 200, "from 200 to 200; expected 0..1.*divide by 255"),
    "normalised": (FLOAT - 1.5, "before normalisation"),
    "larger": (FLOAT + 300, "bring it to 0..1"),
    "NaN": (FLOAT.index_fill(0, torch.tensor([1]), float("nan")), "16 of 48 values are NaN or infinite"),
    "infinite": (FLOAT + float("inf"), "48 of 48 values are NaN"),
    "empty batch": (torch.zeros(0, 3, 4, 4, dtype=torch.uint8), "the batch is empty"),
    "empty list": ([], "the list is empty"),
    "meta": (torch.zeros(3, 4, 4, device="meta"), "ordinary"),
    "sparse": (FLOAT.to_sparse(), "ordinary"),
    "None": (None, "type NoneType; expected a PIL image"),
    "number": (3, "type int"),
    "dict": ({"image": UINT8}, "type dict"),
    "nested list": ([[UINT8]], "image 0: this is of type list"),
    "batch in a list": ([UINT8[None]], r"image 0: .*give a batch as \(N, 3, H, W\), not inside a list"),
    "second of a list": ([UINT8, b"no"], "image 1: 2 bytes that are no image"),
    "missing file": ("nowhere.png", "nowhere.png cannot be read"),
    "text in bytes": (b"text", "no image of a known format"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_what_was_seen_and_expected(predictor, name):
    what, message = REFUSED[name]
    with pytest.raises(BadInput, match=message):
        predictor.predict(what)


def test_limits_are_those_of_the_predictor(network, images):
    predictor = Predictor(network, CLASSES, MEAN, STD, size=(4, 4), max_pixels=15, max_file_bytes=10)
    for what, message in ((Image.new("RGB", (4, 4)), "16 pixels"), (png(images[0]), "more than 10 bytes")):
        with pytest.raises(BadInput, match=message):
            predictor.predict(what)


def test_a_model_in_training_mode_is_refused(network, images):
    network[2].train()
    with pytest.raises(TrainingMode, match=r"\(2\); call model.eval\(\)"):
        Predictor(network, CLASSES, MEAN, STD, size=(4, 4))
    network.eval()
    predictor = Predictor(network, CLASSES, MEAN, STD, size=(4, 4))
    network.train()
    with pytest.raises(TrainingMode, match="the model itself"):
        predictor.predict(images)


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        (lambda x: torch.zeros(len(x), 4), r"\(1, 4\); expected logits of shape \(1, 3\)"),
        (lambda x: torch.zeros(3), r"\(3,\)"),
        (lambda x: None, "NoneType"),
        (lambda x: torch.full((len(x), 3), float("nan")), "NaN or infinity"),
    ],
)
def test_a_broken_network_is_no_bad_input(logits, message):
    with pytest.raises(RuntimeError, match=message):
        Predictor(logits, CLASSES, MEAN, STD, size=(4, 4)).predict(UINT8)


def test_settings_are_checked(network):
    with pytest.raises(ValueError, match="batch should be at least 1"):
        Predictor(network, CLASSES, MEAN, STD, batch=0)
    for mean, std in (((0.5, 0.5), STD), (MEAN, (0.0, 1.0, 1.0))):
        with pytest.raises(ValueError, match="one number for each of 3 channels"):
            Predictor(network, CLASSES, mean, std)


def test_one_transfer_of_the_pixels_as_they_came(network, images):
    """The batch is moved while it is uint8, and scaled after that."""

    class Notes(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor) and result.is_meta and not args[0].is_meta:
                moved.append((args[0].dtype, tuple(args[0].shape)))
            return result

    moved = []
    predictor = Predictor(lambda x: x, CLASSES, MEAN, STD, size=(4, 4), device="meta")
    with Notes(), pytest.raises(RuntimeError, match="expected logits"):
        predictor.predict(list(images))
    assert moved == [(torch.uint8, (5, 3, 4, 4))]
