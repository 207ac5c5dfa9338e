"""Explanations of committees without landmarks: they add up, and agree with the others."""

import numpy as np
import pytest
import torch
from torch import Tensor

from helpers.small_committees import batch_of, ends, labels_of
from helpers.small_view_committees import finite_committee_of
from siggpde.committee.committee import ViewCommittee
from siggpde.committee.weight_space import without_series
from siggpde.explain import Importances, SeriesExplanation, explain_series
from siggpde.explain.importance import feature_importance
from siggpde.series import SeriesBatch

NAMES = ["a", "b"]
EVERYTHING = 10**6
SUM = {"rel": 1e-8, "abs": 1e-8}


@pytest.fixture(scope="module", params=[False, True], ids=["equal", "ragged"])
def batch(request: pytest.FixtureRequest) -> SeriesBatch:
    return batch_of(24, 18, ragged=request.param)


def latents(committee: ViewCommittee, batch: SeriesBatch) -> Tensor:
    return (committee.weights[:, None, None] * committee.member_latents(batch)[0]).sum(0)


def check_sums(found: list[SeriesExplanation], wanted: list[float]) -> None:
    """All contributions were asked for: each form adds up to the latent, less what is the same for all series."""
    assert len(found) == len(wanted)
    for each, latent in zip(found, wanted, strict=True):
        assert each.latent == pytest.approx(latent, **SUM)
        assert each.rest == pytest.approx(0.0, abs=1e-8 * max(1.0, sum(abs(term.value) for term in each.contributions)))
        for terms in (each.contributions, each.views, each.interactions):
            assert sum(term.value for term in terms) == pytest.approx(latent - each.constant, **SUM)


def check_same(one: SeriesExplanation, other: SeriesExplanation, close: float) -> None:
    size = abs(one.constant) + sum(abs(term.value) for term in one.contributions)
    assert other.latent == pytest.approx(one.latent, abs=close * size)
    assert other.constant == pytest.approx(one.constant, abs=close * size)
    for form in ("contributions", "views", "interactions"):
        ours, theirs = ({term.name: term.value for term in getattr(each, form)} for each in (one, other))
        assert theirs == pytest.approx(ours, abs=close * size) and len(ours) == len(getattr(one, form))


def check_same_importances(one: Importances, other: Importances, close: float) -> None:
    for form in ("features", "views"):
        ours, theirs = ({each.name: each.importance for each in getattr(found, form)} for found in (one, other))
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
    kept, found = (
        explain_series(each, new, NAMES, labels, EVERYTHING, background=base) for each in (exact, reduced)
    )  # fmt: skip
    mean = latents(reduced, new)
    if classes is None:
        check_sums(found, mean[:, 0].tolist())
    else:
        assert reduced.link is not None
        logits = mean @ reduced.link.mixing.T + reduced.link.offset
        check_sums(found, [float(row[e.label] - row[e.runner_up]) for row, e in zip(logits, found, strict=True)])
    for one, other in zip(kept, found, strict=True):
        check_same(one, other, 1e-9)
    one, other = (feature_importance(each, batch, NAMES, EVERYTHING) for each in (exact, reduced))
    check_same_importances(one, other, 1e-9)


def test_weights_in_single_precision_are_explained_as_they_are(batch: SeriesBatch):
    exact = finite_committee_of(batch, ends(batch))
    reduced, _ = without_series(exact, complete=True, most_bytes=2**12)
    assert all(
        part.weights.dtype == torch.float32 for member in reduced.members for part in member.features.parts.values()
    )
    for one, other in zip(
        *(explain_series(each, batch, NAMES, top=EVERYTHING) for each in (exact, reduced)), strict=True
    ):
        check_same(one, other, 1e-6)
        whole = sum(term.value for term in other.contributions)
        assert whole == pytest.approx(other.latent - other.constant, **SUM)


def test_importance_is_the_spread_of_contributions(batch: SeriesBatch):
    """Of numbers, of members of power 1: of every view, and of every feature that one view alone has."""
    committee, _ = without_series(finite_committee_of(batch, ends(batch)), complete=True)
    found = feature_importance(committee, batch, NAMES, EVERYTHING)
    explained = explain_series(committee, batch, NAMES, top=EVERYTHING)
    views = {
        view.name: np.std([v.value for e in explained for v in e.views if v.name == view.name]) for view in found.views
    }
    assert {view.name: view.importance for view in found.views} == pytest.approx(views, rel=1e-8)
    terms: dict[str, list[float]] = {}
    for each in explained:
        for term in each.contributions:
            terms.setdefault(term.name, []).append(term.value)
    whole = sum(each.importance for each in found)
    assert set(terms) == {each.name for each in found} and found.all_features == len(terms)
    single = [each for each in found if ":" in each.name or "kernel" in each.name or "extremes" in each.name]
    assert len(single) > 100
    for each in single:
        assert each.importance == pytest.approx(np.std(terms[each.name]), rel=1e-8, abs=1e-9 * whole)


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch):
    batch = batch_of(24, 18)
    labels = labels_of(batch, 3)
    committee, _ = without_series(finite_committee_of(batch, labels, 3), complete=True)
    one = explain_series(committee, batch, NAMES, [0, 1, 2], EVERYTHING, background=batch)
    importances = feature_importance(committee, batch, NAMES, EVERYTHING)
    monkeypatch.setattr("siggpde.explain.terms.CHUNK", 7)
    for each, other in zip(
        one, explain_series(committee, batch, NAMES, [0, 1, 2], EVERYTHING, background=batch), strict=True
    ):
        check_same(each, other, 1e-6)
    check_same_importances(importances, feature_importance(committee, batch, NAMES, EVERYTHING), 1e-5)
