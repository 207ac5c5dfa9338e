"""Metrics of classes agree with scikit-learn or with counts by hand, and refuse senseless input."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as oracle

from helpers.refusals import assert_refused
from siggpde.metrics import calibration_bins, classification_metrics, risk_coverage, set_metrics


def predictions(seed, n, count):
    """Labels among which every class occurs, and probabilities that lean towards them."""
    random = np.random.default_rng(seed)
    y = np.concatenate([np.arange(count), random.integers(0, count, n)])
    scores = random.normal(size=(len(y), count)) + 1.5 * np.eye(count)[y]
    return y, np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 60), count=st.integers(2, 6))
def test_classes_agree_with_scikit_learn_and_with_counts(seed, n, count):
    y, p = predictions(seed, n, count)
    names = np.array([f"class {i}" for i in range(count)])
    before = p.copy()
    computed = classification_metrics(names[y], p, names)
    assert np.array_equal(p, before)
    guess = p.argmax(axis=1)
    assert computed.n == n + count
    assert computed.balanced_accuracy == pytest.approx(oracle.balanced_accuracy_score(y, guess))
    assert computed.nlpp == pytest.approx(oracle.log_loss(y, p))
    counts = [[int(((y == i) & (guess == j)).sum()) for j in range(count)] for i in range(count)]
    assert computed.confusion == tuple(map(tuple, counts))
    assert computed.accuracy == pytest.approx(sum(counts[i][i] for i in range(count)) / computed.n)
    assert computed.recall == pytest.approx([(guess[y == i] == i).mean() for i in range(count)])
    for i in range(count):
        taken = y[guess == i]
        precision = (taken == i).mean() if len(taken) else np.nan
        assert computed.precision[i] == pytest.approx(precision, nan_ok=True)
    assert computed.f1 == pytest.approx(oracle.f1_score(y, guess, average="macro"))
    if count == 2:
        assert computed.auc == pytest.approx(oracle.roc_auc_score(y, p[:, 1]))
        assert computed.brier == pytest.approx(2 * oracle.brier_score_loss(y, p[:, 1]))  # which counts one class
    else:
        assert computed.auc == pytest.approx(oracle.roc_auc_score(y, p, average="macro", multi_class="ovr"))


def test_metrics_by_hand():
    p = [[0.7, 0.2, 0.1], [0.1, 0.9, 0.0], [0.4, 0.3, 0.3], [0.72, 0.2, 0.08]]
    computed = classification_metrics([0, 1, 2, 1], p, [0, 1, 2], bins=10)
    by_hand = [0.09 + 0.04 + 0.01, 0.01 + 0.01, 0.16 + 0.09 + 0.49, 0.72**2 + 0.64 + 0.08**2]
    assert computed.brier == pytest.approx(sum(by_hand) / 4)
    # (0.6, 0.7] has the first; (0.8, 0.9] the second; (0.3, 0.4] the third; (0.7, 0.8] the last.
    assert computed.ece == pytest.approx((0.3 + 0.1 + 0.4 + 0.72) / 4)
    one = classification_metrics([0, 1, 2, 1], p, [0, 1, 2], bins=1)
    assert one.ece == pytest.approx(abs((0.7 + 0.9 + 0.4 + 0.72) / 4 - 0.5))
    p = np.tile([0.75, 0.25], (400, 1))
    y = np.repeat([0, 0, 0, 1], 100)
    assert classification_metrics(y, p, [0, 1]).ece == pytest.approx(0.0, abs=1e-12)
    curve = calibration_bins(y, p, [0, 1], bins=4)
    assert curve.count.tolist() == [0, 0, 400, 0]
    assert curve.confidence[2] == curve.accuracy[2] == 0.75
    assert np.isnan(curve.accuracy[0])
    computed = classification_metrics([0, 1], [[1.0, 0.0], [1.0, 0.0]], [0, 1])
    assert computed.nlpp == math.inf
    assert str(classification_metrics([0], [[1.0, 0.0]], [0, 1]).nlpp) == "0.0"
    computed = classification_metrics(["a", "a"], [[0.9, 0.1, 0.0], [0.2, 0.8, 0.0]], ["a", "b", "c"])
    assert computed.balanced_accuracy == 0.5
    assert computed.recall[0] == 0.5 and math.isnan(computed.recall[1]) and math.isnan(computed.precision[2])
    plain = computed.to_dict()
    assert plain["recall"] == [0.5, None, None] and plain["precision"] == [1.0, 0.0, None]
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["confusion"] == [[1, 1, 0], [0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("labels", [["x", "y"], [3, 7], [False, True], [1.5, 2.5]])
def test_labels_of_every_kind(labels):
    p = [[0.8, 0.2], [0.3, 0.7]]
    for y in (labels, np.array(labels), np.array(labels, dtype=object), tuple(labels)):
        computed = classification_metrics(y, p, np.array(labels))
        assert computed.accuracy == 1.0
        assert computed.classes == tuple(labels)
        assert [type(label) for label in computed.classes] == [type(label) for label in labels]


def test_float32_probabilities_over_many_classes_are_good_enough():
    random = np.random.default_rng(0)
    p = random.random((3, 1000), dtype=np.float32)
    p /= p.sum(axis=1, keepdims=True)
    assert classification_metrics([0, 1, 2], p, np.arange(1000)).n == 3


TWO = [[0.5, 0.5], [0.2, 0.8]]


def test_bad_classifications_and_bins_are_refused():
    assert_refused("never seen: dog", classification_metrics, ["a", "dog"], TWO, ["a", "b"])
    assert_refused("c, d, e, f, g and 1 more", classification_metrics, list("acdefgh"), [[1, 0]] * 7, ["a", "b"])
    assert_refused(r"int in y, str in classes.*write the labels", classification_metrics, [1, 2], TWO, ["1", "2"])
    assert_refused("never seen: nan", classification_metrics, [0.0, math.nan], TWO, [0, 1])
    assert_refused("3 labels in y but 2 rows", classification_metrics, [0, 1, 1], TWO, [0, 1])
    assert_refused(r"shape \(n, 3\).*got \(2, 2\)", classification_metrics, [0, 1], TWO, [0, 1, 2])
    assert_refused(r"got \(2,\)", classification_metrics, [0, 1], [0.5, 0.5], [0, 1])
    assert_refused(r"labels must have shape \(n,\)", classification_metrics, [[0], [1]], TWO, [0, 1])
    assert_refused(r"labels must have shape \(n,\)", classification_metrics, 0, TWO, [0, 1])
    assert_refused(r"labels must have shape \(n,\)", classification_metrics, np.zeros((2, 1)), TWO, [0, 1])
    assert_refused("y is empty", classification_metrics, [], np.zeros((0, 2)), [0, 1])
    assert_refused("series 1 for class 0 is nan", classification_metrics, [0, 1], [[0.5, 0.5], [math.nan, 0.5]], [0, 1])
    assert_refused("from 0 to 1", classification_metrics, [0, 1], [[0.5, 0.5], [1.5, -0.5]], [0, 1])
    assert_refused("series 1 sum to 1.1", classification_metrics, [0, 1], [[0.5, 0.5], [0.5, 0.6]], [0, 1])
    assert_refused("array of numbers", classification_metrics, [0, 1], [["a", "b"]] * 2, [0, 1])
    assert_refused("distinct", classification_metrics, [0, 1], TWO, [0, 0])
    assert_refused("at least one", classification_metrics, [0, 1], np.zeros((2, 0)), [])
    for bins in (0, -1, 2.5, "many"):
        assert_refused("bins must be", classification_metrics, [0, 1], TWO, [0, 1], bins=bins)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 40), decimals=st.sampled_from([1, 12]))
def test_the_curve_by_counting(seed: int, n: int, decimals: int):
    """With one decimal many series are equally sure; then the area is the mean over all orders of these."""
    random = np.random.default_rng(seed)
    top = np.round(random.uniform(0.5, 1.0, n), decimals)
    y = (random.uniform(size=n) > top).astype(int)
    p = np.stack([top, 1 - top], axis=1)
    wrong = p.argmax(axis=1) != y
    curve = risk_coverage(y, p, [0, 1])
    for coverage, risk, threshold in zip(curve.coverage, curve.risk, curve.threshold, strict=True):
        predicted = top >= threshold
        assert coverage == pytest.approx(predicted.mean()) and risk == pytest.approx(wrong[predicted].mean())
    assert curve.coverage[-1] == 1 and len(curve.coverage) == len(set(top.tolist()))
    areas = []
    for _ in range(2000 if decimals == 1 else 1):
        order = np.lexsort([random.uniform(size=n), -top])
        areas.append((np.cumsum(wrong[order]) / np.arange(1, n + 1)).mean())
    error = np.std(areas) / np.sqrt(len(areas))
    assert curve.area == pytest.approx(np.mean(areas), abs=5 * error + 1e-12)
    assert classification_metrics(y, p, [0, 1]).aurc == curve.area


def test_risk_at_a_share_and_its_area():
    y, p = ["a", "a", "b", "b"], [[0.9, 0.1], [0.2, 0.8], [0.4, 0.6], [0.4, 0.6]]
    curve = risk_coverage(y, p, ["a", "b"])
    assert [curve.risk_at(share) for share in (0.1, 0.25, 0.5, 0.6, 1.0)] == [0, 0, 0.5, 0.25, 0.25]
    assert_refused("coverage must be above 0", curve.risk_at, 0)
    p = np.linspace(0.5, 1, 200)
    sure = risk_coverage((p < 0.6).astype(int), np.stack([p, 1 - p], 1), [0, 1])
    other = risk_coverage((p > 0.9).astype(int), np.stack([p, 1 - p], 1), [0, 1])
    assert sure.area < 0.03 and other.area > 0.3


def test_sets_and_what_is_not_defined():
    sets = np.array([[True, True, False], [False, False, False], [False, False, True]])
    computed = set_metrics(["x", "y", "z"], sets, ["x", "y", "z"])
    shares = (computed.coverage, computed.size, computed.empty, computed.single)
    assert shares == pytest.approx((2 / 3, 1, 1 / 3, 1 / 3))
    for wrong in (sets[:2], sets.astype(float), sets[:, :2]):
        assert_refused("sets must be bools of shape", set_metrics, ["x", "y", "z"], wrong, ["x", "y", "z"])
    assert set_metrics(["never seen"], sets[:1], ["x", "y", "z"]).coverage == 0
    alone = classification_metrics(["a", "a"], [[0.9, 0.1], [0.4, 0.6]], ["a", "b"])
    assert np.isnan(alone.auc) and alone.to_dict()["auc"] is None
    assert alone.f1 == pytest.approx((2 / 3 + 0) / 2)
    three = classification_metrics(["a", "b"], [[0.5, 0.2, 0.3], [0.1, 0.5, 0.4]], ["a", "b", "c"])
    assert three.auc == 1 and three.f1 == 1  # class c neither occurs nor is predicted
