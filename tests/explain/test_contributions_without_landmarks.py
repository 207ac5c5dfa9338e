"""Explanations of committees without landmarks: they add up, and agree with the others."""

import pytest
import torch
from torch import Tensor

from helpers.small_committees import batch_of, ends, labels_of
from helpers.small_view_committees import finite_committee_of, importance_of_features
from siggpde.committee.committee import ViewCommittee
from siggpde.committee.weight_space import without_series
from siggpde.explain import Importances, SeriesExplanation, explain_series
from siggpde.series import SeriesBatch

NAMES = ["a", "b"]
EVERYTHING = 10**6
SUM = {"rel": 1e-8, "abs": 1e-8}


@pytest.fixture(scope="module", params=[False, True], ids=["equal", "ragged"])
def batch(request: pytest.FixtureRequest) -> SeriesBatch:
    return batch_of(24, 18, ragged=request.param)


def latents(committee: ViewCommittee, batch: SeriesBatch) -> Tensor:
    return (committee.weights[:, None, None] * committee.member_latents(batch)[0]).sum(0)


def check_sums(explanations: list[SeriesExplanation], wanted: list[float]) -> None:
    """All contributions were asked for: each form adds up to the latent, less what is the same for all series."""
    assert len(explanations) == len(wanted)
    for result, latent in zip(explanations, wanted, strict=True):
        assert result.latent == pytest.approx(latent, **SUM)
        assert result.rest == pytest.approx(
            0.0, abs=1e-8 * max(1.0, sum(abs(term.value) for term in result.contributions))
        )
        for terms in (result.contributions, result.views, result.interactions):
            assert sum(term.value for term in terms) == pytest.approx(latent - result.constant, **SUM)


def check_same(one: SeriesExplanation, other: SeriesExplanation, close: float) -> None:
    size = abs(one.constant) + sum(abs(term.value) for term in one.contributions)
    assert other.latent == pytest.approx(one.latent, abs=close * size)
    assert other.constant == pytest.approx(one.constant, abs=close * size)
    for form in ("contributions", "views", "interactions"):
        ours, theirs = ({term.name: term.value for term in getattr(result, form)} for result in (one, other))
        assert theirs == pytest.approx(ours, abs=close * size) and len(ours) == len(getattr(one, form))


def check_same_importances(one: Importances, other: Importances, close: float) -> None:
    for form in ("features", "views"):
        ours, theirs = (
            {part.name: part.importance for part in getattr(importances, form)} for importances in (one, other)
        )
        assert theirs == pytest.approx(ours, rel=close, abs=close * max(ours.values()))


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("classes", [None, 3])
def test_without_landmarks_contributions_are_the_same(batch: SeriesBatch, classes: int | None, background: bool):
    y = ends(batch) if classes is None else labels_of(batch, classes)
    exact = finite_committee_of(batch, y, classes)
    reduced, _ = without_series(exact, complete=True)
    assert reduced.members[0].features.parts[0].weights.dtype == torch.float64
    new, labels = batch_of(5, 18, seed=1, ragged=batch.lengths is not None), None if classes is None else [0, 1, 2]
    base = batch_of(6, 18, seed=2) if background else None
    kept, explanations = (
        explain_series(committee, new, NAMES, labels, EVERYTHING, background=base) for committee in (exact, reduced)
    )  # fmt: skip
    mean = latents(reduced, new)
    if classes is None:
        check_sums(explanations, mean[:, 0].tolist())
    else:
        assert reduced.link is not None
        logits = mean @ reduced.link.mixing.T + reduced.link.offset
        check_sums(
            explanations, [float(row[e.label] - row[e.runner_up]) for row, e in zip(logits, explanations, strict=True)]
        )
    for one, other in zip(kept, explanations, strict=True):
        check_same(one, other, 1e-9)
    one, other = (importance_of_features(committee, batch, NAMES, EVERYTHING) for committee in (exact, reduced))
    check_same_importances(one, other, 1e-9)


def test_weights_in_single_precision_are_explained_as_they_are(batch: SeriesBatch):
    exact = finite_committee_of(batch, ends(batch))
    reduced, _ = without_series(exact, complete=True, most_bytes=2**12)
    assert all(
        part.weights.dtype == torch.float32 for member in reduced.members for part in member.features.parts.values()
    )
    for one, other in zip(
        *(explain_series(committee, batch, NAMES, top=EVERYTHING) for committee in (exact, reduced)), strict=True
    ):
        check_same(one, other, 1e-6)
        whole = sum(term.value for term in other.contributions)
        assert whole == pytest.approx(other.latent - other.constant, **SUM)
