"""Lesson 10: build a roofline: what a layer can reach at best, and what holds it back."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from course.checking import Exercise

exercise = Exercise(
    "throughput.roofline",
    title="Build it: a roofline",
    task="""
        A layer has to compute and to move bytes, and both go on at once. At best it takes as long as the slower of the
        two. `Roofline(copied_bytes, copy_seconds, matmul_shape, matmul_seconds)` knows a machine by two measurements:
        a tensor of `copied_bytes` was copied in `copy_seconds`, and matrices `(m, k)` and `(k, n)` were multiplied in
        `matmul_seconds`, where `matmul_shape` is `(m, k, n)`.

        - `bandwidth`, an attribute: bytes per second. A copy reads **and** writes.
        - `rate`, an attribute: FLOP per second. A multiplication and its addition are two FLOPs.
        - `attainable(intensity)`: the FLOP per second that work of so many FLOPs per byte reaches at best.
        - `work(layer, x)`: FLOPs and bytes of `layer(x)`, two integers, for `nn.Conv2d`, `nn.Linear` and `nn.ReLU`;
          `TypeError` for another layer. ReLU takes one FLOP for each element, a bias none. Input, parameters and
          output move once each, in their own dtypes; under autocast these differ.
        - `bound(layer, x)`: `"memory"` if moving takes longer than computing, else `"compute"`.
        - `seconds(layers, x, fused=False)`: the least seconds for `layers` one after the other. Layers that are fused
          are one piece of work: what one hands to the next is neither written nor read.

        `x` is what the first layer takes: for `nn.Conv2d` `(N, C, H, W)`, for `nn.Linear` any shape `(..., features)`.
        A convolution may have a stride, padding, dilation and groups; its padding is zeros. Leave `x` and the layers
        as they are.
        """,
    hints=(
        "How many multiplications make one element of the output? For Linear and Conv2d alike: as many as one output "
        "channel has weights, layer.weight[0]. The shape of the output you get by calling the layer.",
        "A tensor knows its bytes: x.nbytes. In seconds, unfused layers each take the larger of FLOPs / rate and bytes "
        "/ bandwidth, and these are added. Fused ones add FLOPs and bytes first, without what lies between two layers, "
        "which would have moved twice.",
    ),
    rtol=1e-6,
    atol=0.0,
)


@exercise.stub
class Roofline:
    """What layers reach at best on a machine that was measured by one copy and one multiplication of matrices."""

    def __init__(
        self, copied_bytes: int, copy_seconds: float, matmul_shape: tuple[int, int, int], matmul_seconds: float
    ) -> None:
        self.bandwidth: float  # bytes per second
        self.rate: float  # FLOP per second
        raise NotImplementedError

    def attainable(self, intensity: float) -> float:
        """Return FLOP per second that work of `intensity` FLOPs per byte reaches at best."""
        raise NotImplementedError

    def work(self, layer: nn.Module, x: Tensor) -> tuple[int, int]:
        """Return FLOPs and bytes of layer(x); TypeError for other layers than Conv2d, Linear and ReLU."""
        raise NotImplementedError

    def bound(self, layer: nn.Module, x: Tensor) -> str:
        """Return "memory" if moving the bytes of layer(x) takes longer than computing it, else "compute"."""
        raise NotImplementedError

    def seconds(self, layers: Sequence[nn.Module], x: Tensor, fused: bool = False) -> float:
        """Return the least seconds that all layers take, one after the other or as one."""
        raise NotImplementedError


@exercise.reference
class FromTwoMeasurements:
    def __init__(self, copied_bytes, copy_seconds, matmul_shape, matmul_seconds):
        m, k, n = matmul_shape
        self.bandwidth = 2 * copied_bytes / copy_seconds
        self.rate = 2 * m * k * n / matmul_seconds

    def attainable(self, intensity):
        return min(self.rate, intensity * self.bandwidth)

    def output(self, layer, x):
        return layer(x.clone())  # a layer may work in place

    def work(self, layer, x):
        if not isinstance(layer, (nn.Conv2d, nn.Linear, nn.ReLU)):
            raise TypeError(f"a Conv2d, Linear or ReLU was expected, not {type(layer).__name__}")
        output = self.output(layer, x)
        each = 1 if isinstance(layer, nn.ReLU) else 2 * layer.weight.numel() // len(layer.weight)
        moved = [x, *layer.parameters(), output]
        return each * output.numel(), sum(tensor.nbytes for tensor in moved)

    def bound(self, layer, x):
        flops, moved = self.work(layer, x)
        return "memory" if moved / self.bandwidth > flops / self.rate else "compute"

    def seconds(self, layers, x, fused=False):
        works, between = [], 0
        for number, layer in enumerate(layers):
            between += 2 * x.nbytes if number else 0
            works.append(self.work(layer, x))
            x = self.output(layer, x)
        if fused:
            works = [(sum(flops for flops, _ in works), sum(moved for _, moved in works) - between)]
        return sum(max(flops / self.rate, moved / self.bandwidth) for flops, moved in works)


@exercise.alternative
class ByFormulas:
    def __init__(self, copied_bytes, copy_seconds, matmul_shape, matmul_seconds):
        m, k, n = matmul_shape
        self.bandwidth, self.rate = copied_bytes / (copy_seconds / 2), m * n * 2 * k / matmul_seconds

    def attainable(self, intensity):
        return 1 / max(1 / self.rate, 1 / (intensity * self.bandwidth))

    def shape(self, layer, shape):
        if isinstance(layer, nn.Linear):
            return *shape[:-1], layer.out_features
        if isinstance(layer, nn.ReLU):
            return tuple(shape)
        if not isinstance(layer, nn.Conv2d):
            raise TypeError(layer)
        sides = [
            (shape[2 + i] + 2 * layer.padding[i] - layer.dilation[i] * (layer.kernel_size[i] - 1) - 1)
            // layer.stride[i]
            + 1
            for i in range(2)
        ]
        return shape[0], layer.out_channels, *sides

    def parts(self, layer, shape, dtype):
        output = torch.Size(self.shape(layer, shape)).numel()
        flops = output
        if isinstance(layer, nn.Linear):
            flops *= 2 * layer.in_features
        elif isinstance(layer, nn.Conv2d):
            height, width = layer.kernel_size
            flops *= 2 * layer.in_channels // layer.groups * height * width
        weights = sum(p.nbytes for p in layer.parameters())
        moved = torch.Size(shape).numel() * dtype.itemsize, weights, output * self.dtype(layer, dtype).itemsize
        return flops, *moved

    def dtype(self, layer, dtype):
        cast = torch.is_autocast_enabled("cpu") and dtype is torch.float32 and not isinstance(layer, nn.ReLU)
        return torch.get_autocast_dtype("cpu") if cast else dtype

    def work(self, layer, x):
        flops, *moved = self.parts(layer, x.shape, x.dtype)
        return flops, sum(moved)

    def bound(self, layer, x):
        flops, moved = self.work(layer, x)
        return ("compute", "memory")[moved * self.rate > flops * self.bandwidth]

    def seconds(self, layers, x, fused=False):
        shape, dtype, rows = x.shape, x.dtype, []
        for layer in layers:
            rows.append(self.parts(layer, shape, dtype))
            shape, dtype = self.shape(layer, shape), self.dtype(layer, dtype)
        if not fused:
            return sum(max(row[0] / self.rate, sum(row[1:]) / self.bandwidth) for row in rows)
        moved = rows[0][1] + sum(row[2] for row in rows) + rows[-1][3]
        return max(sum(row[0] for row in rows) / self.rate, moved / self.bandwidth)


@exercise.wrong(
    "The copied bytes are counted once. A copy reads them and writes them: twice as many bytes move. With half the "
    "bandwidth, layers look memory-bound that are not."
)
class CopyCountedOnce(FromTwoMeasurements):
    def __init__(self, copied_bytes, copy_seconds, matmul_shape, matmul_seconds):
        super().__init__(copied_bytes, copy_seconds, matmul_shape, matmul_seconds)
        self.bandwidth = copied_bytes / copy_seconds


@exercise.wrong(
    "The rate counts multiplications alone, and work() counts additions too. Both have to count in the same unit, here "
    "two FLOPs for a multiplication and its addition."
)
class RateOfMultiplications(FromTwoMeasurements):
    def __init__(self, copied_bytes, copy_seconds, matmul_shape, matmul_seconds):
        super().__init__(copied_bytes, copy_seconds, matmul_shape, matmul_seconds)
        self.rate /= 2


@exercise.wrong(
    "work() counts multiplications alone. The rate counts each together with its addition, as two FLOPs; so layers "
    "look twice as cheap as they are."
)
class WorkOfMultiplications(FromTwoMeasurements):
    def work(self, layer, x):
        flops, moved = super().work(layer, x)
        return flops if isinstance(layer, nn.ReLU) else flops // 2, moved


@exercise.wrong(
    "attainable() has no roof: the product of intensity and bandwidth grows without end. No work is faster than the "
    "rate of the machine."
)
class NoRoof(FromTwoMeasurements):
    def attainable(self, intensity):
        return intensity * self.bandwidth


@exercise.wrong("attainable() takes the larger of the two limits. The smaller one holds the work back.")
class TheLargerLimit(FromTwoMeasurements):
    def attainable(self, intensity):
        return max(self.rate, intensity * self.bandwidth)


@exercise.wrong(
    "Groups are left out. With groups, an output channel sees only the input channels of its own group; a depthwise "
    "convolution sees one. That makes it cheap to compute, and memory-bound."
)
class GroupsIgnored(FromTwoMeasurements):
    def work(self, layer, x):
        flops, moved = super().work(layer, x)
        return flops * getattr(layer, "groups", 1), moved


@exercise.wrong(
    "The convolution is counted for each position of the input. The kernel stops at the positions of the output: "
    "stride, padding and dilation change how many there are."
)
class PositionsOfTheInput(FromTwoMeasurements):
    def work(self, layer, x):
        flops, moved = super().work(layer, x)
        if isinstance(layer, nn.Conv2d):
            flops = 2 * x.shape[0] * x.shape[2] * x.shape[3] * layer.weight.numel()
        return flops, moved


@exercise.wrong(
    "FLOPs are counted for one sample. The whole batch is computed, and its bytes are counted: the intensity comes out "
    "too small."
)
class OneSample(FromTwoMeasurements):
    def work(self, layer, x):
        flops, moved = super().work(layer, x)
        return flops // len(x), moved


@exercise.wrong(
    "Linear is counted for the rows of the first axis alone. It takes any shape (..., features): each position of all "
    "axes but the last is a row."
)
class FirstAxisAlone(FromTwoMeasurements):
    def work(self, layer, x):
        flops, moved = super().work(layer, x)
        return 2 * len(x) * layer.weight.numel() if isinstance(layer, nn.Linear) else flops, moved


@exercise.wrong(
    "The parameters are not among the bytes. They have to be read, and for a small batch they are most of what moves: "
    "that is why a linear layer with a batch of one is memory-bound."
)
class ParametersForFree(FromTwoMeasurements):
    def work(self, layer, x):
        flops, moved = super().work(layer, x)
        return flops, moved - sum(parameter.nbytes for parameter in layer.parameters())


@exercise.wrong("The bias is left out of the bytes. It costs no FLOPs here, but it is read like the weight.")
class BiasForFree(FromTwoMeasurements):
    def work(self, layer, x):
        flops, moved = super().work(layer, x)
        bias = getattr(layer, "bias", None)
        return flops, moved - (0 if bias is None else bias.nbytes)


@exercise.wrong(
    "Every number is taken for four bytes. bfloat16 has two and float64 eight: half the bytes are twice the intensity."
)
class FourBytesEach(FromTwoMeasurements):
    def work(self, layer, x):
        output = self.output(layer, x)
        return super().work(layer, x)[0], 4 * sum(tensor.numel() for tensor in (x, *layer.parameters(), output))


@exercise.wrong(
    "The bytes of a number of `x` are taken for the parameters and for the output as well. Under autocast, float32 "
    "parameters give an output of bfloat16: ask each tensor for its own bytes."
)
class BytesOfTheInput(FromTwoMeasurements):
    def work(self, layer, x):
        numbers = sum(tensor.numel() for tensor in (x, *layer.parameters(), self.output(layer, x)))
        return super().work(layer, x)[0], x.element_size() * numbers


@exercise.wrong(
    "The output is not among the bytes. It is written as the input is read; without it, ReLU moves half of what it "
    "does."
)
class OutputForFree(FromTwoMeasurements):
    def work(self, layer, x):
        flops, moved = super().work(layer, x)
        return flops, moved - self.output(layer, x).nbytes


@exercise.wrong(
    "A layer that work() does not know is counted like a ReLU. A number without a basis looks like any other: raise "
    "TypeError."
)
class AnyLayer(FromTwoMeasurements):
    def work(self, layer, x):
        if isinstance(layer, (nn.Conv2d, nn.Linear, nn.ReLU)):
            return super().work(layer, x)
        output = self.output(layer, x)
        return output.numel(), x.nbytes + output.nbytes


@exercise.wrong(
    "Every layer with a weight is counted like a Conv2d. Conv1d and ConvTranspose2d have one, too, but the task "
    "names three layers: raise TypeError for another one."
)
class AnyWeight(FromTwoMeasurements):
    def work(self, layer, x):
        if isinstance(layer, nn.ReLU) or not hasattr(layer, "weight"):
            return super().work(layer, x)
        output = self.output(layer, x)
        moved = sum(tensor.nbytes for tensor in (x, *layer.parameters(), output))
        return 2 * layer.weight[0].numel() * output.numel(), moved


@exercise.wrong(
    "The layer is called on `x` itself. ReLU(inplace=True) writes its result there, and the caller's numbers are lost: "
    "call it on a copy."
)
class OnTheInputItself(FromTwoMeasurements):
    def output(self, layer, x):
        return layer(x)


@exercise.wrong(
    "The two bounds are exchanged. Few FLOPs per byte mean that the layer waits for memory: left of the ridge the "
    "bandwidth decides."
)
class BoundsExchanged(FromTwoMeasurements):
    def bound(self, layer, x):
        return {"memory": "compute", "compute": "memory"}[super().bound(layer, x)]


@exercise.wrong(
    'A layer on the ridge is called memory-bound. There, moving and computing take equally long; "memory" is for '
    'moving that takes longer, and the task says "compute" for everything else.'
)
class MemoryOnTheRidge(FromTwoMeasurements):
    def bound(self, layer, x):
        flops, moved = self.work(layer, x)
        return "memory" if moved / self.bandwidth >= flops / self.rate else "compute"


@exercise.wrong(
    "The seconds of computing and of moving are added. A roofline assumes that both go on at once, so the slower one "
    "decides alone."
)
class Added(FromTwoMeasurements):
    def seconds(self, layers, x, fused=False):
        total = 0.0
        for number, layer in enumerate(layers):
            flops, moved = self.work(layer, x)
            total += flops / self.rate + moved / self.bandwidth
            if fused and number:
                total -= 2 * x.nbytes / self.bandwidth
            x = self.output(layer, x)
        return total


@exercise.wrong(
    "Layers that run one after the other are taken as one piece of work. A memory-bound layer cannot move its bytes "
    "while another one computes: each takes the larger of its own two times."
)
class OverlappedAlways(FromTwoMeasurements):
    def seconds(self, layers, x, fused=False):
        if fused:
            return super().seconds(layers, x, True)
        flops = moved = 0
        for layer in layers:
            work = self.work(layer, x)
            flops, moved, x = flops + work[0], moved + work[1], self.output(layer, x)
        return max(flops / self.rate, moved / self.bandwidth)


@exercise.wrong(
    "Fused layers still write and read what lies between them. Not moving it is what fusion is for: it was written "
    "once and read once."
)
class BetweenStillMoved(FromTwoMeasurements):
    def seconds(self, layers, x, fused=False):
        if not fused:
            return super().seconds(layers, x)
        flops = moved = 0
        for layer in layers:
            work = self.work(layer, x)
            flops, moved, x = flops + work[0], moved + work[1], self.output(layer, x)
        return max(flops / self.rate, moved / self.bandwidth)


@exercise.wrong(
    "Of what lies between two fused layers only one way is saved. Unfused, one layer writes it and the next one reads "
    "it: twice its bytes."
)
class SavedOneWay(FromTwoMeasurements):
    def seconds(self, layers, x, fused=False):
        if not fused:
            return super().seconds(layers, x)
        flops = moved = 0
        for number, layer in enumerate(layers):
            work = self.work(layer, x)
            moved -= x.nbytes if number else 0
            flops, moved, x = flops + work[0], moved + work[1], self.output(layer, x)
        return max(flops / self.rate, moved / self.bandwidth)


def a_machine(answer, ridge=4):
    """2 GiB/s, and `ridge` FLOPs per byte: all of it powers of two, if `ridge` is one."""
    return answer(2**20, 2**-10, (64, 32, 16 * ridge), 2**-15)


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.sin(torch.arange(torch.Size(shape).numel(), dtype=torch.float64)).to(dtype).reshape(shape)


@exercise.probe
def a_measured_machine(answer):
    roofline = answer(1_000, 0.3, (3, 5, 7), 0.11)
    return {"bandwidth": roofline.bandwidth, "rate": roofline.rate}


@exercise.probe
def left_of_the_ridge_and_right_of_it(answer):
    roofline = a_machine(answer)
    return [roofline.attainable(intensity) for intensity in (0.25, 3.0, 4.0, 5.0, 100.0)]


@exercise.probe
def work_of_a_linear_layer(answer):
    return a_machine(answer).work(nn.Linear(5, 3), numbers(7, 5))


@exercise.probe
def work_of_a_linear_layer_on_sequences(answer):
    return a_machine(answer).work(nn.Linear(4, 6, bias=False), numbers(2, 3, 5, 4))


@exercise.probe
def work_of_a_convolution(answer):
    return a_machine(answer).work(nn.Conv2d(3, 8, (3, 5)), numbers(2, 3, 9, 8))


@exercise.probe
def work_of_a_convolution_with_stride_padding_and_dilation(answer):
    layer = nn.Conv2d(2, 5, 3, stride=2, padding=(3, 1), dilation=(1, 2), bias=False)
    return a_machine(answer).work(layer, numbers(3, 2, 10, 7))


@exercise.probe
def work_of_a_depthwise_convolution(answer):
    return a_machine(answer).work(nn.Conv2d(6, 12, 3, padding=1, groups=6), numbers(1, 6, 4, 5))


@exercise.probe
def work_of_relu(answer):
    return a_machine(answer).work(nn.ReLU(), numbers(2, 3, 4))


@exercise.probe
def other_dtypes(answer):
    roofline = a_machine(answer)
    half = roofline.work(nn.Linear(6, 2, dtype=torch.bfloat16), numbers(3, 6, dtype=torch.bfloat16))
    double = roofline.work(nn.Conv2d(1, 2, 2, dtype=torch.float64), numbers(2, 1, 3, 3, dtype=torch.float64))
    return half, double, roofline.work(nn.ReLU(), numbers(5, dtype=torch.float64))


@exercise.probe
def a_layer_that_is_not_known(answer):
    return a_machine(answer).work(nn.MaxPool2d(2), numbers(1, 2, 4, 4))


@exercise.probe
def a_convolution_along_one_axis(answer):
    return a_machine(answer).work(nn.Conv1d(2, 3, 3), numbers(1, 2, 6))


@exercise.probe
def a_transposed_convolution(answer):
    return a_machine(answer).work(nn.ConvTranspose2d(2, 2, 3), numbers(1, 2, 4, 4))


@exercise.probe
def an_activation_that_is_not_relu(answer):
    return a_machine(answer).work(nn.ReLU6(), numbers(2, 5))


@exercise.probe
def under_autocast(answer):
    with torch.autocast("cpu", torch.bfloat16):
        return a_machine(answer).work(nn.Linear(5, 3), numbers(7, 5))


@exercise.probe
def a_relu_that_works_in_place(answer):
    roofline, layer, x = a_machine(answer), nn.ReLU(inplace=True), numbers(3, 4)
    return roofline.work(layer, x), roofline.bound(layer, x), roofline.seconds([layer, layer], x), x


@exercise.probe
def what_bounds_a_layer(answer):
    roofline = a_machine(answer)
    return {
        "a linear layer, one row": roofline.bound(nn.Linear(64, 48), numbers(1, 64)),
        "a linear layer, many rows": roofline.bound(nn.Linear(64, 48), numbers(90, 64)),
        "a convolution": roofline.bound(nn.Conv2d(16, 16, 3, padding=1), numbers(1, 16, 12, 12)),
        "a depthwise convolution": roofline.bound(nn.Conv2d(16, 16, 3, padding=1, groups=16), numbers(1, 16, 12, 12)),
        "ReLU": roofline.bound(nn.ReLU(), numbers(8, 8)),
    }


@exercise.probe
def a_layer_on_the_ridge(answer):
    # 2 * 12**3 FLOPs and 3 * 12**2 * 4 bytes
    return a_machine(answer, ridge=2).bound(nn.Linear(12, 12, bias=False), numbers(12, 12))


def a_chain():
    return [nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 4, 3, stride=2), nn.ReLU()]


@exercise.probe
def seconds_of_a_chain(answer):
    return a_machine(answer).seconds(a_chain(), numbers(2, 3, 10, 10))


@exercise.probe
def seconds_of_a_fused_chain(answer):
    return {
        f"{ridge} FLOPs per byte": a_machine(answer, ridge).seconds(a_chain(), numbers(2, 3, 10, 10), fused=True)
        for ridge in (1, 4, 64)
    }


@exercise.probe
def seconds_of_a_single_layer(answer):
    roofline = a_machine(answer)
    layer, x = nn.Linear(32, 8), numbers(6, 32)
    return roofline.seconds([layer], x), roofline.seconds((layer,), x, True), roofline.seconds([nn.ReLU()], x, False)


@exercise.probe
def a_narrow_chain(answer):
    layers = nn.Sequential(nn.Linear(4, 40), nn.ReLU(), nn.Linear(40, 2))
    roofline = a_machine(answer)
    return roofline.seconds(layers, numbers(16, 4)), roofline.seconds(layers, numbers(16, 4), True)


@exercise.probe
def layers_and_input_afterwards(answer):
    torch.manual_seed(1)
    layers, x = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)).eval(), numbers(4, 3)
    a_machine(answer).seconds(layers, x)
    a_machine(answer).work(layers[0], x)
    return {
        "x": x,
        "layers": layers,
        "modes": [layer.training for layer in layers],
        "requires_grad": [parameter.requires_grad for parameter in layers.parameters()],
        "hooks left on layers": sum(len(layer._forward_hooks) for layer in layers),
    }
