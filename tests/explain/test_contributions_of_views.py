"""Explanations of committees of views add up to what the committee computes, and find what was planted."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import small_view_committees as small
from helpers.small_committees import batch_of, ends, labels_of
from helpers.small_view_committees import SQUARES, SUMS, explained, importance_of_features
from siggpde.committee.recipes import Recipe
from siggpde.committee.weight_space import without_series
from siggpde.explain import Importances, SeriesExplanation, explain_series
from siggpde.explain.terms import terms_of
from siggpde.series import SeriesBatch
from siggpde.views.base import FeatureBlock, Part
from siggpde.views.transformers import TransformerBlock

NAMES = ["a", "b"]
CLASSES = ["low", "middle", "high"]
EVERYTHING = 10**6
SUM = {"rel": 1e-8, "abs": 1e-8}


@pytest.fixture(scope="module", params=[False, True], ids=["equal", "ragged"])
def batch(request):
    return batch_of(30, 18, ragged=request.param)


@pytest.fixture(scope="module")
def classifier(batch):
    return small.view_committee_of(batch, labels_of(batch, 3), 3)


@pytest.fixture(scope="module")
def regressor(batch):
    return small.view_committee_of(batch, ends(batch))


MEMBERS = st.sampled_from([SUMS, SQUARES, [SUMS[1], SQUARES[0]]])


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(6, 20), MEMBERS, st.booleans(), st.booleans())
def test_contributions_to_numbers_add_up(seed, channels, length, kinds, ragged, background):
    views = small.small_views() if length >= 16 else [view for view in small.small_views() if view.kind != "spectrum"]
    if length < 16:
        kinds = [replace(r, weights=tuple(pair for pair in r.weights if pair[0] != "spectrum1")) for r in kinds]
    batch = batch_of(14, length, channels, seed, ragged=ragged)
    committee = small.view_committee_of(batch, ends(batch), None, kinds, views)
    names = [f"c{i}" for i in range(channels)]
    new = batch_of(4, length, channels, seed + 1, ragged=ragged)
    base = batch_of(5, length, channels, seed + 2) if background else None
    wanted = explained(committee, new)[:, 0].tolist()
    explanations = explain_series(committee, new, names, top=EVERYTHING, background=base)
    # Features are float32, so their sums are those of the kernels to its rounding, times the weights of the landmarks.
    sizes = [float(member.regression.alpha.abs().sum()) for member in committee.members]
    close = {"rel": 1e-6, "abs": 1e-6 * max(1.0, *sizes)}
    for result, latent in zip(explanations, wanted, strict=True):
        assert result.latent == pytest.approx(latent, rel=1e-9, abs=1e-9 * max(1.0, *sizes))
        assert result.constant + sum(view.value for view in result.views) == pytest.approx(result.latent)
        shown = sum(term.value for term in result.contributions)
        assert result.constant + shown + result.rest == pytest.approx(result.latent)
        assert result.rest == pytest.approx(0.0, **close)
        together = sum(term.value for term in result.interactions)
        assert result.constant + together == pytest.approx(result.latent, **close)
    shown = explain_series(committee, new, names, top=3, background=base)
    for few, every in zip(shown, explanations, strict=True):
        assert few.constant + sum(term.value for term in few.contributions) + few.rest == pytest.approx(few.latent)
        sizes = [abs(term.value) for term in few.contributions]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes == pytest.approx([abs(term.value) for term in every.contributions[:3]], rel=1e-8, abs=1e-9)


def test_contributions_to_classes_are_of_the_two_most_probable(batch, classifier):
    logits, chances = explained(classifier, batch), classifier.probabilities(batch)
    for row, result in enumerate(explain_series(classifier, batch, NAMES, CLASSES, top=5)):
        first, second = CLASSES.index(result.label), CLASSES.index(result.runner_up)
        assert [first, second] == chances[row].sort(descending=True).indices[:2].tolist()
        assert result.latent == pytest.approx(float(logits[row, first] - logits[row, second]), abs=1e-9)
        shown = sum(term.value for term in result.contributions)
        assert result.constant + result.rest + shown == pytest.approx(result.latent)
        assert result.constant + sum(view.value for view in result.views) == pytest.approx(result.latent)
        assert len(result.contributions) == 5 and result.series == row


def test_the_term_of_a_feature_is_what_the_prediction_loses_with_it(batch):
    """Of a sum of kernels: with the feature at the landmarks' mean the latent is smaller by its term."""
    recipe = Recipe("extremes", (("extremes", 1.0), ("L", 3.0)))
    committee = small.view_committee_of(batch, ends(batch), None, [recipe])
    block = next(block for block in committee.blocks if isinstance(block, TransformerBlock))
    explanations = explain_series(committee, batch, NAMES, top=EVERYTHING)
    before, plain = explained(committee, batch), type(block).parts
    for feature in range(4):

        def without(self, batch, feature=feature):
            for part in plain(self, batch):
                values = part.values.clone()
                values[:, feature] = self.landmarks[0].values[:, feature].mean()
                yield Part(part.name, values)

        block.parts = without.__get__(block)
        loss = before - explained(committee, batch)
        name = f"extremes {feature}"
        terms = [next(t.value for t in result.contributions if t.name == name) for result in explanations]
        assert terms == pytest.approx(loss[:, 0].tolist(), abs=1e-6)


