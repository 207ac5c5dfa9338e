"""Importance finds the channel, the time and the sign that were planted."""

import json

import numpy as np
import pytest

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
def found():
    X, y = series()
    model = SigGPClassifier(**SETTINGS).fit(X, y)
    return model, model.importance(series(40, 1)[0], top=5)


def test_the_planted_channel_region_and_class(found):
    _, importances = found
    assert importances.channels[0].name == "cause" and importances.channels[0].share > 0.6
    assert max(importances.regions, key=lambda each: each.share).name == "points 24 to 27"
    bump = next(each for each in importances.classes if each.label == "bump")
    cause = next(each for each in bump.channels if each.name == "cause")
    assert cause.effect > 0 and cause.probability > 0.99 and cause.std < cause.effect
    assert {each.name for each in bump.regions if each.probability > 0.99} >= {"points 24 to 27"}
    assert all("cause" in each.letters for each in bump.words[:1])
    for part in ("channels", "regions", "scales", "words", "views"):
        assert all(0.5 <= each.probability <= 1 for each in getattr(bump, part))
    for part in (importances.channels, importances.regions, importances.scales):
        assert sum(each.share for each in part) == pytest.approx(1)
    json.dumps(importances.to_dict())


def test_of_few_series_words_stay_apart(found):
    model, _ = found
    X, _ = series(40, 1)
    assert any(each.others for each in model.importance(X, 5).words)
    assert not any(each.others for each in model.importance(X[:6], 5).words)
    (only,) = model.importance(X[::2], 2).classes  # all of one class: the mean over them
    assert only.label == "bump" and only.series == 20 and max(only.channels, key=lambda c: c.effect).name == "cause"


def test_against_the_true_labels_the_sign_turns(found):
    model, _ = found
    X, y = series(40, 1)
    wrong = np.where(y == "bump", "flat", "bump")
    (bump,) = [each for each in model.importance(X, 3, wrong).classes if each.label == "bump"]
    cause = next(each for each in bump.channels if each.name == "cause")
    assert cause.effect < 0 and cause.probability > 0.99
    with pytest.raises(ValueError, match="40 series but y has 3 targets"):
        model.importance(X, 3, wrong[:3])
    with pytest.raises(ValueError, match="regions must be an integer of at least 1"):
        model.importance(X, 3, regions=0)


def test_a_number_is_told_in_its_units():
    X, _ = series()
    y = 100 + 20 * X[:, 1, 24:30].mean(axis=1)
    models = [SigGPRegressor(**SETTINGS).fit(X, scale * y) for scale in (1.0, 10.0)]
    one, ten = (model.importance(X, 3).classes[0] for model in models)
    assert one.label is None and max(one.channels, key=lambda each: each.effect).name == "cause"
    for part in ("channels", "regions", "scales"):
        ours, theirs = ([each.effect for each in getattr(own, part)] for own in (one, ten))
        assert theirs == pytest.approx([10 * value for value in ours], rel=1e-8, abs=1e-8)
    upper = y > np.median(y)
    predicted = models[0].predict(X)
    whole = predicted[upper].mean() - predicted[~upper].mean()
    assert sum(each.effect for each in one.channels) == pytest.approx(whole, rel=0.1)


def test_what_the_paper_reads():
    X, y = series(30)
    model = SigGPClassifier(method="paper", n_features=20, max_iter=5, channel_names=NAMES).fit(X, y)
    reading = model.paper_reading(4)
    mean = model.committee_.members[0].model.variational.mean.detach()[0]
    words = [word for word in model.committee_.members[0].model.features.words if word]
    assert reading.all_words == len(words) == 19 and len(reading.words) == 4
    assert [each.size for each in reading.words] == pytest.approx(
        mean[1:].abs().sort(descending=True).values[:4].tolist()
    )
    letters = ("time", *NAMES)
    place = int(mean[1:].abs().argmax())
    assert reading.words[0].name == "–".join(letters[letter] for letter in words[place])
    assert all(each.std > 0 for each in reading.words)
    with pytest.raises(ValueError, match="method='paper'"):
        SigGPClassifier(views=["linear"], members=1).fit(X, y).paper_reading()


@pytest.mark.parametrize("views", [["kernel"], ["kernel", "windows"]])
def test_kernels_without_words_are_of_the_whole_series(views: list[str]):
    X = np.random.default_rng(0).normal(size=(20, 2, 12))
    y = np.arange(20) % 2
    X[y == 1, 0] += 2
    found = SigGPClassifier(views=views, members=1).fit(X, y).importance(X)
    assert "the whole series" in [each.name for each in found.scales]
    assert found.channels[0].name == "channel 0"
