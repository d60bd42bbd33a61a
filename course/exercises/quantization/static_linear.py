"""Lesson 13: calibrate, convert, run: static quantization of one layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from course.checking import Exercise

exercise = Exercise(
    "quantization.static_linear",
    title="Calibrate and convert a Linear",
    task="""
        `StaticLinear(linear)` quantizes an `nn.Linear` in three steps. The layer itself stays as it is.

        1. `calibrate(x)`, any number of times: returns `linear(x)` in float, and widens the range of inputs seen so
           far, which starts as 0 to 0, by the smallest and the largest number in `x`.
        2. `convert()`, once: fixes `scale` and `zero_point` of the inputs (codes 0 to 255; `scale` is the width of the
           range over 255, `zero_point` is `-low / scale`, rounded) and keeps the weights as `codes`, int8 `(out, in)`,
           with `scales` `(out,)`: the largest magnitude in each row over 127. Later changes of `linear` do not
           matter.
        3. Called with `x` `(..., in)`: rounds and bounds the inputs to their codes, `torch.round(x / scale) +
           zero_point`, multiplies codes with codes, and returns float32 `(..., out)`: the products
           `(input code - zero_point) * weight code`, summed, times `scale` and the row's scale, plus the float
           bias where there is one.

        The order matters: `convert()` before any `calibrate`, and a call before `convert()`, raise `RuntimeError`.
        No row of the weight is all zeros, and what is calibrated holds a number other than 0.
        """,
    hints=(
        "Write down what has to be known when: the range after calibration, the codes after conversion. What has to "
        "be None until then, so that you can see the wrong order?",
        "The codes of the inputs minus the zero point are whole numbers from -255 to 255: as float32 or int32 they can "
        "be multiplied with codes.T. scale * scales then broadcasts along the last axis.",
    ),
    rtol=1e-4,
    atol=1e-5,
)


@exercise.stub
class StaticLinear:
    """An nn.Linear that is calibrated, converted to int8, and then run."""

    def __init__(self, linear: nn.Linear) -> None:
        raise NotImplementedError

    def calibrate(self, x: Tensor) -> Tensor:
        """Return linear(x) in float and note the range of x, (..., in)."""
        raise NotImplementedError

    def convert(self) -> None:
        """Fix scale, zero_point, codes (int8) and scales; RuntimeError without calibration."""
        raise NotImplementedError

    def __call__(self, x: Tensor) -> Tensor:
        """Return the quantized layer's output (..., out) in float32; RuntimeError before convert()."""
        raise NotImplementedError


@exercise.reference
class StepByStep:
    def __init__(self, linear):
        self.linear, self.range, self.codes = linear, None, None

    def calibrate(self, x):
        low, high = self.range or (0.0, 0.0)
        self.range = min(low, x.min().item()), max(high, x.max().item())
        return self.linear(x)

    def convert(self):
        if self.range is None:
            raise RuntimeError("convert() needs calibrate() first: no range of the inputs is known")
        low, high = self.range
        self.scale = (high - low) / 255
        self.zero_point = round(-low / self.scale)
        weight = self.linear.weight.detach()
        self.scales = weight.abs().amax(dim=1) / 127
        self.codes = torch.round(weight / self.scales[:, None]).to(torch.int8)
        self.bias = None if self.linear.bias is None else self.linear.bias.detach().clone()

    def __call__(self, x):
        if self.codes is None:
            raise RuntimeError("call convert() first: there are no int8 weights yet")
        codes = (torch.round(x / self.scale) + self.zero_point).clamp(0, 255)
        output = (codes - self.zero_point) @ self.codes.float().T * (self.scale * self.scales)
        return output if self.bias is None else output + self.bias


