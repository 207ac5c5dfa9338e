"""Which views there are by default, and how finely the kernels among them are solved."""

from __future__ import annotations

from dataclasses import replace

from siggpde.series import PathOptions, SeriesBatch
from siggpde.series.transform import Append
from siggpde.views.base import View
from siggpde.views.kernels import KernelView
from siggpde.views.paths import PathView
from siggpde.views.window_features import WindowSettings
from siggpde.views.windows import WindowsView, spectrum_bins

KINDS = ("linear", "path", "kernel", "lifted", "windows", "spectrum")
"""The kinds of views that "auto" stands for."""

_MAX_VARIATION_CHANNELS = 8
_POINTS = (32, 24, 16)
_PIVOTS = (300, 150, 75)


def default_views(
    landmarks: SeriesBatch,
    series: int,
    kinds: tuple[str, ...] = KINDS,
    options: PathOptions | None = None,
    words: int = 2000,
    seed: int = 0,
) -> list[View]:
    """The views of these kinds for `series` training series, of which some are the `landmarks`.

    `options` is the one way in which paths are made, None stands for several; views of paths have at most `words`.
    Kernels by the PDE have as many points and pivots as their cost model allows: seconds of one core that grow with the
    number of series, as those of all other views do.
    """
    views: list[View] = []
    if "windows" in kinds:
        views.append(WindowsView(WindowSettings(seed=seed)))
    few, many = min(500, words), min(800, words)
    if "linear" in kinds:
        views.append(PathView("L", options or PathOptions(), degree=1, words=many, time_scale=2.3))
    if "path" in kinds:
        append: Append = "variation" if landmarks.channels <= _MAX_VARIATION_CHANNELS else "arc"
        ways = (
            {"given": options}
            if options is not None
            else {
                "base": PathOptions(),
                "free": PathOptions(base_point=False),
                f"base {append}": PathOptions(append=append),
                f"free {append}": PathOptions(base_point=False, append=append),
            }
        )
        views += [PathView(name, way, words=few) for name, way in ways.items()]
        views.append(PathView("degree 2", options or PathOptions(), degree=2, words=many, time_scale=2.3))
    bins = spectrum_bins(landmarks) if "spectrum" in kinds else None
    if bins is not None:
        views.append(WindowsView(WindowSettings(lifts=("x", "dx"), seed=seed), bins))
    if "kernel" in kinds:
        views += _affordable([KernelView("P"), KernelView("P base", base_point=True)], landmarks, series)
    if "lifted" in kinds:
        lifted = [KernelView(f"R{factor:g}", bandwidth=factor, time_weight=3.0) for factor in (0.5, 1.0)]
        views += _affordable(lifted, landmarks, series)
    return views


def _affordable(views: list[KernelView], landmarks: SeriesBatch, series: int) -> list[KernelView]:
    """The views with as many points and pivots as can be paid for; none where even the fewest are too many."""
    budget = 1.0 + 2e-3 * series
    for points in _POINTS:
        for pivots in (max(len(landmarks), 1), *_PIVOTS):
            tried = [replace(view, max_points=points, max_pivots=pivots) for view in views]
            if sum(view.seconds(landmarks, series) for view in tried) <= budget:
                return tried
    return []
