"""Training series from which a counterfactual takes its values: those that the model keeps, or others handed in."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from siggpde.committee.committee import Committee
from siggpde.committee.view_committee import ViewCommittee
from siggpde.committee.weight_space import WeightCommittee
from siggpde.explain.predictions import AnyCommittee
from siggpde.explain.replacing import Canvas, Donor
from siggpde.series import SeriesBatch


def kept_series(committee: AnyCommittee) -> tuple[list[Donor], Tensor | None]:
    """The training series that the committee keeps, in the units of the data, and their targets (n,) in the units of
    the committee; None where it does not keep those. Empty for models without landmark series."""
    if isinstance(committee, Committee | WeightCommittee):
        return [], None
    standard, landmarks = committee.standard, committee.landmarks
    values = landmarks.values * standard.spread + standard.mean
    record = committee.left_out if isinstance(committee, ViewCommittee) else None
    known = None if record is None or not record.exact else record.y.cpu()
    return donors_of(SeriesBatch(values, landmarks.lengths, landmarks.times)), known


def donors_of(batch: SeriesBatch) -> list[Donor]:
    """The series of a batch, without padding."""
    values = batch.values.cpu().numpy()
    times = None if batch.times is None else batch.times.cpu().numpy()
    return [
        Donor(values[row, :count], None if times is None else times[row, :count])
        for row, count in enumerate(batch.counts().tolist())
    ]


def nearest_first(canvas: Canvas) -> Canvas:
    """The same canvas with its donors in the order of their distance, of equal ones the first."""
    distance = np.array([canvas.distance(donor) for donor in range(len(canvas.donors))])
    order = np.argsort(distance, kind="stable").tolist()
    donors = [canvas.donors[index] for index in order]
    return Canvas(canvas.raw, canvas.rows, canvas.seen, canvas.times, donors, canvas.spread, canvas.points)


def of_target(donors: list[Donor], fits: Tensor | None) -> list[Donor]:
    """Those that fit the target, (n,) bools; all of them where that is not known."""
    if fits is None:
        return donors
    return [donors[index] for index in torch.nonzero(fits)[:, 0].tolist()]