@exercise.alternative
class InIntegers:
    def __init__(self, linear):
        self.linear = linear
        self.seen = []

    def calibrate(self, x):
        self.seen += [x.detach().amin(), x.detach().amax()]
        return nn.functional.linear(x, self.linear.weight, self.linear.bias)

    def convert(self):
        if not self.seen:
            raise RuntimeError("nothing was calibrated")
        ends = torch.stack([*self.seen, torch.zeros(())])
        self.scale = ((ends.max() - ends.min()) / 255).item()
        self.zero_point = int(torch.round(-ends.min() / self.scale))
        weight = self.linear.weight.detach().clone()
        self.scales = weight.abs().max(dim=1).values.div(127)
        self.codes = (weight.T / self.scales).round().T.contiguous().to(torch.int8)
        bias = self.linear.bias
        self.shift = torch.zeros(len(weight)) if bias is None else bias.detach().clone()

    def __call__(self, x):
        if not hasattr(self, "codes"):
            raise RuntimeError("convert() comes before the first call")
        steps = torch.round(x / self.scale).clamp(-self.zero_point, 255 - self.zero_point).to(torch.int32)
        sums = (steps[..., None, :] * self.codes.int()).sum(dim=-1)
        return self.shift + sums.float() * self.scales * self.scale


@exercise.wrong(
    "Converting without calibration uses the range 0 to 1, and says nothing. Every input outside of it is clipped.",
    fault="quantization-uncalibrated",
)
class WithoutCalibration(StepByStep):
    def convert(self):
        self.range = self.range or (0.0, 1.0)
        super().convert()


@exercise.wrong(
    "The range is that of the last batch. An earlier batch with larger numbers is clipped when it comes again."
)
class LastBatch(StepByStep):
    def calibrate(self, x):
        self.range = min(x.min().item(), 0.0), max(x.max().item(), 0.0)
        return self.linear(x)


@exercise.wrong(
    "The range need not contain 0: the inputs' zero point then lies outside of the codes, and 0 is clipped to "
    "something else."
)
class RangeWithoutZero(StepByStep):
    def calibrate(self, x):
        low, high = self.range or (torch.inf, -torch.inf)
        self.range = min(low, x.min().item()), max(high, x.max().item())
        return self.linear(x)


@exercise.wrong("The range of the outputs is noted. What is quantized here are the inputs of the layer.")
class RangeOfTheOutput(StepByStep):
    def calibrate(self, x):
        output = self.linear(x)
        low, high = self.range or (0.0, 0.0)
        self.range = min(low, output.min().item()), max(high, output.max().item())
        return output


@exercise.wrong(
    "The weights have one scale for all rows. A row of small weights is left with a few codes.",
    fault="quantization-per-tensor-weights",
)
class OneScale(StepByStep):
    def convert(self):
        super().convert()
        weight = self.linear.weight.detach()
        self.scales = (weight.abs().max() / 127).expand(len(weight)).clone()
        self.codes = torch.round(weight / self.scales[:, None]).to(torch.int8)


@exercise.wrong(
    "The zero point is not subtracted before the product: each output is off by the zero point times the sum of "
    "its weights."
)
class ZeroPointStays(StepByStep):
    def __call__(self, x):
        if self.codes is None:
            raise RuntimeError("call convert() first")
        codes = (torch.round(x / self.scale) + self.zero_point).clamp(0, 255)
        output = codes @ self.codes.float().T * (self.scale * self.scales)
        return output if self.bias is None else output + self.bias


@exercise.wrong(
    "The inputs are not bounded to the codes. 8 bits cannot hold what lies outside of the range; a real kernel "
    "clips it."
)
class NotBounded(StepByStep):
    def __call__(self, x):
        if self.codes is None:
            raise RuntimeError("call convert() first")
        output = torch.round(x / self.scale) @ self.codes.float().T * (self.scale * self.scales)
        return output if self.bias is None else output + self.bias


@exercise.wrong(
    "The inputs are not quantized: these are int8 weights with float inputs, which is weight-only quantization."
)
class FloatInputs(StepByStep):
    def __call__(self, x):
        if self.codes is None:
            raise RuntimeError("call convert() first")
        output = x @ (self.codes.float() * self.scales[:, None]).T
        return output if self.bias is None else output + self.bias


@exercise.wrong("The bias is scaled with the products. It is a float and is added to what has been scaled back.")
class BiasScaled(StepByStep):
    def __call__(self, x):
        if self.codes is None:
            raise RuntimeError("call convert() first")
        codes = (torch.round(x / self.scale) + self.zero_point).clamp(0, 255)
        sums = (codes - self.zero_point) @ self.codes.float().T
        return (sums if self.bias is None else sums + self.bias) * (self.scale * self.scales)


@exercise.wrong("The codes of the weights are not int8: four bytes a weight, as before.")
class CodesStayFloat(StepByStep):
    def convert(self):
        super().convert()
        self.codes = self.codes.float()


