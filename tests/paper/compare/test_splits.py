"""Splits are disjoint, stratified and reproducible, every class is learned from, and series have one length."""

import numpy as np
import pytest

from helpers.refusals import assert_refused
from siggpde_paper.compare import Split
from siggpde_paper.compare import splits as module
from siggpde_paper.compare.splits import at_most, common_length, cross_validation, equal_lengths, held_out, resample

LABELS = np.array(["a"] * 60 + ["b"] * 30 + ["c"] * 9 + ["d"])


def test_resamples():
    first, again, other = (resample(LABELS, 20, 40, seed, stratify=True) for seed in (3, 3, 4))
    assert np.array_equal(first.train, again.train) and np.array_equal(first.test, again.test)
    assert not np.array_equal(first.train, other.train)
    assert len(first.train) == 20 and len(first.test) == 40
    assert len(np.unique(np.concatenate([first.train, first.test]))) == 60
    split = resample(LABELS, 20, 40, 0, stratify=True)
    train = dict(zip(*np.unique(LABELS[split.train], return_counts=True), strict=True))
    test = dict(zip(*np.unique(LABELS[split.test], return_counts=True), strict=True))
    assert train == {"a": 12, "b": 6, "c": 1, "d": 1}  # exact module.shares are 12, 6, 1.8 and 0.2
    assert abs(test["a"] - 24) <= 1 and abs(test["b"] - 12) <= 1 and "d" not in test
    split = resample(LABELS, 90, 1000, 0, stratify=True)
    assert len(split.test) == 10
    split = resample(np.arange(30.0), 20, 1000, 0, stratify=False)
    assert sorted([*split.train, *split.test]) == list(range(30))
    for n_train, words in ((0, "cannot be drawn"), (100, "cannot be drawn"), (3, "cannot have all 4 classes")):
        assert_refused(words, resample, LABELS, n_train, 5, 0, stratify=True)


@pytest.mark.parametrize("total", [4, 5, 17, 50, 99, 100])
def test_shares_add_up_within_the_counts(total: int):
    counts = np.array([60, 30, 9, 1])
    actual = module.shares(counts, total, least=1)
    assert actual.sum() == total and (actual >= 1).all() and (actual <= counts).all()


def test_folds():
    splits = cross_validation(LABELS, 3, 0, stratify=True)
    assert sorted(np.concatenate([split.test for split in splits])) == list(range(99))
    for split in splits:
        assert set(LABELS[split.train]) == {"a", "b", "c", "d"} and not set(split.train) & set(split.test)
        counts = [int((LABELS[split.test] == label).sum()) for label in "abcd"]
        assert counts == [20, 10, 3, 0]
    again = cross_validation(LABELS, 3, 0, stratify=True)
    assert all(np.array_equal(one.test, two.test) for one, two in zip(splits, again, strict=True))
    splits = cross_validation(np.arange(10.0), 5, 1, stratify=False)
    assert [len(split.test) for split in splits] == [2] * 5
    assert_refused("2 to 10 folds; got 11", cross_validation, np.arange(10.0), 11, 1, stratify=False)
    assert len(held_out(LABELS, 0, stratify=True)) == 5
    (only,) = held_out(LABELS, 0, stratify=True, many=50)
    assert len(only.test) == 20
    assert_refused("one series only", held_out, np.array(["a", "b", "c"]), 0, stratify=True)
    y = np.array(["a", "b"] * 6 + ["rare"] * 4)
    groups = np.repeat([0, 1, 2, 3], 4)
    judged = np.concatenate([split.test for split in cross_validation(y, 2, 0, stratify=True, groups=groups)])
    assert sorted(judged) == list(range(12))
    wrong = "4 groups can be cut into 2 to 4 folds; got 5"
    assert_refused(wrong, cross_validation, y, 5, 0, stratify=True, groups=groups)


def test_limits_keep_the_classes():
    split = at_most(Split(np.arange(0, 100, 1), np.arange(50)), LABELS, 10, 7, 0, stratify=True)
    assert len(split.train) == 10 and set(LABELS[split.train]) == set("abcd")
    assert len(split.test) == 7 and set(split.test) <= set(range(50))
    same = Split(np.arange(5), np.arange(5, 9))
    kept = at_most(same, LABELS, None, 100, 0, stratify=True)
    assert np.array_equal(kept.train, same.train) and np.array_equal(kept.test, same.test)


@pytest.mark.parametrize("stratify", [True, False])
def test_groups_are_judged_as_wholes(stratify: bool):
    groups = np.arange(len(LABELS)) // 4
    y = LABELS if stratify else np.arange(len(LABELS), dtype=float)
    splits = cross_validation(y, 3, 0, stratify=stratify, groups=groups)
    assert len(splits) == 3
    for split in splits:
        assert not set(groups[split.train]) & set(groups[split.test])
        if stratify:
            assert set(y[split.test]) <= set(y[split.train])
    if not stratify:
        assert sorted(np.concatenate([split.test for split in splits])) == list(range(len(y)))
    other = cross_validation(y, 3, 1, stratify=stratify, groups=groups)
    assert any(not np.array_equal(a.test, b.test) for a, b in zip(splits, other, strict=False))
    assert all(not set(groups[s.train]) & set(groups[s.test]) for s in held_out(y, 0, stratify=stratify, groups=groups))


def test_series_of_equal_lengths_by_hand():
    straight = [np.array([[0.0, 1.0, 2.0]]), np.array([[0.0, 6.0]]), np.array([[3.0]])]
    assert equal_lengths(straight, 5).tolist() == [[[0, 0.5, 1, 1.5, 2]], [[0, 1.5, 3, 4.5, 6]], [[3] * 5]]
    gaps = np.array([[[np.nan, 1.0, np.nan, 3.0, np.nan], [np.nan] * 5]])
    assert equal_lengths(gaps, 5).tolist() == [[[1, 1, 2, 3, 3], [0] * 5]]
    stamped = [np.array([[0.0, 1.0, 10.0], [0.0, 1.0, 10.0]])]
    assert equal_lengths(stamped, 6, time_channel=0).tolist() == [[[0, 2, 4, 6, 8, 10]]]
    X = np.random.default_rng(0).normal(size=(4, 2, 12))
    assert equal_lengths(X, 12) is X
    assert common_length(X) == 12 and common_length(X[:, :, :3]) == module.LEAST_POINTS
    X = np.arange(12.0).reshape(3, 1, 4)
    ragged = [X[0], X[1][:, :2]]
    assert module.join(X, X).shape == (6, 1, 4)
    assert isinstance(module.join(X, ragged), list) and len(module.join(ragged, X)) == 5
    assert module.take(X, np.array([2, 0]))[0].tolist() == X[2].tolist()
    assert module.take(ragged, np.array([1]))[0].shape == (1, 2)
    assert equal_lengths(ragged, 4)[1, 0] == pytest.approx([4, 4 + 1 / 3, 4 + 2 / 3, 5])
