"""Whether two sets of series come from one source: `drift`, a two-sample test with the signature kernel.

The p-value (1 + #{M_pi >= M}) / (1 + permutations) of the MMD² M is exact, whatever the source, because k does not know
the sets: means, spreads, path lengths and the fillings of empty channels are learned from both sets together.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from siggpde.estimators.settings import at_least, seed_of
from siggpde.series import PathOptions, PathTransform, Preparation, SeriesBatch
from siggpde.series.batch import join, pool
from siggpde.series.statistics import OF_CHANNELS, OF_SERIES, statistic_names
from siggpde.views.base import Standard
from siggpde.views.kernels import KernelBlock, KernelView
from siggpde.views.paths import channel_scales

_POINTS = 64
_PATH_LENGTH = 6.0
_ALIKE = 1e-2  # 1 - the mean of k below which it is solved more precisely
_ROUNDING = 1e-9
_NUMBERS = 2**22  # of permutations handled at a time
_MOST_PERMUTATIONS = 10**7
_DOUBTED = 0.05  # the p-value from which on nothing is said of a difference


@dataclass(frozen=True)
class Drift:
    """The result of `drift`.

    Attributes
    ----------
    p_value : float
        Small where the new series do not come from the source of the reference series.
    statistic : float
        MMD², about 0 for series of one source; it can be slightly negative.
    shifted : str
        The fact that differs most between the two sets, with the difference of the means in standard deviations:
        "level of x: +3.2 sd". Facts are level, spread and roughness of every channel, length, time span and share of
        missing values.
    n_reference, n_new : int
        Numbers of series that were compared.

    Examples
    --------
    >>> values = np.random.default_rng(0).normal(size=(60, 1, 20))
    >>> print(drift(values[:30], 10 * values[30:]).shifted.split(":")[0])
    spread of channel 0
    """

    p_value: float
    statistic: float
    shifted: str
    n_reference: int
    n_new: int

    @property
    def verdict(self) -> str:
        """What the p-value says, in words."""
        chance = f"series of one source differ as much in {100 * self.p_value:.3g} % of cases"
        seen = "the series come from another source" if self.p_value <= _DOUBTED else "no difference is seen"
        return f"{seen}: {chance}"


def drift(
    reference: Any,
    X: Any,
    *,
    permutations: int = 1000,
    random_state: Any = 0,
    max_series: int = 500,
    time_channel: int | None = None,
    channel_names: Sequence[str] | None = None,
) -> Drift:
    """Tests whether the series X come from the same source as `reference`: whole batches, not single series.

    The test sees levels, shapes and lengths; without time stamps points are one apart.

    Parameters
    ----------
    reference, X : series
        As the estimators take them, of any lengths, with NaN for gaps; the order of series does not matter.
    permutations : int
        The smallest p-value is 1 / (permutations + 1).
    random_state : int or generator, optional
        Of permutations and drawn series.
    max_series : int
        From a larger set so many series are drawn; time grows with the square of it.
    time_channel : int, optional
        The channel of time stamps.
    channel_names : list of str, optional
        Names of the channels, the time channel included.

    Returns
    -------
    Drift

    Examples
    --------
    >>> import numpy as np
    >>> series = np.random.default_rng(0).normal(size=(60, 1, 20)).cumsum(axis=2)
    >>> result = drift(series[:30], series[30:] + 5.0, channel_names=["x"])
    >>> result.p_value < 0.01, result.shifted.split(":")[0]
    (True, 'level of x')
    """
    permutations = at_least("permutations", permutations, 1)
    if permutations > _MOST_PERMUTATIONS:
        raise ValueError(f"permutations must be at most {_MOST_PERMUTATIONS}, got {permutations}")
    max_series = at_least("max_series", max_series, 2)
    random = np.random.default_rng(seed_of(random_state))
    first, second = _prepared(reference, X, time_channel)
    assert first.statistics is not None and second.statistics is not None
    shifted = _largest_shift(first.statistics, second.statistics, _names(channel_names, first, time_channel))
    drawn: list[SeriesBatch] = []
    for batch in (first, second):
        order = _order(batch)
        if len(order) > max_series:
            order = order[torch.from_numpy(np.sort(random.choice(len(order), max_series, replace=False)))]
        drawn.append(batch[order])
    pooled = _pooled(*drawn)
    new = torch.arange(len(pooled)) >= len(drawn[0])
    # In an order that does not tell the sets apart, so that the result depends on neither order.
    order = _order(pooled)
    gram, new = signature_gram(pooled[order]), new[order]
    statistic = float(mmd(gram, new[None])[0])
    tolerance = 1e-12 * max(1.0, abs(statistic))
    above = 0
    rows = max(1, _NUMBERS // len(new))
    for start in range(0, permutations, rows):
        places = np.broadcast_to(new.numpy(), (min(rows, permutations - start), len(new)))
        above += int((mmd(gram, torch.from_numpy(random.permuted(places, axis=1))) >= statistic - tolerance).sum())
    return Drift((1 + above) / (1 + permutations), statistic, shifted, *(len(batch) for batch in drawn))


def mmd(gram: Tensor, new: Tensor) -> Tensor:
    """The unbiased MMD² (P,) for a kernel (N, N) and P choices (P, N), bool, of the new series."""
    ones = new.to(gram)
    zeros = 1 - ones
    diagonal = gram.diagonal()

    def within(which: Tensor) -> Tensor:
        count = which.sum(1)
        return (((which @ gram) * which).sum(1) - which @ diagonal) / (count * (count - 1))

    across = ((ones @ gram) * zeros).sum(1) / (ones.sum(1) * zeros.sum(1))
    return within(ones) + within(zeros) - 2 * across


def signature_gram(batch: SeriesBatch) -> Tensor:
    """The normalised signature kernel (N, N) of series with times, on paths of median length 6 with a base point."""
    standard = Standard.fit(batch)(batch)
    short = pool(standard, _POINTS)
    transform = PathTransform(PathOptions(base_point=True)).fit(short)
    weight = math.sqrt(batch.channels / 12)  # the clock of paths runs to sqrt(12)
    theta = channel_scales(transform.paths(short), weight, _PATH_LENGTH)
    view = KernelView("drift", base_point=True, path_length=_PATH_LENGTH, max_points=_POINTS, max_pivots=len(batch))
    gram = KernelBlock(view, transform, theta, (1.0, 1.0), short).raw()["drift"].gram
    if 1 - float(gram.mean()) < _ALIKE:
        gram = KernelBlock(view, transform, theta, (1.0, 1.0), short, precise=True).raw()["drift"].gram
    return gram


def _prepared(reference: Any, X: Any, time_channel: int | None) -> tuple[SeriesBatch, SeriesBatch]:
    first, second = (
        Preparation(time_channel=time_channel).fit_transform(series, name)
        for series, name in ((reference, "reference"), (X, "X"))
    )
    for batch, name in ((first, "reference"), (second, "X")):
        if len(batch) < 2:
            raise ValueError(f"{name} has {len(batch)} series; a test of two sets needs two or more in each")
    if first.channels != second.channels:
        extra = 0 if time_channel is None else 1
        raise ValueError(
            f"X has {second.channels + extra} channels, but reference has {first.channels + extra}; hand in the same "
            "channels in the same order, as (n_cases, n_channels, n_timepoints)"
        )
    return first, second


def _names(channel_names: Sequence[str] | None, batch: SeriesBatch, time_channel: int | None) -> list[str]:
    if channel_names is None:
        return statistic_names([f"channel {number}" for number in range(batch.channels)])
    wanted = batch.channels + (time_channel is not None)
    if len(channel_names) != wanted:
        raise ValueError(f"channel_names has {len(channel_names)} names for series of {wanted} channels")
    return statistic_names(Preparation(time_channel=time_channel).names(channel_names))


def _order(batch: SeriesBatch) -> Tensor:
    """Returns an order of the series that depends on their values alone."""
    counts = batch.counts().tolist()
    columns = [part.numpy() for part in (batch.values, batch.times) if part is not None]
    keys = [
        hashlib.sha256(b"".join(np.ascontiguousarray(column[row, :count]).tobytes() for column in columns)).digest()
        for row, count in enumerate(counts)
    ]
    return torch.tensor(sorted(range(len(keys)), key=keys.__getitem__))


def _pooled(first: SeriesBatch, second: SeriesBatch) -> SeriesBatch:
    """Returns both sets in one batch with times; a channel without values in a series has its mean in the others."""
    both = join([first, second], range(len(first) + len(second))).hold_last()
    assert first.statistics is not None and second.statistics is not None
    statistics = torch.cat([first.statistics, second.statistics])
    unknown = statistics[:, : len(OF_CHANNELS) * both.channels : len(OF_CHANNELS)].isnan()  # a level that is not known
    known = both.inside()[:, :, None] & ~unknown[:, None, :]
    mean = torch.where(known, both.values, 0.0).sum((0, 1)) / known.sum((0, 1)).clamp_min(1)
    values = torch.where(unknown[:, None, :], mean, both.values)
    return SeriesBatch(values, both.lengths, _even_times(both, statistics) if both.times is None else both.times)


def _even_times(batch: SeriesBatch, statistics: Tensor) -> Tensor:
    """Returns times (n, length) of points that were one apart before they were averaged."""
    last = (batch.counts() - 1)[:, None].double()
    index = torch.arange(batch.values.shape[1], dtype=torch.float64)
    length = statistics[:, len(OF_CHANNELS) * batch.channels + OF_SERIES.index("length")]
    return torch.minimum(index, last) / last.clamp_min(1.0) * (length - 1)[:, None]


def _largest_shift(reference: Tensor, new: Tensor, names: Sequence[str]) -> str:
    """Returns the fact, of (n, F) and (m, F), whose means differ most in standard deviations within the sets."""
    largest, shifted = 0.0, "nothing"
    for name, *columns in zip(names, reference.T, new.T, strict=True):
        a, b = (column[~column.isnan()] for column in columns)
        if not len(a) or not len(b):
            continue
        before, now = float(a.mean()), float(b.mean())
        size = max(abs(before), abs(now))
        spread = math.sqrt(float((a - before).square().sum() + (b - now).square().sum()) / max(len(a) + len(b) - 2, 1))
        if abs(now - before) <= _ROUNDING * size:
            continue
        constant = spread <= _ROUNDING * size
        shift = math.inf if constant else (now - before) / spread
        if abs(shift) > largest:
            largest = abs(shift)
            shifted = f"{name}: {before:.4g} to {now:.4g}" if constant else f"{name}: {shift:+.1f} sd"
    return shifted
