r"""The standard deviations of contributions under the posterior of a committee.

A member k has the contribution :math:`\phi_k` with the variance :math:`v_k` (`explain.credit_variance`); what members
disagree about is variance too, as in predictions,

.. math:: v = \sum_k w_k \big( v_k + (\phi_k - \phi)^2 \big).

Logits are :math:`A f`: of independent latents the variance of a class is that of :math:`A_c f`. The latents of a
closed form have one variance in common and the correlation of `committee.link`, for their sum is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from siggpde.committee.committee import Committee
from siggpde.explain.credit_variance import member_variances
from siggpde.explain.logits import logits_of, logits_of_likelihood
from siggpde.explain.predictions import AnyCommittee
from siggpde.explain.runs import Run
from siggpde.explain.walks import Walked, add_up, averaged, pieces_of


class PosteriorSpread(NamedTuple):
    """Of contributions (S, C, classes), of their contrast (S, C), and of the contrast summed over runs (runs,)."""

    values: Tensor
    contrast: Tensor
    runs: Tensor


def posterior_spread(
    committee: AnyCommittee, walked: Walked, pair: Tensor | None, runs: Sequence[Run]
) -> PosteriorSpread:
    """The standard deviations; `pair` (2,) are the classes whose difference is the contrast."""
    means = walked.credits.mean(1)  # (K, S, C, classes)
    segments, channels = means.shape[1:3]
    values, sums = [], {}
    for first in range(0, channels, walked.channels):
        some = range(first, min(channels, first + walked.channels))
        pieces = pieces_of(segments, channels, some)
        own = [index for index, run in enumerate(runs) if run.channel in some]
        wanted = [[piece] for piece in pieces]
        wanted += [pieces_of(segments, channels, [runs[index].channel])[_slice(runs[index])] for index in own]
        known = walked.sums if first == 0 else add_up(committee, walked.nodes, pieces, walked.plans)[0]
        variances = member_variances(known, walked.nodes, pieces, wanted)
        values.append(variances[:, : len(pieces)].unflatten(1, (len(some), segments)))
        sums |= {index: variances[:, len(pieces) + number] for number, index in enumerate(own)}
    latents = torch.cat(values, dim=1).transpose(1, 2)  # (K, S, C, latents)
    within, contrast_within = _of_logits(committee, latents, None), _of_logits(committee, latents, pair)
    contrast = means[..., 0] if pair is None else means[..., int(pair[0])] - means[..., int(pair[1])]
    of_runs = []
    for index, (channel, first, last) in enumerate(runs):
        inside = _of_logits(committee, sums[index][:, None], pair)[:, 0]
        of_runs.append(_together(committee, inside, contrast[:, first : last + 1, channel].sum(1)))
    return PosteriorSpread(
        _together(committee, within, means),
        _together(committee, contrast_within[..., 0], contrast),
        torch.stack(of_runs)[:, 0] if of_runs else means.new_zeros(0),
    )


def _slice(run: Run) -> slice:
    return slice(run.first, run.last + 1)


def _together(committee: AnyCommittee, within: Tensor, means: Tensor) -> Tensor:
    """The standard deviation (..) from variances and means of the members, two (K, ..)."""
    if within.ndim > means.ndim:
        means = means[..., None]
    between = (means - averaged(committee, means)).square()
    return averaged(committee, within + between).sqrt()


def _of_logits(committee: AnyCommittee, variances: Tensor, pair: Tensor | None) -> Tensor:
    """Variances of logits (K, .., classes), or with a pair those of its difference (K, .., 1), from those of latents
    (K, .., latents), or (K, .., 1) where all latents have the same."""
    if isinstance(committee, Committee):
        links = [logits_of_likelihood(member.model.likelihood, committee.device) for member in committee.members]
    else:
        links = [logits_of(committee)] * len(committee.members)
    found = []
    for own, (mixing, _) in zip(variances, links, strict=True):
        turned = mixing if pair is None else (mixing[int(pair[0])] - mixing[int(pair[1])])[None]
        outputs = turned.shape[1]
        if own.shape[-1] == outputs:
            found.append(own @ turned.square().T)
        else:
            eye = torch.eye(outputs, dtype=turned.dtype, device=turned.device)
            alike = (outputs * eye - 1) / (outputs - 1)
            found.append(own * torch.einsum("ci,ij,cj->c", turned, alike, turned))
    return torch.stack(found)
