"""How long a fit on views will take, about, from its sizes: said before a long one starts.

Work is counted (multiplications of windows, words, products and decompositions) and divided by rates measured on one
core with AVX-512. The rates are fixed: the estimate is the same for the same series and threads, right to a factor of
about two on such a machine. Views of the user's own and the ascent of likelihoods without closed form do not count.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from siggpde.committee.budget import BUDGET, LARGE
from siggpde.committee.landmarks import COMPARED, TUNED
from siggpde.committee.recipes import recipes
from siggpde.committee.sizes import MEMBERS
from siggpde.numerics.threads import usual_threads
from siggpde.progress import Progress
from siggpde.series import SeriesBatch
from siggpde.views.base import View
from siggpde.views.defaults import kernel_seconds
from siggpde.views.kernel import KernelView
from siggpde.views.path import PathView
from siggpde.views.windows import WindowsView

log = logging.getLogger(__name__)

WORTH_SAYING = 5.0
"""Seconds; shorter fits are not announced."""

_THRESHOLD_WINDOWS = 30_000  # of the landmarks, from which every view of windows learns its thresholds
_START = 0.4  # seconds of a fit of hardly any series
# A second of one core: steps of words, multiplications, m³ of regressions with all noises, and of decompositions alone.
_WORDS, _PRODUCTS, _REGRESSIONS, _DECOMPOSITIONS = 1.7e9, 2e10, 2e9, 4e9


@dataclass(frozen=True)
class Work:
    """What a fit has to do, in seconds of the core, which has threads, and of torch, which seldom has."""

    core: float = 0.0
    torch: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(self.core + other.core, self.torch + other.torch)

    def within(self, seconds: float) -> Work:
        """This work, or as much of it as takes one thread so many seconds."""
        share = seconds / max(self.core + self.torch, seconds)
        return Work(share * self.core, share * self.torch)

    def seconds(self, threads: int = 1, torch_threads: int = 1) -> float:
        return _START + self.core / threads + self.torch / torch_threads


def announce(bar: Progress, views: Sequence[View], landmarks: SeriesBatch, series: int) -> None:
    """Says how long the fit of so many `series`, some of them the landmarks, will take, if that is long."""
    seconds = fit_work(views, landmarks, series).seconds(usual_threads(), torch.get_num_threads())
    if seconds >= WORTH_SAYING:
        points = int(landmarks.counts().median())
        bar.say(
            f"{about(seconds)}: {series} series of {points} points, {len(landmarks)} landmarks, {len(views)} views", log
        )


def fit_work(views: Sequence[View], landmarks: SeriesBatch, series: int) -> Work:
    """The work of a fit of so many series with these views, of which the values of the landmarks do not matter."""
    m = len(landmarks)
    own = Work(torch=_regressions(m, series, len(recipes(_kernels(views)))))
    for view in views:
        own += _view_work(view, landmarks, m)
    if series <= m:
        return own
    rest = Work()  # where there are more series than landmarks, these are seen twice
    for view in views:
        rest += _view_work(view, landmarks, series)
    return own + (rest if series <= LARGE else rest.within(BUDGET))


def about(seconds: float) -> str:
    """The seconds in words, to two digits at most.

    Examples:
        >>> [about(seconds) for seconds in (7.4, 43.0, 96.0, 1010.0, 3500.0, 5400.0, 40_000.0)]
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


def _regressions(m: int, series: int, compared: int) -> float:
    """Seconds of torch: comparing so many members on some landmarks, and fitting the best of them to all series."""
    seconds = compared * min(m, COMPARED) ** 3 / _REGRESSIONS
    if series <= m:
        return seconds + (min(compared, MEMBERS) * m**3 / _REGRESSIONS if m > COMPARED else 0.0)
    products = m * m * (2 * series + min(series, TUNED))
    return seconds + min(compared, MEMBERS) * (2 * m**3 / _DECOMPOSITIONS + products / _PRODUCTS)


def _kernels(views: Sequence[View]) -> dict[str, list[str]]:
    """The names of the kernels of every kind that these views will have."""
    kinds: dict[str, list[str]] = {}
    for view in views:
        name = getattr(view, "name", view.kind)
        if isinstance(view, WindowsView):
            lifts = view.settings.lifts if view.bins is None else ("spectrum",)
            kinds[view.kind] = [f"{lift}{end}" for lift in lifts for end in "13"]
        else:
            kinds.setdefault(name if view.kind == "features" else view.kind, []).append(name)
    return kinds


def _view_work(view: View, landmarks: SeriesBatch, seen: int) -> Work:
    if isinstance(view, KernelView):
        return Work(core=kernel_seconds(view, landmarks, seen))
    if isinstance(view, PathView):
        channels = landmarks.channels + 1 + 2 * int(view.options.append is not None)
        words = len(view._chosen(channels))
        points = min(landmarks.values.shape[1], view.max_points)
        return Work(core=seen * words * points / _WORDS, torch=_products(seen, len(landmarks), words))
    if isinstance(view, WindowsView):
        return _windows_work(view, landmarks, seen)
    return Work()


def _windows_work(view: WindowsView, landmarks: SeriesBatch, seen: int) -> Work:
    lengths = landmarks.counts().cpu() if view.bins is None else torch.full((len(landmarks),), view.bins)
    settings = view.settings
    statistics = 4 + settings.thresholds + 3 * (1 + (settings.thresholds + 1) // 2)
    words = features = 0.0
    for each in settings.views(landmarks.channels, lengths):
        windows = each.window_counts(lengths).double()
        learned = min(float(windows.sum()), _THRESHOLD_WINDOWS)
        words += (seen * float(windows.mean()) + learned) * each.columns * each.points
        features += statistics * each.columns
    return Work(core=words / _WORDS, torch=_products(seen, len(landmarks), features))


def _products(seen: int, m: int, features: float) -> float:
    """Seconds of torch for the rows of so many series against m landmarks by their features: these are scaled, too."""
    return seen * (m + 100) * features / _PRODUCTS
