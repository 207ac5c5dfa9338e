"""Series brought to one length."""

import numpy as np
import pytest

from siggpde_paper.compare.splits import LEAST_POINTS, common_length, equal_lengths, join, take


def test_straight_lines_stay_straight():
    X = [np.array([[0.0, 1.0, 2.0]]), np.array([[0.0, 6.0]]), np.array([[3.0]])]
    found = equal_lengths(X, 5)
    assert found.shape == (3, 1, 5)
    assert found[:, 0].tolist() == [[0, 0.5, 1, 1.5, 2], [0, 1.5, 3, 4.5, 6], [3] * 5]


def test_gaps_are_bridged_and_ends_repeated():
    X = np.array([[[np.nan, 1.0, np.nan, 3.0, np.nan], [np.nan] * 5]])
    assert equal_lengths(X, 5).tolist() == [[[1, 1, 2, 3, 3], [0] * 5]]


def test_steps_are_even_in_the_time_stamps():
    X = [np.array([[0.0, 1.0, 10.0], [0.0, 1.0, 10.0]])]
    assert equal_lengths(X, 6, time_channel=0).tolist() == [[[0, 2, 4, 6, 8, 10]]]


def test_equal_series_are_left_as_they_are():
    X = np.random.default_rng(0).normal(size=(4, 2, 12))
    assert equal_lengths(X, 12) is X
    assert common_length(X) == 12 and common_length(X[:, :, :3]) == LEAST_POINTS


def test_rows_are_taken_and_joined_as_arrays_or_lists():
    X = np.arange(12.0).reshape(3, 1, 4)
    ragged = [X[0], X[1][:, :2]]
    assert join(X, X).shape == (6, 1, 4) and isinstance(join(X, ragged), list) and len(join(ragged, X)) == 5
    assert take(X, np.array([2, 0]))[0].tolist() == X[2].tolist()
    assert take(ragged, np.array([1]))[0].shape == (1, 2)
    assert equal_lengths(ragged, 4)[1, 0] == pytest.approx([4, 4 + 1 / 3, 4 + 2 / 3, 5])