def test_a_square_shares_products_equally():
    """(1 + c)² / 4 with c = c_1 + c_2: each kernel has its own share of c² and half of the product."""
    batch = batch_of(20, 18)
    recipe = Recipe("LP²", (("L", 1.0), ("P", 1.0)), 2)
    committee = small.view_committee_of(batch, ends(batch), None, [recipe])
    (member,), rows = committee.members, committee.rows(batch)
    assert member.norms is not None
    size = (recipe.average(rows).variance[:, None] * member.norms).sqrt()
    linear, kernel = (rows[name].gram / (2 * size) for name in ("L", "P"))
    alpha = member.regression.alpha[:, 0]
    wanted = (linear / 2 + linear.square() / 4 + linear * kernel / 4) @ alpha
    for result, value in zip(explain_series(committee, batch, NAMES), wanted.tolist(), strict=True):
        (linear_view,) = [view for view in result.views if view.name == "words linear in the series, with a base point"]
        assert linear_view.value == pytest.approx(value)


def test_features_have_names_and_letters_in_words(batch, classifier):
    for block in (block for block in classifier.blocks if isinstance(block, FeatureBlock)):
        widths = [part.values.shape[1] for part in block.landmarks]
        names, letters = block.names(NAMES), block.letters(NAMES)
        assert [len(of_part) for of_part in names] == [len(of_part) for of_part in letters] == widths
        for of_part in zip(names, letters, strict=True):
            for name, word in zip(*of_part, strict=True):
                plain = name.replace("variation of ", "")
                assert not word or "–".join(word) in plain, (name, word)
    vocabulary = terms_of(classifier).vocabulary(NAMES)
    assert len(set(vocabulary.names)) == len(vocabulary.names)  # words of several views are one
    assert len(vocabulary.names) == len(vocabulary.letters) == len(vocabulary.set_indices)
    used = {int(i) for part in vocabulary.parts if part is not None for i in part}
    assert used | set(vocabulary.kernels.values()) == set(range(len(vocabulary.names)))
    result = explain_series(classifier, batch, NAMES, CLASSES, top=EVERYTHING)[0]
    names = {term.name for term in result.contributions}
    assert {"time–a", "1 / norm of the signature", "signature kernel of all words", "extremes 0"} <= names
    assert "dx dilation 1: mean of time–a, middle third" in names
    assert any(name.startswith("spectrum x dilation 1: ") and "frequency" in name for name in names)
    assert {view.name for view in result.views} == {
        "windows of the series", "windows of the series, by thirds", "windows of its increments, by thirds",
        "windows of the spectrum", "words linear in the series, with a base point",
        "words of the path, with a base point", "words of the path, with running variations",
        "signature kernel of all words", "signature kernel of the lifted path, bandwidth 1", "extremes",
    }  # fmt: skip
    assert {"time & a", "a & b", "frequency & a", "time & a & b"} <= {term.name for term in result.interactions}
    assert result.sentences[-1] == f"in all, {result.views[4]}"
    assert json.loads(json.dumps(result.to_dict()))["views"][0]["name"] == result.views[0].name


