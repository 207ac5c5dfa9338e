"""Series as the paper prepares them: time i / length in front, every channel standardised on the training series."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from siggpde.datasets import load_dataset
from siggpde.series import Spectrogram
from siggpde.series.batch import SeriesBatch


class Prepared(NamedTuple):
    """Paths (n, length, channels) in float64 and labels 0..classes-1; `raw` series are without time and scaling."""

    x_train: Tensor
    y_train: Tensor
    x_test: Tensor
    y_test: Tensor
    raw_train: Tensor
    raw_test: Tensor
    classes: int


def prepare(config: dict[str, Any]) -> Prepared:
    """The data set `config["data"]`, through `config["spectrogram"]` where there is one, of equal lengths.

    `config["each"] = true` brings every channel of every series to mean 0 and spread 1 before anything else is done.
    `config["series"]` and `config["test_series"]`, where given, are numbers of series to keep, evenly spread.
    """
    data = load_dataset(config["data"])
    subsets = [
        (data.X_train, data.y_train, config.get("series")),
        (data.X_test, data.y_test, config.get("test_series")),
    ]
    indices = {label: index for index, label in enumerate(sorted(set(data.y_train.tolist())))}
    series, labels = [], []
    for x, y, wanted in subsets:
        if not np.isfinite(x).all():
            raise ValueError(f"{data.name} has series of unequal length or with gaps; the experiments take whole ones")
        rows = np.arange(len(x)) if wanted is None else np.linspace(0, len(x) - 1, min(wanted, len(x))).astype(int)
        batch = SeriesBatch(torch.from_numpy(np.swapaxes(x[rows], 1, 2).astype(np.float64)))
        if "spectrogram" in config:
            batch = Spectrogram(**config["spectrogram"])(batch)
        series.append(each_standardised(batch.values) if config.get("each") else batch.values)
        labels.append(torch.tensor([indices[label] for label in y[rows].tolist()]))
    train, test = standardised(with_time(series[0]), with_time(series[1]))
    return Prepared(train, labels[0], test, labels[1], series[0], series[1], len(indices))


def with_time(x: Tensor) -> Tensor:
    """x (n, length, d) with time i / length in front, (n, length, 1 + d)."""
    time = torch.arange(x.shape[1], dtype=x.dtype) / x.shape[1]
    return torch.cat([time[None, :, None].expand(len(x), -1, 1), x], dim=2)


def each_standardised(x: Tensor) -> Tensor:
    """x (n, length, d) with mean 0 and spread 1 in every channel of every series; constant ones become 0."""
    deviation = x.std(dim=1, correction=0, keepdim=True)
    return (x - x.mean(dim=1, keepdim=True)) / torch.where(deviation > 0, deviation, 1.0)


def standardised(train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
    """Both standardised by the mean and spread of every channel of `train`; channels constant in `train` become 0."""
    mean = train.mean(dim=(0, 1))
    deviation = train.std(dim=(0, 1), correction=0)
    scale = torch.where(deviation > 0, deviation, 1.0)
    return (train - mean) / scale, (test - mean) / scale
