"""Which series a method learns from and which it is judged on: resamples and folds, stratified and reproducible.

Splits depend on the seed and the labels alone, so every method of a comparison has the same ones.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold


@dataclass(frozen=True, eq=False)
class Split:
    """Rows (n_train,) to learn from and rows (n_test,) to be judged on, both in ascending order."""

    train: np.ndarray
    test: np.ndarray


def resample(y: np.ndarray, n_train: int, n_test: int, seed: int, *, stratify: bool) -> Split:
    """A random split of the series with labels y (n,): disjoint rows, `n_train` and at most `n_test` of them.

    With `stratify` the classes have the shares that they have in y, and at least one series each to learn from.

    Examples:
        >>> split = resample(np.array(["a", "b"] * 10), 8, 6, seed=0, stratify=True)
        >>> len(split.train), len(split.test), len(set(split.train) & set(split.test))
        (8, 6, 0)
    """
    if not 0 < n_train < len(y) or n_test < 1:
        raise ValueError(
            f"{n_train} series to learn from and {n_test} to be judged on cannot be drawn of {len(y)}; ask for fewer"
        )
    generator = np.random.default_rng(seed)
    if not stratify:
        order = generator.permutation(len(y))
        return Split(np.sort(order[:n_train]), np.sort(order[n_train : n_train + n_test]))
    members = [generator.permutation(np.flatnonzero(y == label)) for label in np.unique(y)]
    if n_train < len(members):
        raise ValueError(f"{n_train} series cannot have all {len(members)} classes; learn from more of them")
    counts = np.array([len(rows) for rows in members])
    first = shares(counts, n_train, least=1)
    second = shares(counts - first, min(n_test, len(y) - n_train), least=0)
    train = [rows[:count] for rows, count in zip(members, first, strict=True)]
    test = [rows[start : start + count] for rows, start, count in zip(members, first, second, strict=True)]
    return Split(np.sort(np.concatenate(train)), np.sort(np.concatenate(test)))


def shares(counts: np.ndarray, total: int, least: int) -> np.ndarray:
    """`total` divided in proportion to `counts` (k,), none above its count nor, where it has as many, below `least`.

    What rounding leaves over goes to those that are furthest below their proportion.

    Examples:
        >>> shares(np.array([90, 9, 1]), 10, least=1)
        array([8, 1, 1])
    """
    wanted = counts * (total / counts.sum())
    found = np.clip(np.floor(wanted).astype(int), np.minimum(least, counts), counts)
    while found.sum() != total:
        step = 1 if found.sum() < total else -1
        free = found < counts if step > 0 else found > np.minimum(least, counts)
        lack = np.where(free, step * (wanted - found), -np.inf)
        found[int(lack.argmax())] += step
    return found


def cross_validation(
    y: np.ndarray, folds: int, seed: int, *, stratify: bool, groups: np.ndarray | None = None
) -> list[Split]:
    """Splits of which each judges one fold and learns from the others.

    With `stratify` the classes are dealt out evenly. A class with one series only is always learned from, so no
    method is asked for a class that it has never seen. Series of one of the `groups` (n,) are in one fold; of such a
    fold, series of a class that no other fold has are not judged.
    """
    if groups is not None:
        return _folds_of_groups(y, folds, seed, stratify, groups)
    if not 2 <= folds <= len(y):
        raise ValueError(f"{len(y)} series can be cut into 2 to {len(y)} folds; got {folds}")
    generator = np.random.default_rng(seed)
    fold = np.empty(len(y), dtype=int)
    dealt = 0
    alike = [np.flatnonzero(y == label) for label in np.unique(y)] if stratify else [np.arange(len(y))]
    for rows in alike:
        if len(rows) == 1 and stratify:
            fold[rows] = -1
            continue
        fold[generator.permutation(rows)] = (dealt + np.arange(len(rows))) % folds
        dealt += len(rows)
    splits = [Split(np.flatnonzero(fold != number), np.flatnonzero(fold == number)) for number in range(folds)]
    return [split for split in splits if len(split.test)]


def _folds_of_groups(y: np.ndarray, folds: int, seed: int, stratify: bool, groups: np.ndarray) -> list[Split]:
    count = len(np.unique(groups))
    if not 2 <= folds <= count:
        raise ValueError(f"{count} groups can be cut into 2 to {count} folds; got {folds}")
    dealer = StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
    splits = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a class of fewer series than folds
        for train, test in dealer.split(y, y if stratify else np.zeros(len(y), dtype=int), groups):
            judged = test[np.isin(y[test], y[train])] if stratify else test
            if len(judged) and len(train):
                splits.append(Split(train, judged))
    return splits


def at_most(split: Split, y: np.ndarray, max_train: int | None, max_test: int | None, seed: int, *, stratify: bool):
    """The split with at most so many rows on each side, drawn as `resample` draws them; None is no limit."""
    train, test = split.train, split.test
    if max_train is not None and max_train < len(train):
        train = train[resample(y[train], max_train, 1, seed, stratify=stratify).train]
    if max_test is not None and max_test < len(test):
        some = np.random.default_rng(seed).permutation(len(test))[:max_test]
        test = test[np.sort(some)]
    return Split(train, test)


def held_out(
    y: np.ndarray,
    seed: int,
    *,
    stratify: bool,
    folds: int = 5,
    many: int = 2000,
    groups: np.ndarray | None = None,
) -> list[Split]:
    """The folds on which a method calibrates itself: `folds`, and above `many` series only the first of them."""
    count = len(y) if groups is None else len(np.unique(groups))
    splits = cross_validation(y, min(folds, count), seed, stratify=stratify, groups=groups)
    if not splits:
        raise ValueError("every class has one series only; calibration needs two or more of some class")
    return splits[:1] if len(y) > many else splits