def test_sets_of_many_channels_are_called_all():
    batch = batch_of(12, 18, channels=4)
    committee = small.view_committee_of(batch, ends(batch), None, [Recipe("LP", (("L", 1.0), ("P", 1.0)))])
    (result, *_) = explain_series(committee, batch, ["a", "b", "c", "d"])
    assert "all channels" in {term.name for term in result.interactions}


def test_channels_called_as_letters_are_told_apart_and_numbers_have_units(batch, regressor):
    importances = importance_of_features(regressor, batch, ["time", "b"], top=EVERYTHING)
    letters = {letter for feature in importances for letter in feature.letters}
    assert letters == {"time", "time (channel 0)", "b", "frequency"}
    plain = importance_of_features(regressor, batch, NAMES, top=EVERYTHING)
    assert [feature.importance for feature in importances] == pytest.approx([feature.importance for feature in plain])
    result = explain_series(regressor, batch, NAMES)[0]
    scaled = result.in_units(10.0, 3.0)
    assert scaled.constant + sum(view.value for view in scaled.views) == pytest.approx(3 + 10 * result.latent)
    assert (scaled.mean, scaled.std) == pytest.approx((3 + 10 * (result.mean or 0), 10 * (result.std or 0)))
    assert scaled.rest == 10 * result.rest and scaled.interactions[0].value == 10 * result.interactions[0].value


@pytest.mark.parametrize("classes", [None, 3])
def test_importance_is_the_spread_of_contributions(batch, classes):
    """Of members of power 1 exactly: the terms of the explanation of a number, one by one."""
    y = ends(batch) if classes is None else labels_of(batch, classes)
    committee = small.view_committee_of(batch, y, classes, SUMS)
    importances = importance_of_features(committee, batch, NAMES, top=EVERYTHING)
    assert importances.series == len(batch) and importances.all_features == len(importances)
    whole = sum(part.importance for part in importances)
    assert [part.share for part in importances] == pytest.approx([part.importance / whole for part in importances])
    assert sum(part.share for part in importances.views) == pytest.approx(1.0)
    if classes is None:
        explanations = explain_series(committee, batch, NAMES, top=EVERYTHING)
        views = _spreads(part.views for part in explanations)
        assert {part.name: part.importance for part in importances.views} == pytest.approx(views)
        terms = _spreads(part.contributions for part in explanations)
        shared = {name for name in terms if ":" not in name and "kernel" not in name}  # by several views
        ours = {part.name: part.importance for part in importances}
        for name, value in terms.items():
            assert ours[name] == pytest.approx(value, rel=1e-8, abs=1e-9) or name in shared
            assert ours[name] >= value * (1 - 1e-4) - 1e-9


def _spreads(contributions):
    values: dict[str, list[float]] = {}
    for terms in contributions:
        for term in terms:
            values.setdefault(term.name, []).append(term.value)
    return {name: float(np.std(values)) for name, values in values.items()}


def test_importance_and_explanations_do_not_depend_on_chunks(monkeypatch, batch, classifier):
    importances, same = (importance_of_features(classifier, batch, NAMES) for _ in range(2))
    explanations, alike = (explain_series(classifier, batch, NAMES, CLASSES) for _ in range(2))
    assert same == importances and alike == explanations
    monkeypatch.setattr("siggpde.explain.terms.CHUNK", 7)
    again = importance_of_features(classifier, batch, NAMES)
    wanted = [feature.importance for feature in importances]
    assert [feature.importance for feature in again] == pytest.approx(wanted, rel=1e-8)
    for one, other in zip(explain_series(classifier, batch, NAMES, CLASSES), explanations, strict=True):
        assert one.series == other.series
        assert [t.value for t in one.contributions] == pytest.approx([t.value for t in other.contributions], rel=1e-8)
        assert one.rest == pytest.approx(other.rest, rel=1e-8)


