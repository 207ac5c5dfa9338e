"""What a fit costs, announced before a long one, and how many landmarks and members it can afford (docs/design.md)."""

from __future__ import annotations

import logging
import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence

import torch

from siggpde.committee.large import COMPARED, TUNED
from siggpde.numerics.core import usual_threads
from siggpde.series import SeriesBatch
from siggpde.utils.progress import Progress
from siggpde.views.base import Block, FeatureBlock, View
from siggpde.views.kernels import KernelBlock, KernelView
from siggpde.views.paths import PathView
from siggpde.views.window_features import WindowSettings
from siggpde.views.windows import WindowsBlock, WindowsView

log = logging.getLogger(__name__)

MAX_LANDMARKS = 1500
MEMBERS, _FEWER_MEMBERS = 8, 5
LARGE = 20_000
"""The most training series for which everything is affordable, unless the user sets a limit."""
BUDGET = 750.0
"""Seconds of one core for the rows of more series: a fit has other work too, and is to take less than 900."""
WORTH_SAYING = 5.0
"""Seconds; shorter fits are not announced."""

_SERIES_BYTES = 24 * 2**20  # of landmark series in float32, their times included
_MODEL_BYTES = 46e6  # of these and of the roots of all members, of as many columns as there are landmarks
_FEWEST_LANDMARKS = 300
_ONE_MEMBER = 0.9  # of the budget: others often share its kernels

# Seconds of the rows of very many series.
PRODUCT = 4.5e-11  # of a feature with a landmark, or of two features of a member's regression, conversions included
_LANDMARK = 1e-8  # of centring and mixing a kernel, a landmark
_SERIES = 4e-6  # of a view, a series
_STANDARDISED = 1.4e-8  # of a feature of windows
_POOLED = 5e-11  # the same, a point
_WORD = 6e-10  # of a word of a whole path, a point

# Of a fit besides its rows, for the announcement.
_START = 0.4
_REGRESSIONS, _DECOMPOSITIONS = 2e9, 4e9  # entries of cubes of the landmarks that one core handles in a second
_SINGLE, _CHOLESKY = 4e10, 1.5e10  # products in float32, and entries of the cube of an exact member, a second
_CANDIDATES = 3  # members that are compared for every view, and kernels


def announce(bar: Progress, views: Sequence[View], landmarks: SeriesBatch, series: int) -> None:
    """Says how long the fit of so many `series`, some of them landmarks, takes and in what memory, if it is long."""
    if not (bar.wanted or log.isEnabledFor(logging.INFO)):
        return
    rows, regressions = fit_seconds(views, landmarks, series)
    seconds = rows / usual_threads() + regressions / torch.get_num_threads()
    if seconds >= WORTH_SAYING:
        bar.say(f"{duration(seconds)} and {needs(len(views), landmarks, series)}", log)


def needs(views: int, landmarks: SeriesBatch, series: int) -> str:
    """Says how much memory a fit of so many views takes, and for what."""
    m, points = len(landmarks), landmarks.values.shape[1]
    matrices = (_CANDIDATES * views + 3 * MEMBERS) * m  # of the landmarks, for every kernel and member
    tuned = MEMBERS * min(series, TUNED) if series > m else 0  # rows of the series that decide the noise
    memory = 8e-9 * (2 * series * points * landmarks.channels + (matrices + tuned) * m)
    median = int(landmarks.counts().median())
    return f"{memory:.1f} GB of memory: {series} series of {median} points, {m} landmarks, {views} views"


def fit_seconds(views: Sequence[View], landmarks: SeriesBatch, series: int) -> tuple[float, float]:
    """Returns the seconds of one core for the rows of all kernels, and those for the regressions of all members."""
    m, compared = len(landmarks), _CANDIDATES * len(views)
    members = min(compared, MEMBERS)
    regressions = _START + compared * min(m, COMPARED) ** 3 / _REGRESSIONS
    if series > m:
        regressions += members * m**2 * (2 * m / _DECOMPOSITIONS + (2 * series + min(series, TUNED)) * PRODUCT)
    elif m > COMPARED:
        regressions += members * m**3 / _REGRESSIONS
    rows = sum(_view_seconds(view, landmarks, m) for view in views)
    if series > m:
        again = sum(_view_seconds(view, landmarks, series) for view in views)
        rows += again if series <= LARGE else min(again, BUDGET)
    return rows, regressions


def _view_seconds(view: View, landmarks: SeriesBatch, series: int) -> float:
    points, m = landmarks.values.shape[1], len(landmarks)
    if isinstance(view, KernelView):
        return view.seconds(landmarks, series)
    if isinstance(view, PathView):
        return series * view.words * _feature_seconds(m, min(points, view.max_points), windows=False)
    if isinstance(view, WindowsView):
        points = view.bins or points
        width = _window_features(view.settings, points, landmarks.channels)
        return series * width * _feature_seconds(m, points, windows=True)
    return 0.0


