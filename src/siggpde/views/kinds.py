"""The kinds of views: which there are by default, and blocks of every kind from what a model has saved of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from siggpde.series import PathOptions, SeriesBatch
from siggpde.series.transform import Append
from siggpde.views.base import Block, Centring, FeatureBlock, Part, View
from siggpde.views.facts import FactsBlock
from siggpde.views.kernels import KernelBlock, KernelView
from siggpde.views.paths import PathBlock, PathView
from siggpde.views.transformers import Example, TransformerBlock
from siggpde.views.window_features import WindowSettings
from siggpde.views.windows import WindowsBlock, WindowsView, spectrum_bins

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
    """Returns the views of these kinds for `series` training series, of which some are the `landmarks`; `options` is
    the one way in which paths are made (None: several), and views of paths have at most `words`."""
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
        for name, way in ways.items():
            views.append(PathView(name, way, words=few))
        views.append(PathView("degree 2", options or PathOptions(), degree=2, words=many, time_scale=2.3))
    bins = spectrum_bins(landmarks) if "spectrum" in kinds else None
    if bins is not None:
        views.append(WindowsView(WindowSettings(lifts=("x", "dx"), seed=seed), bins))
    if "kernel" in kinds:
        views += _affordable([KernelView("P"), KernelView("P base", base_point=True)], landmarks, series)
    if "lifted" in kinds:
        narrow = KernelView("R0.5", bandwidth=0.5, time_weight=3.0)
        views += _affordable([narrow, replace(narrow, name="R1", bandwidth=1.0)], landmarks, series)
    return views


def _affordable(views: list[KernelView], landmarks: SeriesBatch, series: int) -> list[KernelView]:
    """Returns the views with as many points and pivots as can be paid for; none where even the fewest are too many."""
    budget = 1.0 + 2e-3 * series
    for points in _POINTS:
        for pivots in (max(len(landmarks), 1), *_PIVOTS):
            tried = list(map(partial(replace, max_points=points, max_pivots=pivots), views))
            if sum(view.seconds(landmarks, series) for view in tried) <= budget:
                return tried
    return []


_OF_FEATURES = {
    "linear": PathBlock,
    "path": PathBlock,
    "windows": WindowsBlock,
    "spectrum": WindowsBlock,
    "facts": FactsBlock,
}
_OF_KERNELS = {"kernel": KernelBlock, "lifted": KernelBlock}


def block_state(block: Block) -> dict[str, Any]:
    """Returns the kind of the block, what it learned, and the centring of its kernels by their names."""
    state: dict[str, Any] = {"kind": block.kind, "state": block.state(), "centring": {}}
    for name, (columns, mean, scale, count) in ((name, vars(one).values()) for name, one in block.centring.items()):
        state["centring"][name] = {"columns": columns[:count], "mean": mean, "scale": scale}
    return state | ({"extended": True} if isinstance(block, FeatureBlock) and block.count is not None else {})


@torch.no_grad()
def block_from_state(
    stored: Mapping[str, Any],
    landmarks: SeriesBatch | None,
    transformers: Mapping[str, Any],
    others: SeriesBatch | None = None,
) -> Block:
    """Returns the block of a `block_state`; without landmarks it has only its `parts`, and no centring, and with rows
    against further series it needs these `others`."""
    kind, state = stored["kind"], stored["state"]
    features: SeriesBatch | list[Part] = [] if landmarks is None else landmarks
    if kind == "features":
        block: Block = TransformerBlock.from_state(state, features, transformers[state["name"]])
    elif kind in _OF_FEATURES:
        block = _OF_FEATURES[kind].from_state(state, features)
    elif kind in _OF_KERNELS and landmarks is not None:
        block = _OF_KERNELS[kind].from_state(state, landmarks)
    else:
        raise ValueError(f"there is no view of the kind {kind!r}; upgrade siggpde")
    centring = {} if landmarks is None else stored["centring"]
    block.centring = {name: Centring(**learned) for name, learned in centring.items()}
    if stored.get("extended"):
        assert isinstance(block, FeatureBlock) and others is not None
        return block.extended(others)
    return block


class SavedBlocks(Sequence[Block]):
    """Blocks from the `states` of `block_state`, each computed from the landmarks when first looked at, which may take
    seconds; `transformers` are those of views of the user's own, by name."""

    def __init__(
        self,
        states: Sequence[dict[str, Any]],
        landmarks: SeriesBatch | None,
        transformers: Mapping[str, Any],
        others: SeriesBatch | None = None,
    ) -> None:
        self.states = list(states)
        self._landmarks, self._transformers, self._others = landmarks, dict(transformers), others
        self._blocks: list[Block | None] = [None] * len(self.states)

    def __len__(self) -> int:
        return len(self.states)

    def __getitem__(self, index: int) -> Block:  # pyright: ignore[reportIncompatibleMethodOverride] - nobody slices
        block = self._blocks[index]
        if block is None:
            block = block_from_state(self.states[index], self._landmarks, self._transformers, self._others)
            self._blocks[index] = block
        return block


def states_of(blocks: Sequence[Block]) -> list[dict[str, Any]]:
    """Returns the states of blocks, with nothing computed for those that are not yet restored."""
    return blocks.states if isinstance(blocks, SavedBlocks) else [block_state(block) for block in blocks]


def kinds_of_kernels(blocks: Sequence[Block]) -> dict[str, str]:
    """Returns the kind of view of every kernel, by the name of the kernel; nothing is computed."""
    if isinstance(blocks, SavedBlocks):
        return {name: state["kind"] for state in blocks.states for name in state["centring"]}
    return {name: block.kind for block in blocks for name in block.centring}


def check_transformers(states: Sequence[Mapping[str, Any]], transformers: Mapping[str, Any]) -> None:
    """Raises a ValueError where a transformer that the blocks need is missing or is not the one of the fit."""
    for state in (stored["state"] for stored in states if stored["kind"] == "features"):
        name = state["name"]
        if name not in transformers:
            raise ValueError(
                f"the view {name!r} of the model is a transformer of your own, which is not saved with it: "
                f"give the fitted one, siggpde.load(path, transformers={{{name!r}: transformer}})"
            )
        Example(**state["example"]).check(transformers[name], name)
