"""Changes of stretches: they join without a jump, stay where they belong, and keep gaps and time stamps."""

import numpy as np
import pytest

from siggpde.explain.replacing import Canvas, Change, Donor, stretched_onto

RANDOM = np.random.default_rng(0)
VALUES = RANDOM.normal(size=(2, 20))
OTHER = RANDOM.normal(size=(20, 2))


def canvas(raw=VALUES, seen=None, donor=OTHER, spread=(1.0, 2.0)):
    seen = raw.T if seen is None else seen
    return Canvas(raw, [0, 1], seen, None, [Donor(donor, None)], np.array(spread), raw.shape[1])


def test_a_change_is_nothing_beside_the_stretch_and_the_donor_less_a_line_inside():
    delta = canvas().delta(Change(0, 5, 12, (1,), 0.5))
    assert (delta[0] == 0).all() and (delta[1, :5] == 0).all() and (delta[1, 12:] == 0).all()
    gap = OTHER[:, 1] - VALUES[1]
    line = np.interp(np.arange(5, 12), [4, 12], gap[[4, 12]])
    assert delta[1, 5:12] == pytest.approx(0.5 * (gap[5:12] - line))


def test_the_whole_series_becomes_the_donor():
    (series,) = canvas().changed([Change(0, 0, 20, (0, 1))])
    assert series == pytest.approx(OTHER.T)


def test_ends_of_the_series_are_free():
    delta = canvas().delta(Change(0, 0, 8, (0,)))
    gap = OTHER[:, 0] - VALUES[0]
    assert delta[0, 0] == pytest.approx(gap[0])
    assert delta[0, 7] == pytest.approx(gap[7] - 7 / 8 * gap[8])
    last = canvas().delta(Change(0, 12, 20, (0,)))
    assert last[0, -1] == pytest.approx(gap[-1]) and last[0, 11] == 0


def test_size_is_the_mean_change_in_spreads():
    change = Change(0, 3, 9, (0, 1))
    drawn = canvas()
    delta = drawn.delta(change)
    assert drawn.size(change) == pytest.approx((np.abs(delta[0]).sum() + np.abs(delta[1]).sum() / 2) / 40)
    assert drawn.size(change.with_scale(0.25)) == pytest.approx(drawn.size(change) / 4)


def test_gaps_stay_gaps():
    raw = VALUES.copy()
    raw[0, 6] = np.nan
    found = canvas(raw, seen=VALUES.T)
    (series,) = found.changed([Change(0, 5, 12, (0, 1))])
    assert np.isnan(series).sum() == 1 and np.isnan(series[0, 6])
    assert found.delta(Change(0, 5, 12, (0, 1)))[0, 6] == 0


def test_long_series_are_changed_point_by_point_though_seen_averaged():
    raw = RANDOM.normal(size=(2, 40))
    seen = raw.reshape(2, 20, 2).mean(axis=2).T
    found = canvas(raw, seen)
    change = Change(0, 5, 12, (0, 1))
    assert found.limits(change) == (10, 24)
    delta = found.delta(change)
    assert (delta[:, :10] == 0).all() and (delta[:, 24:] == 0).all() and (delta[:, 10:24] != 0).all()
    averaged = delta.reshape(2, 20, 2).mean(axis=2)
    own = canvas(seen.T).delta(change)  # as if the averaged series were the one handed in
    assert np.corrcoef(averaged.ravel(), own.ravel())[0, 1] > 0.9


def test_donors_are_stretched_by_time():
    donor = Donor(np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 10.0]))
    onto = np.array([5.0, 7.0, 15.0, 25.0])
    assert stretched_onto(donor, 4, onto)[:, 0] == pytest.approx([0.0, 1.0, 1 + 4 / 9, 2.0])