@exercise.wrong(
    "The float layer runs before convert(). Whoever forgets the conversion ships a float network and never hears of it."
)
class FloatUntilConverted(StepByStep):
    def __call__(self, x):
        return self.linear(x) if self.codes is None else super().__call__(x)


@exercise.wrong(
    "The bias is read from the float layer at each call. After conversion, what happens to that layer must not matter."
)
class BiasOfTheLiveLayer(StepByStep):
    def __call__(self, x):
        self.bias = self.linear.bias
        return super().__call__(x)


def layer(bias=True):
    linear = nn.Linear(3, 2, bias=bias)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor([[2.0, -2.6, 0.45], [0.03, 0.011, -0.02]]))
        if bias:
            linear.bias.copy_(torch.tensor([0.5, -0.25]))
    return linear.requires_grad_(False)


SEEN = torch.tensor([[-1.0, 0.5, 3.0], [0.2, -0.7, 2.2]])


def run(answer, linear, batches, x):
    """What calibration returned, the codes and scales, and the output for x."""
    quantized = answer(linear)
    returned = [quantized.calibrate(batch) for batch in batches]
    quantized.convert()
    kept = {"codes": quantized.codes, "scales": quantized.scales, "scale": float(quantized.scale)}
    return {"calibration": returned, **kept, "zero point": int(quantized.zero_point), "output": quantized(x)}


@exercise.probe
def one_batch(answer):
    return run(answer, layer(), [SEEN], SEEN)


@exercise.probe
def without_bias(answer):
    return run(answer, layer(bias=False), [SEEN], SEEN)


@exercise.probe
def the_larger_batch_first(answer):
    return run(answer, layer(), [4 * SEEN, SEEN], 4 * SEEN)


@exercise.probe
def positive_inputs(answer):
    return run(answer, layer(), [SEEN.abs() + 1], torch.tensor([[0.0, 1.5, 3.0]]))


@exercise.probe
def negative_inputs(answer):
    return run(answer, layer(), [-SEEN.abs() - 1], torch.tensor([[0.0, -1.5, -3.0]]))


@exercise.probe
def inputs_outside(answer):
    return run(answer, layer(), [SEEN], torch.tensor([[-9.0, 0.1, 50.0]]))


@exercise.probe
def more_axes(answer):
    return run(answer, layer(), [SEEN[None]], SEEN.reshape(2, 1, 3))


@exercise.probe
def halves_with_an_odd_zero_point(answer):
    """Scale 0.5 and zero point 1: 0.25 is half a step, which is rounded before the zero point is added."""
    seen = torch.tensor([[-0.5, 0.0, 127.0]])
    return run(answer, layer(), [seen], torch.tensor([[0.25, 0.75, 1.25], [-0.25, 10.25, 10.75]]))


@exercise.probe
def sums_beyond_16_bits(answer):
    linear = nn.Linear(64, 2).requires_grad_(False)
    linear.weight.copy_(torch.linspace(0.5, 1.0, 64) * torch.tensor([[1.0], [-2.0]]))
    linear.bias.fill_(0.25)
    return run(answer, linear, [torch.linspace(0.0, 2.0, 64)[None]], torch.full((1, 64), 2.0))


@exercise.probe
def layer_changes_before(answer):
    linear = layer()
    quantized = answer(linear)
    linear.weight.mul_(-3.0)
    calibrated = quantized.calibrate(SEEN)
    linear.bias.fill_(2.0)
    quantized.convert()
    return calibrated, quantized(SEEN)


@exercise.probe
def convert_without_calibration(answer):
    try:
        answer(layer()).convert()
    except NotImplementedError:
        raise
    except RuntimeError:
        return "RuntimeError"
    return "no error"


@exercise.probe
def call_before_convert(answer):
    quantized = answer(layer())
    quantized.calibrate(SEEN)
    try:
        quantized(SEEN)
    except NotImplementedError:
        raise
    except RuntimeError:
        return "RuntimeError"
    return "no error"


@exercise.probe
def layer_changes_later(answer):
    linear = layer()
    quantized = answer(linear)
    quantized.calibrate(SEEN)
    quantized.convert()
    before = {name: tensor.clone() for name, tensor in linear.state_dict().items()}
    linear.weight.zero_()
    linear.bias.fill_(7.0)
    return quantized(SEEN), before
