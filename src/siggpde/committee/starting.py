r"""Where variational members start: their likelihood, amplitude, and a first guess of the latents.

Everything comes from regressions in closed form. Of classes, the regression is on ±1 and its link says by what
temperature T its latents become logits: the prior variance of a logit is :math:`T^2 \sigma^2`, and :math:`\pm T` are
the first guesses. Of numbers, latents are in units of y; of counts they are logarithms of rates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from siggpde.committee.link import ClassLink
from siggpde.committee.view_committee import ViewMember
from siggpde.gp.likelihoods import Bernoulli, Likelihood, Poisson, RobustMax, Softmax, StudentT

_TEMPERATURES = (0.5, 16.0)
_AMPLITUDES = (1e-3, 1e4)
_PRECISION = 0.1  # of a first guess of logits
_SMALLEST_SCALE = 1e-6


@dataclass(frozen=True)
class Start:
    """The name of a likelihood; for classes their number, the link of the regressions and weights of the classes.

    `offset` is the logarithm of the mean of counts.
    """

    name: str
    classes: int | None = None
    link: ClassLink | None = None
    class_weight: Tensor | None = None
    offset: float = 0.0

    def likelihood(self, member: ViewMember) -> Likelihood:
        """The likelihood of a member whose regression this is."""
        if self.name == "student_t":
            noise = member.regression.noise * member.regression.amplitude
            return StudentT(scale=max(math.sqrt(noise), _SMALLEST_SCALE))
        if self.name == "poisson":
            return Poisson(self.offset)
        assert self.classes is not None
        weight = None if self.class_weight is None else self.class_weight.cpu()
        if self.name == "bernoulli":
            return Bernoulli(class_weight=weight)
        return {"softmax": Softmax, "robustmax": RobustMax}[self.name](self.classes, class_weight=weight)

    def amplitude(self, member: ViewMember) -> float:
        """The prior variance sigma² of the latents of a member."""
        low, high = _AMPLITUDES
        return min(high, max(low, member.regression.amplitude * self._temperature**2))

    def sites(self, likelihood: Likelihood, y: Tensor) -> tuple[Tensor, Tensor]:
        """Precision (n,) and values (n, latents) of a first guess of the latents of the training series."""
        if isinstance(likelihood, StudentT):
            return torch.full_like(y.double(), float(likelihood.scale.detach()) ** -2), y.double()[:, None]
        if isinstance(likelihood, Poisson):
            count = y.double() + 0.5
            return count, (count.log() - likelihood.offset)[:, None]
        precision = torch.full_like(y, _PRECISION, dtype=torch.float64)
        if self.class_weight is not None:
            precision = precision * self.class_weight.to(precision)[y.long()]
        if likelihood.latents == 1:
            return precision, self._temperature * (2.0 * y.double() - 1)[:, None]
        signs = 2.0 * torch.nn.functional.one_hot(y.long(), likelihood.latents).double() - 1
        return precision, self._temperature * signs

    @property
    def _temperature(self) -> float:
        if self.link is None:
            return 1.0
        low, high = _TEMPERATURES
        return min(high, max(low, float(self.link.mixing.diagonal().mean())))
