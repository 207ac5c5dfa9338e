r"""What the posterior says of a part of the latents, summed over series with weights.

The latent of a member is a sum of parts, :math:`f = \sum_J f_J`, that are independent before any data, each with a
kernel of its own, which sum to that of the member: features, all features of a view, a kernel among others, or the
whole. Given the training series, with the landmarks Z, :math:`\alpha`, the root B and the amplitude :math:`\sigma^2` of
`committee.regression`, the sum :math:`f_J(v) = \sum_i v_i f_J(X_i)` is Gaussian with

.. math:: E f_J(v) = k_J(v, Z) \, \alpha, \qquad
          \mathrm{Var} f_J(v) = \sigma^2 \big( k_J(v, v) - |k_J(v, Z) B|^2 \big),

:math:`k_J(v, Z) = \sum_i v_i k_J(X_i, Z)` and :math:`k_J(v, v) = \sum_{ii'} v_i v_{i'} k_J(X_i, X_{i'})`. A member of
power p has :math:`((1 + c) / 2)^p = 2^{-p} + \sum_J c_J h(c)` with the cosine c (`explain.view_terms`): the part J has
the kernel :math:`c_J h(c)`, a product of two positive ones.

A committee averages its members. Its mean is the average of theirs, and so is its standard deviation: the most that the
average can vary, whatever the members have in common; of one member it is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from siggpde.committee.of_views import OfViews
from siggpde.committee.view_committee import ViewMember
from siggpde.explain.logits import Logits


class Moments(NamedTuple):
    """Mean and variance of q sums for every output of a member, two (q, outputs)."""

    mean: Tensor
    variance: Tensor


class Gaussian(NamedTuple):
    """Mean and standard deviation of q numbers, two (q,)."""

    mean: Tensor
    std: Tensor

    def __getitem__(self, rows: slice) -> Gaussian:  # pyright: ignore[reportIncompatibleMethodOverride]
        return Gaussian(self.mean[rows], self.std[rows])


def moments(member: ViewMember, cross: Tensor, own: Tensor) -> Moments:
    """Of sums with k_J(v, Z) (q, m) and k_J(v, v) (q,)."""
    mean = cross @ member.alpha
    regression = member.regression
    told = (cross @ regression.root.to(cross)).square().sum(1)
    variance = regression.amplitude * (own - told).clamp_min(0.0)  # what is negative is rounding
    return Moments(mean, variance[:, None].expand_as(mean))


def averaged(committee: OfViews, members: Sequence[Moments], directions: Tensor) -> Gaussian:
    """Of the committee, in directions (q, outputs) in the space of the outputs.

    Latents of classes have the correlations of `committee.link`.
    """
    outputs = directions.shape[1]
    mean = torch.zeros_like(directions[:, 0])
    std = torch.zeros_like(mean)
    joint = torch.eye(outputs, dtype=directions.dtype, device=directions.device)
    if outputs > 1:
        joint = (outputs * joint - 1) / (outputs - 1)
    gain = ((directions @ joint) * directions).sum(1).clamp_min(0.0)
    for weight, each in zip(committee.weights.tolist(), members, strict=True):
        mean += weight * (each.mean * directions).sum(1)
        std += weight * (each.variance[:, 0] * gain).sqrt()
    return Gaussian(mean, std)


def class_directions(logits: Logits) -> Tensor:
    """The directions (classes, outputs) of what is explained: the logit of each class less the mean over all of them;
    of a number, the number."""
    mixing = logits.mixing
    return mixing if len(mixing) == 1 else mixing - mixing.mean(0)


def probability_of_sign(posterior: Gaussian) -> Tensor:
    """That the numbers have the sign of their means, (q,): 0.5 where nothing is known, 1 where it is certain."""
    mean = posterior.mean.abs()
    certain = torch.where(mean > 0, 1.0, 0.5).to(mean)
    ratio = mean / posterior.std.clamp_min(torch.finfo(mean.dtype).tiny)
    return torch.where(posterior.std > 0, torch.special.ndtr(ratio), certain)
