"""A transformer of the user's own as a view: series to features (n, p), standardised like those of windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from siggpde.series import SeriesBatch
from siggpde.views.base import FeatureBlock, Learned, Part, Rows, View
from siggpde.views.window_features import WindowBlock, WindowScaler

_ALIKE = 0.9  # the share of the features of the example in which a transformer must agree with that of the fit


@dataclass(frozen=True)
class TransformerView(View):
    """A transformer of your own as a view.

    Parameters
    ----------
    name : str
        The name of the kernel.
    transformer : object with fit and transform
        `transform(X)` of series X (n, channels, length), a list of (channels, length_i) arrays where lengths are
        unequal, gives features (n, p).

    Examples
    --------
    >>> from sklearn.preprocessing import FunctionTransformer
    >>> view = TransformerView("mean", FunctionTransformer(lambda X: X.mean(axis=2)))
    >>> view.fit(SeriesBatch(torch.tensor([[[1.0], [3.0]], [[2.0], [6.0]]])))[1]["mean"].gram.tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """

    name: str
    transformer: Any
    kind = "features"

    def fit(self, landmarks: SeriesBatch) -> tuple[TransformerBlock, dict[str, Rows]]:
        self.transformer.fit(as_arrays(landmarks))
        values = _features(self.transformer, landmarks, self.name)
        scaler, (scaled,) = WindowScaler.fit_transform([WindowBlock(self.name, 0, values)])
        example = Example.of(self.transformer, landmarks, self.name)
        block = TransformerBlock(self.name, self.transformer, scaler, example, [Part(self.name, scaled.values)])
        return block, block.centre()


@dataclass(frozen=True)
class Example(Learned):
    """The `features` (p,) that a transformer gave for a series of sines of this shape, by which a saved model, which
    holds no transformer, notices one that is not that of the fit."""

    length: int
    channels: int
    ragged: bool
    features: Tensor

    @staticmethod
    def of(transformer: Any, landmarks: SeriesBatch, name: str) -> Example:
        _, length, channels = landmarks.values.shape
        ragged = landmarks.lengths is not None
        features = _features(transformer, _sines(length, channels, ragged), name)[0]
        return Example(length, channels, ragged, features)

    def check(self, transformer: Any, name: str) -> None:
        """Raises a ValueError for a transformer that is not the one of the fit."""
        if not callable(getattr(transformer, "transform", None)):
            raise ValueError(f"the transformer of the view {name!r} has no method transform: {transformer!r}")
        series = _sines(self.length, self.channels, self.ragged)
        features = _features(transformer, series, name, len(self.features))[0]
        off = (features - self.features).abs() > 1e-3 * (1e-3 + self.features.abs())
        if float(off.double().mean()) > 1 - _ALIKE:
            raise ValueError(
                f"the transformer of the view {name!r} is not the one that the model was fitted with: of the features "
                f"of the same series {int(off.sum())} of {len(off)} differ; give that one as it was after fit"
            )


class TransformerBlock(FeatureBlock):
    """The features of a fitted transformer, at mean 0 and spread 1 over the landmarks."""

    kind = "features"

    def __init__(
        self, name: str, transformer: Any, scaler: WindowScaler, example: Example, landmarks: list[Part] | SeriesBatch
    ) -> None:
        self.name, self.transformer, self.scaler, self.example = name, transformer, scaler, example
        self.kernels, self.widths = [name], [len(columns.kept) for columns in scaler.columns]
        super().__init__(landmarks)

    def parts(self, batch: SeriesBatch) -> Iterator[Part]:
        values = _features(self.transformer, batch, self.name, len(self.example.features))
        (scaled,) = self.scaler([WindowBlock(self.name, 0, values)])
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
        return {"name": self.name, "scaler": self.scaler.state(), "example": self.example.state()}

    @staticmethod
    def from_state(state: dict[str, Any], landmarks: list[Part] | SeriesBatch, transformer: Any) -> TransformerBlock:
        scaler = WindowScaler.from_state(state["scaler"])
        return TransformerBlock(state["name"], transformer, scaler, Example(**state["example"]), landmarks)


def as_arrays(batch: SeriesBatch) -> Any:
    """Returns series (n, channels, length), or a list of (channels, length_i) where lengths differ, as numpy arrays."""
    values = batch.values.detach().cpu().transpose(1, 2).contiguous().numpy()
    if batch.lengths is None:
        return values
    return [
        np.ascontiguousarray(series[:, :count]) for series, count in zip(values, batch.lengths.tolist(), strict=True)
    ]


def _features(transformer: Any, batch: SeriesBatch, name: str, count: int | None = None) -> Tensor:
    """Returns the features (n, p) in float64, refused where they are not finite or not `count`."""
    values = np.asarray(transformer.transform(as_arrays(batch)), dtype=np.float64)
    if values.ndim != 2 or len(values) != len(batch):
        raise ValueError(
            f"the transformer of the view {name!r} gave an array of shape {values.shape} for {len(batch)} series; "
            "its transform must return (n_series, n_features)"
        )
    if count is not None and values.shape[1] != count:
        raise ValueError(
            f"the transformer of the view {name!r} gave {values.shape[1]} features, but that of the fit {count}; "
            "give that one as it was after fit"
        )
    if not np.isfinite(values).all():
        series = int((~np.isfinite(values)).any(axis=1).argmax())
        raise ValueError(f"the transformer of the view {name!r} gave a feature that is not finite for series {series}")
    return torch.from_numpy(values).to(batch.values.device)


def _sines(length: int, channels: int, ragged: bool) -> SeriesBatch:
    """Returns one series whose channel c is t + sin(2 pi (c + 1) t + c) at t from 0 to 1."""
    steps = torch.linspace(0, 1, length, dtype=torch.float64)[:, None]
    channel = torch.arange(channels, dtype=torch.float64)
    values = (steps + torch.sin(2 * torch.pi * (channel + 1) * steps + channel))[None]
    return SeriesBatch(values, torch.tensor([length]) if ragged else None)
