"""Lesson 13: BatchNorm folded into the convolution before it."""

from __future__ import annotations

import copy

import torch
from torch import nn

from course.checking import Exercise

exercise = Exercise(
    "quantization.fold_batch_norm",
    title="Fold BatchNorm into a convolution",
    task="""
        `fold(conv, norm)` returns a new `nn.Conv2d` that computes in evaluation mode what `norm(conv(x))` computes, for
        an `nn.Conv2d` and the `nn.BatchNorm2d` behind it.

        In evaluation mode the norm is `gamma * (y - mean) / sqrt(var + eps) + beta` with the numbers of each channel:
        `norm.weight`, `norm.running_mean`, `norm.running_var`, `norm.eps`, `norm.bias`.

        - The new convolution has a bias, also where `conv` has none. All other settings are those of `conv`: kernel,
          stride, padding, padding mode, dilation, groups, and the dtype of its weight.
        - `conv` and `norm` stay as they are, and share no memory with the result.
        - `norm` may lack `weight` and `bias` (`affine=False`): then gamma is 1 and beta 0.
        """,
    hints=(
        "Write the norm as a * y + b with one a and one b for each channel. What of a can go into the weight, and on "
        "which axis of it do the output channels lie?",
        "a = gamma / sqrt(var + eps). The weight is multiplied by a along axis 0 and the bias becomes beta + a * (old "
        "bias - mean). copy.deepcopy(conv) keeps all settings.",
    ),
    rtol=1e-4,
    atol=1e-5,
)


@exercise.stub
def fold(conv: nn.Conv2d, norm: nn.BatchNorm2d) -> nn.Conv2d:
    """Return a new convolution with bias that equals norm(conv(x)) in evaluation mode."""
    raise NotImplementedError


def _factor(norm):
    factor = 1 / torch.sqrt(norm.running_var + norm.eps)
    return factor * norm.weight if norm.weight is not None else factor


@exercise.reference
def into_a_copy(conv, norm):
    folded = copy.deepcopy(conv)
    with torch.no_grad():
        factor = (norm.running_var + norm.eps).rsqrt()
        factor = factor if norm.weight is None else factor * norm.weight
        shift = -norm.running_mean if conv.bias is None else conv.bias - norm.running_mean
        bias = factor * shift if norm.bias is None else factor * shift + norm.bias
        folded.weight.mul_(factor.view(-1, 1, 1, 1))
        folded.bias = nn.Parameter(bias)
    return folded


@exercise.alternative
def into_a_new_layer(conv, norm):
    folded = nn.Conv2d(
        conv.in_channels,
        conv.out_channels,
        conv.kernel_size,
        conv.stride,
        conv.padding,
        conv.dilation,
        conv.groups,
        bias=True,
        padding_mode=conv.padding_mode,
        dtype=conv.weight.dtype,
    )
    gamma = norm.weight.detach() if norm.affine else torch.ones_like(norm.running_mean)
    beta = norm.bias.detach() if norm.affine else torch.zeros_like(norm.running_mean)
    old = conv.bias.detach() if conv.bias is not None else torch.zeros_like(norm.running_mean)
    factor = gamma / (norm.running_var + norm.eps).sqrt()
    folded.weight.data = torch.einsum("oihw,o->oihw", conv.weight.detach(), factor.to(conv.weight.dtype))
    folded.bias.data = (beta + factor * (old - norm.running_mean)).to(conv.weight.dtype)
    return folded


@exercise.alternative
def by_torch(conv, norm):
    plain = copy.deepcopy(norm).eval()
    if plain.weight is None:
        plain.weight = nn.Parameter(torch.ones_like(plain.running_mean))
        plain.bias = nn.Parameter(torch.zeros_like(plain.running_mean))
    return nn.utils.fuse_conv_bn_eval(copy.deepcopy(conv).eval(), plain)


def _with(conv, weight, bias):
    folded = copy.deepcopy(conv)
    folded.weight, folded.bias = nn.Parameter(weight.detach()), nn.Parameter(bias.detach())
    return folded


def _parts(conv, norm):
    zeros = torch.zeros_like(norm.running_mean)
    return _factor(norm), zeros if norm.bias is None else norm.bias, zeros if conv.bias is None else conv.bias


@exercise.wrong("The convolution's own bias is forgotten. It is shifted and scaled like every other part of y.")
def old_bias_forgotten(conv, norm):
    factor, beta, _ = _parts(conv, norm)
    return _with(conv, conv.weight * factor.view(-1, 1, 1, 1), beta - factor * norm.running_mean)


@exercise.wrong(
    "The convolution's bias is added as it is. It stands inside of y, so it is multiplied by the factor as well."
)
def old_bias_not_scaled(conv, norm):
    factor, beta, old = _parts(conv, norm)
    return _with(conv, conv.weight * factor.view(-1, 1, 1, 1), beta + old - factor * norm.running_mean)


@exercise.wrong("eps is left out. Channels with a small variance get a factor that is far too large.")
def without_eps(conv, norm):
    factor, beta, old = _parts(conv, norm)
    factor = factor * ((norm.running_var + norm.eps) / norm.running_var).sqrt()
    return _with(conv, conv.weight * factor.view(-1, 1, 1, 1), beta + factor * (old - norm.running_mean))


@exercise.wrong("eps is taken as 1e-5, whatever the norm was made with.")
def default_eps(conv, norm):
    factor, beta, old = _parts(conv, norm)
    factor = factor * ((norm.running_var + norm.eps) / (norm.running_var + 1e-5)).sqrt()
    return _with(conv, conv.weight * factor.view(-1, 1, 1, 1), beta + factor * (old - norm.running_mean))


