"""Mutants that do what the reference does: exercise -> {(operator, before, after): why nobody could tell}."""

from __future__ import annotations

EQUIVALENTS: dict[str, dict[tuple[str, str, str], str]] = {
    "tensors.accuracy": {
        (
            "lookalike",
            "return (logits.argmax(1) == targets.flatten()).float().mean().item()",
            "return (logits.argmax(1) == targets.flatten()).double().mean().item()",
        ): "the result is a Python float either way; double only has more digits than the comparison asks for",
    },
    "tensors.brighten": {
        (
            "lookalike",
            "return (image.to(torch.int16) + amount).clamp(0, 255).to(torch.uint8)",
            "return (image.to(torch.int16) + amount).clamp_(0, 255).to(torch.uint8)",
        ): "the sum is a new tensor that nobody else holds, so clamping it in place shows nowhere",
    },
    "tensors.independent_tensor": {
        (
            "lookalike",
            "return torch.from_numpy(np.array(array, dtype=np.float32))",
            f"return torch.{name}(np.array(array, dtype=np.float32))",
        ): reason
        for name, reason in {
            "as_tensor": "np.array has made the copy already; as_tensor wraps it just as from_numpy does",
            "tensor": "np.array has made the copy already; torch.tensor copies once more, which nobody can see",
        }.items()
    },
    "tensors.masked_mean": {
        (
            "lookalike",
            "return x.where(mask, 0).sum(1) / mask.sum(1).clamp(min=1)",
            "return x.where(mask, 0).sum(1) / mask.sum(1).clamp_(min=1)",
        ): "the count is a new tensor that nobody else holds, so clamping it in place shows nowhere",
    },
}
