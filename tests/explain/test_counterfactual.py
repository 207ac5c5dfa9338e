"""Changes of stretches join without a jump and keep gaps and time stamps; the search finds what trying all finds."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from helpers.refusals import assert_refused
from siggpde.explain.counterfactual import Canvas, Change, ClassGoal, Donor, NumberGoal, Search, class_goal, number_goal

RANDOM = np.random.default_rng(0)
VALUES = RANDOM.normal(size=(2, 20))
OTHER = RANDOM.normal(size=(20, 2))


def canvas(raw=VALUES, seen=None, donor=OTHER, spread=(1.0, 2.0)):
    seen = raw.T if seen is None else seen
    return Canvas(raw, [0, 1], seen, None, [Donor(donor, None)], np.array(spread), raw.shape[1])


def test_changes_by_hand():
    delta = canvas().delta(Change(0, 5, 12, (1,), 0.5))
    assert (delta[0] == 0).all() and (delta[1, :5] == 0).all() and (delta[1, 12:] == 0).all()
    gap = OTHER[:, 1] - VALUES[1]
    line = np.interp(np.arange(5, 12), [4, 12], gap[[4, 12]])
    assert delta[1, 5:12] == pytest.approx(0.5 * (gap[5:12] - line))
    (series,) = canvas().changed([Change(0, 0, 20, (0, 1))])
    assert series == pytest.approx(OTHER.T)
    delta = canvas().delta(Change(0, 0, 8, (0,)))
    gap = OTHER[:, 0] - VALUES[0]
    assert delta[0, 0] == pytest.approx(gap[0])
    assert delta[0, 7] == pytest.approx(gap[7] - 7 / 8 * gap[8])
    last = canvas().delta(Change(0, 12, 20, (0,)))
    assert last[0, -1] == pytest.approx(gap[-1]) and last[0, 11] == 0
    change = Change(0, 3, 9, (0, 1))
    drawn = canvas()
    delta = drawn.delta(change)
    assert drawn.size(change) == pytest.approx((np.abs(delta[0]).sum() + np.abs(delta[1]).sum() / 2) / 40)
    assert drawn.size(replace(change, scale=0.25)) == pytest.approx(drawn.size(change) / 4)


def test_gaps_long_series_and_donors_by_time():
    raw = VALUES.copy()
    raw[0, 6] = np.nan
    drawn = canvas(raw, seen=VALUES.T)
    (series,) = drawn.changed([Change(0, 5, 12, (0, 1))])
    assert np.isnan(series).sum() == 1 and np.isnan(series[0, 6])
    assert drawn.delta(Change(0, 5, 12, (0, 1)))[0, 6] == 0
    raw = RANDOM.normal(size=(2, 40))
    seen = raw.reshape(2, 20, 2).mean(axis=2).T
    drawn = canvas(raw, seen)
    change = Change(0, 5, 12, (0, 1))
    assert drawn.limits(change) == (10, 24)
    delta = drawn.delta(change)
    assert (delta[:, :10] == 0).all() and (delta[:, 24:] == 0).all() and (delta[:, 10:24] != 0).all()
    averaged = delta.reshape(2, 20, 2).mean(axis=2)
    averaged_first = canvas(seen.T).delta(change)  # as if the averaged series were the one handed in
    assert np.corrcoef(averaged.ravel(), averaged_first.ravel())[0, 1] > 0.9
    donor = Donor(np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 10.0]))
    onto = np.array([5.0, 7.0, 15.0, 25.0])
    assert donor.stretched(4, onto)[:, 0] == pytest.approx([0.0, 1.0, 1 + 4 / 9, 2.0])


LENGTH = 8
SCALES = np.arange(1, 65) / 64


def certain(X):
    """p-values of 1."""
    return np.ones(len(X))


def line_canvas(seed: int, channels: int = 1) -> Canvas:
    random = np.random.default_rng(seed)
    raw, other = random.normal(size=(2, channels, LENGTH))
    return Canvas(raw, range(channels), raw.T, None, [Donor(other.T, None)], np.ones(channels), LENGTH)


def linear(seed: int, channels: int = 1):
    """A prediction of numbers that is linear in the series."""
    weights = np.random.default_rng(100 + seed).normal(size=(channels, LENGTH))
    return lambda X: (X * weights).sum(axis=(1, 2))


@pytest.mark.parametrize("seed", range(5))
def test_it_finds_what_trying_everything_finds(seed: int):
    drawn, predict = line_canvas(seed), linear(seed)
    now = predict(drawn.raw[None])[0]
    goal = NumberGoal(now + 0.3, np.inf, True, 0.0, 1.0)
    stretches = itertools.combinations(range(LENGTH + 1), 2)
    every = [Change(0, a, b, (0,), float(scale)) for a, b in stretches for scale in SCALES]
    turning = goal.reached(predict(drawn.changed(every)))
    best = min((drawn.size(change) for change, there in zip(every, turning, strict=True) if there), default=None)
    result = Search(drawn, goal, predict, certain, 0.05).run()
    assert result.reached == (best is not None)
    if best is not None:
        assert result.size == pytest.approx(best)


def test_implausible_changes_are_only_for_want_of_others():
    """A p-value that is large only near the donor."""
    drawn, predict = line_canvas(0), linear(0)
    donor = drawn.donors[0].values.T
    now, then = predict(np.stack([drawn.raw, donor]))
    goal = NumberGoal(now + 0.2 * (then - now), np.inf, True, 0, 1) if then > now else None
    goal = goal or NumberGoal(-np.inf, now + 0.2 * (then - now), False, 0, 1)

    def like_the_donor(X):
        return np.where(np.abs(X - donor).mean(axis=(1, 2)) < 0.2, 0.5, 0.01)

    best = Search(drawn, goal, predict, like_the_donor, 0.05).run()
    assert best.reached and best.p == 0.5
    free = Search(drawn, goal, predict, certain, 0.05).run()
    assert free.size < best.size < drawn.size(Change(0, 0, LENGTH, (0,)))
    never = Search(drawn, goal, predict, lambda X: 0.01 * certain(X), 0.05).run()
    assert never.reached and never.p == 0.01


def test_channels_that_do_not_matter_are_left_alone():
    drawn = line_canvas(3, channels=4)
    weights = np.random.default_rng(7).normal(size=LENGTH)
    now, then = ((X[2] * weights).sum() for X in (drawn.raw, drawn.donors[0].values.T))
    ends = (now + 0.5 * (then - now), np.inf) if then > now else (-np.inf, now + 0.5 * (then - now))
    goal = NumberGoal(*ends, bool(then > now), 0.0, 1.0)
    best = Search(drawn, goal, lambda X: X[:, 2] @ weights, certain, 0.05).run()
    assert best.reached and best.change.channels == (2,)


def test_what_nothing_turns_is_said_to_be_so_and_a_narrow_interval_is_hit():
    drawn = line_canvas(1)
    best = Search(drawn, ClassGoal(1), lambda X: np.tile([0.9, 0.1], (len(X), 1)), certain, 0.05).run()
    assert not best.reached and best.margin < 0
    drawn, predict = line_canvas(2), linear(2)
    now, then = predict(np.stack([drawn.raw, drawn.donors[0].values.T]))
    near = now + 0.31 * (then - now)
    goal = number_goal(sorted([near, near + 1e-4 * (then - now)]), now, 0.0, 1.0)
    best = Search(drawn, goal, predict, certain, 0.05).run()
    assert best.reached and goal.low <= predict(drawn.changed([best.change]))[0] <= goal.high


def test_goals_are_checked():
    p = np.array([[0.5, 0.5], [0.4, 0.6], [0.6, 0.4]])
    for index in (0, 1):
        assert ((ClassGoal(index).margin(p) >= 0) == (p.argmax(axis=1) == index)).all()
    classes, chances = np.array(["a", "b", "c"]), np.array([0.2, 0.5, 0.3])
    assert class_goal(None, classes, chances).index == 2
    assert class_goal("a", classes, chances).index == 0
    assert_refused("already", class_goal, "b", classes, chances)
    assert_refused(r"one of the classes \['a', 'b', 'c'\], got 'd'", class_goal, "d", classes, chances)
    assert number_goal(3, 5.0, 0, 1) == NumberGoal(-np.inf, 3.0, False, 0, 1)
    assert number_goal((6, 7), 5.0, 0, 1) == NumberGoal(6.0, 7.0, True, 0, 1)
    for wrong in ("high", (2, 1), (1, 2, 3), np.nan):
        assert_refused("target must be a number, or a pair", number_goal, wrong, 5.0, 0, 1)
    assert_refused("within the target already", number_goal, (4, 6), 5.0, 0, 1)
    assert_refused("give a target", number_goal, None, 5.0, 0, 1)
