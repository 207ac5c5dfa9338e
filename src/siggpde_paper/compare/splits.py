"""Series of equal lengths, and splits for learning and judging, which depend on the seed and the labels alone."""

from __future__ import annotations

import resource
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold

LEAST_POINTS = 10  # kernels of nine points, of the differences too


def cpu_seconds() -> float:
    """So many so far; a measurement is the difference of two."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def take(X: Any, rows: np.ndarray) -> Any:
    """The series of these rows, from an array (n_cases, n_channels, n_timepoints) or a list of arrays."""
    return X[rows] if isinstance(X, np.ndarray) else [X[row] for row in rows.tolist()]


def join(X: Any, other: Any) -> Any:
    """Joins two sets of series: an array where all are equally long, otherwise a list."""
    if isinstance(X, np.ndarray) and isinstance(other, np.ndarray) and X.shape[2] == other.shape[2]:
        return np.concatenate([X, other])
    return [*X, *other]


def common_length(X: Any) -> int:
    """The number of points of the longest series, or `LEAST_POINTS` where that is more."""
    return max(LEAST_POINTS, *(np.shape(one)[1] for one in X))


def equal_lengths(X: Any, length: int, time_channel: int | None = None) -> np.ndarray:
    """Returns series at `length` even steps in time or in points; gaps are interpolated, a channel of gaps is 0."""
    if isinstance(X, np.ndarray) and X.shape[2] == length and time_channel is None and not np.isnan(X).any():
        return X
    return np.stack([_resampled(np.asarray(one, dtype=np.float64), length, time_channel) for one in X])


def _resampled(one: np.ndarray, length: int, time_channel: int | None) -> np.ndarray:
    times = np.arange(one.shape[1], dtype=np.float64)
    if time_channel is not None:
        times = np.maximum.accumulate(np.nan_to_num(one[time_channel], nan=-np.inf))
        one = np.delete(one, time_channel, axis=0)
        one, times = one[:, np.isfinite(times)], times[np.isfinite(times)]
    if not len(times):
        return np.zeros((len(one), length))
    even, known = np.linspace(times[0], times[-1], length), ~np.isnan(one)
    rows = zip(one, known, strict=True)
    return np.stack([np.interp(even, times[k], row[k]) if k.any() else np.zeros(length) for row, k in rows])


@dataclass(frozen=True, eq=False)
class Split:
    """Rows (n_train,) to learn from and rows (n_test,) to be judged on, both in ascending order."""

    train: np.ndarray
    test: np.ndarray


def resample(y: np.ndarray, n_train: int, n_test: int, seed: int, *, stratify: bool) -> Split:
    """A random split of series with labels y (n,); with `stratify` all classes are learned, in their shares."""
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
    """`total` divided in proportion to `counts` (k,), none above its count nor, where it has as many, below `least`."""
    wanted = counts * (total / counts.sum())
    dealt = np.clip(np.floor(wanted).astype(int), np.minimum(least, counts), counts)
    while dealt.sum() != total:
        step = 1 if dealt.sum() < total else -1
        free = dealt < counts if step > 0 else dealt > np.minimum(least, counts)
        lack = np.where(free, step * (wanted - dealt), -np.inf)
        dealt[int(lack.argmax())] += step
    return dealt


def cross_validation(
    y: np.ndarray, folds: int, seed: int, *, stratify: bool, groups: np.ndarray | None = None
) -> list[Split]:
    """Splits that judge one fold each; series of one group stay in one, and none is judged that was not learned."""
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
    y: np.ndarray, seed: int, *, stratify: bool, folds: int = 5, many: int = 2000, groups: np.ndarray | None = None
) -> list[Split]:
    """The folds on which a method calibrates itself: `folds`, and above `many` series only the first of them."""
    count = len(y) if groups is None else len(np.unique(groups))
    splits = cross_validation(y, min(folds, count), seed, stratify=stratify, groups=groups)
    if not splits:
        raise ValueError("every class has one series only; calibration needs two or more of some class")
    return splits[:1] if len(y) > many else splits
