"""The nearest training series of the classes that are compared, as the committee sees them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from siggpde.committee.committee import ViewCommittee
from siggpde.explain.results import Neighbour
from siggpde.series import SeriesBatch
from siggpde.views.base import FeatureBlock, Rows

_CHUNK = 256
_NEAREST = 2  # of numbers


@torch.no_grad()
def nearest_series(
    committee: Any, batch: SeriesBatch, labels: list[Any] | None, pairs: Tensor | None
) -> list[list[Neighbour]]:
    """Returns the nearest training series of each class of `pairs` (n, 2 or 3), or the two nearest of all; or none."""
    record = committee.left_out
    if committee.landmarks is None or record is None or not record.exact:
        return [[] for _ in range(len(batch))]
    targets, variances = record.y, _landmark_variances(committee)
    neighbours = []
    for chunk in batch.split(_CHUNK):
        for squares in _squared_distances(committee, chunk, variances):
            if pairs is None or labels is None:
                order = squares.argsort(stable=True)[:_NEAREST].tolist()
                neighbours.append([_neighbour(committee, index, squares, float(targets[index])) for index in order])
                continue
            nearest = []
            for label in dict.fromkeys(pairs[len(neighbours)].tolist()):
                places = (targets == label).nonzero()[:, 0]
                if len(places):
                    index = int(places[squares[places].argmin()])
                    nearest.append(_neighbour(committee, index, squares, labels[label]))
            neighbours.append(nearest)
    return neighbours


def _squared_distances(committee: ViewCommittee, batch: SeriesBatch, variances: dict[str, Tensor]) -> Iterator[Tensor]:
    """Yields |X - Z|² (m,) of every series to the landmarks, by the mean kernel; 2 where nothing is in common."""
    rows = committee.rows(batch)
    landmark_rows = {name: Rows(variance[None], variance) for name, variance in variances.items()}
    total: Any = 0.0
    for weight, member in zip(committee.weights.tolist(), committee.members, strict=True):
        plain, landmarks = member.recipe.average(rows), member.recipe.average(landmark_rows)
        total = total + weight * (plain.variance[:, None] + landmarks.variance - 2 * plain.gram)
    yield from total.clamp_min(0.0)


def _landmark_variances(committee: ViewCommittee) -> dict[str, Tensor]:
    """Returns k(Z, Z) (m,) of every kernel at the landmarks, without their Gram matrix."""
    variances: dict[str, Tensor] = {}
    for block in committee.blocks:
        parts = block.landmarks if isinstance(block, FeatureBlock) else []
        counts = Counter(part.name for part in parts)
        raw: dict[str, Any] = dict.fromkeys(counts, 0.0)
        for part in parts:
            raw[part.name] = raw[part.name] + part.values.double().square().sum(1) / counts[part.name]
        for name, centring in block.centring.items():
            variance = raw.get(name, torch.ones_like(centring.columns))  # kernels without features are normalised
            variances[name] = centring(Rows(centring.columns[:, None].to(variance), variance)).variance
    return variances


def _neighbour(committee: ViewCommittee, index: int, squares: Tensor, target: Any) -> Neighbour:
    landmarks, standard = committee.landmarks, committee.standard
    assert landmarks is not None
    length = int(landmarks.counts()[index])
    values = landmarks.values[index, :length] * standard.spread + standard.mean
    times = None if landmarks.times is None else landmarks.times[index, :length].cpu().numpy()
    rows = None if committee.left_out is None else committee.left_out.rows
    number = None if rows is None else int(rows[index])
    return Neighbour(target, float(squares[index].sqrt()), values.T.cpu().numpy(), times, number)
