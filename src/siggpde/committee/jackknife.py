r"""Predictions of a new series from all training series but one, or but one group, without a refit.

With :math:`Q = (K + \lambda)^{-1}` a member predicts :math:`\mu(x) = k_x^T Q y`. Give the series of a group g the
targets that the others predict for them, :math:`y_g - e_g`: then the group says nothing new, and the predictions are
those without it. So

.. math:: \mu_{-g}(x) = k_x^T Q (y - e_g) = \mu(x) - \sum_{j \in g} (Q k_x)_j e_j,

:math:`e = y - \mu_{-g}(X)` being the left-out errors, which the fit has found in closed form
(`committee.left_out_record`); of a single series it is the well-known :math:`e_i = (Q y)_i / Q_{ii}`. With the root
:math:`Q = B B^T` (`committee.regression`) all n predictions of a series cost about as much as its variance. Above 512
series the root leaves out directions that tell little: of 900 pen-written digits one changes latents, which are about
±1, by 0.02 at most, and the closed form misses that by 0.004.

Noise, amplitude, members and their weights stay those of all series.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from siggpde.committee.averaging import Latents, average_latents
from siggpde.committee.left_out_record import LeftOutRecord
from siggpde.committee.targets import Targets
from siggpde.committee.view_committee import ViewCommittee
from siggpde.committee.weight_space import WeightCommittee
from siggpde.series import SeriesBatch

_SERIES = 256  # whose rows are computed at a time
_LARGEST_SERIES = 2**24  # numbers of these
_NUMBERS = 2**21  # of the predictions that are handled at a time


class Without(NamedTuple):
    """The latents of m new series: of the whole committee, and their means without each of G groups, (m, G, outputs).

    Where there is no closed form, `means` are those of the whole committee, (m, 1, outputs).
    """

    latents: Latents
    means: Tensor


class Jackknife:
    """What predictions without a group need; `group` (n,) is the number of every training series' own, 0..count-1.

    `closed_form`: whether the training series are the landmarks; otherwise nothing is left out for new series.
    """

    def __init__(self, committee: ViewCommittee | WeightCommittee, record: LeftOutRecord) -> None:
        self.committee = committee
        self.group, self.count = group_numbers(record)
        self.errors: Tensor | None = None
        if record.exact and record.means is not None and isinstance(committee, ViewCommittee):
            outputs = record.mean.shape[1]
            signs = Targets(record.y, None if committee.link is None else outputs).signs()
            self.errors = (signs - record.means.double()) * committee.weights.double()[:, None, None]

    @property
    def closed_form(self) -> bool:
        return self.errors is not None

    @torch.no_grad()
    def predict(self, batch: SeriesBatch) -> Iterator[Without]:
        """The predictions of a batch, a few series at a time."""
        size = max(1, min(_SERIES, _LARGEST_SERIES // (batch.values.shape[1] * batch.channels)))
        for chunk in batch.split(size):
            yield from self._whole(chunk) if self.errors is None else self._without(chunk, self.errors)

    def _whole(self, chunk: SeriesBatch) -> Iterator[Without]:
        latents = self.committee.latents(chunk)
        size = max(1, _NUMBERS // (len(self.group) * latents.mean.shape[1]))
        for mean, variance in zip(latents.mean.split(size), latents.variance.split(size), strict=True):
            yield Without(Latents(mean, variance), mean[:, None])

    def _without(self, chunk: SeriesBatch, errors: Tensor) -> Iterator[Without]:
        assert isinstance(self.committee, ViewCommittee)
        rows = self.committee.rows(chunk)
        mixed = [member.mixed(rows) for member in self.committee.members]
        pairs = zip(self.committee.members, mixed, strict=True)
        means, variances = zip(*(member.regression.predict(own) for member, own in pairs), strict=True)
        latents = average_latents(torch.stack(means), torch.stack(variances), self.committee.weights)
        roots = [member.regression.root.double() for member in self.committee.members]
        told = [own.gram @ root @ root.T for own, root in zip(mixed, roots, strict=True)]  # (Q k_x)^T, (m, n) each
        size = max(1, _NUMBERS // errors[0].numel())
        for start in range(0, len(chunk), size):
            part = slice(start, start + size)
            some = Latents(latents.mean[part], latents.variance[part])
            shift = errors.new_zeros(len(some.mean), *errors.shape[1:])
            for own, error in zip(told, errors, strict=True):
                shift += own[part][:, :, None] * error
            if self.count < len(self.group):
                shift = shift.new_zeros(len(shift), self.count, shift.shape[2]).index_add_(1, self.group, shift)
            yield Without(some, some.mean[:, None] - shift)


def group_numbers(record: LeftOutRecord) -> tuple[Tensor, int]:
    """The group (n,) of every series, 0..count-1, and count; every series is one of its own where there are none."""
    if record.groups is None:
        return torch.arange(len(record.y), device=record.y.device), len(record.y)
    found, numbers = record.groups.unique(return_inverse=True)
    return numbers, len(found)
