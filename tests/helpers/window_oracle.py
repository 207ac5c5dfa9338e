"""Window features of one series by plain loops over numbers, as their definition reads."""

import itertools
import math
from collections.abc import Sequence

from siggpde.numerics.windows import WindowView

Points = list[list[float]]  # [time][channel]


def lifted(series: Points, lift: str, scale: Sequence[float]) -> Points:
    channels = range(len(series[0]))
    if lift == "x":
        return series
    if lift == "dx":
        steps = [[(b[c] - a[c]) / scale[c] for c in channels] for a, b in itertools.pairwise(series)]
        return steps or [[0.0 for _ in channels]]
    mean = [math.fsum(point[c] for point in series) / len(series) for c in channels]
    if lift == "zn":
        spread = [math.sqrt(sum((p[c] - mean[c]) ** 2 for p in series) / len(series)) + 1e-3 for c in channels]
        return [[(point[c] - mean[c]) / spread[c] for c in channels] for point in series]
    return [
        [math.fsum(p[c] - mean[c] for p in series[: t + 1]) / scale[c] for c in channels] for t in range(len(series))
    ]


def windows(series: Points, view: WindowView, scale: Sequence[float]) -> list[Points]:
    y = lifted(series, view.lift, scale)
    y = y + [y[-1]] * (view.smoothing - len(y))
    smooth = []
    for start in range(len(y) - view.smoothing + 1):
        part = y[start : start + view.smoothing]
        smooth.append([math.fsum(point[c] for point in part) / view.smoothing for c in range(view.channels)])
    starts = max(1, len(smooth) - view.span + 1)
    smooth = smooth + [smooth[-1]] * (view.span - len(smooth))
    stride = math.ceil(starts / view.max_windows)
    return [[smooth[k + j * view.dilation] for j in range(view.points)] for k in range(0, starts, stride)]


def path(window: Points, group: Sequence[int], base_point: bool) -> Points:
    last = len(window) - 1
    points = [[j / last, *(point[c] for c in group)] for j, point in enumerate(window)]
    return [[0.0] * len(points[0]), *points] if base_point else points


def path_length(points: Points) -> float:
    return sum(math.dist(a, b) for a, b in itertools.pairwise(points))


def signature(points: Points, depth: int) -> dict[tuple[int, ...], float]:
    """Of words up to the depth, in order: the tensor product of the exponentials of all increments."""
    letters = range(len(points[0]))
    words = [word for k in range(depth + 1) for word in itertools.product(letters, repeat=k)]
    total = {word: float(not word) for word in words}
    for a, b in itertools.pairwise(points):
        step = {w: math.prod(b[c] - a[c] for c in w) / math.factorial(len(w)) for w in words}
        total = {w: math.fsum(total[w[:k]] * step[w[k:]] for k in range(len(w) + 1)) for w in words}
    return total


def features(window: Points, view: WindowView, path_scales: Sequence[float]) -> list[float]:
    out: list[float] = []
    for group, scale in zip(view.groups, path_scales, strict=True):
        scaled = [[scale * x for x in point] for point in path(window, group, view.base_point)]
        words = signature(scaled, view.depth)
        norm = math.sqrt(math.fsum(value**2 for value in words.values()))
        out += [value / norm for word, value in words.items() if any(word)]
    return out


def pooled(
    series: Points, view: WindowView, scale: Sequence[float], path_scales: Sequence[float], thresholds: Points
) -> tuple[list[list[float]], list[list[list[float]]]]:
    """[statistic][word] of the whole series and [statistic][third][word] of its thirds."""
    table = [features(window, view, path_scales) for window in windows(series, view, scale)]
    columns = list(zip(*table, strict=True))
    parts = [[row for k, row in enumerate(table) if 3 * k // len(table) == third] or table for third in range(3)]

    def mean(column: Sequence[float]) -> float:
        return math.fsum(column) / len(column)

    def shares(rows: Sequence[Sequence[float]], limits: Sequence[float]) -> list[float]:
        return [mean([value > limit for value in c]) for c, limit in zip(zip(*rows, strict=True), limits, strict=True)]

    whole = [
        [mean(c) for c in columns],
        [math.sqrt(mean([(value - mean(c)) ** 2 for value in c])) for c in columns],
        [max(c) for c in columns],
        [min(c) for c in columns],
        *(shares(table, limits) for limits in thresholds),
    ]
    thirds = [[[mean(c) for c in zip(*part, strict=True)] for part in parts]]
    thirds += [[shares(part, limits) for part in parts] for limits in thresholds[::2]]
    return whole, thirds
