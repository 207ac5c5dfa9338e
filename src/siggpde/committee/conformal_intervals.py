r"""Intervals that hold a number with a given probability, from left-out training series: jackknife+.

With the standard deviation :math:`\sigma(x)` of a prediction, a left-out training series i is :math:`r_i =
|y_i - \mu_{-i}(X_i)| / \sigma_{-i}(X_i)` of them away from its prediction. The interval of level :math:`1 - \alpha` is

.. math:: \big[ q^-_\alpha \{\mu_{-i}(x) - r_i \sigma(x)\}, \; q^+_\alpha \{\mu_{-i}(x) + r_i \sigma(x)\} \big],

where of n values :math:`q^-` is the :math:`\lfloor \alpha (n + 1) \rfloor`-th smallest and :math:`q^+` the
:math:`\lceil (1 - \alpha)(n + 1) \rceil`-th smallest (Barber, Candès, Ramdas, Tibshirani 2021). It holds y with
probability :math:`1 - 2 \alpha` at least, and with about :math:`1 - \alpha` where a single series changes predictions
little. Of fewer than :math:`1 / \alpha - 1` series, infinite ends are all that can be promised. Of series in groups a
group counts as one, each of its values :math:`1 / |g|`. Where the training series are not the landmarks, all
:math:`\mu_{-i}(x)` are the prediction of the model itself.
"""

from __future__ import annotations

import torch
from torch import Tensor

from siggpde.committee.conformal import comparison_weights, record_of
from siggpde.committee.jackknife import Jackknife
from siggpde.committee.view_committee import ViewCommittee
from siggpde.committee.weight_space import WeightCommittee
from siggpde.series import SeriesBatch

_ROUNDING = 1e-9


@torch.no_grad()
def conformal_intervals(committee: ViewCommittee | WeightCommittee, batch: SeriesBatch, level: float) -> Tensor:
    """Lower and upper ends, (m, 2), in the units of the committee; infinite where there are too few series."""
    record = record_of(committee)
    jackknife = Jackknife(committee, record)
    noise = torch.tensor([member.noise_variance for member in committee.members], dtype=torch.float64).to(record.mean)
    noise = committee.weights @ noise
    apart = (record.y.double() - record.mean[:, 0]).abs() / (record.variance + noise).sqrt()
    weights = comparison_weights(record, 1, by_class=False)[:, 0]
    ends = []
    for latents, means in jackknife.predict(batch):
        around = means[:, jackknife.group, 0] if jackknife.closed_form else means[:, :, 0]  # (m, n or 1)
        width = apart * (latents.variance + noise).sqrt()[:, None]
        low = -_upper_quantile(width - around, weights, level)
        ends.append(torch.stack([low, _upper_quantile(around + width, weights, level)], dim=1))
    return torch.cat(ends)


def _upper_quantile(values: Tensor, weights: Tensor, level: float) -> Tensor:
    """q+ (m,) of values (m, n): the smallest at or below which weights sum to `level` (1 + sum of all) at least."""
    ordered, order = values.sort(dim=1)
    reached = weights[order].cumsum(1) >= level * (1 + weights.sum()) - _ROUNDING
    place = reached.double().argmax(1)
    found = ordered.gather(1, place[:, None])[:, 0]
    return torch.where(reached[:, -1], found, torch.inf)
