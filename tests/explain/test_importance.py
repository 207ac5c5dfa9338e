"""Importance finds the channel, the time and the sign that were planted."""

import json

import numpy as np
import pytest

from helpers.refusals import assert_refused
from siggpde import SigGPClassifier, SigGPRegressor

NAMES = ["noise", "cause", "more noise"]
SETTINGS = {"views": ["windows", "linear"], "members": 2, "channel_names": NAMES}


def series(count=60, seed=0):
    """Noise, and in the channel "cause" a bump at points 24 to 29 of those that are marked."""
    rng = np.random.default_rng(seed)
    X, marked = rng.normal(size=(count, 3, 40)), np.arange(count) % 2 == 0
    X[marked, 1, 24:30] += 3.0
    return X, np.where(marked, "bump", "flat")


@pytest.fixture(scope="module")
def fitted():
    X, y = series()
    model = SigGPClassifier(**SETTINGS).fit(X, y)
    return model, model.importance(series(40, 1)[0], top=5)


def test_the_planted_channel_region_and_class(fitted):
    _, importances = fitted
    assert importances.channels[0].name == "cause" and importances.channels[0].share > 0.6
    assert max(importances.regions, key=lambda effect: effect.share).name == "points 24 to 27"
    bump = next(effect for effect in importances.classes if effect.label == "bump")
    cause = next(effect for effect in bump.channels if effect.name == "cause")
    assert cause.effect > 0 and cause.probability > 0.99 and cause.std < cause.effect
    assert {effect.name for effect in bump.regions if effect.probability > 0.99} >= {"points 24 to 27"}
    assert all("cause" in effect.letters for effect in bump.words[:1])
    for part in ("channels", "regions", "scales", "words", "views"):
        assert all(0.5 <= effect.probability <= 1 for effect in getattr(bump, part))
    for part in (importances.channels, importances.regions, importances.scales):
        assert sum(effect.share for effect in part) == pytest.approx(1)
    json.dumps(importances.to_dict())


def test_of_few_series_words_stay_apart_and_wrong_labels_turn_the_sign(fitted):
    model, _ = fitted
    X, y = series(40, 1)
    assert any(part.others for part in model.importance(X, 5).words)
    assert not any(part.others for part in model.importance(X[:6], 5).words)
    (only,) = model.importance(X[::2], 2).classes  # all of one class: the mean over them
    assert only.label == "bump" and only.series == 20 and max(only.channels, key=lambda c: c.effect).name == "cause"
    wrong = np.where(y == "bump", "flat", "bump")
    (bump,) = [effects for effects in model.importance(X, 3, wrong).classes if effects.label == "bump"]
    cause = next(effects for effects in bump.channels if effects.name == "cause")
    assert cause.effect < 0 and cause.probability > 0.99
    assert_refused("40 series but y has 3 targets", model.importance, X, 3, wrong[:3])
    assert_refused("regions must be an integer of at least 1", model.importance, X, 3, regions=0)


def test_a_number_is_told_in_its_units():
    X, _ = series()
    y = 100 + 20 * X[:, 1, 24:30].mean(axis=1)
    models = [SigGPRegressor(**SETTINGS).fit(X, scale * y) for scale in (1.0, 10.0)]
    one, ten = (model.importance(X, 3).classes[0] for model in models)
    assert one.label is None and max(one.channels, key=lambda part: part.effect).name == "cause"
    for part in ("channels", "regions", "scales"):
        ours, theirs = ([part.effect for part in getattr(effects, part)] for effects in (one, ten))
        assert theirs == pytest.approx([10 * value for value in ours], rel=1e-8, abs=1e-8)
    upper = y > np.median(y)
    predicted = models[0].predict(X)
    whole = predicted[upper].mean() - predicted[~upper].mean()
    assert sum(part.effect for part in one.channels) == pytest.approx(whole, rel=0.1)


def test_what_the_paper_reads():
    X, y = series(30)
    model = SigGPClassifier(method="paper", n_features=20, max_iter=5, channel_names=NAMES).fit(X, y)
    reading = model.paper_reading(4)
    mean = model.committee_.members[0].model.variational.mean.detach()[0]
    words = [word for word in model.committee_.members[0].model.features.words if word]
    assert reading.all_words == model.importance(X, y=y).all_words == len(words) == 19 and len(reading.words) == 4
    wanted = mean[1:].abs().sort(descending=True).values[:4].tolist()
    assert [word.size for word in reading.words] == pytest.approx(wanted)
    letters = ("time", *NAMES)
    place = int(mean[1:].abs().argmax())
    assert reading.words[0].name == "–".join(letters[letter] for letter in words[place])
    assert all(word.std > 0 for word in reading.words)
    assert_refused("method='paper'", SigGPClassifier(views=["linear"], members=1).fit(X, y).paper_reading)


@pytest.mark.parametrize("views", [["kernel"], ["kernel", "windows"]])
def test_kernels_without_words_are_of_the_whole_series(views: list[str]):
    X = np.random.default_rng(0).normal(size=(20, 2, 12))
    y = np.arange(20) % 2
    X[y == 1, 0] += 2
    importances = SigGPClassifier(views=views, members=1).fit(X, y).importance(X)
    assert "the whole series" in [part.name for part in importances.scales]
    assert importances.channels[0].name == "channel 0"
