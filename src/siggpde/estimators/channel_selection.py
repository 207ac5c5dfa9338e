r"""Which channels a model needs: its leave-one-out loss as channels are left out one by one.

With all channels, the model is fitted and its left-out series judged: the negative log probability of each series' own
class (NLPP), or the negative log density of its number, with whole groups left out where there are groups. Then the
channel of the least importance (`siggpde.explain.overall`) is left out, and the rest is fitted again, until one is
left: one fit for each channel.

The standard error of a mean loss is :math:`\sqrt{\sum_g (\sum_{i \in g} (\ell_i - \bar\ell))^2} / n` over the groups g,
every series being a group where there are none. Losses of the same series are compared, so that differences between two
steps are surer than their standard errors; `difference_error` has those of the difference from all channels.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from siggpde.committee.averaging import AveragedMembers
from siggpde.committee.left_out_record import LeftOutRecord
from siggpde.committee.mixture import NormalMixture
from siggpde.explain.overall import channel_importance
from siggpde.gp.likelihood_names import LikelihoodName

log = logging.getLogger(__name__)

_LOOKED_AT = 100  # series of which the importances of channels are those


@dataclass(frozen=True)
class ChannelStep:
    """A set of `channels` kept, in their order, and what was left out to come to it (None at first): the mean `loss` of
    left-out series in nats a series, its standard `error`, and that of the difference from all channels."""

    channels: tuple[str, ...]
    left_out: str | None
    loss: float
    error: float
    difference_error: float


@dataclass(frozen=True)
class ChannelSelection:
    """The `steps` from all channels to one. `chosen` are the channels of the smallest set whose loss is within one
    standard error of the difference from the best."""

    steps: list[ChannelStep]
    measure: str

    @property
    def chosen(self) -> tuple[str, ...]:
        best = min(self.steps, key=lambda step: step.loss)
        enough = [step for step in self.steps if step.loss <= best.loss + max(step.difference_error, 0.0)]
        return min([*enough, best], key=lambda step: len(step.channels)).channels

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "chosen": list(self.chosen)}


def select_channels(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    sample_weight: Any = None,
    fewest: int = 1,
    importance_of: int = 60,
) -> ChannelSelection:
    """The curve of an estimator, which is not changed; arguments as for its `fit`. It ends with the `fewest` channels;
    importances are those for `importance_of` of the series."""
    from sklearn.base import clone  # noqa: PLC0415 - takes long to import

    if estimator.method == "paper" or estimator.spectrogram is not None:
        what = "method='paper' has no leave-one-out losses" if estimator.method == "paper" else "a spectrogram has bins"
        raise ValueError(f"{what}, so that its channels cannot be selected; take method='views' without a spectrogram")
    known = [name.value for name in LikelihoodName]
    if estimator.likelihood in known and not LikelihoodName(estimator.likelihood).closed_form:
        raise ValueError(
            f"likelihood={estimator.likelihood!r} has no closed form, and no leave-one-out losses; leave it at 'auto'"
        )
    X = _plain(X)
    count, time_channel = _channels(X), estimator.time_channel
    if time_channel is not None and not -count <= time_channel < count:
        raise ValueError(f"time_channel is {time_channel}, but the series of X have {count} channels; give one of them")
    clock = None if time_channel is None else time_channel % count
    kept = [number for number in range(count) if number != clock]
    if not kept:
        raise ValueError("the series of X have a time channel alone; give at least one channel beside it")
    if isinstance(fewest, bool) or not isinstance(fewest, int | np.integer) or not 1 <= fewest <= len(kept):
        raise ValueError(f"fewest must be from 1 to the {len(kept)} channels of the series, got {fewest!r}")
    names = estimator.channel_names or [f"channel {number}" for number in range(count)]
    if len(names) != count:
        raise ValueError(f"there are {len(names)} channel_names, but the series of X have {count} channels; name each")
    some = np.arange(min(_LOOKED_AT, len(X))) * len(X) // min(_LOOKED_AT, len(X))
    steps: list[ChannelStep] = []
    first: Tensor | None = None
    removed: str | None = None
    while True:
        own = kept if clock is None else sorted([*kept, clock])
        started = time.perf_counter()
        model: Any = clone(estimator)
        model.set_params(
            channel_names=[names[number] for number in own],
            time_channel=None if clock is None else own.index(clock),
        )
        series = _with_channels(X, own)
        model.fit(series, y, groups=groups, sample_weight=sample_weight)
        losses, whose = _losses(model)
        first = losses if first is None else first
        step = ChannelStep(
            tuple(names[number] for number in kept),
            removed,
            float(losses.mean()),
            _standard_error(losses, whose),
            _standard_error(losses - first, whose),
        )
        steps.append(step)
        log.info(
            "%d of %d channels: leave-one-out loss %.4f ± %.4f nats a series (%.1f s)",
            len(kept), len(steps[0].channels), step.loss, step.error, time.perf_counter() - started,
        )  # fmt: skip
        if len(kept) <= fewest:
            return ChannelSelection(steps, "NLPP" if hasattr(model, "classes_") else "negative log density")
        batch = model._batch(_rows(series, some))
        ranked = channel_importance(model.committee_, batch, model._names())
        places = {model.channel_names_[own.index(number)]: number for number in kept}
        least = next(each.name for each in reversed(ranked) if each.name in places)
        removed = names[places[least]]
        kept = [number for number in kept if number != places[least]]


def _losses(model: Any) -> tuple[Tensor, Tensor]:
    """The losses (n,) of left-out series, and their groups (n,)."""
    committee: AveragedMembers = model.committee_
    record: LeftOutRecord | None = getattr(committee, "left_out", None)
    if record is None:
        raise ValueError("this fit has no leave-one-out losses, so that its channels cannot be selected")
    n = len(record.y)
    if committee.link is not None:
        chances = committee.link.probabilities(record.mean.double(), record.variance.double())
        losses = -(chances / chances.sum(1, keepdim=True)).gather(1, record.y.long()[:, None])[:, 0].log()
    else:
        if record.means is None:
            raise ValueError("numbers of more than 1500 series have no leave-one-out densities; give fewer series")
        variances = committee.target_variances(record.variances.double())
        mixture = NormalMixture(record.means.double()[:, :, 0], variances, committee.weights, committee.recalibration)
        losses = math.log(model.target_scale_) - mixture.log_density(record.y.double())
    whose = torch.arange(n, device=losses.device) if record.groups is None else record.groups
    return losses.double(), whose


def _standard_error(losses: Tensor, groups: Tensor) -> float:
    _, place = groups.unique(return_inverse=True)
    sums = torch.zeros(int(place.max()) + 1, dtype=torch.float64, device=losses.device)
    sums.index_add_(0, place, losses - losses.mean())
    return float(sums.square().sum().sqrt()) / len(losses)


def _plain(X: Any) -> Any:
    """X itself, or of a list the series as arrays or tensors (n_channels, n_timepoints)."""
    if not isinstance(X, Sequence) or isinstance(X, str):
        return X
    arrays = [each if isinstance(each, Tensor) else np.asarray(each) for each in X]
    return [each[None] if each.ndim == 1 else each for each in arrays]


def _channels(X: Any) -> int:
    if isinstance(X, list | np.ndarray | Tensor) and len(X) == 0:
        raise ValueError("X is empty: there are no series in it; give at least one")
    if (isinstance(X, list) and all(each.ndim == 2 for each in X)) or getattr(X, "ndim", 0) == 3:
        return int(X[0].shape[0])
    raise ValueError(
        "X must be an array (n_cases, n_channels, n_timepoints) or a list of arrays (n_channels, n_timepoints); "
        "of one channel there is nothing to select"
    )


def _with_channels(X: Any, kept: list[int]) -> Any:
    return [series[kept] for series in X] if isinstance(X, Sequence) else X[:, kept]


def _rows(X: Any, rows: np.ndarray) -> Any:
    return [X[row] for row in rows.tolist()] if isinstance(X, Sequence) else X[rows]