def test_what_is_like_all_others_moves_into_the_constant(batch):
    committee = small.view_committee_of(batch, ends(batch), None, SUMS)
    explanations = explain_series(committee, batch, NAMES, top=EVERYTHING, background=batch)
    constants = {round(result.constant, 8) for result in explanations}
    assert len(constants) == 1
    for part in ("contributions", "views"):
        sums: dict[str, float] = {}
        for result in explanations:
            for term in getattr(result, part):
                sums[term.name] = sums.get(term.name, 0.0) + term.value
        assert max(map(abs, sums.values())) < 1e-4


def test_the_channel_that_decides_is_found():
    """Classes that differ in the level of channel b alone."""
    values = torch.randn(40, 18, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = torch.arange(40) % 2
    values[:, :, 1] += 2.0 * labels[:, None]
    batch = SeriesBatch(values)
    committee = small.view_committee_of(batch, labels, 2)
    importances = importance_of_features(committee, batch, ["a", "b", "c"])
    words = [result for result in importances if "kernel" not in result.name and len(set(result.letters)) < 4]
    assert "b" in words[0].letters
    for result in explain_series(committee, batch, ["a", "b", "c"], [0, 1])[:6]:
        first = next(term for term in result.interactions if len(term.letters) < 4)
        assert first.letters in (("b",), ("time", "b")) and first.value > 0


# Committees without landmarks agree with those that have them.


def check_sums(explanations: list[SeriesExplanation], wanted: list[float]) -> None:
    """All contributions were asked for: each form adds up to the latent, less what is the same for all series."""
    assert len(explanations) == len(wanted)
    for result, latent in zip(explanations, wanted, strict=True):
        assert result.latent == pytest.approx(latent, **SUM)
        size = max(1.0, sum(abs(term.value) for term in result.contributions))
        assert result.rest == pytest.approx(0.0, abs=1e-8 * size)
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
        ours, theirs = ({part.name: part.importance for part in getattr(each, form)} for each in (one, other))
        assert theirs == pytest.approx(ours, rel=close, abs=close * max(ours.values()))


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("classes", [None, 3])
def test_without_landmarks_contributions_are_the_same(batch: SeriesBatch, classes: int | None, background: bool):
    y = ends(batch) if classes is None else labels_of(batch, classes)
    exact = small.finite_committee_of(batch, y, classes)
    reduced, _ = without_series(exact, complete=True)
    assert reduced.members[0].features.parts[0].weights.dtype == torch.float64
    new, labels = batch_of(5, 18, seed=1, ragged=batch.lengths is not None), None if classes is None else [0, 1, 2]
    base = batch_of(6, 18, seed=2) if background else None
    more = (new, NAMES, labels, EVERYTHING)
    kept, explanations = (explain_series(model, *more, background=base) for model in (exact, reduced))
    logits = explained(reduced, new)
    if classes is None:
        check_sums(explanations, logits[:, 0].tolist())
    else:
        compared = zip(logits, explanations, strict=True)
        check_sums(explanations, [float(row[one.label] - row[one.runner_up]) for row, one in compared])
    for one, other in zip(kept, explanations, strict=True):
        check_same(one, other, 1e-9)
    one, other = (importance_of_features(committee, batch, NAMES, EVERYTHING) for committee in (exact, reduced))
    check_same_importances(one, other, 1e-9)


def test_weights_in_single_precision_are_explained_as_they_are(batch: SeriesBatch):
    exact = small.finite_committee_of(batch, ends(batch))
    reduced, _ = without_series(exact, complete=True, most_bytes=2**12)
    parts = [part for member in reduced.members for part in member.features.parts.values()]
    assert all(part.weights.dtype == torch.float32 for part in parts)
    kept, bare = (explain_series(committee, batch, NAMES, top=EVERYTHING) for committee in (exact, reduced))
    for one, other in zip(kept, bare, strict=True):
        check_same(one, other, 1e-6)
        whole = sum(term.value for term in other.contributions)
        assert whole == pytest.approx(other.latent - other.constant, **SUM)
