"""Which fault explains which: one root cause, one finding."""

from __future__ import annotations

from course.doctor.report import SEVERITIES, Finding

_NOT_FINITE = (
    "division-by-zero",
    "exploding-gradient",
    "half-overflow",
    "learning-rate-too-high",
    "log-of-zero",
    "sqrt-at-zero",
    "where-nan-gradient",
)
_NOTHING_MOVES = ("learning-rate-too-low", "step-missing", "vanishing-gradient")
_TOO_FAST = ("exploding-gradient", "learning-rate-too-high")

# A cause, and what it makes look wrong as well: where both were seen, the second is told as part of the first.
EXPLAINS: dict[str, tuple[str, ...]] = {
    "accumulation-not-scaled": _TOO_FAST,
    "backward-twice": ("graph-retained-in-log",),
    "bce-fed-logits": ("log-of-zero", "nonfinite-data"),
    "broadcast-outer-product": ("learning-rate-too-low", "nondifferentiable-loss"),
    "class-axis-misplaced": ("class-index-out-of-range", "class-target-shape"),
    "clip-after-step": _TOO_FAST,
    "clip-before-unscale": (*_TOO_FAST, *_NOTHING_MOVES),
    "data-bypasses-autograd": ("graph-cut", "nondifferentiable-loss", *_NOTHING_MOVES),
    "dead-activation": ("vanishing-gradient", "learning-rate-too-low"),
    "division-by-zero": _TOO_FAST,
    "double-sigmoid": _NOTHING_MOVES,
    "double-softmax": ("mse-on-probabilities", *_NOTHING_MOVES),
    "forward-called-directly": ("graph-cut",),
    "freeze-typo": ("optimizer-misses-parameters",),
    "functional-dropout-ignores-eval": ("eval-mode-missing",),
    "gradient-underflow": _NOTHING_MOVES,
    "graph-cut": _NOTHING_MOVES,
    "half-overflow": ("exploding-gradient", "learning-rate-too-high", "log-of-zero"),
    "hidden-state-not-detached": ("backward-twice", "graph-retained-in-log", "inplace-on-saved"),
    "input-scale-mismatch": ("unnormalised-inputs", "pretrained-normalisation", "dead-activation", *_TOO_FAST),
    "layer-built-in-forward": ("optimizer-misses-parameters", "unregistered-submodule"),
    "learning-rate-too-high": ("dead-activation", "exploding-gradient"),
    "log-of-zero": _TOO_FAST,
    "loss-rewrapped": ("graph-cut", "nondifferentiable-loss", *_NOTHING_MOVES),
    "missing-zero-grad": (*_TOO_FAST, "accumulation-not-scaled"),
    "nll-without-log": ("mse-on-probabilities",),
    "no-parameters": ("graph-cut", "optimizer-misses-parameters", *_NOTHING_MOVES),
    "nondifferentiable-loss": ("graph-cut", *_NOTHING_MOVES),
    "nonfinite-data": (*_NOT_FINITE, "dead-activation"),
    "nonleaf-parameter": ("graph-cut", "optimizer-misses-parameters", *_NOTHING_MOVES),
    "optimizer-misses-parameters": _NOTHING_MOVES,
    "parameter-rebound": ("graph-cut", "optimizer-misses-parameters", *_NOTHING_MOVES),
    "pure-half-adam": ("gradient-underflow", "half-overflow", *_NOTHING_MOVES),
    "scaler-update-missing": ("half-overflow",),
    "scheduler-before-optimizer": ("learning-rate-too-low",),
    "scheduler-per-batch": ("learning-rate-too-low",),
    "sqrt-at-zero": _TOO_FAST,
    "step-before-second-backward": ("inplace-on-saved",),
    "step-missing": ("learning-rate-too-low", "missing-zero-grad"),
    "symmetric-init": ("dead-activation", *_NOTHING_MOVES),
    "train-mode-not-restored": ("frozen-batchnorm-drifts",),
    "unnormalised-inputs": ("dead-activation", *_TOO_FAST),
    "unregistered-submodule": ("no-parameters", "optimizer-misses-parameters"),
    "where-nan-gradient": _TOO_FAST,
    "wrapper-prefix": ("nothing-loaded", "shape-mismatch-on-load"),
    "zero-grad-before-step": _NOTHING_MOVES,
}
_MOST_CONSEQUENCES = 4


def root_causes(findings: list[Finding]) -> list[Finding]:
    """One finding a fault, without those that another one explains; errors first, then the surest.

    What is left out becomes a consequence of what explains it.
    """
    merged = _merge(findings)
    kept = []
    for finding in merged:
        cause = next((other for other in merged if _explains(other, finding)), None)
        if cause is None:
            kept.append(finding)
    for finding in merged:
        if finding in kept:
            continue
        cause = next(other for other in (*kept, *merged) if _explains(other, finding))
        _tell(cause, f"{finding.title}: {finding.evidence}")
    return kept


def _explains(cause: Finding, finding: Finding) -> bool:
    # A mere note is no cause for something that is wrong.
    weaker = cause.severity == "note" != finding.severity
    return not weaker and finding.fault in EXPLAINS.get(cause.fault, ())


def _merge(findings: list[Finding]) -> list[Finding]:
    ranked = sorted(findings, key=lambda finding: (SEVERITIES.index(finding.severity), -finding.confidence))
    first: dict[str, Finding] = {}
    for finding in ranked:
        kept = first.setdefault(finding.fault, finding)
        if kept is not finding:
            for line in (finding.evidence, *finding.consequences):
                _tell(kept, line)
    return list(first.values())


def _tell(finding: Finding, line: str) -> None:
    known = (finding.evidence, *finding.consequences)
    if line not in known and len(finding.consequences) < _MOST_CONSEQUENCES:
        finding.consequences.append(line)
