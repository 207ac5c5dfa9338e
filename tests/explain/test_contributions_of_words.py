"""Explanations add up to what the model computes, are found by name, and follow finite differences."""

import dataclasses
import itertools
import json

import numpy as np
import pytest
import torch

from helpers.refusals import assert_refused
from helpers.small_committees import batch_of, latents, one_member
from helpers.small_view_committees import importance_of_features
from siggpde import SigGPRegressor
from siggpde.explain import explain_series, global_importance
from siggpde.explain.contributions import grouped
from siggpde.explain.results import Contribution, read_terms
from siggpde.explain.terms import terms_of
from siggpde.gp.likelihoods import Bernoulli, Gaussian, Softmax
from siggpde.series import SeriesBatch

NAMES = ["x", "y"]
CLASSES = ["low", "middle", "high"]


@pytest.fixture(scope="module", params=[False, True], ids=["equal", "ragged"])
def batch(request):
    return batch_of(ragged=request.param)


@pytest.fixture(scope="module")
def classifier(batch):
    return one_member(batch, Softmax(3))


@pytest.fixture(scope="module")
def regressor(batch):
    return one_member(batch, Gaussian())


def features_and_weights(committee, batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Of all words but the empty one, (n, words) and (classes, words)."""
    terms = terms_of(committee)
    (part,) = terms.parts(terms.prepare(batch))
    return part.values.detach(), terms.logits.mixing @ terms.part_weights(0).T


@pytest.mark.parametrize("rank", [None, 5])
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("depth", [None, 2, 3])
def test_features_times_weights_are_the_latents(batch, rank, normalized, depth):
    committee = one_member(batch, Softmax(3), rank=rank, normalized=normalized, depth=depth, amplitude=2.5)
    features, weights = features_and_weights(committee, batch)
    sums = terms_of(committee).constant + features @ weights.T
    for mean in (latents(committee, batch)[0], terms_of(committee).latents(batch)[0]):
        assert torch.allclose(sums, mean, rtol=1e-12, atol=1e-12)


def test_features_of_a_float32_model_are_its_latents_to_float32(batch):
    committee = one_member(batch, Softmax(3), dtype=torch.float32, normalized=True)
    assert torch.allclose(terms_of(committee).latents(batch)[0], latents(committee, batch)[0], atol=1e-5)


@pytest.mark.parametrize("rank", [None, 12])
@pytest.mark.parametrize("background", [False, True])
def test_contributions_to_classes_add_up(batch, rank, background):
    committee = one_member(batch, Softmax(3), rank=rank)
    base = batch_of(20, seed=5) if background else None
    explanations = explain_series(committee, batch, NAMES, CLASSES, background=base, top=5)
    chances = committee.probabilities(batch)
    means = torch.einsum("k,knc->nc", committee.weights, torch.stack(latents(committee, batch)))
    for row, result in enumerate(explanations):
        first, second = CLASSES.index(result.label), CLASSES.index(result.runner_up)
        assert result.series == row
        assert first == int(chances[row].argmax()) and first != second
        assert result.probability == pytest.approx(float(chances[row, first]), abs=1e-12)
        assert result.runner_up_probability == pytest.approx(float(chances[row].sort().values[-2]), abs=1e-12)
        assert result.latent == pytest.approx(float(means[row, first] - means[row, second]), abs=1e-10)
        parts = [contribution.value for contribution in result.contributions]
        assert result.constant + result.rest + sum(parts) == pytest.approx(result.latent, abs=1e-10)
        assert len(parts) == 5 and [abs(v) for v in parts] == sorted((abs(v) for v in parts), reverse=True)
        assert result.mean is None and result.std is None


def test_contributions_to_numbers_add_up_and_are_nothing_on_average(batch, regressor):
    explanations = explain_series(regressor, batch, NAMES, top=1000)
    mean, variance = regressor.mean_and_variance(batch)
    for row, result in enumerate(explanations):
        assert result.mean == pytest.approx(float(mean[row]))
        assert result.std == pytest.approx(float(variance[row].sqrt()))
        assert result.latent == pytest.approx(result.mean, abs=1e-9)
        assert result.rest == pytest.approx(0.0, abs=1e-9)
        assert result.constant + sum(c.value for c in result.contributions) == pytest.approx(result.mean, abs=1e-9)
        assert result.label is None and result.probability is None
    sums: dict[str, float] = {}
    for result in explain_series(regressor, batch, NAMES, top=1000, background=batch):
        for word in result.contributions:
            sums[word.name] = sums.get(word.name, 0.0) + word.value
    assert sums and max(map(abs, sums.values())) < 1e-8


def test_interactions_are_sums_over_the_words_of_a_set_of_channels(batch, classifier):
    for result in explain_series(classifier, batch, NAMES, CLASSES, top=10**6)[:3]:
        sums: dict[frozenset[str], float] = {}
        for word in result.contributions:
            key = frozenset(word.letters)
            sums[key] = sums.get(key, 0.0) + word.value
        assert {frozenset(term.letters): term.value for term in result.interactions} == pytest.approx(sums)
        assert result.constant + sum(term.value for term in result.interactions) == pytest.approx(result.latent)
        sizes = [abs(term.value) for term in result.interactions]
        assert sizes == sorted(sizes, reverse=True)
        assert {"time", "x", "time & x", "x & y"} <= {term.name for term in result.interactions}


def test_one_latent_for_two_classes_speaks_for_either(batch):
    committee = one_member(batch, Bernoulli())
    explanations = explain_series(committee, batch, NAMES, [0, 1])
    (latent,) = latents(committee, batch)
    assert {result.label for result in explanations} == {0, 1}
    for result, value in zip(explanations, latent[:, 0].tolist(), strict=True):
        assert result.latent == pytest.approx(value if result.label == 1 else -value)
        assert result.latent > 0


def test_explanations_are_told_in_plain_english(batch, classifier, regressor):
    result = explain_series(classifier, batch, NAMES, CLASSES, top=2)[3]
    first, *others = result.sentences
    assert first.startswith(f"series 3: {result.label} with probability 0.") or " probability 1" in first
    helping = [c for c in result.contributions if c.value > 0]
    moving = {*helping[0].letters} - {"time"}
    assert moving and all(f"{name} moves" in result.sentence for name in moving)
    reason = [f"for {result.label}: {result.sentence}"] if result.sentence else []
    assert others == [*reason, *(f"{c.name}: {c.value:+.3g}" for c in result.contributions)]
    assert str(result).count("\n") == 2 + len(reason)
    plain = json.loads(json.dumps(result.to_dict()))
    assert plain["label"] == result.label and plain["sentence"] == result.sentence
    number = explain_series(regressor, batch, NAMES, top=1)[0]
    assert str(number).startswith("series 0: ") and " ± " in str(number)


def test_series_in_chunks_keep_their_numbers(classifier):
    many = batch_of(300, seed=2)
    explanations = explain_series(classifier, dataclasses.replace(many, first=40), NAMES, CLASSES, top=1)
    assert [result.series for result in explanations] == list(range(40, 340))
    few = explain_series(classifier, SeriesBatch(many.values[290:]), NAMES, CLASSES, top=1)
    assert [e.contributions[0].name for e in few] == [e.contributions[0].name for e in explanations[290:]]


def test_importance_is_the_spread_of_contributions(batch, classifier):
    importances = importance_of_features(classifier, batch, NAMES, top=10**6)
    features, weights = features_and_weights(classifier, batch)
    spread = (features[:, None] * weights).std(dim=0, correction=0).sum(dim=0)
    expected = dict(zip(terms_of(classifier).vocabulary(NAMES).letters, spread.tolist(), strict=True))
    assert {feature.letters: feature.importance for feature in importances.features} == pytest.approx(expected)
    assert importances.all_features == len(expected) == len(importances) and importances.series == len(batch)
    values = [feature.importance for feature in importances]
    assert values == sorted(values, reverse=True)
    assert sum(feature.share for feature in importances.features) == pytest.approx(1.0)
    assert sum(feature.importance for feature in importances.features) == pytest.approx(float(spread.sum()))
    assert json.loads(json.dumps(importances.to_dict()))["features"][0]["name"] == importances.features[0].name
    assert "time–x" in {feature.name for feature in importances}


def test_importance_of_many_series(classifier, batch, regressor):
    many = batch_of(610, seed=4)
    importances = global_importance(classifier, many, NAMES, max_series=61)
    same = importance_of_features(classifier, SeriesBatch(many.values[::10]), NAMES)
    assert importances.features == same.features and importances.series == 61
    assert global_importance(classifier, many, NAMES).series == 500  # in two chunks
    # In chunks whose means differ.
    values = batch_of(600, seed=4).values
    values[300:] *= 3
    importances = importance_of_features(regressor, SeriesBatch(values), NAMES, top=10**6)
    features, weights = features_and_weights(regressor, SeriesBatch(values))
    assert importances.series == 600
    total = float((features.std(dim=0, correction=0) * weights[0].abs()).sum())
    assert sum(feature.importance for feature in importances) == pytest.approx(total, rel=1e-10)


def test_channels_named_as_what_paths_add_are_told_apart(batch, classifier):
    importances = importance_of_features(classifier, batch, ["time", "y"], top=10**6)
    channels = {letter for feature in importances for letter in feature.letters}
    assert {"time", "time (channel 0)", "y"} <= channels
    plain = importance_of_features(classifier, batch, NAMES, top=10**6)
    renamed = {feature.name.replace("time (channel 0)", "x"): feature.importance for feature in importances}
    assert renamed == pytest.approx({feature.name: feature.importance for feature in plain})
    twice = importance_of_features(classifier, batch, ["z", "z"], top=10**6)
    assert {"z (channel 0)", "z (channel 1)"} <= {letter for feature in twice for letter in feature.letters}


def test_time_stamps_are_used():
    plain = batch_of(24)
    stamps = torch.rand(24, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64).cumsum(dim=1)
    batch = SeriesBatch(plain.values, times=stamps)
    committee = one_member(batch, Gaussian())
    explanations = explain_series(committee, batch, NAMES, top=1000)
    mean, _ = committee.mean_and_variance(batch)
    assert [result.latent for result in explanations] == pytest.approx(mean.tolist())
    spreads: dict[str, list[float]] = {}
    for term in (term for result in explanations for term in result.contributions):
        spreads.setdefault(term.name, []).append(term.value)
    importances = importance_of_features(committee, batch, NAMES, top=1000)
    wanted = {name: float(np.std(values)) for name, values in spreads.items()}
    assert {feature.name: feature.importance for feature in importances} == pytest.approx(wanted, rel=1e-9)


def test_inputs_and_models_are_left_alone(batch, classifier):
    values = batch.values.clone()
    before = [member.model.variational.mean.clone() for member in classifier.members]
    explain_series(classifier, batch, NAMES, CLASSES)
    global_importance(classifier, batch, NAMES)
    assert torch.equal(values.nan_to_num(), batch.values.nan_to_num())
    for member, mean in zip(classifier.members, before, strict=True):
        assert torch.equal(member.model.variational.mean, mean)
        assert all(parameter.grad is None for parameter in member.model.parameters())


@pytest.mark.parametrize("function", [global_importance, explain_series])
def test_wrong_names_and_series_are_refused(batch, regressor, function):
    assert_refused("each of the 2 channels of the series, got \\['x'\\]", function, regressor, batch, ["x"])
    assert_refused("each of the 2 channels", function, regressor, batch, "xy")
    none = SeriesBatch(batch.values[:0])
    assert_refused("no series to explain|0 series do not show", function, regressor, none, NAMES)
    assert_refused("3 channels, but those of training had 2", function, regressor, batch_of(4, channels=3), list("xyz"))


def test_wrong_settings_are_refused(batch, classifier, regressor):
    assert_refused("predicts numbers, not classes; leave classes out", explain_series, regressor, batch, NAMES, CLASSES)
    assert_refused("3 classes; give their labels as classes, got none", explain_series, classifier, batch, NAMES)
    assert_refused("give their labels as classes, got 2", explain_series, classifier, batch, NAMES, ["a", "b"])
    assert_refused("top must be at least 1, got 0", explain_series, classifier, batch, NAMES, CLASSES, top=0)
    assert_refused("and max_series at least 2, got 0 and 500", global_importance, classifier, batch, NAMES, top=0)
    assert_refused("got 10 and 1", global_importance, classifier, batch, NAMES, max_series=1)
    assert_refused("1 series do not show.*give at least 2", global_importance, classifier, batch_of(1), NAMES)


def test_words_are_read_in_plain_english():
    def term(name: str, value: float) -> Contribution:
        return Contribution(f"{name} and 2 like it", tuple(name.split("–")), value)

    kernel = Contribution("signature kernel of all words", ("time", "x", "y"), 9.0)
    views = [Contribution("windows of the series", (), 2.0), Contribution("words of the path", (), -3.0)]
    parts = read_terms([kernel, term("x–y", 4.0), term("y–time", -4.0), term("time–x", 0.5)], views)
    assert parts == ["by its words, x moves, then y", "above all from the windows of the series"]
    parts = read_terms([term("x–y", 4.0), term("x–time–y", 3.0), term("y–y–time", 2.0), term("x", 1.5)], [])
    assert parts == ["by its words, “x moves, then y” and “y moves early”"]
    assert read_terms([kernel, term("x", -1.0)], views[1:]) == []


# Terms that cancel are one term: sums stay exact, and nothing that is shown cancels.


def test_every_term_is_in_one_group_and_no_two_groups_cancel():
    random = torch.Generator().manual_seed(0)
    base = torch.randn(60, 6, generator=random).double()
    mixing = torch.randn(6, 40, generator=random).double() * torch.logspace(0, 2, 40)
    terms = base @ mixing  # forty terms of rank six
    groups = grouped(terms)
    assert sorted(number for group in groups for number in group) == list(range(40))
    assert len(groups) < 40
    sums = torch.stack([terms[:, group].sum(1) for group in groups])
    spread = sums.std(1)
    assert spread.tolist() == sorted(spread.tolist(), reverse=True)
    for one, other in itertools.combinations(range(len(groups)), 2):
        assert float((sums[one] + sums[other]).std()) >= 0.799 * float(spread[[one, other]].max())
    assert grouped(torch.ones(5, 3)) == [[0], [1], [2]]
    assert grouped(torch.zeros(5, 0)) == []


@pytest.fixture(scope="module")
def spectra():
    """Smooth curves and a number that one bump of them is in proportion to, as absorption spectra have it."""
    rng = np.random.default_rng(0)
    grid = np.linspace(0, 1, 50)
    amount, level, slope = rng.uniform(0, 1, (3, 60, 1))
    X = 3 + level + slope * grid + amount * np.exp(-((grid - 0.4) ** 2) / 0.01) + 0.001 * rng.normal(size=(60, 50))
    return X[:, None], 50 * amount[:, 0]


def test_shown_terms_of_spectra_do_not_cancel(spectra):
    X, y = spectra
    model = SigGPRegressor(views=["path", "linear"], n_features=200).fit(X[:45], y[:45])
    single = explain_series(model.committee_, model._batch(X[45:]), ["x"], top=8)
    rests = []
    for explanation in model.explain(X[45:], 8, segments=0):
        shown = [term.value for term in explanation.contributions]
        assert explanation.constant + sum(shown) + explanation.rest == pytest.approx(explanation.latent, abs=1e-8 * 50)
        rests.append(abs(explanation.rest))
        pairs = itertools.combinations(shown, 2)
        large = [(a, b) for a, b in pairs if min(abs(a), abs(b)) > 5]  # of numbers from 0 to 50
        assert all(abs(a + b) >= 0.5 * max(abs(a), abs(b)) for a, b in large), shown
        assert any(term.others for term in explanation.contributions)
    alone = [abs(explanation.rest) * model.target_scale_ for explanation in single]
    assert np.median(rests) < 0.5 * np.median(alone)  # few terms say most of it


def test_words_of_one_path_are_grouped_too():
    batch = batch_of(20)
    committee = one_member(batch, Bernoulli())
    plain = explain_series(committee, batch, NAMES, ["no", "yes"], top=3)
    explanations = explain_series(committee, batch, NAMES, ["no", "yes"], top=3, group=True)
    for one, other in zip(plain, explanations, strict=True):
        assert other.latent == pytest.approx(one.latent)
        assert other.constant + other.rest + sum(c.value for c in other.contributions) == pytest.approx(other.latent)
