"""Exact leave-one-out errors of a Gaussian-process regression, for many noise levels, from one eigendecomposition.

With K = F F^T, targets Y and noise s, leaving row i out predicts Y_i - [A Y]_i / A_ii where A = (K + s I)^-1. One
eigendecomposition of the smaller of F F^T and F^T F serves every noise level.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

NOISES = tuple(10.0 ** (-k / 2) for k in range(-4, 17))
TIE = 1e-6
TEMPERATURES = tuple(2.0 ** (k / 2) for k in range(9))


@dataclass
class LeaveOneOut:
    """The best noise level: its score (nats a series, lower is better), the share of wrong labels (classes only), the
    factor that makes predictions the logits of a softmax (classes only), and weights (M, outputs) of the features."""

    score: float
    noise: float
    error: float | None
    temperature: float
    weights: Tensor
    amplitude: float

    def amplitude_and_noise(self, spread: float, smallest: float) -> tuple[float, float]:
        """Amplitude of the kernel and noise variance for targets with this spread; features have mean square 1 here.

        The amplitude, at unit spread, is `smallest` at least: constant targets would have none.
        """
        amplitude = max(self.amplitude, smallest) * spread**2
        return amplitude, amplitude * self.noise

    def to(self, device: torch.device) -> LeaveOneOut:
        """The same with its weights on a device."""
        return replace(self, weights=self.weights.to(device))


def leave_one_out(features: Tensor, y: Tensor, classes: int | None) -> LeaveOneOut:
    """Judge features (n, M) for targets y (n,): labels 0..classes-1, or numbers when `classes` is None.

    Classes are predicted as ±1 by regression and scored by the log loss of a softmax of the predictions times the best
    of a few factors, where one label in n + 2 is assumed to be unpredictable: a few series all predicted right are no
    proof of certainty. Numbers are scored by the log density under the leave-one-out mean and variance.
    """
    n, count = features.shape
    if not bool(torch.isfinite(features).all()):
        raise ArithmeticError("leave-one-out needs finite features")
    if classes is None:
        targets = y[:, None].to(features)
    else:
        targets = 2.0 * torch.nn.functional.one_hot(y.long(), classes).to(features) - 1.0
    dual = n <= count
    share, vectors = torch.linalg.eigh(features @ features.T if dual else features.T @ features)
    share = share.clamp_min(0.0)
    left = vectors if dual else features @ vectors / share.sqrt().clamp_min(1e-150)
    if not dual:
        kept = share > 1e-13 * share[-1]
        share, left = share[kept], left[:, kept]
    turned = left.T @ targets
    outside = targets - left @ turned if not dual else torch.zeros_like(targets)
    best: LeaveOneOut | None = None
    chosen = None
    for noise in NOISES:
        gain = 1.0 / (share + noise)
        solved = left @ (gain[:, None] * turned) + outside / noise
        squares = left.square()
        inverse = squares @ gain + (0.0 if dual else (1 - squares.sum(dim=1)).clamp_min(0.0) / noise)
        predicted = targets - solved / inverse[:, None]
        score, error, factor = _judge(predicted, y, inverse, solved, targets, classes)
        # Where all series are predicted exactly, scores differ by rounding alone: then the most noise is the safest.
        if math.isfinite(score) and (best is None or score < best.score - TIE):
            amplitude = float((targets * solved).sum() / targets.numel())
            best = LeaveOneOut(score, noise, error, factor, features[:0], amplitude)
            chosen = solved
    if best is None or chosen is None:
        raise ArithmeticError("no noise level gave finite leave-one-out errors")
    best.weights = features.T @ chosen
    return best


def _judge(
    predicted: Tensor, y: Tensor, inverse: Tensor, solved: Tensor, targets: Tensor, classes: int | None
) -> tuple[float, float | None, float]:
    if classes is None:
        scale = (targets * solved).mean().clamp_min(1e-300)  # the amplitude that explains the targets best
        variance = scale / inverse
        squared = (targets - predicted)[:, 0].square()
        density = 0.5 * (squared / variance + variance.log() + math.log(2 * math.pi))
        return float(density.mean()), None, 1.0
    lapse = 1.0 / (len(y) + 2)
    losses = []
    for factor in TEMPERATURES:
        own = torch.softmax(factor * predicted, dim=1).gather(1, y.long()[:, None])[:, 0]
        losses.append(-float(((1 - lapse) * own + lapse / classes).log().mean()))
    loss = min(losses)
    wrong = float((predicted.argmax(dim=1) != y).double().mean())
    return loss, wrong, TEMPERATURES[losses.index(loss)]
