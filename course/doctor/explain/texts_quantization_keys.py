"""Names that quantized models have in a state_dict."""

from __future__ import annotations

import re

_KEYS = re.compile(
    r"_packed_params|activation_post_process|_all_weight_values|\.zero_point\b|fake_quant_enabled|weight_fake_quant"
    r"|quant_state\.bitsandbytes|\.absmax\b|\.quant_map\b|\bSCB\b|\.weight_format\b|\.qweight\b|\.qzeros\b|\.g_idx\b"
    r"|\.tensor_data_names|weight_scale_inv|\.weight_scale\b|\.qdata\b"
)


def is_quantized(text: str) -> bool:
    """Whether a message names entries that only a quantized or a prepared model has."""
    return bool(_KEYS.search(text))


def quantized_key(text: str) -> str | None:
    """The first such name, as the message writes it."""
    found = _KEYS.search(text)
    if not found:
        return None
    start, end = found.span()
    while start > 0 and (text[start - 1].isalnum() or text[start - 1] in "._"):
        start -= 1
    while end < len(text) and (text[end].isalnum() or text[end] in "._"):
        end += 1
    return text[start:end].strip(".")
