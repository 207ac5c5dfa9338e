"""From series to paths: what is added to a series before its signature is taken.

A series (length, channels) becomes a path of more channels, in this order: time, the channels themselves, and what is
appended to them. Everything learned is learned on the training set; nothing modifies its input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from siggpde.distributed.ranks import ALONE, Ranks
from siggpde.numerics import inputs
from siggpde.numerics.signature_kernel import Lengths
from siggpde.paths.statistics import mean_and_spread

Append = Literal["none", "variation", "arc"]
_PIECE = 2**18  # numbers of a piece: 2 MB
_LEARNED = ("mean", "spread", "appended_spread", "duration")


@dataclass(frozen=True)
class PathOptions:
    """How a series becomes a path.

    - `time`: a channel that rises evenly, from 0 to sqrt(12) over the whole series (unit spread); where time stamps
      are given it is these, from 0 to sqrt(12) over the median duration of a training series. Without it only the order
      of values counts, not their timing.
    - `base_point`: the path starts at 0, so that positions count and not only changes.
    - `append`: `"variation"`, for every channel the running sum of its absolute changes, which a path hides;
      `"arc"`, one channel with the running length of the path; both divided by their spread over the training set.
    - `lead_lag`: every channel twice, one a step behind the other, which brings in quadratic variation.
    - `difference`: so many times the series is replaced by its changes from point to point, before all else.
    """

    time: bool = True
    base_point: bool = True
    append: Append = "none"
    lead_lag: bool = False
    difference: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.difference, int) or not 0 <= self.difference <= 5:
            raise ValueError(f"difference must be an integer from 0 to 5, got {self.difference!r}")
        if self.append not in ("none", "variation", "arc"):
            raise ValueError(f"append must be 'none', 'variation' or 'arc', got {self.append!r}")

    def channels(self, channels: int) -> int:
        """The channels of the path of a series with so many."""
        appended = {"none": 0, "variation": channels, "arc": 1}[self.append]
        return int(self.time) + (2 if self.lead_lag else 1) * (channels + appended)


class PathTransform:
    """Series to paths with `options`, standardised by what `fit` has seen: zero mean and unit spread a channel.

    Examples:
        >>> series = torch.tensor([[[1.0], [3.0]]]).double()
        >>> paths, lengths = PathTransform(PathOptions(base_point=False)).fit(series)(series)
        >>> paths
        tensor([[[ 0.0000, -1.0000],
                 [ 3.4641,  1.0000]]], dtype=torch.float64)
    """

    def __init__(self, options: PathOptions | None = None) -> None:
        self.options = options or PathOptions()
        self.mean: Tensor | None = None
        self.spread: Tensor | None = None
        self.appended_spread: Tensor | None = None
        self.duration: Tensor | None = None

    def fit(
        self,
        series: inputs.Series,
        *,
        lengths: Lengths = None,
        times: Tensor | None = None,
        ranks: Ranks = ALONE,
    ) -> PathTransform:
        """Learns means and spreads from the training series (n, length, channels), and durations where `times`
        (n, length) are given. With `ranks`, each hands in its part of the series, and all learn the same."""
        with ranks.together():
            batch, counts, times = self._checked(series, lengths, times)
            if len(batch) == 0:
                raise ValueError("there are no series to learn means and spreads from")

        def points() -> Iterator[Tensor]:
            for part, own, _ in self._pieces(batch, counts, None):
                yield part[inputs.row_mask(part, own)]

        def appended() -> Iterator[Tensor]:
            for part, own, _ in self._pieces(batch, counts, None):
                yield self._appended(self._standard(part), own)[inputs.row_mask(part, own)]

        self.mean, self.spread = mean_and_spread(points, ranks)
        self.duration = None
        if times is not None:
            ends = [
                _hold_last(clock[:, :, None], own)[:, -1, 0] - clock[:, 0]
                for _, own, clock in self._pieces(batch, counts, times)
                if clock is not None
            ]
            self.duration = ranks.all_gather_rows(torch.cat(ends)).median()
            if not self.duration > 0:
                self.duration = torch.ones((), dtype=torch.float64)
        if self.options.append != "none":
            self.appended_spread = mean_and_spread(appended, ranks)[1]
        return self

    def __call__(
        self, series: inputs.Series, *, lengths: Lengths = None, times: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Paths (n, length', channels') in float64, and their lengths (None when all are equally long)."""
        if self.mean is None:
            raise ValueError("this transform has not seen training series yet; call fit first")
        batch, counts, times = self._checked(series, lengths, times)
        if batch.shape[2] != len(self.mean):
            raise ValueError(f"the series have {batch.shape[2]} channels, but those of fit had {len(self.mean)}")
        if (times is None) != (self.duration is None) and self.options.time:
            had = "had none" if self.duration is None else "had them"
            raise ValueError(f"time stamps must be given as in fit, and the series of fit {had}")
        paths, found, start = None, [], 0
        for part, own, clock in self._pieces(batch, counts, times):
            path, count = self._path(part, own, clock)
            if len(path) == len(batch):
                return path, count
            paths = path.new_empty(len(batch), *path.shape[1:]) if paths is None else paths
            paths[start : start + len(path)] = path
            found.append(count)
            start += len(path)
        assert paths is not None
        return paths, None if counts is None else torch.cat(found)

    def _path(self, batch: Tensor, counts: Tensor | None, times: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The paths of one piece."""
        path = _hold_last(self._standard(batch), counts)
        clock = None if times is None else _hold_last((times - times[:, :1])[:, :, None], counts)
        if self.options.base_point:
            path = torch.cat([torch.zeros_like(path[:, :1]), path], dim=1)
            clock = None if clock is None else torch.cat([clock[:, :1], clock], dim=1)
            counts = None if counts is None else counts + 1
        if self.options.append != "none":
            assert self.appended_spread is not None
            path = torch.cat([path, self._appended(path, counts) / self.appended_spread.to(path.device)], dim=2)
        if self.options.lead_lag:
            path = _lead_lag(path)
            clock = None if clock is None else clock.repeat_interleave(2, dim=1)[:, 1:]
            counts = None if counts is None else 2 * counts - 1
        if self.options.time:
            even = _times(path, counts) if clock is None else clock * (12**0.5 / self._duration(clock))
            path = torch.cat([even, path], dim=2)
        return path, counts

    def _duration(self, clock: Tensor) -> Tensor:
        assert self.duration is not None
        return self.duration.to(clock.device)

    def to(self, device: torch.device | str) -> PathTransform:
        """Moves what was learned to a device, in place; it is used on whichever device series are."""
        for name in _LEARNED:
            value = getattr(self, name)
            setattr(self, name, None if value is None else value.to(device))
        return self

    def names(self, channels: Sequence[str]) -> tuple[str, ...]:
        """Names of the channels of the path, from those of the series."""
        change = "change of " * self.options.difference
        own = [change + name for name in channels]
        if self.options.append == "variation":
            own += [f"variation of {name}" for name in own]
        elif self.options.append == "arc":
            own.append("path length")
        if self.options.lead_lag:
            own = [*own, *(f"{name} before" for name in own)]
        return ("time", *own) if self.options.time else tuple(own)

    def _checked(
        self, series: inputs.Series, lengths: Lengths, times: Tensor | None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        batch, counts = inputs.as_batch(series, lengths, "series")
        inputs.check_finite(batch, counts, "series")
        if times is not None:
            if times.shape != batch.shape[:2]:
                raise ValueError(f"times must have shape {tuple(batch.shape[:2])}, got {tuple(times.shape)}")
            times = times.to(batch.device)
            bad = (~torch.isfinite(times) & inputs.row_mask(batch, counts)).nonzero()
            if len(bad):
                number, place = bad[0].tolist()
                value = times[number, place].item()
                raise ValueError(f"times is not finite ({value}) in series {number}, at time index {place}")
        least = batch.shape[1] if counts is None else int(counts.amin()) if len(counts) else batch.shape[1]
        if least <= self.options.difference:
            series_number = 0 if counts is None else int(counts.argmin())
            raise ValueError(
                f"series {series_number} has too few points to take differences {self.options.difference} times; "
                "give longer series or a smaller difference"
            )
        return batch, counts, times

    def _pieces(
        self, batch: Tensor, counts: Tensor | None, times: Tensor | None
    ) -> Iterator[tuple[Tensor, Tensor | None, Tensor | None]]:
        """The series in pieces small enough for the processor's cache: in float64, differenced, 0 after their ends."""
        size = max(1, _PIECE // (batch.shape[1] * batch.shape[2]))
        for start in range(0, max(1, len(batch)), size):
            rows = slice(start, start + size)
            own = None if counts is None else counts[rows]
            clock = None if times is None else times[rows].detach().to(torch.float64)
            part = _zeroed(batch[rows].detach().to(torch.float64), own)
            for _ in range(self.options.difference):
                part, clock = part.diff(dim=1), None if clock is None else clock[:, 1:]
                own = None if own is None else own - 1
            yield _zeroed(part, own) if self.options.difference else part, own, clock

    def state(self) -> dict[str, Any]:
        """Everything learned, as plain numbers."""
        learned = {name: getattr(self, name) for name in _LEARNED}
        return {
            "options": dict(self.options.__dict__),
            **{k: None if v is None else v.tolist() for k, v in learned.items()},
        }

    @staticmethod
    def from_state(state: dict[str, Any]) -> PathTransform:
        transform = PathTransform(PathOptions(**state["options"]))
        for name in _LEARNED:
            value = state.get(name)
            setattr(transform, name, None if value is None else torch.tensor(value, dtype=torch.float64))
        return transform

    def _standard(self, batch: Tensor) -> Tensor:
        assert self.mean is not None and self.spread is not None
        return (batch - self.mean.to(batch.device)) / self.spread.to(batch.device)

    def _appended(self, path: Tensor, counts: Tensor | None) -> Tensor:
        steps = _hold_last(path, counts).diff(dim=1)
        size = steps.abs() if self.options.append == "variation" else steps.norm(dim=2, keepdim=True)
        return torch.cat(
            [torch.zeros_like(size[:, :1]) if size.shape[1] else path[:, :1, : size.shape[2]] * 0, size.cumsum(dim=1)],
            dim=1,
        )


def _zeroed(batch: Tensor, counts: Tensor | None) -> Tensor:
    """The same batch, 0 after the end of a series; a NaN there would spread."""
    if counts is None:
        return batch
    return torch.where(inputs.row_mask(batch, counts)[:, :, None], batch, 0.0)


def _hold_last(path: Tensor, counts: Tensor | None) -> Tensor:
    """The same path with its last point repeated to the end, which changes no signature."""
    if counts is None:
        return path
    last = (counts - 1).clamp_min(0)
    place = torch.minimum(torch.arange(path.shape[1], device=path.device)[None, :], last[:, None])
    return path.gather(1, place[:, :, None].expand_as(path))


def _times(path: Tensor, counts: Tensor | None) -> Tensor:
    n, length, _ = path.shape
    place = torch.arange(length, dtype=path.dtype, device=path.device).expand(n, length)
    last = torch.full((n,), length - 1, device=path.device) if counts is None else counts - 1
    share = torch.minimum(place, last[:, None]) / last.clamp_min(1)[:, None]
    return share[:, :, None] * 12**0.5


def _lead_lag(path: Tensor) -> Tensor:
    """(n, l, d) to (n, 2l - 1, 2d): the first copy moves first, the second follows."""
    twice = path.repeat_interleave(2, dim=1)
    return torch.cat([twice[:, 1:], twice[:, :-1]], dim=2)
