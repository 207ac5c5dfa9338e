"""The risk-coverage curve by sorting and counting, and metrics of sets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siggpde.metrics import classification_metrics, risk_coverage, set_metrics


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


def test_risk_at_a_share():
    y, p = ["a", "a", "b", "b"], [[0.9, 0.1], [0.2, 0.8], [0.4, 0.6], [0.4, 0.6]]
    curve = risk_coverage(y, p, ["a", "b"])
    assert [curve.risk_at(share) for share in (0.1, 0.25, 0.5, 0.6, 1.0)] == [0, 0, 0.5, 0.25, 0.25]
    with pytest.raises(ValueError, match="coverage must be above 0"):
        curve.risk_at(0)


def test_the_surest_being_right_makes_the_area_small():
    p = np.linspace(0.5, 1, 200)
    sure = risk_coverage((p < 0.6).astype(int), np.stack([p, 1 - p], 1), [0, 1])
    other = risk_coverage((p > 0.9).astype(int), np.stack([p, 1 - p], 1), [0, 1])
    assert sure.area < 0.03 and other.area > 0.3


def test_sets():
    sets = np.array([[True, True, False], [False, False, False], [False, False, True]])
    found = set_metrics(["x", "y", "z"], sets, ["x", "y", "z"])
    assert (found.coverage, found.size, found.empty, found.single) == pytest.approx((2 / 3, 1, 1 / 3, 1 / 3))
    for wrong in (sets[:2], sets.astype(float), sets[:, :2]):
        with pytest.raises(ValueError, match="sets must be bools of shape"):
            set_metrics(["x", "y", "z"], wrong, ["x", "y", "z"])
    assert set_metrics(["never seen"], sets[:1], ["x", "y", "z"]).coverage == 0


def test_what_is_not_defined():
    alone = classification_metrics(["a", "a"], [[0.9, 0.1], [0.4, 0.6]], ["a", "b"])
    assert np.isnan(alone.auc) and alone.to_dict()["auc"] is None
    assert alone.f1 == pytest.approx((2 / 3 + 0) / 2)
    three = classification_metrics(["a", "b"], [[0.5, 0.2, 0.3], [0.1, 0.5, 0.4]], ["a", "b", "c"])
    assert three.auc == 1 and three.f1 == 1  # class c neither occurs nor is predicted
