r"""How uncertain a class probability itself is: the spread of the link over the latents.

The latents of a series have means :math:`\mu` (classes,) and the covariance :math:`v C`, :math:`C_{kk} = 1` and
:math:`C_{ki} = -1 / (c - 1)`: their sum is known, and the two latents of two classes are f and -f. A draw is
:math:`\mu + \sqrt{v c / (c - 1)} \, (\varepsilon - \bar\varepsilon)` with standard normal :math:`\varepsilon`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from siggpde.committee.link import ClassLink

_DRAWS = 256
_CHUNK = 2**22


@torch.no_grad()
def probability_spread(link: ClassLink, mean: Tensor, variance: Tensor) -> Tensor:
    """Standard deviations (n, classes) of probabilities, for mean latents (n, classes) and variances (n,).

    The draws are the same for all series and calls, and come in pairs of opposite sign.
    """
    classes = mean.shape[1]
    half = torch.randn(_DRAWS // 2, classes, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    half = (half - half.mean(1, keepdim=True)) * (classes / (classes - 1)) ** 0.5
    draws = torch.cat([half, -half]).to(mean)
    rows = max(1, _CHUNK // (_DRAWS * classes))
    parts = []
    for mu, v in zip(mean.split(rows), variance.split(rows), strict=True):
        latents = mu[:, None] + v.sqrt()[:, None, None] * draws
        chances = link.probabilities(latents.flatten(0, 1), torch.zeros_like(latents[:, :, 0]).flatten())
        parts.append(chances.view(len(mu), _DRAWS, classes).std(1, correction=0))
    return torch.cat(parts)
