"""`partial_fit`: the posteriors of a fitted committee learn from more series, whatever kind of committee it is."""

from __future__ import annotations

from torch import Tensor

from siggpde.committee.committee import Committee, Member
from siggpde.committee.update import update_views
from siggpde.committee.view_committee import OfViews, ViewCommittee, WeightCommittee
from siggpde.gp.natural_gradients import update_posterior
from siggpde.series import SeriesBatch


def update_committee(committee: Committee | OfViews, batch: SeriesBatch, y: Tensor) -> None:
    """Updates all members in place with new series and their targets (n,); after an error all of them are as before."""
    y = y.to(committee.device)
    if isinstance(committee, ViewCommittee):
        update_views(committee, batch, y)
    elif isinstance(committee, WeightCommittee):
        raise ValueError(
            "partial_fit learns from more series by the landmarks, which keep_series=False left out of the model; fit "
            "one with keep_series=True"
        )
    else:
        _update_models(committee.members, batch, y)


def _update_models(members: list[Member], batch: SeriesBatch, y: Tensor) -> None:
    before = [{key: value.clone() for key, value in member.model.state_dict().items()} for member in members]
    try:
        for member in members:
            paths = member.paths(batch)
            update_posterior(member.model, paths.values, y, lengths=paths.lengths)
    except BaseException:
        for member, state in zip(members, before, strict=True):
            member.model.load_state_dict(state)
        raise
