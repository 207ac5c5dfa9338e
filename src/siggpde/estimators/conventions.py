"""What everything with scikit-learn's interface shares: threads, names of channels, and checks of a batch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from siggpde.numerics import inputs
from siggpde.numerics.core import limited
from siggpde.series import SeriesBatch

_LARGEST = 1e300


@contextlib.contextmanager
def threads(n_jobs: Any, series: int | None = None) -> Iterator[None]:
    """Runs a block with the number of threads of `n_jobs`, of which torch has one where there are few series."""
    count = inputs.thread_count(int(n_jobs) if isinstance(n_jobs, np.integer) else n_jobs)
    with limited(count, series):
        yield


def series_in(X: Any) -> int:
    """How many series X seems to have; what it has is checked elsewhere."""
    try:
        return len(X)
    except TypeError:
        return 0


def channel_attributes(X: Any, channels: int, names: Any) -> dict[str, Any]:
    """The fitted attributes on the channels of X; `names` is the setting `channel_names`, which is checked."""
    if names is None:
        names = [f"channel {i}" for i in range(channels)]
    if isinstance(names, str | bytes) or not hasattr(names, "__len__"):
        raise ValueError(f"channel_names must be a list of names, got {names!r}")
    if len(names) != channels:
        raise ValueError(f"channel_names has {len(names)} names, but the series have {channels} channels")
    attributes: dict[str, Any] = {"n_channels_": channels, "channel_names_": tuple(map(str, names))}
    if isinstance(X, np.ndarray) and X.ndim == 2:
        attributes["n_features_in_"] = X.shape[1]
    return attributes


def check_batch(batch: SeriesBatch, targets: int | None = None) -> None:
    """Raises ValueError where values are too large to be summed, or where there are not as many series as targets."""
    low, high = batch.values.aminmax()
    if not (low >= -_LARGEST and high <= _LARGEST):
        series, point, channel = (batch.values.abs() > _LARGEST).nonzero()[0].tolist()
        raise ValueError(
            f"series {series} of X has {batch.values[series, point, channel].item():.3g} in channel {channel}, which "
            f"is too large for sums (the most is {_LARGEST:.0e}); rescale the channel, or put NaN where it is missing"
        )
    if targets is not None and targets != len(batch):
        raise ValueError(f"X has {len(batch)} series but y has {targets} targets; give one target a series")
