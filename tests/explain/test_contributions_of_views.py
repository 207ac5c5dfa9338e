"""Explanations of committees of views add up to what the committee computes, and find what was planted."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.small_committees import batch_of, ends, labels_of
from helpers.small_view_committees import SQUARES, SUMS, explained, small_views, view_committee_of
from siggpde.committee.recipes import Recipe
from siggpde.explain import explain_series
from siggpde.explain.importance import feature_importance
from siggpde.explain.terms import terms_of
from siggpde.series import SeriesBatch
from siggpde.views.base import FeatureBlock
from siggpde.views.transformers import TransformerBlock

NAMES = ["a", "b"]
CLASSES = ["low", "middle", "high"]


@pytest.fixture(scope="module", params=[False, True], ids=["equal", "ragged"])
def batch(request):
    return batch_of(30, 18, ragged=request.param)


@pytest.fixture(scope="module")
def classifier(batch):
    return view_committee_of(batch, labels_of(batch, 3), 3)


@pytest.fixture(scope="module")
def regressor(batch):
    return view_committee_of(batch, ends(batch))


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    channels=st.integers(1, 3),
    length=st.integers(6, 20),
    kinds=st.sampled_from([SUMS, SQUARES, [SUMS[1], SQUARES[0]]]),
    ragged=st.booleans(),
    background=st.booleans(),
)
def test_contributions_to_numbers_add_up(seed, channels, length, kinds, ragged, background):
    views = small_views() if length >= 16 else [view for view in small_views() if view.kind != "spectrum"]
    if length < 16:
        kinds = [replace(r, weights=tuple(pair for pair in r.weights if pair[0] != "spectrum1")) for r in kinds]
    batch = batch_of(14, length, channels, seed, ragged=ragged)
    committee = view_committee_of(batch, ends(batch), None, kinds, views)
    names = [f"c{i}" for i in range(channels)]
    new = batch_of(4, length, channels, seed + 1, ragged=ragged)
    base = batch_of(5, length, channels, seed + 2) if background else None
    wanted = explained(committee, new)[:, 0].tolist()
    found = explain_series(committee, new, names, top=10**6, background=base)
    # Features are float32, so their sums are those of the kernels to its rounding, times the weights of the landmarks.
    sizes = [float(member.regression.alpha.abs().sum()) for member in committee.members]
    close = {"rel": 1e-6, "abs": 1e-6 * max(1.0, *sizes)}
    for each, latent in zip(found, wanted, strict=True):
        assert each.latent == pytest.approx(latent, rel=1e-9, abs=1e-9 * max(1.0, *sizes))
        assert each.constant + sum(view.value for view in each.views) == pytest.approx(each.latent)
        assert each.constant + sum(term.value for term in each.contributions) + each.rest == pytest.approx(each.latent)
        assert each.rest == pytest.approx(0.0, **close)
        assert each.constant + sum(term.value for term in each.interactions) == pytest.approx(each.latent, **close)
    shown = explain_series(committee, new, names, top=3, background=base)
    for few, every in zip(shown, found, strict=True):
        assert few.constant + sum(term.value for term in few.contributions) + few.rest == pytest.approx(few.latent)
        sizes = [abs(term.value) for term in few.contributions]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes == pytest.approx([abs(term.value) for term in every.contributions[:3]], rel=1e-8, abs=1e-9)


def test_contributions_to_classes_are_of_the_two_most_probable(batch, classifier):
    logits, chances = explained(classifier, batch), classifier.probabilities(batch)
    for row, each in enumerate(explain_series(classifier, batch, NAMES, CLASSES, top=5)):
        first, second = CLASSES.index(each.label), CLASSES.index(each.runner_up)
        assert [first, second] == chances[row].sort(descending=True).indices[:2].tolist()
        assert each.latent == pytest.approx(float(logits[row, first] - logits[row, second]), abs=1e-9)
        assert each.constant + each.rest + sum(c.value for c in each.contributions) == pytest.approx(each.latent)
        assert each.constant + sum(view.value for view in each.views) == pytest.approx(each.latent)
        assert len(each.contributions) == 5 and each.series == row


def test_the_term_of_a_feature_is_what_the_prediction_loses_with_it(batch):
    """Of a sum of kernels: with the feature at the landmarks' mean the latent is smaller by its term."""
    recipe = Recipe("extremes", (("extremes", 1.0), ("L", 3.0)))
    committee = view_committee_of(batch, ends(batch), None, [recipe])
    block = next(block for block in committee.blocks if isinstance(block, TransformerBlock))
    found = explain_series(committee, batch, NAMES, top=10**6)
    before, plain = explained(committee, batch), type(block).parts
    for feature in range(4):

        def without(self, batch, feature=feature):
            for part in plain(self, batch):
                values = part.values.clone()
                values[:, feature] = self.landmarks[0].values[:, feature].mean()
                yield part._replace(values=values)

        block.parts = without.__get__(block)
        loss = before - explained(committee, batch)
        terms = [next(t.value for t in each.contributions if t.name == f"extremes {feature}") for each in found]
        assert terms == pytest.approx(loss[:, 0].tolist(), abs=1e-6)


