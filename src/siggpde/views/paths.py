"""Words of the signature of whole paths: S / |S|, of one degree (`degree=1`, kind "linear") or of all up to a depth."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import torch
from torch import Tensor

from siggpde.numerics.signature import signature
from siggpde.numerics.words import Word, count_up_to, word_names, words_of_degree, words_up_to
from siggpde.series import PathOptions, PathTransform, SeriesBatch
from siggpde.series.batch import pool
from siggpde.views.base import FeatureBlock, Part, Rows, View

_MAX_DEPTH = 10


@dataclass(frozen=True)
class PathView(View):
    """A way of making paths, and the words of them that are looked at.

    Parameters
    ----------
    name : str
        The name of the kernel.
    options : PathOptions
        How a series becomes a path.
    degree : int or None, default None
        The most letters other than time; None for no bound.
    words : int, default 500
        The most words, in whole levels.
    time_scale : float, default 1.15
        The weight of time against the other channels.
    path_length : float, default 8.0
        The median length of paths, to which all are scaled.
    max_points : int, default 200
        The most points of a series; longer ones are averaged down.

    Examples
    --------
    >>> series = SeriesBatch(torch.arange(40.0).sin().double().reshape(5, 8, 1))
    >>> PathView("path", PathOptions(time=False), words=3).fit(series)[0].names(["x"])
    [['1', 'x', 'x–x']]
    """

    name: str
    options: PathOptions = field(default_factory=PathOptions)
    degree: int | None = None
    words: int = 500
    time_scale: float = 1.15
    path_length: float = 8.0
    max_points: int = 200

    @property
    def kind(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] - of the settings, not of the class
        return "linear" if self.degree == 1 else "path"

    def fit(self, landmarks: SeriesBatch) -> tuple[PathBlock, dict[str, Rows]]:
        short = pool(landmarks, self.max_points)
        transform = PathTransform(self.options).fit(short)
        paths = transform.paths(short)
        theta = channel_scales(paths, self.time_scale if self.options.time else 1.0, self.path_length)
        block = PathBlock(self, transform, theta, self._chosen(paths.channels), landmarks)
        return block, block.centre()

    def _chosen(self, channels: int) -> list[Word]:
        if self.degree is not None and self.options.time:
            return words_of_degree(channels, self.degree, self.words)
        depth = 1
        while depth < _MAX_DEPTH and count_up_to(channels, depth + 1) <= self.words:
            depth += 1
        return words_up_to(channels, depth)


class PathBlock(FeatureBlock):
    """The words of paths as features."""

    def __init__(
        self,
        view: PathView,
        transform: PathTransform,
        theta: Tensor,
        words: list[Word],
        landmarks: list[Part] | SeriesBatch,
    ) -> None:
        self.view, self.transform, self.theta, self.words = view, transform, theta, words
        self.kind, self.kernels, self.widths = view.kind, [view.name], [len(words)]
        super().__init__(landmarks)

    def parts(self, batch: SeriesBatch) -> Iterator[Part]:
        paths = self.transform.paths(pool(batch, self.view.max_points))
        scaled = replace(paths, values=paths.values * self.theta.to(paths.values))
        values = signature(scaled.values, words=self.words, lengths=scaled.lengths)
        norms = values.norm(dim=1, keepdim=True)
        # A path so long that its signature is out of range has a direction all the same: that of one of length 1000.
        far = (~torch.isfinite(norms[:, 0])).nonzero()[:, 0]
        if len(far):
            long, values, norms = scaled[far], values.clone(), norms.clone()
            shrink = (1e3 / path_lengths(long.values)).clamp(max=1.0)[:, None, None]
            values[far] = signature(long.values * shrink, words=self.words, lengths=long.lengths)
            norms[far] = values[far].norm(dim=1, keepdim=True)
        yield Part(self.view.name, values / norms)

    def to(self, device: torch.device | str) -> Self:
        block = super().to(device)
        block.theta, block.transform = self.theta.to(device), copy.copy(self.transform).to(device)
        return block

    def names(self, channels: Sequence[str]) -> list[list[str]]:
        return [word_names(self.words, self.transform.names(channels))]

    def letters(self, channels: Sequence[str]) -> list[list[tuple[str, ...]]]:
        origins = self.transform.origins(channels)
        return [[tuple(origins[letter] for letter in word) for word in self.words]]

    def state(self) -> dict[str, Any]:
        view = {**asdict(self.view), "options": dict(self.view.options.__dict__)}
        return {"view": view, "transform": self.transform.state(), "theta": self.theta}

    @staticmethod
    def from_state(state: dict[str, Any], landmarks: list[Part] | SeriesBatch) -> PathBlock:
        view = PathView(**{**state["view"], "options": PathOptions(**state["view"]["options"])})
        transform = PathTransform.from_state(state["transform"])
        words = view._chosen(len(state["theta"]))
        return PathBlock(view, transform, state["theta"], words, landmarks)


def path_lengths(values: Tensor) -> Tensor:
    """Returns the lengths (n,) of paths (n, length, channels) that stand still after their ends."""
    return values.diff(dim=1).norm(dim=2).sum(1)


def channel_scales(paths: SeriesBatch, time_scale: float, path_length: float) -> Tensor:
    """Returns scales theta (channels,) at which the median length of the paths is `path_length`, equal but for time,
    channel 0, whose scale is `time_scale` times as large."""
    weights = torch.ones(paths.channels, dtype=torch.float64, device=paths.values.device)
    weights[0] = time_scale
    median = float(path_lengths(paths.values * weights).median())
    return weights * (path_length / median if median > 0 else 1.0)
