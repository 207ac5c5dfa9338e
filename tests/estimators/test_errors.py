"""What estimators say to input they cannot use, and that unusual but legal input simply works."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from helpers.refusals import assert_refused
from helpers.small_estimators import classifier, estimator, outputs, random_walks, regressor, rising
from siggpde.estimators import training

KINDS = ("classifier", "regressor")
X, Y = rising(16)
WIDE = random_walks(16)


def changed(place: tuple[Any, ...], value: float) -> np.ndarray:
    other = WIDE.copy()
    other[place] = value
    return other


@cache
def known(kind: str) -> tuple[Any, np.ndarray]:
    """A fitted estimator, and what it predicts of WIDE."""
    fitted = estimator(kind).fit(WIDE, Y)
    return fitted, outputs(fitted, WIDE)


BAD_SERIES: list[tuple[Any, str]] = [
    (changed((3,), np.nan), "series 3 of X is NaN everywhere; drop"),
    (changed((3, 1, 4), np.inf), r"series 3 of X is infinite \(inf\) in channel 1 at time point 4"),
    (changed((5, 0, 2), 1e305), r"series 5 of X has 1e\+305 in channel 0, which is too large"),
    (WIDE[:, :, :0], "X has no time points"),
    (WIDE[:, :0], "X has no channels"),
    (np.zeros(16), r"X must have shape \(n_cases, n_channels, n_timepoints\).*got \(16,\)"),
    (WIDE[:, :, :, None], r"got \(16, 2, 10, 1\)"),
    ([*WIDE[:15], WIDE[0, :1]], "series 15 of X has 1 channels.*but series 0 has 2"),
    ([*WIDE[:15], WIDE[0, :, :0]], r"series 15 of X must have shape .*got \(2, 0\)"),
    (WIDE.astype(str), "X must hold real numbers"),
    (WIDE + 1j, "real and the imaginary part as two channels"),
    (WIDE[:15], "X has 15 series but y has 16 targets"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("series", "match"), BAD_SERIES, ids=[match[:20] for _, match in BAD_SERIES])
def test_bad_series(kind: str, series: Any, match: str):
    assert_refused(match, estimator(kind).fit, series, Y)
    fitted, before = known(kind)
    assert_refused(match, fitted.partial_fit, series, Y)
    if "targets" not in match:
        assert_refused(match, fitted.predict, series)
    assert np.array_equal(outputs(fitted, WIDE), before)


@pytest.mark.parametrize("kind", KINDS)
def test_no_series_one_series_and_other_channels(kind: str):
    assert_refused("y is empty", estimator(kind).fit, [], [])
    assert_refused(r"only one class|one series is not enough", estimator(kind).fit, X[:1], Y[:1])
    assert_refused("X is empty: there are no series", estimator(kind).fit(X, Y).predict, [])
    fitted, _ = known(kind)
    for other, count in ((WIDE[:, :1], 1), (WIDE[:, 0], 1), (np.repeat(WIDE, 2, axis=1), 4)):
        assert_refused(f"have {count} channels, but those of fit had 2", fitted.predict, other)


@pytest.mark.parametrize(
    ("kinds", "targets", "match"),
    [
        (KINDS, None, "requires y to be passed"),
        (KINDS, np.where(Y, np.nan, 1.0), "y is not finite .* for series 1"),
        (KINDS, Y[:9], "X has 16 series but y has 9 targets"),
        (["classifier"], Y * 0, "only one class, 0; a classifier needs two"),
        (["classifier"], np.array(["a", None] * 8, dtype=object), "missing labels"),
        (["classifier"], np.linspace(0, 1, 16) + 0.1, "Unknown label type: continuous"),
        (["classifier"], np.stack([Y, Y], axis=1), "1d array"),
        (["regressor"], np.where(Y, np.inf, 1.0), "y is not finite .* for series 1"),
        (["regressor"], np.array(["a", "b"] * 8), "y must be numbers for a regression"),
        (["regressor"], Y + 1j, "[cC]omplex"),
        (["regressor"], np.where(Y, 1e200, 1.0), r"y is 1e\+200 for series 1, beyond what can be squared; give y in"),
        (["regressor"], np.full(16, 1e-200), "other units"),
    ],
)
def test_bad_targets(kinds: list[str], targets: Any, match: str):
    for kind in kinds:
        assert_refused(match, estimator(kind).fit, X, targets)


@pytest.mark.parametrize(
    ("name", "values", "match"),
    [
        ("dtype", ["float16", np.float32, [1]], "dtype must be one of 'auto', 'float32', 'float64', got"),
        ("device", ["tpu", "cuda", "cuda:99"], "device='(tpu|cuda|cuda:99)' cannot be used: .*; take device='cpu'"),
        ("device", [3, None], "device must be 'auto' or a device of torch such as 'cpu', 'cuda' or 'cuda:1', got"),
        ("members", [0, -1, 1.5, "many", True, None], "members must be an integer of at least 1, got"),
        ("n_features", [0, 1, 2.0, "many", None], "n_features must be 'auto' or an integer of at least 2, got"),
        ("max_iter", [0, "a"], "max_iter must be 'auto' or an integer of at least 1, got"),
        ("method", ["exact", None, ["paper"]], "method must be one of 'views', 'paper', got"),
        ("time_limit", [0, -1, "1", np.nan, True], "time_limit must be a positive number of seconds or None, got"),
        ("random_state", [-1, 1.5, "a", 2**70, True], "random_state must be None, an integer from 0 or a numpy gen"),
        ("transforms", ["all", 3, None], "transforms must be 'auto', a PathOptions or a dictionary"),
        ("transforms", [{"leadlag": True}], "transforms has no field 'leadlag'; its fields are time, base_point"),
        ("transforms", [{"append": "x"}], "append must be 'none', 'variation' or 'arc', got 'x'"),
        ("spectrogram", [{"size": 3}], "spectrogram has no field 'size'; its fields are rate"),
        ("spectrogram", [3], "spectrogram must be a Spectrogram or None, got int"),
        ("time_channel", [1, -2], "time_channel is .*, but X has 1 channels"),
        ("time_channel", ["a", True], "time_channel must be a whole number"),
        ("max_points", [0], "max_points must be a positive whole number"),
        ("n_jobs", [0, -2, "a", 2.0], "n_jobs must be None, -1 .all cores. or a positive integer"),
        ("channel_names", ["a", 3], "channel_names must be a list of names, got"),
        ("channel_names", [["a", "b"]], "channel_names has 2 names, but the series have 1 channels"),
        ("checkpoint", [3], "checkpoint must be the path of a folder or None, got 3"),
        ("checkpoint", [__file__], "checkpoint must be a folder, but .* is a file"),
        ("cache_dir", [3], "cache_dir must be the path of a folder or None, got 3"),
        ("cache_dir", [__file__], "cache_dir must be a folder, but .* is a file"),
        ("resume", [True], "resume=True needs the folder to go on from: give checkpoint="),
        ("likelihood", ["laplace", None, ["softmax"]], "likelihood must be one of 'auto', .* got"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_bad_settings(kind: str, name: str, values: list[Any], match: str):
    for value in values:
        assert_refused(match, estimator(kind, **{name: value}).fit, X, Y)


@pytest.mark.parametrize(
    ("weight", "match"),
    [
        ("even", "class_weight must be None, 'balanced' or a dictionary, got 'even'"),
        ([1.0, 2.0], "class_weight must be None, 'balanced' or a dictionary"),
        ({"1": 2.0}, "class_weight names '1', which is not among the labels"),
        ({1: -1.0}, "class_weight of 1 must be a positive number, got -1.0"),
        ({1: np.nan}, "class_weight of 1 must be a positive number, got nan"),
        ({1: "2"}, "class_weight of 1 must be a positive number, got '2'"),
    ],
)
def test_bad_class_weights(weight: Any, match: str):
    assert_refused(match, classifier(class_weight=weight).fit, X, Y)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("groups", np.arange(23), r"groups must have shape \(24,\), one a series; got \(23,\)"),
        ("groups", np.zeros((24, 2)), r"groups must have shape \(24,\), one a series; got \(24, 2\)"),
        ("groups", np.r_[np.nan, np.arange(23)], r"groups is missing \(None or NaN\) for series 0"),
        ("groups", ["a"] * 5 + [None] + ["b"] * 18, r"groups is missing \(None or NaN\) for series 5"),
        ("groups", ["only"] * 24, "all series are of one group, 'only': .* give no groups, or series of two or more"),
        ("sample_weight", np.ones(23), r"sample_weight must have shape \(24,\), one a series; got \(23,\)"),
        ("sample_weight", np.ones((24, 1)), r"sample_weight must have shape \(24,\), one a series; got \(24, 1\)"),
        ("sample_weight", np.r_[1.0, np.nan, np.ones(22)], "is nan for series 1; weights are positive numbers"),
        ("sample_weight", np.r_[1.0, 1.0, 0.0, np.ones(21)], "is 0.0 for series 2; .* leave out series"),
        ("sample_weight", np.r_[-1.0, np.ones(23)], "sample_weight is -1.0 for series 0"),
        ("sample_weight", np.zeros(24), "sample_weight is zero for all series; give positive weights, or none"),
        ("sample_weight", ["heavy"] * 24, "sample_weight must be numbers"),
    ],
)
def test_bad_groups_and_weights(kind: str, name: str, values: Any, message: str):
    assert_refused(message, estimator(kind).fit, *rising(24), **{name: values})


def test_likelihoods_for_other_targets():
    with pytest.raises(ValueError, match="'bernoulli' is for two classes, y has 4; take 'softmax'"):
        classifier(likelihood="bernoulli", method="paper").fit(X, np.arange(16) % 4)
    for wrong, place in ((np.where(Y, -1.0, 2.0), 1), (np.where(Y, 2.0, 0.5), 0)):
        with pytest.raises(ValueError, match=f"'poisson' is for counts.*for series {place}; take 'gaussian'"):
            regressor(likelihood="poisson", method="paper").fit(X, wrong)


def test_labels_that_fit_has_not_seen():
    fitted = classifier().fit(X, np.where(Y, "up", "down"))
    before = fitted.predict_proba(X)
    calls: list[Callable[..., Any]] = [fitted.log_likelihood, fitted.partial_fit]
    for call in calls:
        with pytest.raises(ValueError, match="y has labels that the training set had not: left; known are down, up"):
            call(X[:2], ["up", "left"])
    fresh = classifier()
    with pytest.raises(ValueError, match="classes has labels that the training set had not: 2; known are 0, 1"):
        fresh.partial_fit(X, Y, classes=[0, 1, 2])
    assert not hasattr(fresh, "committee_")
    for targets in (Y[:3], np.tile(Y, 2)):
        with pytest.raises(ValueError, match=f"X has 16 series but y has {len(targets)} targets"):
            fitted.log_likelihood(X, np.where(targets, "up", "down"))
    assert np.array_equal(fitted.predict_proba(X), before)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", ["series", "settings", "the middle", "the end"])
def test_a_failed_fit_changes_nothing(kind: str, what: str, monkeypatch: pytest.MonkeyPatch):
    fitted = estimator(kind).fit(X, Y)
    before, facts = outputs(fitted, X), {k: v for k, v in vars(fitted).items() if k != "n_features"}
    other, labels = random_walks(9, channels=3, length=5), np.array([1, 2, 3] * 3)
    match = "n_features must be" if what == "settings" else "no more"

    def fail(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt("no more")

    if what == "series":
        other[2, 1, 1], match = np.inf, "infinite"
    elif what == "settings":
        fitted.set_params(n_features=0)
    else:
        place = (training, "fit_by_views") if what == "the middle" else (type(fitted), "_set_fitted")
        monkeypatch.setattr(*place, fail)
    assert_refused(match, fitted.fit, other, labels, error=(ValueError, KeyboardInterrupt))
    monkeypatch.undo()
    assert {k: v for k, v in vars(fitted).items() if k != "n_features"} == facts
    assert np.array_equal(outputs(fitted, X), before)