def test_a_square_shares_products_equally():
    """(1 + c)² / 4 with c = c_1 + c_2: each kernel has its own share of c² and half of the product."""
    batch = batch_of(20, 18)
    recipe = Recipe("LP²", (("L", 1.0), ("P", 1.0)), 2)
    committee = view_committee_of(batch, ends(batch), None, [recipe])
    (member,), rows = committee.members, committee.rows(batch)
    assert member.norms is not None
    size = (recipe.average(rows).variance[:, None] * member.norms.variance).sqrt()
    linear, kernel = (rows[name].gram / (2 * size) for name in ("L", "P"))
    alpha = member.regression.alpha[:, 0]
    wanted = (linear / 2 + linear.square() / 4 + linear * kernel / 4) @ alpha
    for each, value in zip(explain_series(committee, batch, NAMES), wanted.tolist(), strict=True):
        (own,) = [view for view in each.views if view.name == "words linear in the series, with a base point"]
        assert own.value == pytest.approx(value)


def test_every_feature_has_a_name_and_letters_of_its_channels(batch, classifier):
    for block in (block for block in classifier.blocks if isinstance(block, FeatureBlock)):
        widths = [part.values.shape[1] for part in block.landmarks]
        names, letters = block.names(NAMES), block.letters(NAMES)
        assert [len(own) for own in names] == [len(own) for own in letters] == widths
        for own_names, own_letters in zip(names, letters, strict=True):
            for name, word in zip(own_names, own_letters, strict=True):
                plain = name.replace("variation of ", "")
                assert not word or "–".join(word) in plain, (name, word)
    vocabulary = terms_of(classifier).vocabulary(NAMES)
    assert len(set(vocabulary.names)) == len(vocabulary.names)  # words of several views are one
    assert len(vocabulary.names) == len(vocabulary.letters) == len(vocabulary.set_indices)
    used = {int(i) for part in vocabulary.parts if part is not None for i in part}
    assert used | set(vocabulary.kernels.values()) == set(range(len(vocabulary.names)))


def test_names_are_told_in_words(batch, classifier):
    each = explain_series(classifier, batch, NAMES, CLASSES, top=10**6)[0]
    names = {term.name for term in each.contributions}
    assert {"time–a", "1 / norm of the signature", "signature kernel of all words", "extremes 0"} <= names
    assert "dx dilation 1: mean of time–a, middle third" in names
    assert any(name.startswith("spectrum x dilation 1: ") and "frequency" in name for name in names)
    assert {view.name for view in each.views} == {
        "windows of the series", "windows of the series, by thirds", "windows of its increments, by thirds",
        "windows of the spectrum", "words linear in the series, with a base point",
        "words of the path, with a base point", "words of the path, with running variations",
        "signature kernel of all words", "signature kernel of the lifted path, bandwidth 1", "extremes",
    }  # fmt: skip
    assert {"time & a", "a & b", "frequency & a", "time & a & b"} <= {term.name for term in each.interactions}
    assert each.sentences[-1] == f"in all, {each.views[4]}"
    assert json.loads(json.dumps(each.to_dict()))["views"][0]["name"] == each.views[0].name


def test_sets_of_many_channels_are_called_all():
    batch = batch_of(12, 18, channels=4)
    committee = view_committee_of(batch, ends(batch), None, [Recipe("LP", (("L", 1.0), ("P", 1.0)))])
    (each, *_) = explain_series(committee, batch, ["a", "b", "c", "d"])
    assert "all channels" in {term.name for term in each.interactions}


def test_channels_called_as_letters_are_told_apart(batch, regressor):
    found = feature_importance(regressor, batch, ["time", "b"], top=10**6)
    letters = {letter for each in found for letter in each.letters}
    assert {"time", "time (channel 0)", "b", "frequency"} == letters
    plain = feature_importance(regressor, batch, NAMES, top=10**6)
    assert [each.importance for each in found] == pytest.approx([each.importance for each in plain])


