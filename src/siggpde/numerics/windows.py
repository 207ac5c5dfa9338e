"""Signatures of windows of series, pooled: statistics of the words over all windows, without the windows being stored.

For a series x and a view (`WindowView`), and independent of the rest of the batch:

1. *Lift* x; increments and cumulated deviations are divided by `lift_scale`, one number a channel.
2. *Smooth*: means of s consecutive points. Series shorter than s, or than a window, hold their last value.
3. *Windows* of w points y_k, y_(k+dilation), .., starting at k = 0, stride, 2 stride, ..
4. *Path* through (t, y), t from 0 to 1, all times the `path_scales` of its group, with a base point from the origin.
   *Words* f = S^a / |S| of its signature S, |S| over all words up to the depth.
5. *Pool* over the c windows: mean, standard deviation (dividing by c), largest, smallest and, for each of q thresholds,
   the share of windows with f > threshold; and over the third floor(3 k / c) = 0, 1, 2 of the windows k the mean and
   the share above every second threshold, from the first. A third without windows takes the values of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Literal, NamedTuple, get_args
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from siggpde.numerics import inputs, native
from siggpde.numerics.backend import backend_for
from siggpde.numerics.words import Word, as_integer, count_up_to, words_up_to

Lift = Literal["x", "dx", "cum", "zn"]
LIFTS: tuple[Lift, ...] = get_args(Lift)  # in the order of the core's codes
MAX_DEPTH = 8
_MAX_COLUMNS = 2**20
_MOST_POINTS = 2**30  # which the core counts in 32 bits


@dataclass(frozen=True)
class WindowView:
    """Windows of `points` points, `dilation` apart, of the lifted series, and the depth of their signatures.

    - `groups`: the channels that a path has beside time; one path, and one set of words, for each group.
    - `lift`: "x" the series, "dx" its increments, "cum" the running sum of its deviations from its mean, "zn" the
      series less its mean, divided by its standard deviation (plus 0.001).
    - `smoothing`: the lifted series is averaged over so many consecutive points first.
    - `base_point`: every window starts with a step from the origin, so that position counts and not only shape.
    - `max_windows`: of a series; the distance of their starts is the smallest that gives no more.
    """

    channels: int
    groups: tuple[tuple[int, ...], ...]
    points: int
    depth: int
    dilation: int = 1
    smoothing: int = 1
    lift: Lift = "x"
    base_point: bool = False
    max_windows: int = 128

    def __post_init__(self) -> None:
        if self.lift not in LIFTS:
            raise ValueError(f"lift must be one of {', '.join(LIFTS)}, got {self.lift!r}")
        for name, least in (("points", 2), ("depth", 1), ("dilation", 1), ("smoothing", 1), ("max_windows", 1)):
            value = as_integer(getattr(self, name))
            if value is None or not least <= value <= _MOST_POINTS:
                raise ValueError(f"{name} must be a whole number from {least} to {_MOST_POINTS}, got {value!r}")
        if self.span > _MOST_POINTS:
            raise ValueError(f"{self.points} points, {self.dilation} apart, span more than {_MOST_POINTS} points")
        if self.depth > MAX_DEPTH:
            raise ValueError(f"depth must be at most {MAX_DEPTH}, got {self.depth}")
        if not self.groups or not all(self.groups):
            raise ValueError(f"groups must be tuples of channels, at least one in each, got {self.groups}")
        least, most = self.used[0], self.used[-1]
        if least < 0 or most >= self.channels:
            outside = least if least < 0 else most
            raise ValueError(f"groups has channel {outside}, but the series have channels 0 to {self.channels - 1}")
        if self.columns > _MAX_COLUMNS:
            raise ValueError(f"depth {self.depth} gives a window {self.columns} words; lower it, or use smaller groups")

    @property
    def lift_code(self) -> int:
        return LIFTS.index(self.lift)

    @property
    def span(self) -> int:
        """Points from the first to the last of a window."""
        return (self.points - 1) * self.dilation + 1

    @cached_property
    def used(self) -> tuple[int, ...]:
        """The channels that occur in a group, ascending."""
        return tuple(sorted(set(chain.from_iterable(self.groups))))

    @cached_property
    def column_counts(self) -> tuple[int, ...]:
        """Words of each group: all up to the depth, except those of time alone, (), (0,), (0, 0), .."""
        return tuple(count_up_to(1 + len(group), self.depth) - self.depth - 1 for group in self.groups)

    @cached_property
    def columns(self) -> int:
        """Words of a window, M."""
        return sum(self.column_counts)

    def words(self) -> list[tuple[tuple[int, ...], Word]]:
        """(group, word) of each column. Letter 0 is time, letter j the j-th channel of the group, from 1 on."""
        return [(g, w) for g in self.groups for w in words_up_to(1 + len(g), self.depth) if any(w)]

    def strides(self, lengths: Tensor) -> Tensor:
        """Distance of the starts of windows, (n,), for series of the given lengths (n,)."""
        return -(-self._starts(lengths) // self.max_windows)

    def window_counts(self, lengths: Tensor) -> Tensor:
        """Windows of each series, (n,), at least one; one that is longer than its series holds the last value."""
        return (self._starts(lengths) - 1) // self.strides(lengths) + 1

    def _starts(self, lengths: Tensor) -> Tensor:
        """How many points of the lifted and smoothed series windows could start at, (n,)."""
        lifted = (lengths - 1).clamp_min(1) if self.lift == "dx" else lengths
        return ((lifted - self.smoothing + 1).clamp_min(1) - self.span + 1).clamp_min(1)


Lengths = Tensor | Sequence[int] | None
Chosen = tuple[Tensor, Tensor]  # windows, each by its series and its number in it: (m,) and (m,), int64


class ViewedSeries(NamedTuple):
    """Series x (n, length, channels), their lengths (n,), their view, and the scales (channels,) of its lift."""

    x: Tensor
    lengths: Tensor | None
    view: WindowView
    lift_scale: Tensor
    threads: int


class PooledWindows(NamedTuple):
    """Statistics of M words over the windows of n series: `whole` (n, 4 + q, M) has mean, deviation, largest, smallest
    and q shares; `thirds` (n, 1 + ceil(q / 2), 3, M) has mean and shares above thresholds 0, 2, 4, .."""

    whole: Tensor
    thirds: Tensor


def pool_windows(
    x: inputs.Series,
    view: WindowView,
    *,
    path_scales: Tensor,
    thresholds: Tensor,
    lift_scale: Tensor | None = None,
    lengths: Lengths = None,
    out: PooledWindows | None = None,
    n_jobs: int | None = None,
) -> PooledWindows:
    """Statistics over the windows of every series x, (n, length, channels) or a list, without gradient, written to
    `out` if given: path_scales (groups,); thresholds (q, M); lift_scale (channels,), positive, default 1."""
    given = _viewed(x, lengths, view, lift_scale, n_jobs)
    scales = _numbers("path_scales", path_scales, (len(view.groups),), given.x)
    if thresholds.ndim != 2:
        raise ValueError(f"thresholds must have shape (q, {view.columns}), got {tuple(thresholds.shape)}")
    above = _numbers("thresholds", thresholds, (len(thresholds), view.columns), given.x)
    result = empty_pooled(len(given.x), view, len(above), given.x) if out is None else _check_out(out, given, above)
    backend_for(given.x).pool_windows(given, scales, above, result)
    return result


@dataclass(frozen=True)
class FeatureScale:
    """Of the statistics of a view those `kept` (p,) as features, and their means and spreads (p,)."""

    kept: Tensor
    mean: Tensor
    spread: Tensor


class ScaledView(NamedTuple):
    """The arguments of `pool_windows`, and what becomes of the statistics over the whole series and over its thirds."""

    view: WindowView
    path_scales: Tensor
    thresholds: Tensor
    lift_scale: Tensor
    whole: FeatureScale
    thirds: FeatureScale


STEPS, LARGEST = 2048.0, 16383.0
"""Features are whole numbers of 1/2048 of a standard deviation, of 14 binary digits and a sign: sums of their products
are exact, and so do not depend on their order."""


@dataclass(frozen=True, eq=False)
class ScaledWindows:
    """The standardised statistics of several views, in whole numbers of 1 / `STEPS`, cut off at `LARGEST` of them."""

    views: tuple[ScaledView, ...]

    def __call__(self, x: Tensor, lengths: Tensor | None, part: range, n_jobs: int | None = None) -> Tensor:
        """Returns the features (n, p), int16, of some of the views, side by side, of series x (n, length, channels) in
        float64."""
        batch, counts = inputs.as_batch(x, lengths)
        features = None
        if backend_for(batch) is native:
            if self not in _compiled:
                _compiled[self] = native.compiled_windows(self.views, STEPS, LARGEST)
            features = native.scaled_windows(_compiled[self], batch, counts, part, inputs.thread_count(n_jobs))
        return self.pooled(batch, counts, part) if features is None else features

    def pooled(self, x: Tensor, lengths: Tensor | None, part: range) -> Tensor:
        """Returns the same, view by view; an error says which series is out of range."""
        out = []
        for view, path_scales, thresholds, lift_scale, *scales in (self.views[number] for number in part):
            pooled = pool_windows(
                x, view, path_scales=path_scales, thresholds=thresholds, lift_scale=lift_scale, lengths=lengths
            )
            for values, scale in zip(pooled, scales, strict=True):
                out.append(whole_numbers(values.flatten(1).float(), scale))
        return torch.cat(out, 1)


_compiled: WeakKeyDictionary[ScaledWindows, Any] = WeakKeyDictionary()  # which copies and files of a model do not have


def whole_numbers(values: Tensor, scale: FeatureScale) -> Tensor:
    """Returns the features (n, p), int16, of statistics (n, M) in float32."""
    mean, spread = scale.mean.to(values), scale.spread.to(values)
    z = values[:, scale.kept].sub_(mean).div_(spread).mul_(STEPS)
    return z.clamp_(-LARGEST, LARGEST).round_().to(torch.int16)


def window_signatures(
    x: inputs.Series,
    view: WindowView,
    series: Tensor,
    windows: Tensor,
    *,
    path_scales: Tensor,
    lift_scale: Tensor | None = None,
    lengths: Lengths = None,
    n_jobs: int | None = None,
) -> Tensor:
    """The normalised words (m, M) of chosen windows: window windows[i] of series series[i], both (m,), integers."""
    given = _viewed(x, lengths, view, lift_scale, n_jobs)
    scales = _numbers("path_scales", path_scales, (len(view.groups),), given.x)
    return backend_for(given.x).window_signatures(given, scales, _chosen(series, windows, given))


def window_path_lengths(
    x: inputs.Series,
    view: WindowView,
    series: Tensor,
    windows: Tensor,
    *,
    lift_scale: Tensor | None = None,
    lengths: Lengths = None,
    n_jobs: int | None = None,
) -> Tensor:
    """The lengths (m, groups) of the paths (time, channels) of chosen windows, from their base points, not scaled."""
    given = _viewed(x, lengths, view, lift_scale, n_jobs)
    return backend_for(given.x).window_path_lengths(given, _chosen(series, windows, given))


def empty_pooled(n: int, view: WindowView, thresholds: int, like: Tensor) -> PooledWindows:
    whole = like.new_empty(n, 4 + thresholds, view.columns)
    return PooledWindows(whole, like.new_empty(n, 1 + (thresholds + 1) // 2, 3, view.columns))


def _check_out(out: PooledWindows, series: ViewedSeries, thresholds: Tensor) -> PooledWindows:
    x, view = series.x, series.view
    for name, given, wanted in zip(out._fields, out, empty_pooled(0, view, len(thresholds), x), strict=True):
        shape = (len(x), *wanted.shape[1:])
        if tuple(given.shape) != shape or given.dtype != x.dtype or given.device != x.device:
            raise ValueError(
                f"out.{name} must have shape {shape} and be {x.dtype} on {x.device}, got {tuple(given.shape)}, "
                f"{given.dtype} on {given.device}"
            )
        if len(given) and not given[0].is_contiguous():
            raise ValueError(f"the rows of out.{name} must be contiguous, got strides {given.stride()}")
    return out


def _viewed(
    x: inputs.Series, lengths: Lengths, view: WindowView, lift_scale: Tensor | None, n_jobs: int | None
) -> ViewedSeries:
    batch, counts = inputs.as_batch(x, lengths)
    if batch.shape[2] != view.channels:
        raise ValueError(f"the view is of series with {view.channels} channels, but x has {batch.shape[2]}")
    batch, threads = batch.detach(), inputs.thread_count(n_jobs)
    if lift_scale is None:
        return ViewedSeries(batch, counts, view, batch.new_ones(view.channels), threads)
    scale = _numbers("lift_scale", lift_scale, (view.channels,), batch)
    if not bool((scale > 0).all()):
        raise ValueError(f"lift_scale must be positive, got {float(scale.min())}")
    return ViewedSeries(batch, counts, view, scale, threads)


def _numbers(name: str, given: Tensor, shape: tuple[int, ...], x: Tensor) -> Tensor:
    if tuple(given.shape) != shape:
        raise ValueError(f"{name} must have shape {shape}, got {tuple(given.shape)}")
    return given.detach().to(x.device, x.dtype).contiguous()


def _chosen(series: Tensor, windows: Tensor, given: ViewedSeries) -> Chosen:
    if series.ndim != 1 or series.shape != windows.shape:
        raise ValueError(
            f"series and windows must have one shape (m,), got {tuple(series.shape)} and {tuple(windows.shape)}"
        )
    x = given.x
    series = series.to(x.device, torch.int64).contiguous()
    windows = windows.to(x.device, torch.int64).contiguous()
    if len(series) and not 0 <= int(series.min()) <= int(series.max()) < len(x):
        raise ValueError(f"series must be from 0 to {len(x) - 1}, got {int(series.min())} to {int(series.max())}")
    counts = given.view.window_counts(inputs.counts_of(x, given.lengths))[series]
    outside = ((windows < 0) | (windows >= counts)).nonzero()
    if len(outside):
        at = int(outside[0])
        number = int(counts[at])
        raise ValueError(f"windows[{at}] is {int(windows[at])}, but series {int(series[at])} has {number} windows")
    return series, windows


def separating_thresholds(
    values: Tensor, count: int, *, distinct: float, clearance: float, n_jobs: int | None = None
) -> Tensor:
    """For every column thresholds next to the quantiles 1 / (count + 1), .., count / (count + 1): (m, M) -> (count, M).

    With the values of a column sorted, v_0 <= .. <= v_(m-1), all finite, the quantile p has the rank p (m - 1). Its
    threshold is (v_(k-1) + v_k) / 2 for the k with v_k - v_(k-1) > `distinct` whose rank k - 1/2 is nearest, the larger
    k of two; v_(m-1) + `clearance` where there is no such k. So no value is nearer than min(distinct / 2, clearance).
    """
    if values.ndim != 2 or not len(values):
        raise ValueError(f"values must have shape (m, M) with m at least 1, got {tuple(values.shape)}")
    values, threads = values.detach().double().contiguous(), inputs.thread_count(n_jobs)
    return backend_for(values).separating_thresholds(values, count, distinct, clearance, threads)