@exercise.wrong("It divides by the variance. The norm divides by its square root, the standard deviation.")
def by_variance(conv, norm):
    factor, beta, old = _parts(conv, norm)
    factor = factor / (norm.running_var + norm.eps).sqrt()
    return _with(conv, conv.weight * factor.view(-1, 1, 1, 1), beta + factor * (old - norm.running_mean))


@exercise.wrong(
    "The factor lies along the last axis of the weight, the width of the kernel. The output channels are axis 0."
)
def along_the_last_axis(conv, norm):
    factor, beta, old = _parts(conv, norm)
    return _with(conv, conv.weight * factor, beta + factor * (old - norm.running_mean))


@exercise.wrong("The running mean is not subtracted: every channel is shifted by factor times mean.")
def mean_forgotten(conv, norm):
    factor, beta, old = _parts(conv, norm)
    return _with(conv, conv.weight * factor.view(-1, 1, 1, 1), beta + factor * old)


@exercise.wrong(
    "The convolution that was handed over is changed and returned. Whoever still uses the original network gets "
    "the norm twice."
)
def changed_in_place(conv, norm):
    folded = into_a_copy(conv, norm)
    conv.weight, conv.bias = folded.weight, folded.bias
    return conv


@exercise.wrong(
    "The new layer has kernel size and channels of the old, and default values for the rest: stride, padding, "
    "dilation and groups are lost."
)
def settings_lost(conv, norm):
    factor, beta, old = _parts(conv, norm)
    folded = nn.Conv2d(conv.in_channels // conv.groups, conv.out_channels, conv.kernel_size)
    return _with(folded, conv.weight * factor.view(-1, 1, 1, 1), beta + factor * (old - norm.running_mean))


@exercise.wrong("A norm with affine=False has no weight and no bias: they are None, and arithmetic with None raises.")
def always_affine(conv, norm):
    old = torch.zeros_like(norm.running_mean) if conv.bias is None else conv.bias
    factor = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    return _with(conv, conv.weight * factor.view(-1, 1, 1, 1), norm.bias + factor * (old - norm.running_mean))


@exercise.wrong("gamma is left out, and with it what the norm learned about the scale of its channels.")
def gamma_forgotten(conv, norm):
    _, beta, old = _parts(conv, norm)
    factor = 1 / torch.sqrt(norm.running_var + norm.eps)
    return _with(conv, conv.weight * factor.view(-1, 1, 1, 1), beta + factor * (old - norm.running_mean))


def layers(eps=1e-5, affine=True, inputs=2, outputs=3, variance=0.25, **settings):
    conv = nn.Conv2d(inputs, outputs, 3, **settings)
    norm = nn.BatchNorm2d(outputs, eps=eps, affine=affine)
    with torch.no_grad():
        count = torch.arange(conv.weight.numel())
        conv.weight.copy_(((count * 37 % 23 - 11) / 16).view(conv.weight.shape))
        steps = torch.arange(1.0, outputs + 1)
        if conv.bias is not None:
            conv.bias.copy_(1.5 - steps)
        norm.running_mean.copy_(0.5 * steps - 2)
        norm.running_var.copy_(variance * steps.square())
        if affine:
            norm.weight.copy_(2 - 0.75 * steps)
            norm.bias.copy_(0.25 + steps)
    return conv.eval(), norm.eval()


def run(answer, conv, norm, size=6):
    """Output, settings and dtype of the result; whether the originals stayed and share nothing."""
    before = copy.deepcopy((conv.state_dict(), norm.state_dict()))
    folded = answer(conv, norm)
    kept = all(
        list(old) == list(new) and all(torch.equal(old[key], new[key]) for key in old)
        for old, new in zip(before, (conv.state_dict(), norm.state_dict()), strict=True)
    )
    mine = {p.untyped_storage().data_ptr() for layer in (conv, norm) for p in layer.state_dict().values()}
    apart = all(p.untyped_storage().data_ptr() not in mine for p in folded.parameters())
    images = (torch.arange(2 * conv.in_channels * size * size) * 13 % 17 - 8).float() / 8
    images = images.view(2, conv.in_channels, size, size).to(conv.weight.dtype)
    with torch.no_grad():
        output = folded(images)
    settings = (folded.stride, folded.dilation, folded.groups, folded.padding_mode, folded.bias is not None)
    return {"output": output, "settings": settings, "originals stay": kept, "memory of its own": apart}


@exercise.probe
def without_bias(answer):
    return run(answer, *layers(bias=False))


@exercise.probe
def with_bias(answer):
    return run(answer, *layers())


@exercise.probe
def a_large_eps(answer):
    return run(answer, *layers(eps=0.5))


@exercise.probe
def small_variances(answer):
    return run(answer, *layers(variance=1e-5))


@exercise.probe
def not_affine(answer):
    return run(answer, *layers(affine=False, bias=False))


@exercise.probe
def not_affine_with_bias(answer):
    return run(answer, *layers(affine=False))


@exercise.probe
def stride_and_padding(answer):
    return run(answer, *layers(stride=2, padding=1, padding_mode="reflect"))


@exercise.probe
def groups(answer):
    return run(answer, *layers(inputs=4, outputs=4, groups=2))


@exercise.probe
def depthwise_and_dilated(answer):
    return run(answer, *layers(inputs=3, outputs=3, groups=3, dilation=2))


@exercise.probe
def double_precision(answer):
    conv, norm = layers()
    return run(answer, conv.double(), norm.double())
