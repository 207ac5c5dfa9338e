"""Scores of forecasts: the correction for thinning is Bayes' rule, samples are of days, intervals cover."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from siggpde_paper.experiments.weather import MEASURES, Forecasts, bootstrap, draw_days, scores, to_natural

NLPP = MEASURES.index("nlpp")


@given(st.floats(0.001, 0.5), st.floats(0.01, 1.0), st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_correction_is_bayes_rule(rate, kept, if_wet, if_dry):
    """A window of a kind that is seen with these chances when it is wet or dry."""
    natural = rate * if_wet / (rate * if_wet + (1 - rate) * if_dry)
    thinned = rate * if_wet / (rate * if_wet + kept * (1 - rate) * if_dry)
    assert expit(to_natural(logit(thinned), kept)) == pytest.approx(natural, rel=1e-9)


@pytest.mark.parametrize("kept", [0.0, -0.1, 1.5])
def test_correction_wants_a_share(kept):
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        to_natural(np.zeros(2), kept)


def forecasts_of(seed, days=12, each=10, digits=1):
    generator = np.random.default_rng(seed)
    wet = generator.random(days * each) < 0.3
    wet[:2] = True, False
    log_odds = (generator.normal(size=len(wet)) + wet).round(digits)  # rounded, so that there are ties
    return Forecasts(log_odds, wet, np.repeat(np.arange(days) + 100, each))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000))
def test_scores_against_scikit_learn(seed):
    given_ = forecasts_of(seed)
    counts = np.stack([np.ones(12, dtype=int), draw_days(12, 1, seed)[0]])
    days = np.arange(12) + 100
    found = scores(given_, counts, days)
    np.testing.assert_allclose(found[0], scores(given_)[0])
    for count, row in zip(counts, found, strict=True):
        weight = count[given_.day - 100]
        p = expit(given_.log_odds)
        if len(set(given_.wet[weight > 0])) < 2:
            assert np.isnan(row[2])
            continue
        right = np.average((p > 0.5) == given_.wet, weights=weight)
        wanted = [
            right,
            log_loss(given_.wet, p, sample_weight=weight),
            roc_auc_score(given_.wet, given_.log_odds, sample_weight=weight),
            brier_score_loss(given_.wet, p, sample_weight=weight),
        ]
        np.testing.assert_allclose(row, wanted, rtol=1e-9)


def test_days_are_drawn_whole():
    counts = draw_days(30, 200, 0)
    assert counts.shape == (200, 30)
    assert (counts.sum(axis=1) == 30).all()
    assert (counts == 0).any() and (counts > 1).any()
    with pytest.raises(ValueError, match="two days or more"):
        draw_days(1, 10, 0)


def test_windows_of_a_day_alike_say_no_more_than_one():
    """Sixty windows a day, all the same, leave the interval as wide as one a day."""
    one = forecasts_of(3, days=60, each=1)
    many = Forecasts(one.log_odds.repeat(60), one.wet.repeat(60), one.day.repeat(60))
    (a, _), (b, _) = (bootstrap({"x": [each]}, samples=300) for each in (one, many))
    for measure in MEASURES:
        assert a["x"][measure].low == pytest.approx(b["x"][measure].low)
        assert a["x"][measure].high == pytest.approx(b["x"][measure].high)


def test_intervals_cover():
    """Of weather that comes by the day, about nine in ten intervals of 90 % hold the true NLPP; single windows drawn
    one by one would hold it far less often."""
    generator = np.random.default_rng(0)
    hits = alone = 0
    trials, days, each = 100, 60, 8
    # A day is wet with probability 0.3, all of it, and every forecast says so.
    truth = -(0.3 * np.log(0.3) + 0.7 * np.log(0.7))
    for _ in range(trials):
        wet = (generator.random(days) < 0.3).repeat(each)
        log_odds = np.full(len(wet), logit(0.3))
        by_day, _ = bootstrap({"x": [Forecasts(log_odds, wet, np.arange(days).repeat(each))]}, samples=200, level=0.9)
        by_row, _ = bootstrap({"x": [Forecasts(log_odds, wet, np.arange(len(wet)))]}, samples=60, level=0.9)
        hits += by_day["x"]["nlpp"].low <= truth <= by_day["x"]["nlpp"].high
        alone += by_row["x"]["nlpp"].low <= truth <= by_row["x"]["nlpp"].high
    assert 0.8 <= hits / trials <= 0.97
    assert alone / trials < 0.65


def test_differences_are_paired():
    """A method that is always a little better is surely better, though the days differ much more than that."""
    base = forecasts_of(5, days=40)
    sign = np.where(base.wet, 0.05, -0.05)
    better = Forecasts(base.log_odds + sign, base.wet, base.day)
    single, pairs = bootstrap({"base": [base, base], "better": [better, better]}, samples=300)
    found = pairs["better", "base"]
    assert found.value == pytest.approx(scores(better)[0, NLPP] - scores(base)[0, NLPP])
    assert found.low < found.value < found.high < 0
    assert single["base"]["nlpp"].low < single["better"]["nlpp"].value  # alone they could not be told apart
    assert pairs["base", "better"].low == pytest.approx(-found.high)


@pytest.mark.parametrize(
    ("forecasts", "said"),
    [((3, 2, 3), "got 3 log-odds, 2 outcomes and 3 days"), ((2, 0, 2), "2 log-odds, 0 outcomes")],
)
def test_sizes(forecasts, said):
    with pytest.raises(ValueError, match=said):
        Forecasts(*(np.ones(n) for n in forecasts))


def test_one_kind_of_weather_has_no_score():
    with pytest.raises(ValueError, match="all windows are wet, or all are dry"):
        Forecasts(np.zeros(3), np.zeros(3, dtype=bool), np.zeros(3))
