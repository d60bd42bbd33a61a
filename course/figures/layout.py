"""Where the elements of a small tensor lie in memory: the facts behind the stride pictures."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

MAX_CELLS = 48
MAX_AXES = 3

Index = tuple[int, ...]


class TooLargeToDraw(ValueError):
    """A tensor that a picture of single cells cannot show; the message says what fits."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


@dataclass(frozen=True)
class Layout:
    """A strided tensor, its elements and the stretch of memory they lie in.

    shape, stride, offset: as ``Tensor.shape``, ``Tensor.stride()``, ``Tensor.storage_offset()``, in elements.
    addresses: memory index of every element, by logical index, in row-major order.
    first: memory index of the first cell of ``memory``; 0 unless the storage is too long to show.
    memory: the values of the memory cells, as text.
    storage_cells: number of elements that the whole storage holds.
    """

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    addresses: dict[Index, int]
    first: int
    memory: tuple[str, ...]
    storage_cells: int

    def value(self, index: Index) -> str:
        return self.memory[self.addresses[index] - self.first]

    def users(self, address: int) -> list[Index]:
        """The logical indices whose element lies in a memory cell."""
        return [index for index, where in self.addresses.items() if where == address]

    @property
    def complete(self) -> bool:
        """Whether ``memory`` is the whole storage."""
        return len(self.memory) == self.storage_cells


def layout_of(tensor: Tensor) -> Layout:
    """Look up where the elements of a tensor lie.

    tensor: strided, of one to three axes, at most 48 elements within 48 memory cells; any dtype and device.
    Raises TooLargeToDraw for larger ones, ValueError for those without strides, without memory or without elements.
    """
    import torch

    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"a tensor is needed to draw strides, not {type(tensor).__name__}")
    if tensor.layout != torch.strided or tensor.is_meta or tensor.is_quantized:
        raise ValueError("only tensors with strides and memory of their own can be drawn, on a real device")
    shape, stride, offset = tuple(tensor.shape), tensor.stride(), tensor.storage_offset()
    if not 1 <= len(shape) <= MAX_AXES:
        raise TooLargeToDraw(f"the tensor has {len(shape)} axes; one to {MAX_AXES} can be drawn")
    if tensor.numel() == 0:
        raise ValueError(f"a tensor of shape {shape} has no elements to draw")
    if tensor.numel() > MAX_CELLS:
        raise TooLargeToDraw(
            f"the tensor has {tensor.numel()} elements; at most {MAX_CELLS} can be drawn, so take a smaller one"
        )
    addresses = {
        index: address_of(index, stride, offset) for index in itertools.product(*(range(size) for size in shape))
    }
    first, last = min(addresses.values()), max(addresses.values())
    cells = tensor.untyped_storage().nbytes() // tensor.element_size()
    if cells <= MAX_CELLS:
        first, last = 0, cells - 1
    if last - first >= MAX_CELLS:
        raise TooLargeToDraw(
            f"the elements are spread over {last - first + 1} memory cells; at most {MAX_CELLS} can be drawn, "
            "so take a view of a smaller tensor"
        )
    strip = tensor.detach().as_strided((last - first + 1,), (1,), first)
    memory = tuple(map(_text, strip.tolist()))
    return Layout(shape, stride, offset, addresses, first, memory, cells)


def address_of(index: Index, stride: tuple[int, ...], offset: int) -> int:
    """Memory index of one element, in elements: offset + the sum of index times stride."""
    return offset + sum(i * step for i, step in zip(index, stride, strict=True))


def arithmetic(layout: Layout, index: Index, *, labels: bool = True) -> str:
    """How the address of an element is computed: symbols, numbers and result."""
    symbols = " + ".join(["offset", *(f"{i} × stride[{axis}]" for axis, i in enumerate(index))])
    numbers = " + ".join([str(layout.offset), *(f"{i} × {step}" for i, step in zip(index, layout.stride, strict=True))])
    result = layout.addresses[index]
    return f"{symbols}  =  {numbers}  =  {result}" if labels else f"{symbols}  =  {result}"


def describe(layout: Layout, highlight: Index | None = None, *, labels: bool = True) -> str:
    """The whole picture in words, a line for each part.

    labels: False leaves strides and offset out, for a picture that they are to be read from.
    """
    facts = f"A tensor of shape {layout.shape}"
    if labels:
        facts += f", strides {layout.stride}, offset {layout.offset}"
    lines = [f"{facts}, above the strip of memory it lies in."]
    for lead in itertools.product(*(range(size) for size in layout.shape[:-1])):
        where = f"[{', '.join(map(str, lead))}]" if lead else "Elements"
        row = [(*lead, last) for last in range(layout.shape[-1])]
        elements = ", ".join(f"{layout.value(index)} in cell {layout.addresses[index]}" for index in row)
        lines.append(f"{where}: {elements}.")
    end = layout.first + len(layout.memory) - 1
    extent = "the whole storage" if layout.complete else f"a part of a storage of {layout.storage_cells} cells"
    lines.append(f"Memory cells {layout.first} to {end} ({extent}): {', '.join(layout.memory)}.")
    counts = {layout.first + i: len(layout.users(layout.first + i)) for i in range(len(layout.memory))}
    shared = [f"cell {address} by {count}" for address, count in counts.items() if count > 1]
    unused = [str(address) for address, count in counts.items() if count == 0]
    if shared:
        lines.append(f"Cells that several elements share: {', '.join(shared)}.")
    if unused:
        lines.append(f"Cells that this tensor does not use: {', '.join(unused)}.")
    if highlight is not None:
        lines.append(
            f"Marked: element {list(highlight)} in memory cell {layout.addresses[highlight]}: "
            f"{arithmetic(layout, highlight, labels=labels)}."
        )
    return "\n".join(lines)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "T" if value else "F"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
