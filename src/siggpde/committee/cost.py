"""What a fit costs: its seconds and memory, announced before a long one, and what very many series can afford.

All costs follow from sizes, by speeds of one core with AVX-512 that were measured once: the same series have the same
committee on every machine and rank, and with any load. A kernel of p features against m landmarks takes a time for the
features of a series and one for p m products; a kernel by its PDE takes that of its cells; a member takes 2 m² products
a series for its normal equations. The announcement is right to a factor of about two; a user's own views do not count.

Up to 20,000 series everything is affordable, unless the user sets a limit. Above, the rows of all series have a budget:
there are as many landmarks as it allows for a member of all windows, and members are taken by their weights for each
second that they add. A user's limit takes the place of the budget for any number of series above that of the landmarks.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from siggpde.committee.large import COMPARED, TUNED
from siggpde.committee.recipes import Recipe, kernels_of, recipes
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
_PRODUCT = 4.5e-11  # of a feature with a landmark, or of two features of a member's regression, conversions included
_LANDMARK = 1e-8  # of centring and mixing a kernel, a landmark
_SERIES = 4e-6  # of a view, a series
_STANDARDISED = 1.4e-8  # of a feature of windows
_POOLED = 5e-11  # the same, a point
_WORD = 6e-10  # of a word of a whole path, a point

# Seconds of a whole fit, for its announcement, and what one core does in a second.
_START = 0.4
_STEPS, _PRODUCTS, _REGRESSIONS, _DECOMPOSITIONS = 1.7e9, 2e10, 2e9, 4e9
_THRESHOLD_WINDOWS = 30_000  # of the landmarks, from which every view of windows learns its thresholds


def announce(bar: Progress, views: Sequence[View], landmarks: SeriesBatch, series: int) -> None:
    """Says how long the fit of so many `series`, some of them landmarks, takes and in what memory, if it is long."""
    core, other = fit_seconds(views, landmarks, series)
    seconds = core / usual_threads() + other / torch.get_num_threads()
    if seconds >= WORTH_SAYING:
        points, m = int(landmarks.counts().median()), len(landmarks)
        memory = fit_bytes(views, landmarks, series) / 1e9
        bar.say(
            f"{duration(seconds)} and {memory:.1f} GB of memory: {series} series of {points} points, {m} landmarks, "
            f"{len(views)} views",
            log,
        )


def fit_seconds(views: Sequence[View], landmarks: SeriesBatch, series: int) -> tuple[float, float]:
    """Returns the seconds of a fit in the native core, whose threads share them, and those in torch.

    The values of the landmarks do not matter. Where there are more series than landmarks, landmarks are seen twice.
    """
    m, compared = len(landmarks), len(recipes(_kernel_names(views)))
    members = min(compared, MEMBERS)
    torch_seconds = _START + compared * min(m, COMPARED) ** 3 / _REGRESSIONS
    if series > m:
        products = m * m * (2 * series + min(series, TUNED))
        torch_seconds += members * (2 * m**3 / _DECOMPOSITIONS + products / _PRODUCTS)
    elif m > COMPARED:
        torch_seconds += members * m**3 / _REGRESSIONS
    core_seconds = 0.0
    for seen in (m, series) if series > m else (m,):
        core = products = 0.0
        for view in views:
            in_core, in_torch = _view_seconds(view, landmarks, seen)
            core, products = core + in_core, products + in_torch
        share = min(1.0, BUDGET / (core + products)) if seen > LARGE else 1.0
        core_seconds, torch_seconds = core_seconds + share * core, torch_seconds + share * products
    return core_seconds, torch_seconds


def fit_bytes(views: Sequence[View], landmarks: SeriesBatch, series: int) -> float:
    """Returns the memory of a fit: the series, and every kernel's and member's matrix of the landmarks, in float64."""
    m, names = len(landmarks), _kernel_names(views)
    matrices = sum(map(len, names.values())) + 3 * MEMBERS
    tuned = MEMBERS * min(series, TUNED) if series > m else 0  # rows of the series that decide the noise
    return 8.0 * (2 * series * landmarks.values.shape[1] * landmarks.channels + matrices * m * m + tuned * m)


def duration(seconds: float) -> str:
    """Returns the seconds in words, to two digits at most.

    Examples:
        >>> [duration(seconds) for seconds in (7.4, 43.0, 96.0, 1010.0, 3500.0, 5400.0, 40_000.0)]
        ['about 7 s', 'about 40 s', 'about 2 min', 'about 17 min', 'about 1 h', 'about 1.5 h', 'about 11 h']
    """
    if seconds < 10:
        return f"about {seconds:.0f} s"
    if seconds < 90:
        return f"about {10 * round(seconds / 10)} s"
    if seconds < 3300:
        return f"about {seconds / 60:.0f} min"
    hours = seconds / 3600
    return f"about {hours:.0f} h" if hours >= 10 else f"about {hours:.1f}".removesuffix(".0") + " h"


def _kernel_names(views: Sequence[View]) -> dict[str, list[str]]:
    """Returns the names of the kernels that these views will have, by their kind."""
    kinds: dict[str, list[str]] = {}
    for view in views:
        name = getattr(view, "name", view.kind)
        if isinstance(view, WindowsView):
            lifts = view.settings.lifts if view.bins is None else ("spectrum",)
            kinds[view.kind] = [f"{lift}{end}" for lift in lifts for end in "13"]
        else:
            kinds.setdefault(name if view.kind == "features" else view.kind, []).append(name)
    return kinds


def _view_seconds(view: View, landmarks: SeriesBatch, seen: int) -> tuple[float, float]:
    """Returns the seconds of a view for so many series, in the native core and in torch."""
    m = len(landmarks)
    if isinstance(view, KernelView):
        return view.seconds(landmarks, seen), 0.0
    if isinstance(view, PathView):
        words = len(view._chosen(landmarks.channels + 1 + 2 * int(view.options.append is not None)))
        points = min(landmarks.values.shape[1], view.max_points)
        return seen * words * points / _STEPS, seen * (m + 100) * words / _PRODUCTS
    if not isinstance(view, WindowsView):
        return 0.0, 0.0
    lengths = landmarks.counts().cpu() if view.bins is None else torch.full((m,), view.bins)
    steps, columns = 0.0, 0
    for window in view.settings.views(landmarks.channels, lengths):
        windows = window.window_counts(lengths).double()
        learned = min(float(windows.sum()), _THRESHOLD_WINDOWS)
        steps += (seen * float(windows.mean()) + learned) * window.columns * window.points
        columns += window.columns
    return steps / _STEPS, seen * (m + 100) * _statistics(view.settings) * columns / _PRODUCTS


def _statistics(settings: WindowSettings) -> int:
    """Returns how many statistics there are of each word of a view of windows."""
    return 4 + settings.thresholds + 3 * (1 + (settings.thresholds + 1) // 2)


def row_seconds(blocks: Sequence[Block], landmarks: SeriesBatch, measured: Mapping[str, float]) -> dict[str, float]:
    """Returns the seconds of one series by the name of the kernel, one of a block among several having its share.

    Of a view of the user's own nothing is known but what was `measured` when its landmarks were transformed.
    """
    points, m = landmarks.values.shape[1], len(landmarks)
    seconds: dict[str, float] = {}
    for block in blocks:
        names = list(block.centring)
        if isinstance(block, KernelBlock):
            whitened = _PRODUCT * block.width * (block.width + m)
            seconds[names[0]] = block.view.seconds(landmarks, 1) + whitened + _LANDMARK * m
        elif isinstance(block, FeatureBlock) and block.kind != "features":
            feature = _STANDARDISED + _POOLED * points if isinstance(block, WindowsBlock) else _WORD * points
            widths = dict.fromkeys(names, 0)
            for part in block.landmarks:
                widths[part.name] += part.values.shape[1]
            for name, width in widths.items():
                seconds[name] = _SERIES / len(names) + width * (feature + _PRODUCT * m) + _LANDMARK * m
        else:
            seconds |= {name: measured[name] for name in names}
    return seconds


def member_seconds(landmarks: int) -> float:
    """Returns the seconds of one series for the regression of a member: features are whitened and squared."""
    return 2 * _PRODUCT * landmarks**2


def model_size(
    batch: SeriesBatch, total: int, members: int | None, max_landmarks: int, limit: float | None
) -> tuple[int, int]:
    """Returns how many members are averaged at most, and how many of `total` series are landmarks.

    `members` and the seconds `limit` are those that a user allows. Without `members` there are eight; but five where
    with five, and not with eight, all series can be landmarks of a small model.
    """
    points, channels = batch.values.shape[1], batch.channels
    numbers = points * (channels + (0 if batch.times is None else 2))  # times are float64
    count = members or MEMBERS
    most = min(max_landmarks, landmarks_in_a_model(numbers, count))
    with_fewer = min(max_landmarks, landmarks_in_a_model(numbers, _FEWER_MEMBERS))
    if members is None and most < total <= with_fewer:
        count, most = _FEWER_MEMBERS, with_fewer
    return count, landmarks_for(total, most, points, channels, limit)


def landmarks_for(total: int, most: int, points: int = 100, channels: int = 1, limit: float | None = None) -> int:
    """Returns how many landmarks `total` series of so many points have, at most `most`.

    Of very many series a member of all windows takes at most nine tenths of the budget, or of the seconds `limit`; but
    there are at least 300.

    Examples:
        >>> [landmarks_for(total, 1500, points=46) for total in (100, 20_000, 300_000, 10**6, 10**7)]
        [100, 1500, 1500, 706, 300]
    """
    if total <= (LARGE if limit is None else most):
        return min(total, most)
    budget = BUDGET if limit is None else limit
    return min(most, max(_FEWEST_LANDMARKS, landmarks_within(_ONE_MEMBER * budget / total, points, channels)))


def landmarks_within(seconds: float, points: int, channels: int) -> int:
    """Returns the most landmarks m with which a series takes a member of all windows so many seconds.

    These are p (a + c m) + 2 c m² for p features that take a seconds each, and c a product; 0 where these take longer.

    Examples:
        >>> [landmarks_within(seconds, 46, 1) for seconds in (1e-4, 5e-4, 1e-3)]
        [0, 454, 1136]
    """
    settings = WindowSettings()
    columns = sum(view.columns for view in settings.views(channels, torch.tensor([points])))
    features = _statistics(settings) * columns
    left = (seconds - features * (_STANDARDISED + _POOLED * points)) / _PRODUCT
    return 0 if left <= 0 else int((math.sqrt(features**2 + 8 * left) - features) / 4)


def landmarks_in_a_model(numbers: int, members: int) -> int:
    """Returns the most landmarks m of so many numbers each for a model of at most 50 MB.

    Series and roots, in float32, have 4 m numbers + 4 m² members bytes.

    Examples:
        >>> landmarks_in_a_model(100, 3), landmarks_in_a_model(4000, 3), landmarks_in_a_model(40_000, 8)
        (1941, 1401, 157)
    """
    beside_roots = int((math.sqrt(numbers**2 + members * _MODEL_BYTES) - numbers) / (2 * members))
    return max(2, min(_SERIES_BYTES // (4 * numbers), beside_roots))


def affordable(
    recipes: Sequence[Recipe],
    scores: Sequence[float],
    weights: Tensor,
    seconds: Mapping[str, float],
    total: int,
    limit: float | None,
    landmarks: int,
) -> Tensor:
    """Returns the weights (K,) with members left out that cannot be paid for; the log says which.

    `scores` are leave-one-out losses, `seconds` those of a series by the name of the kernel, which all members that
    have it share; `limit` the seconds that a user allows. Members are taken by weight for each second that they add, or
    the one of the largest weight alone where that is more. Where no member with a weight is within the budget, the best
    by its score is taken of those that are; where none is, the cheapest.
    """
    if total <= (LARGE if limit is None else landmarks):
        return weights
    budget = BUDGET if limit is None else limit

    def cost(chosen: Sequence[int]) -> float:
        rows = sum(seconds[name] for name in sorted(kernels_of(recipes[index] for index in chosen)))
        return total * (rows + len(chosen) * member_seconds(landmarks))

    shares = weights.tolist()
    weighed = [index for index, share in enumerate(shares) if share > 0]
    within = [index for index in range(len(recipes)) if cost([index]) <= budget]
    alone = max((index for index in within if shares[index] > 0), key=shares.__getitem__, default=None)
    chosen: list[int] = []
    while rest := [index for index in weighed if index not in chosen and cost([*chosen, index]) <= budget]:
        spent = cost(chosen)
        chosen.append(max(rest, key=lambda index: shares[index] / (cost([*chosen, index]) - spent)))
    if alone is not None and shares[alone] > sum(shares[index] for index in chosen):
        chosen = [alone]
    if not chosen:
        everything = range(len(recipes))
        cheapest = min(everything, key=lambda index: cost([index]))
        chosen = [min(within, key=scores.__getitem__) if within else cheapest]
    missing = [index for index in weighed if index not in chosen]
    if missing:
        log.warning(
            "of %d series the rows of members would take longer than the budget of %.0f s of one core: %s left out for "
            "%s, about %.0f s",
            total, budget,
            ", ".join(f"{recipes[i].name} (loss {scores[i]:.4f}, {cost([i]):.0f} s)" for i in missing),
            ", ".join(f"{recipes[i].name} (loss {scores[i]:.4f}, {cost([i]):.0f} s)" for i in chosen),
            cost(chosen),
        )  # fmt: skip
    else:
        log.info("the rows of %d series take about %.0f s of one core, of %.0f", total, cost(chosen), budget)
    out = torch.zeros_like(weights)
    out[chosen] = weights[chosen].clamp_min(1e-6)
    return out / out.sum()
