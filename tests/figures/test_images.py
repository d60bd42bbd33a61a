from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
import torch

from course.figures import images as room
from course.figures.images import as_pictures, class_sheet, draw_classes, draw_images, sheet
from course.figures.show import png

SIX = torch.arange(6 * 3 * 4 * 4, dtype=torch.uint8).reshape(6, 3, 4, 4)


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def shown(figure):
    """The arrays of the images in a figure."""
    return [np.asarray(image.get_array()) for image in figure.axes[0].images]


@pytest.fixture
def drawn(monkeypatch):
    """Figure and text alternative of every picture shown."""
    everything = []
    monkeypatch.setattr(room, "show_figure", lambda figure, alt: everything.append((figure, alt)))
    return everything


def test_sheet_shows_every_image_with_its_caption(drawn):
    draw_images(SIX, ["bird\nas boat", *"bcdef"], columns=4, title="Mistakes")
    ((figure, alt),) = drawn
    assert texts(figure) == ["Mistakes", "bird\nas boat", *"bcdef"]
    assert all((seen == wanted.permute(1, 2, 0).numpy()).all() for seen, wanted in zip(shown(figure), SIX, strict=True))
    assert alt == "Mistakes: 6 images: bird as boat; b; c; d; e; f."
    edges = [image.get_extent()[0] for image in figure.axes[0].images]
    assert len(set(edges)) == 4
    assert edges[0] == edges[4]


def test_own_words_replace_the_ones_that_are_made(drawn):
    draw_images(SIX[:1], alt="One black square.")
    draw_images(SIX[:1])
    assert [alt for _, alt in drawn] == ["One black square.", "1 image."]


def test_class_sheet_has_one_named_row_a_class(drawn):
    draw_classes(SIX, [0, 1, 1, 1, 1, 0], ["bird", "boat", "none"], per_class=3, title="Samples")
    ((figure, alt),) = drawn
    assert texts(figure) == ["Samples", "bird", "boat", "none"]
    wanted = SIX[[0, 5, 1, 2, 3]].permute(0, 2, 3, 1).numpy()
    assert (np.stack(shown(figure)) == wanted).all()
    assert alt == "Samples: 3 rows of up to 3 images, one row a class: bird, boat, none."
    rows = [image.get_extent()[2] for image in figure.axes[0].images]
    assert rows[0] == rows[1] < rows[2] == rows[3] == rows[4]


@pytest.mark.parametrize(
    "images",
    [SIX, SIX.permute(0, 2, 3, 1).numpy(), SIX.float() / 255, SIX.double().requires_grad_() / 255],
    ids=["uint8 tensor", "array", "floats", "with gradient"],
)
def test_all_forms_give_the_same_pictures(images):
    pictures = as_pictures(images)
    if pictures.dtype != np.uint8:
        pictures = np.rint(pictures * 255)
    assert (pictures == SIX.permute(0, 2, 3, 1).numpy()).all()


def test_one_channel_becomes_grey():
    assert (as_pictures(SIX[:, :1])[..., 2] == SIX[:, 0].numpy()).all()


@pytest.mark.parametrize(
    ("images", "words"),
    [
        (SIX.float(), r"float32 in 0\.\.255\. Undo a normalisation"),
        (SIX.float() / 255 - 0.5, r"in -0\.5\.\."),
        (torch.full((1, 3, 2, 2), torch.nan), "nan"),
        (SIX.long(), "int64"),
        (SIX[0], r"they are \(3, 4, 4\)"),
        (SIX[:, :2], r"they are \(6, 2, 4, 4\)"),
        (SIX[:0], "these are 0"),
        (SIX[:1].expand(201, 3, 4, 4), "these are 201"),
    ],
)
def test_what_cannot_be_shown_is_told(images, words: str):
    with pytest.raises(ValueError, match=words):
        draw_images(images)


def test_numbers_must_match():
    with pytest.raises(ValueError, match="they are 2"):
        draw_images(SIX, ["a", "b"])
    with pytest.raises(ValueError, match="they are 2"):
        draw_classes(SIX, [0, 1], ["a", "b"])


def test_style_of_the_notebook_is_left_alone_and_does_not_show():
    plain = png(sheet(as_pictures(SIX), "abcdef"))
    with mpl.rc_context({"font.size": 30, "image.cmap": "hot", "axes.facecolor": "black"}):
        before = dict(mpl.rcParams)
        styled = png(sheet(as_pictures(SIX), "abcdef"))
        assert dict(mpl.rcParams) == before
    assert styled == plain


def test_row_of_a_class_without_images_is_empty():
    figure = class_sheet([as_pictures(SIX), []], ["a", "b"], per_class=6)
    assert len(shown(figure)) == 6
    assert texts(figure) == ["a", "b"]
