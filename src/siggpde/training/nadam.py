"""Nadam, the optimiser of the paper, and the exact gradient of a minibatch ELBO in q(u), by hand.

With T = s R_c for a batch of features s (B, M), variance_c = tail + |T|², so that for g = dE/dmean, w = dE/dvariance

    dE/dm_c = s^T g_c,   dE/dR_c = 2 s^T (w_c T),   dE/ds = sum_c g_c m_c^T + 2 (w_c T) R_c^T,   dE/dtail = sum_c w_c

and the KL divergence has gradient m_c and R_c - diag(1 / R_ii). Blocks above the diagonal of R are never touched.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from siggpde._triangular import blocks, times_lower
from siggpde.model import SignatureGP

_BETA1, _BETA2, _EPS, _DECAY = 0.9, 0.999, 1e-8, 4e-3


@dataclass
class QGradient:
    """Gradients of the negative ELBO in m and R, and in features and tail (B, M), (B,) where they were asked for."""

    elbo: float
    mean: Tensor
    root: Tensor
    features: Tensor | None
    tail: Tensor | None


class Nadam:
    """The updates of torch.optim.NAdam for tensors with gradients computed elsewhere."""

    def __init__(self, parameters: list[Tensor], learning_rate: float) -> None:
        self.parameters, self.rate = parameters, learning_rate
        self.first = [torch.zeros_like(p, requires_grad=False) for p in parameters]
        self.second = [torch.zeros_like(p, requires_grad=False) for p in parameters]
        self.steps, self.product = 0, 1.0

    @torch.no_grad()
    def step(self, gradients: list[Tensor]) -> None:
        """One update; gradients in the order of the parameters."""
        self.steps += 1
        t = self.steps
        momentum = _BETA1 * (1 - 0.5 * 0.96 ** (t * _DECAY))
        following = _BETA1 * (1 - 0.5 * 0.96 ** ((t + 1) * _DECAY))
        self.product *= momentum
        of_gradient = self.rate * (1 - momentum) / (1 - self.product)
        of_first = self.rate * following / (1 - self.product * following)
        correction = 1 - _BETA2**t
        for parameter, gradient, first, second in zip(self.parameters, gradients, self.first, self.second, strict=True):
            first.lerp_(gradient, 1 - _BETA1)
            second.mul_(_BETA2).addcmul_(gradient, gradient, value=1 - _BETA2)
            below = second.div(correction).sqrt_().add_(_EPS)
            parameter.addcdiv_(gradient, below, value=-of_gradient).addcdiv_(first, below, value=-of_first)

    def state(self) -> dict:
        return {"first": self.first, "second": self.second, "steps": self.steps, "product": self.product}

    def load(self, state: dict) -> None:
        for mine, theirs in zip(self.first + self.second, state["first"] + state["second"], strict=True):
            mine.copy_(theirs)
        self.steps, self.product = state["steps"], state["product"]


def q_gradient(
    model: SignatureGP, features: Tensor, tail: Tensor, y: Tensor, total: int, *, of_features: bool = False
) -> QGradient:
    """Gradient of the negative minibatch ELBO in q(u); parameters of the likelihood get theirs in `.grad`."""
    q, scale = model.variational, total / len(y)
    features, offset = features.detach(), tail.detach().to(features.dtype)
    with torch.no_grad():
        mean = features @ q.mean.T
        if q.full:
            spread = features.new_empty(q.latents, *features.shape)
            for latent in range(q.latents):
                times_lower(features, q.root[latent], spread[latent])
            variance = spread.square().sum(dim=2).T + offset[:, None]
        else:
            spread = None
            variance = features.square() @ q.root.square().T + offset[:, None]
    mean.requires_grad_()
    variance.requires_grad_()
    with torch.enable_grad():
        value = model.likelihood.expected_log_prob(mean, variance, y).sum() * -scale
    value.backward()
    assert mean.grad is not None and variance.grad is not None
    with torch.no_grad():
        g, w = mean.grad, variance.grad
        of_mean = g.T @ features + q.mean
        of_rows = g @ q.mean if of_features else None
        of_root = torch.zeros_like(q.root)
        if spread is None:
            of_root = (w.T @ features.square()) * 2 * q.root + q.root - q.root.reciprocal()
            if of_rows is not None:
                of_rows += 2 * features * (w @ q.root.square())
        else:
            spread.mul_(2 * w.T[:, :, None])
            for latent in range(q.latents):
                pulled, root = spread[latent], q.root[latent]
                for start, stop in blocks(q.size):
                    torch.matmul(features[:, start:].T, pulled[:, start:stop], out=of_root[latent, start:, start:stop])
                    if of_rows is not None:
                        of_rows[:, start:].addmm_(pulled[:, start:stop], root[start:, start:stop].T)
            of_root += q.root
            of_root.tril_()
            diagonal = of_root.diagonal(dim1=1, dim2=2)
            diagonal -= q.root.diagonal(dim1=1, dim2=2).reciprocal()
        elbo = -float(value.detach()) - float(q.kl().detach())
    return QGradient(elbo, of_mean, of_root, of_rows, w.sum(dim=1) if of_features else None)
