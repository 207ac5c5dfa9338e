"""Series that are unusual but legal: constant, short, equal to each other, huge, tiny."""

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from helpers.small_estimators import classifier, estimator, outputs, random_walks, regressor, rising

KINDS = ("classifier", "regressor")
X, Y = rising(16)
WIDE = random_walks(16)

LEGAL = {
    "one point": WIDE[:, :, :1],
    "two points": WIDE[:, :, :2],
    "a constant channel": np.concatenate([WIDE, np.full_like(WIDE[:, :1], 5.0)], axis=1),
    "constant series": np.repeat(WIDE[:, :, :1], 10, axis=2),
    "the same constant": np.full_like(WIDE, 3.0),
    "zeros": np.zeros_like(WIDE),
    "equal series": np.repeat(WIDE[:1], 16, axis=0),
    "series in pairs": np.repeat(WIDE[:8], 2, axis=0),
    "one outlier": np.where(np.arange(16)[:, None, None] == 3, 1e12, WIDE),
    "a channel never observed": np.concatenate([WIDE, np.full_like(WIDE[:, :1], np.nan)], axis=1),
    "lengths from 1 to 10": [series[:, : 1 + i % 10] for i, series in enumerate(WIDE)],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "settings"),
    [(name, {}) for name in LEGAL]
    + [(name, {"transforms": "auto", "members": 4, "n_features": 9}) for name in ("one point", "zeros", "one outlier")],
)
def test_legal_series_work(kind: str, name: str, settings: dict[str, Any]):
    series = LEGAL[name]
    related = name in ("equal series", "series in pairs")
    with pytest.warns(UserWarning, match="16 equal") if related else nullcontext():
        fitted = estimator(kind, **settings).fit(series, Y)
    actual = outputs(fitted, series)
    assert np.isfinite(actual).all()
    if kind == "classifier" and name in ("the same constant", "zeros", "equal series", "series in pairs"):
        assert actual == pytest.approx(np.full((16, 2), 0.5), abs=0.05)  # nothing tells the classes apart


@pytest.mark.parametrize("kind", KINDS)
def test_two_series_are_enough(kind: str):
    fitted = estimator(kind, transforms="auto", members="auto").fit(X[:2], Y[:2])
    assert np.isfinite(outputs(fitted, X)).all()
    assert fitted.predict(X[:2])[0] < fitted.predict(X[:2])[1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("factor", [1e145, 1e100, 1e-100, 1e-300])
def test_units_do_not_matter(kind: str, factor: float):
    settings: dict[str, Any] = {"transforms": {"append": "variation"}}
    plain = outputs(estimator(kind, **settings).fit(WIDE, Y), WIDE)
    scaled = outputs(estimator(kind, **settings).fit(WIDE * factor, Y), WIDE * factor)
    assert scaled == pytest.approx(plain, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize(("shift", "scale"), [(0.0, 1e100), (0.0, 1e-100), (1e6, 1.0), (-40.0, 1e-3)])
def test_units_of_targets_do_not_matter(shift: float, scale: float):
    y = X[:, 0, -1]
    plain, other = (regressor().fit(X, t) for t in (y, shift + scale * y))
    expected = outputs(plain, X) * scale + np.array([shift, 0.0, shift, shift])
    assert outputs(other, X) == pytest.approx(expected, rel=1e-8, abs=1e-8 * scale)
    density = plain.log_likelihood(X, y) - np.log(scale)
    assert other.log_likelihood(X, shift + scale * y) == pytest.approx(density, rel=1e-8, abs=1e-8)


def test_constant_targets():
    fitted = regressor().fit(X, np.full(16, 7.0))
    mean, spread = fitted.predict(X, return_std=True)
    assert mean == pytest.approx(np.full(16, 7.0), abs=1e-6) and (spread < 1e-3).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore::siggpde.committee.novelty.NoveltyWarning")
def test_series_beyond_the_range_of_the_model_are_an_error(kind: str):
    """Of the model of words of the paper; views know no more of a series so far away than that it is."""
    views = estimator(kind).fit(WIDE, Y)
    for factor in (1e10, 1e120, 1e250):
        assert np.isfinite(outputs(views, WIDE * factor)).all()
    fitted = estimator(kind, method="paper").fit(WIDE, Y)
    for factor in (1e10, 1e120, 1e250):
        with pytest.raises(OverflowError, match=r"series 0.* too large"):
            fitted.predict(WIDE * factor)


def test_as_many_classes_as_series():
    with pytest.warns(UserWarning, match="number of unique classes"):
        fitted = classifier().fit(random_walks(24), np.arange(24))
    assert fitted.predict_proba(random_walks(3, seed=1)).shape == (3, 24)
