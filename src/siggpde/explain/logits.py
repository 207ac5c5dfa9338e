r"""From mean latents to what is explained: logits of classes, or a number.

Logits are :math:`A \mu + b` of the mean latents :math:`\mu` (outputs,), and the difference of those of two classes is
:math:`d^T \mu + b_1 - b_2` with the *direction* d, the difference of two rows of A. A number is the only row.

- In closed form A and b are those of the link; a number has A = 1 and b = 0.
- Other likelihoods of classes, those of models of words, have their latents as logits, A = I; that of two classes with
  one latent f has f for class 1 and 0 for class 0. The latent of counts is the logarithm of the rate, but for its
  constant b.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from siggpde.committee.of_views import OfViews
from siggpde.gp.likelihoods import Bernoulli, Likelihood, Poisson
from siggpde.gp.likelihoods.base import Classification


class Logits(NamedTuple):
    """A (classes, outputs) and b (classes,), float64; for numbers one row."""

    mixing: Tensor
    offset: Tensor

    def directions(self, pairs: Tensor | None, series: int) -> tuple[Tensor, Tensor]:
        """d (n, outputs) and what b adds (n,), for the pairs (n, 2) of classes that are compared; None for numbers."""
        if pairs is None:
            return self.mixing.expand(series, -1), self.offset.expand(series)
        first, second = pairs[:, 0], pairs[:, 1]
        return self.mixing[first] - self.mixing[second], self.offset[first] - self.offset[second]


def logits_of(committee: OfViews) -> Logits:
    """Those of a committee of views."""
    link = committee.link
    return _number(0.0, committee.device) if link is None else Logits(link.mixing, link.offset)


def logits_of_likelihood(likelihood: Likelihood, device: torch.device) -> Logits:
    """Those of a model with this likelihood."""
    if not isinstance(likelihood, Classification):
        return _number(likelihood.offset if isinstance(likelihood, Poisson) else 0.0, device)
    mixing = torch.eye(likelihood.classes, dtype=torch.float64, device=device)
    if isinstance(likelihood, Bernoulli):
        mixing = mixing[:, 1:]
    return Logits(mixing, torch.zeros(likelihood.classes, dtype=torch.float64, device=device))


def _number(offset: float, device: torch.device) -> Logits:
    return Logits(
        torch.ones(1, 1, dtype=torch.float64, device=device),
        torch.full((1,), offset, dtype=torch.float64, device=device),
    )
