"""The nearest training series of an explanation."""

import json

import pytest
import torch

from helpers.small_committees import batch_of, ends, labels_of
from helpers.small_view_committees import finite_committee_of, view_committee_of
from siggpde.committee.committee import LeftOutRecord, ViewCommittee
from siggpde.committee.weight_space import without_series
from siggpde.explain import PermutationSettings, explain_series
from siggpde.explain.contributions import nearest_series
from siggpde.series import SeriesBatch

NAMES = ["a", "b"]


def keeping(committee: ViewCommittee, y: torch.Tensor) -> ViewCommittee:
    """With the targets of all its landmarks."""
    n, outputs, members = len(y), committee.members[0].alpha.shape[1], len(committee.members)
    zeros = torch.zeros(n, dtype=torch.float64)
    committee.left_out = LeftOutRecord(y, torch.zeros(n, outputs), zeros, torch.zeros(members, n), None, exact=True)
    return committee


@pytest.mark.parametrize("ragged", [False, True])
def test_distances_are_those_of_the_kernels(ragged: bool):
    """A training series is at distance 0 of itself, and others are as far as the rows of the landmarks say."""
    batch = batch_of(14, 16, ragged=ragged)
    y = labels_of(batch, 2)
    committee = keeping(view_committee_of(batch, y, 2), y)
    rows = committee.rows(batch)
    squares = 0.0
    for weight, member in zip(committee.weights, committee.members, strict=True):
        gram, variance = member.recipe.average(rows)
        squares = squares + weight * (variance[:, None] + variance - 2 * gram)
    assert isinstance(squares, torch.Tensor)
    pairs = torch.tensor([[int(label), 1 - int(label)] for label in y])
    for row, (same, other) in enumerate(nearest_series(committee, batch, ["no", "yes"], pairs)):
        assert same.target == ["no", "yes"][int(y[row])] and other.target == ["no", "yes"][1 - int(y[row])]
        assert same.distance < 0.05
        length = int(batch.counts()[row])
        assert same.values == pytest.approx(batch.values[row, :length].T.numpy(), abs=1e-5)
        wanted = squares[row, y != y[row]].min().sqrt()
        assert other.distance == pytest.approx(float(wanted), abs=0.01)


def test_numbers_have_their_two_nearest_series_and_models_without_series_none():
    batch = batch_of(14, 16)
    committee = keeping(view_committee_of(batch, ends(batch)), ends(batch))
    (explanation,) = explain_series(committee, batch[2:3], NAMES, walks=PermutationSettings(2, 4))
    nearest, second = explanation.neighbours
    assert nearest.target == pytest.approx(float(ends(batch)[2])) and nearest.distance < 0.05 < second.distance
    scaled = explanation.in_units(2.0, 1.0)
    assert scaled.neighbours[1].target == pytest.approx(1 + 2 * second.target)
    assert json.loads(json.dumps(explanation.to_dict()))["neighbours"][0]["distance"] == nearest.distance
    batch: SeriesBatch = batch_of(14, 16)
    full = finite_committee_of(batch, ends(batch))
    assert nearest_series(full, batch[:2], None, None) == [[], []]
    assert nearest_series(without_series(full, complete=True)[0], batch[:2], None, None) == [[], []]