def exact_members(
    blocks: Sequence[Block], total: int, limit: float | None, spent: float, most: int = 3
) -> tuple[int, str | None]:
    """Returns for how many members all of `total` series can count, `most` at the most, with about the memory that is
    free and the seconds left of a `limit`; and why they are fewer."""
    width = sum(block.width for block in blocks if isinstance(block, FeatureBlock))
    seconds = total**2 * width / _SINGLE + (1 + 1 / 9) * total**3 / _CHOLESKY
    free = 0.8 * os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else math.inf
    bytes_of = 4 * total * width + 28 * total**2
    if bytes_of > free:
        return 0, f"all series would need {bytes_of / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free"
    if limit is None:
        return most, None
    count = max(0, min(most, int((limit - spent) / seconds)))
    return count, None if count else f"all would take {duration(seconds)} a member, more than is left of the time limit"


def duration(seconds: float) -> str:
    """Returns the seconds in words, to two digits at most.

    >>> [duration(seconds) for seconds in (7.4, 43.0, 96.0, 1010.0, 3500.0, 5400.0, 40_000.0)]
    ['about 7 s', 'about 40 s', 'about 2 min', 'about 17 min', 'about 1 h', 'about 1.5 h', 'about 11 h']
    """
    if seconds < 90:
        return f"about {seconds if seconds < 10 else 10 * round(seconds / 10):.0f} s"
    if seconds < 3300:
        return f"about {seconds / 60:.0f} min"
    hours = seconds / 3600
    return f"about {round(hours, 0 if hours >= 10 else 1):g} h"


def _feature_seconds(landmarks: int, points: int, *, windows: bool) -> float:
    """Returns the seconds of a feature of one series: of making it, and of its products with the landmarks."""
    return (_STANDARDISED + _POOLED * points if windows else _WORD * points) + PRODUCT * landmarks


def _window_features(settings: WindowSettings, points: int, channels: int) -> int:
    """Returns how many features a view of windows has for series of so many points."""
    statistics = 4 + settings.thresholds + 3 * (1 + (settings.thresholds + 1) // 2)
    return statistics * sum(view.columns for view in settings.views(channels, torch.tensor([points])))


def row_seconds(blocks: Sequence[Block], landmarks: SeriesBatch, measured: Mapping[str, float]) -> dict[str, float]:
    """Returns the seconds of one series by kernel, the share of its block, or for a user's own view as `measured`."""
    points, m = landmarks.values.shape[1], len(landmarks)
    seconds: dict[str, float] = {}
    for block in blocks:
        names = list(block.centring)
        if isinstance(block, KernelBlock):
            whitened = PRODUCT * block.width * (block.width + m)
            seconds[names[0]] = block.view.seconds(landmarks, 1) + whitened + _LANDMARK * m
        elif isinstance(block, FeatureBlock) and block.kind != "features":
            feature = _feature_seconds(m, points, windows=isinstance(block, WindowsBlock))
            widths: Counter[str] = Counter()
            for part in block.landmarks:
                widths[part.name] += part.width
            seconds |= {name: _SERIES / len(names) + widths[name] * feature + _LANDMARK * m for name in names}
        else:
            seconds |= {name: measured[name] for name in names}
    return seconds


def model_size(
    batch: SeriesBatch, total: int, members: int | None, max_landmarks: int, limit: float | None
) -> tuple[int, int]:
    """Returns how many members are averaged at most, and how many of `total` series are landmarks, for the `members`
    (None: eight, or five if then all series can be landmarks) and the seconds `limit` that a user allows."""
    points, channels = batch.values.shape[1], batch.channels
    numbers = points * (channels + (0 if batch.times is None else 2))  # times are float64
    count = members or MEMBERS
    most = min(max_landmarks, landmarks_in_a_model(numbers, count))
    with_fewer = min(max_landmarks, landmarks_in_a_model(numbers, _FEWER_MEMBERS))
    if members is None and most < total <= with_fewer:
        count, most = _FEWER_MEMBERS, with_fewer
    return count, landmarks_for(total, most, points, channels, limit)


def landmarks_in_a_model(numbers: int, members: int) -> int:
    """Returns the most landmarks m of so many numbers each for a model of 4 m numbers + 4 m² members bytes, at most 50
    MB.

    >>> landmarks_in_a_model(100, 3), landmarks_in_a_model(4000, 3), landmarks_in_a_model(40_000, 8)
    (1941, 1401, 157)
    """
    beside_roots = int((math.sqrt(numbers**2 + members * _MODEL_BYTES) - numbers) / (2 * members))
    return max(2, min(_SERIES_BYTES // (4 * numbers), beside_roots))


def landmarks_for(total: int, most: int, points: int = 100, channels: int = 1, limit: float | None = None) -> int:
    """Returns how many landmarks `total` series of so many points have: at most `most`, of many at least 300.

    A member of all windows takes at most nine tenths of the budget, or of the seconds `limit`: with p features of a
    seconds each, and products of c seconds, it takes p (a + c m) + 2 c m² for each series.

    >>> [landmarks_for(total, 1500, points=46) for total in (100, 20_000, 300_000, 10**6, 10**7)]
    [100, 1500, 1500, 706, 300]
    """
    if total <= (LARGE if limit is None else most):
        return min(total, most)
    seconds = _ONE_MEMBER * (BUDGET if limit is None else limit) / total
    features = _window_features(WindowSettings(), points, channels)
    left = max(0.0, seconds - features * _feature_seconds(0, points, windows=True)) / PRODUCT
    within = int((math.sqrt(features**2 + 8 * left) - features) / 4)
    return min(most, max(_FEWEST_LANDMARKS, within))
