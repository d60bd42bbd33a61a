from __future__ import annotations

import pytest
import torch

from course.figures.layout import TooLargeToDraw, arithmetic, describe, layout_of

X = torch.arange(10, 22).reshape(3, 4)

VIEWS = {
    "base": X,
    "transposed": X.t(),
    "sliced": X[1:, ::2],
    "column": X[:, 1],
    "diagonal": X.diagonal(),
    "expanded": X[1].expand(3, 4),
    "windows": torch.arange(8).as_strided((5, 4), (1, 1)),
    "three axes": torch.arange(24).reshape(2, 3, 4).permute(2, 0, 1),
    "one of many": torch.arange(1000)[500:508:2],
    "float": torch.linspace(-1, 1, 5),
    "bool": torch.eye(2).bool(),
    "grad": torch.ones(2, requires_grad=True),
    "bfloat16": torch.ones(2, dtype=torch.bfloat16),
    "complex": torch.ones(2, dtype=torch.complex64),
}


@pytest.mark.parametrize("name", VIEWS)
def test_addresses_are_where_the_values_lie(name):
    view = VIEWS[name]
    layout = layout_of(view)
    size = view.element_size()
    assert len(layout.addresses) == view.numel()
    for index, address in layout.addresses.items():
        assert view[index].data_ptr() == view.untyped_storage().data_ptr() + address * size
        assert layout.value(index) == layout.memory[address - layout.first]
    assert layout.storage_cells * size == view.untyped_storage().nbytes()


def test_whole_storage_is_shown_where_it_is_small():
    layout = layout_of(X[:, 1])
    assert layout.memory == tuple(map(str, range(10, 22)))
    assert layout.complete
    assert layout.users(0) == []
    assert layout.users(5) == [(1,)]


def test_long_storage_is_cut_to_what_is_used():
    layout = layout_of(VIEWS["one of many"])
    assert (layout.first, layout.memory, layout.complete) == (500, tuple(map(str, range(500, 507))), False)


def test_shared_cells_know_all_their_users():
    assert layout_of(VIEWS["expanded"]).users(4) == [(0, 0), (1, 0), (2, 0)]
    assert layout_of(VIEWS["windows"]).users(3) == [(0, 3), (1, 2), (2, 1), (3, 0)]


def test_values_as_text():
    assert layout_of(torch.tensor([True, False])).memory == ("T", "F")
    assert layout_of(torch.tensor([0.123456, 2.0])).memory == ("0.123", "2")


@pytest.mark.parametrize(
    ("tensor", "kind", "message"),
    [
        (torch.zeros(7, 7), TooLargeToDraw, "49 elements; at most 48"),
        (torch.zeros(100, 100)[:2, :2], TooLargeToDraw, "spread over 102 memory cells"),
        (torch.zeros(1, 1, 1, 1), TooLargeToDraw, "4 axes"),
        (torch.tensor(3), TooLargeToDraw, "0 axes"),
        (torch.zeros(0, 3), ValueError, "no elements"),
        (torch.zeros(2, device="meta"), ValueError, "on a real device"),
        (torch.eye(2).to_sparse(), ValueError, "with strides"),
        ([1, 2], TypeError, "not list"),
    ],
)
def test_what_cannot_be_drawn_is_refused(tensor, kind, message):
    with pytest.raises(kind, match=message):
        layout_of(tensor)


def test_arithmetic_is_true():
    layout = layout_of(X[1:].t())
    text = arithmetic(layout, (3, 1))
    assert text == "offset + 3 × stride[0] + 1 × stride[1]  =  4 + 3 × 1 + 1 × 4  =  11"
    numbers = text.split("=")[1].replace("×", "*")
    assert eval(numbers) == layout.addresses[3, 1] == 11
    assert "4 + 3" not in arithmetic(layout, (3, 1), labels=False)


def test_description_tells_the_whole_picture():
    text = describe(layout_of(VIEWS["expanded"]), (2, 1))
    assert text == (
        "A tensor of shape (3, 4), strides (0, 1), offset 4, above the strip of memory it lies in.\n"
        "[0]: 14 in cell 4, 15 in cell 5, 16 in cell 6, 17 in cell 7.\n"
        "[1]: 14 in cell 4, 15 in cell 5, 16 in cell 6, 17 in cell 7.\n"
        "[2]: 14 in cell 4, 15 in cell 5, 16 in cell 6, 17 in cell 7.\n"
        "Memory cells 0 to 11 (the whole storage): 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21.\n"
        "Cells that several elements share: cell 4 by 3, cell 5 by 3, cell 6 by 3, cell 7 by 3.\n"
        "Cells that this tensor does not use: 0, 1, 2, 3, 8, 9, 10, 11.\n"
        "Marked: element [2, 1] in memory cell 5: "
        "offset + 2 × stride[0] + 1 × stride[1]  =  4 + 2 × 0 + 1 × 1  =  5."
    )


def test_description_without_labels_gives_no_strides_away():
    text = describe(layout_of(X.t()), (2, 1), labels=False)
    assert "stride" not in text.replace("stride[", "")
    assert "offset 0" not in text
    assert "× 4" not in text
