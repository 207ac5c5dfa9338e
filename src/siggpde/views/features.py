"""A transformer of the user's own as a view: series to features (n, p), standardised like those of windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from siggpde.paths import SeriesBatch
from siggpde.views.base import FeatureBlock, Part, Rows, View
from siggpde.windows import Block as Features
from siggpde.windows import WindowScaler


@dataclass(frozen=True)
class TransformerView(View):
    """`transformer.transform(X)` of series X (n, channels, length) gives features (n, p); it is fitted by `fit`.

    Series of unequal lengths are handed over as a list of (channels, length_i) arrays.
    """

    name: str
    transformer: Any
    kind = "features"

    def fit(self, landmarks: SeriesBatch) -> tuple[TransformerBlock, dict[str, Rows]]:
        self.transformer.fit(as_arrays(landmarks))
        values = _features(self.transformer, landmarks, self.name)
        scaler, (scaled,) = WindowScaler.fit_transform([Features(self.name, 0, values)])
        block = TransformerBlock(self.name, self.transformer, scaler, [Part(self.name, scaled.values)])
        return block, block.centre(block.own_rows())


class TransformerBlock(FeatureBlock):
    """The features of a fitted transformer, at mean 0 and spread 1 over the landmarks."""

    kind = "features"

    def __init__(self, name: str, transformer: Any, scaler: WindowScaler, landmarks: list[Part] | SeriesBatch) -> None:
        self.name, self.transformer, self.scaler = name, transformer, scaler
        if isinstance(landmarks, SeriesBatch):
            super().__init__(landmarks)
        else:
            self.landmarks = landmarks

    def parts(self, batch: SeriesBatch) -> Iterator[Part]:
        values = _features(self.transformer, batch, self.name)
        (scaled,) = self.scaler([Features(self.name, 0, values)])
        yield Part(self.name, scaled.values)

    def names(self, channels: Sequence[str]) -> list[list[str]]:
        kept = self.scaler.columns[0].kept.tolist()
        return [[f"{self.name} {index}" for index in kept]]

    def to(self, device: torch.device | str) -> Self:
        """The transformer stays as it is: it takes and gives numpy arrays."""
        block = super().to(device)
        block.scaler = self.scaler.to(device)
        return block

    def state(self) -> dict[str, Any]:
        return {"name": self.name, "scaler": self.scaler.state()}

    @staticmethod
    def from_state(state: dict[str, Any], landmarks: SeriesBatch, transformer: Any) -> TransformerBlock:
        return TransformerBlock(state["name"], transformer, WindowScaler.from_state(state["scaler"]), landmarks)


def as_arrays(batch: SeriesBatch) -> Any:
    """Series (n, channels, length), or a list of (channels, length_i) where lengths differ, as numpy arrays."""
    values = batch.values.detach().cpu().transpose(1, 2).contiguous().numpy()
    if batch.lengths is None:
        return values
    return [
        np.ascontiguousarray(series[:, :count]) for series, count in zip(values, batch.lengths.tolist(), strict=True)
    ]


def _features(transformer: Any, batch: SeriesBatch, name: str) -> Tensor:
    values = np.asarray(transformer.transform(as_arrays(batch)), dtype=np.float64)
    if values.ndim != 2 or len(values) != len(batch):
        raise ValueError(
            f"the transformer of the view {name!r} gave an array of shape {values.shape} for {len(batch)} series; "
            "its transform must return (n_series, n_features)"
        )
    if not np.isfinite(values).all():
        series = int((~np.isfinite(values)).any(axis=1).argmax())
        raise ValueError(f"the transformer of the view {name!r} gave a feature that is not finite for series {series}")
    return torch.from_numpy(values).to(batch.values.device)
