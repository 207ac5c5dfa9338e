"""Which views there are by default, and how finely the kernels among them are solved."""

from __future__ import annotations

from dataclasses import replace

import torch

from siggpde.numerics.cost import kernel_cost_of_sizes
from siggpde.series import PathOptions, SeriesBatch
from siggpde.series.transform import Append
from siggpde.views.base import View
from siggpde.views.kernel import TOLERANCE, KernelView
from siggpde.views.path import PathView
from siggpde.views.windows import WindowsView, spectrum_bins
from siggpde.windows import WindowSettings

KINDS = ("linear", "path", "kernel", "lifted", "windows", "spectrum")
"""The kinds of views that "auto" stands for."""

_MAX_VARIATION_CHANNELS = 8
_POINTS = (32, 24, 16)
_PIVOTS = (300, 150, 75)
_CELLS_PER_SECOND, _LIFTED_CELLS_PER_SECOND = 1.2e9, 0.4e9  # of one core with AVX-512, float32


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
        ways = _path_options(landmarks.channels) if options is None else {"given": options}
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


def _path_options(channels: int) -> dict[str, PathOptions]:
    append: Append = "variation" if channels <= _MAX_VARIATION_CHANNELS else "arc"
    return {
        "base": PathOptions(),
        "free": PathOptions(base_point=False),
        f"base {append}": PathOptions(append=append),
        f"free {append}": PathOptions(base_point=False, append=append),
    }


def _affordable(views: list[KernelView], landmarks: SeriesBatch, series: int) -> list[KernelView]:
    """The views with as many points and pivots as can be paid for; none where even the fewest are too many."""
    budget = 1.0 + 2e-3 * series
    for points in _POINTS:
        for pivots in (max(len(landmarks), 1), *_PIVOTS):
            tried = [replace(view, max_points=points, max_pivots=pivots) for view in views]
            if sum(kernel_seconds(view, landmarks, series) for view in tried) <= budget:
                return tried
    return []


def kernel_seconds(view: KernelView, landmarks: SeriesBatch, series: int) -> float:
    """Seconds of one core, about, for the rows of so many series: the cells of the kernel's cost model over a speed
    that is fixed, so that the same series have the same views on every machine."""
    cost = kernel_cost_of_sizes(
        series,
        min(len(landmarks), view.max_pivots),
        points=max(2, min(landmarks.values.shape[1], view.max_points) + int(view.base_point)),
        channels=landmarks.channels + 1,
        path_length=view.path_length,
        static="linear" if view.bandwidth is None else "rbf",
        tol=TOLERANCE,
        dtype=torch.float32,
    )
    return cost.total / (_CELLS_PER_SECOND if view.bandwidth is None else _LIFTED_CELLS_PER_SECOND)