@pytest.mark.parametrize("classes", [None, 3])
def test_importance_is_the_spread_of_contributions(batch, classes):
    """Of members of power 1 exactly: the terms of the explanation of a number, one by one."""
    y = ends(batch) if classes is None else labels_of(batch, classes)
    committee = view_committee_of(batch, y, classes, SUMS)
    found = feature_importance(committee, batch, NAMES, top=10**6)
    assert found.series == len(batch) and found.all_features == len(found)
    whole = sum(each.importance for each in found)
    assert [each.share for each in found] == pytest.approx([each.importance / whole for each in found])
    assert sum(each.share for each in found.views) == pytest.approx(1.0)
    if classes is None:
        explanations = explain_series(committee, batch, NAMES, top=10**6)
        views = _spreads(each.views for each in explanations)
        assert {each.name: each.importance for each in found.views} == pytest.approx(views)
        terms = _spreads(each.contributions for each in explanations)
        shared = {name for name in terms if ":" not in name and "kernel" not in name}  # by several views
        ours = {each.name: each.importance for each in found}
        for name, value in terms.items():
            assert ours[name] == pytest.approx(value, rel=1e-8, abs=1e-9) or name in shared
            assert ours[name] >= value * (1 - 1e-4) - 1e-9


def _spreads(contributions):
    found: dict[str, list[float]] = {}
    for each in contributions:
        for term in each:
            found.setdefault(term.name, []).append(term.value)
    return {name: float(np.std(values)) for name, values in found.items()}


def test_importance_and_explanations_do_not_depend_on_chunks(monkeypatch, batch, classifier):
    found, told = feature_importance(classifier, batch, NAMES), explain_series(classifier, batch, NAMES, CLASSES)
    assert feature_importance(classifier, batch, NAMES) == found
    assert explain_series(classifier, batch, NAMES, CLASSES) == told
    monkeypatch.setattr("siggpde.explain.terms.CHUNK", 7)
    again = feature_importance(classifier, batch, NAMES)
    assert [each.importance for each in again] == pytest.approx([each.importance for each in found], rel=1e-8)
    for one, other in zip(explain_series(classifier, batch, NAMES, CLASSES), told, strict=True):
        assert one.series == other.series
        assert [t.value for t in one.contributions] == pytest.approx([t.value for t in other.contributions], rel=1e-8)
        assert one.rest == pytest.approx(other.rest, rel=1e-8)


def test_what_is_like_all_others_moves_into_the_constant(batch):
    committee = view_committee_of(batch, ends(batch), None, SUMS)
    found = explain_series(committee, batch, NAMES, top=10**6, background=batch)
    constants = {round(each.constant, 8) for each in found}
    assert len(constants) == 1
    for part in ("contributions", "views"):
        sums: dict[str, float] = {}
        for each in found:
            for term in getattr(each, part):
                sums[term.name] = sums.get(term.name, 0.0) + term.value
        assert max(map(abs, sums.values())) < 1e-4


def test_explanations_of_numbers_can_be_told_in_units(batch, regressor):
    each = explain_series(regressor, batch, NAMES)[0]
    scaled = each.in_units(10.0, 3.0)
    assert scaled.constant + sum(view.value for view in scaled.views) == pytest.approx(3 + 10 * each.latent)


def test_the_channel_that_decides_is_found():
    """Classes that differ in the level of channel b alone."""
    values = torch.randn(40, 18, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = torch.arange(40) % 2
    values[:, :, 1] += 2.0 * labels[:, None]
    batch = SeriesBatch(values)
    committee = view_committee_of(batch, labels, 2)
    found = feature_importance(committee, batch, ["a", "b", "c"])
    words = [each for each in found if "kernel" not in each.name and len(set(each.letters)) < 4]
    assert "b" in words[0].letters
    for each in explain_series(committee, batch, ["a", "b", "c"], [0, 1])[:6]:
        first = next(term for term in each.interactions if len(term.letters) < 4)
        assert first.letters in (("b",), ("time", "b")) and first.value > 0


@pytest.mark.parametrize("function", [feature_importance, explain_series])
def test_wrong_names_and_series_are_refused(batch, regressor, function):
    with pytest.raises(ValueError, match="each of the 2 channels of the series, got \\['x'\\]"):
        function(regressor, batch, ["x"])
    with pytest.raises(ValueError, match=r"no series to explain|0 series do not show"):
        function(regressor, SeriesBatch(batch.values[:0]), NAMES)
    with pytest.raises(ValueError, match="the series have 3 channels, but those of training had 2"):
        function(regressor, batch_of(4, 18, channels=3), ["x", "y", "z"])


def test_wrong_settings_are_refused(batch, classifier, regressor):
    with pytest.raises(ValueError, match="predicts numbers, not classes; leave classes out"):
        explain_series(regressor, batch, NAMES, CLASSES)
    with pytest.raises(ValueError, match="3 classes; give their labels as classes, got 2"):
        explain_series(classifier, batch, NAMES, ["a", "b"])
    with pytest.raises(ValueError, match="top must be at least 1, got 0"):
        explain_series(classifier, batch, NAMES, CLASSES, top=0)
    with pytest.raises(ValueError, match="1 series do not show what varies; give at least 2"):
        feature_importance(classifier, batch_of(1, 18), NAMES)
