"""SignatureTransformer: signatures or log-signatures of series, of the whole series or of its windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from siggpde.estimators.settings import at_least
from siggpde.numerics.inputs import word_list
from siggpde.numerics.logsignature import bracket_name, logsignature, logsignature_basis
from siggpde.numerics.signature import signature
from siggpde.numerics.words import check_words, word_names
from siggpde.series import PathOptions, PathTransform, Preparation, SeriesBatch
from siggpde.transformers.base import TAGS, SeriesTransformer, TransformerBase

KINDS = ("whole", "sliding", "dyadic", "expanding")
_DEFAULT_DEPTH = 3
_DEFAULT_SHARE = 0.25
_CHUNK_VALUES = 2**22  # numbers of series handled at a time: 32 MB, so that paths stay small beside the table


@dataclass(frozen=True)
class Interval:
    """Points `start` to `stop` of a series of points 0 to `last`, and the same shares of series of other lengths."""

    start: int
    stop: int
    last: int

    def points(self, counts: Tensor) -> tuple[Tensor, Tensor]:
        """The first and the last point, (n,) each, in series of `counts` points (n,), which differ where there are two.

        Examples
        --------
        >>> Interval(1, 2, 4).points(torch.tensor([5, 9, 2, 1]))
        (tensor([1, 2, 0, 0]), tensor([2, 4, 1, 0]))
        """
        ends = counts - 1
        first, last = ((2 * point * ends + self.last) // (2 * self.last) for point in (self.start, self.stop))
        last = torch.minimum(torch.maximum(last, first + 1), ends)
        return torch.minimum(first, (last - 1).clamp_min(0)), last

    def cut(self, batch: SeriesBatch) -> SeriesBatch:
        """Returns the part of every series in the window."""
        first, last = self.points(batch.counts())
        if batch.lengths is None:  # all have the same points
            start, stop = (int(end[0]) if len(batch) else 0 for end in (first, last))
            times = None if batch.times is None else batch.times[:, start : stop + 1]
            return SeriesBatch(batch.values[:, start : stop + 1], None, times, batch.first)
        lengths = last - first + 1
        index = first[:, None] + torch.arange(int(lengths.amax()), device=first.device)
        index = torch.minimum(index, last[:, None])
        values = batch.values.gather(1, index[:, :, None].expand(-1, -1, batch.channels))
        times = None if batch.times is None else batch.times.gather(1, index)
        return SeriesBatch(values, lengths, times, batch.first)

    def __str__(self) -> str:
        return f"{100 * self.start / self.last:.4g}–{100 * self.stop / self.last:.4g} %"


def intervals(kind: Any, length: Any, step: Any, depth: Any, points: int) -> tuple[Interval, ...]:
    """Returns the windows of a kind in series of `points` points, by the settings of `SignatureTransformer`."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"window must be one of {', '.join(map(repr, KINDS))}, got {kind!r}")
    if kind not in ("sliding", "expanding"):
        for name, value in (("window_length", length), ("window_step", step)):
            if value is not None:
                raise ValueError(f"{name} is for sliding and expanding windows, not for window={kind!r}; leave it out")
    if kind != "dyadic" and depth is not None:
        raise ValueError(f"window_depth is for dyadic windows, not for window={kind!r}; leave it out")
    if kind == "whole":
        return (Interval(0, 1, 1),)
    if kind == "dyadic":
        levels = 2 if depth is None else at_least("window_depth", depth, 1)
        if 2**levels > points - 1:
            raise ValueError(
                f"window_depth={levels} cuts a series into {2**levels} parts, but those of fit have {points} points "
                f"(the median); the most is {max(points - 1, 1).bit_length() - 1}"
            )
        return tuple(Interval(i, i + 1, 2**level) for level in range(levels + 1) for i in range(2**level))
    wide = _steps("window_length", _DEFAULT_SHARE if length is None else length, points)
    if step is None:
        stride = max(1, wide // 2) if kind == "sliding" else wide
    elif isinstance(step, float | np.floating):
        stride = _steps("window_step", step, points)
    else:
        stride = at_least("window_step", step, 1)
    last = points - 1
    stops = [*range(wide, last, stride), last]  # the last window ends with the series
    return tuple(Interval(stop - wide if kind == "sliding" else 0, stop, last) for stop in stops)


def _steps(name: str, value: Any, points: int) -> int:
    """Returns the steps from point to point in a length, given in points or as a share of the series."""
    if isinstance(value, float | np.floating):
        if not 0 < value <= 1:
            raise ValueError(f"{name} must be a number of points or a share between 0 and 1, got {value!r}")
        steps = max(1, round(float(value) * (points - 1)))
    else:
        steps = at_least(name, value, 2) - 1
    if steps > points - 1:
        raise ValueError(
            f"{name}={value} is longer than the series of fit, which have {points} points (the median); "
            "give fewer points, or a share such as 0.25"
        )
    return steps


class SignatureTransformer(SeriesTransformer, TransformerBase):
    """The signature of every series, or its logarithm, as features for any model that takes a table.

    X is (n_cases, n_channels, n_timepoints), 2-D for one channel, or a list of (n_channels, n_timepoints_i) arrays for
    series of unequal lengths; NaN are gaps, which are filled by straight lines. A series, or each of its windows,
    becomes a path, whose signature is taken. The features of a series do not depend on the other series.

    Parameters
    ----------
    depth : int, optional
        All words of 1 to `depth` letters; None is 3.
    words : list of tuples of int, optional
        Words instead of `depth`: tuples of channels of the path, where time, if there is time, is channel 0.
    logsignature : bool
        Take the logarithm of the signature in the Lyndon basis, see `siggpde.logsignature`: far fewer features.
    time, base_point, append, lead_lag, difference
        How a series becomes a path, see `siggpde.series.PathOptions`.
    standardise : bool
        Shift and scale every channel to mean 0 and spread 1 over the training series.
    time_channel : int, optional
        The channel of X that holds time stamps.
    window : {"whole", "sliding", "expanding", "dyadic"}
        - "sliding": windows of `window_length`, one every `window_step` (by default half a length), the last one at
          the end of the series;
        - "expanding": windows from the start of the series, the first of `window_length`, each longer by `window_step`
          than the one before (by default one length);
        - "dyadic": the whole series, its halves and so on, `window_depth` times (by default 2).

        Each window becomes a path with its own time and base point.
    window_length, window_step : int or float, optional
        Points in a series of the median length of the training series (int), or a share of the series (float); a
        length is by default a quarter. Series of other lengths are divided in the same proportions.
    window_depth : int, optional
        Levels of dyadic windows.
    channel_names : list of str, optional
        Names of the channels, for names of features.
    dtype : {"auto", "float32", "float64"}
        Of the features; "auto" is that of X.
    n_jobs : int, optional
        Threads: -1 takes all cores, None torch's number.

    Attributes
    ----------
    elements_ : tuple
        Words, or brackets of the logarithm. The table has the elements of the first window first.
    windows_ : tuple of Interval
    path_transform_ : siggpde.series.PathTransform
    preparation_ : siggpde.series.Preparation
    n_channels_ : int
    channel_names_ : tuple of str

    Examples
    --------
    >>> import numpy as np
    >>> from siggpde import SignatureTransformer
    >>> series = np.random.default_rng(0).normal(size=(60, 1, 20)).cumsum(axis=2)
    >>> transformer = SignatureTransformer(depth=2, channel_names=["level"])
    >>> transformer.fit_transform(series).shape
    (60, 6)
    >>> transformer.get_feature_names_out().tolist()
    ['time', 'level', 'time–time', 'time–level', 'level–time', 'level–level']
    >>> halves = SignatureTransformer(logsignature=True, depth=2, window="dyadic", window_depth=1)
    >>> halves.fit(series).get_feature_names_out()[-3:].tolist()
    ['time (50–100 %)', 'channel 0 (50–100 %)', '[time, channel 0] (50–100 %)']
    """

    _tags: ClassVar[dict[str, Any]] = TAGS

    path_transform_: PathTransform
    windows_: tuple[Interval, ...]
    elements_: tuple[Any, ...]
    logarithm_: bool
    depth_: int | None  # None where words were given

    def __init__(
        self,
        *,
        depth: int | None = None,
        words: Sequence[Sequence[int]] | None = None,
        logsignature: bool = False,
        time: bool = True,
        base_point: bool = True,
        append: str = "none",
        lead_lag: bool = False,
        difference: int = 0,
        standardise: bool = True,
        time_channel: int | None = None,
        window: str = "whole",
        window_length: int | float | None = None,
        window_step: int | float | None = None,
        window_depth: int | None = None,
        channel_names: Any = None,
        dtype: str = "auto",
        n_jobs: int | None = 1,
    ) -> None:
        self.depth = depth
        self.words = words
        self.logsignature = logsignature
        self.time = time
        self.base_point = base_point
        self.append = append
        self.lead_lag = lead_lag
        self.difference = difference
        self.standardise = standardise
        self.time_channel = time_channel
        self.window = window
        self.window_length = window_length
        self.window_step = window_step
        self.window_depth = window_depth
        self.channel_names = channel_names
        self.dtype = dtype
        self.n_jobs = n_jobs
        super().__init__()

    def _preparation(self) -> Preparation:
        self._options()  # wrong settings are reported before anything that is wrong with X
        return Preparation(time_channel=self.time_channel, max_points=None)

    def _learn(self, batch: SeriesBatch) -> dict[str, Any]:
        options = self._options()
        elements = self._elements(options.channels(batch.channels))
        windows = intervals(
            self.window, self.window_length, self.window_step, self.window_depth, int(batch.counts().median())
        )
        transform = PathTransform(options).fit(batch)
        if not self.standardise:
            assert transform.mean is not None and transform.spread is not None
            transform.mean, transform.spread = torch.zeros_like(transform.mean), torch.ones_like(transform.spread)
            if transform.appended_spread is not None:
                transform.appended_spread = torch.ones_like(transform.appended_spread)
        depth = self._depth() if self.words is None else None
        settings = {"depth_": depth, "logarithm_": self.logsignature}
        return {"path_transform_": transform, "windows_": windows, "elements_": elements, **settings}

    def _features(self, batch: SeriesBatch, dtype: torch.dtype) -> Tensor:
        width = len(self.elements_)
        table = torch.empty(len(batch), width * len(self.windows_), dtype=dtype)
        for window, columns in zip(self.windows_, table.split(width, dim=1), strict=True):
            for chunk in batch.split(len(batch), _CHUNK_VALUES):
                first = chunk.first - batch.first
                columns[first : first + len(chunk)] = self._window(chunk, window, dtype)
        return table

    def _window(self, batch: SeriesBatch, window: Interval, dtype: torch.dtype) -> Tensor:
        """Returns the features (n, elements) of one window of every series."""
        part = window.cut(batch)
        counts = part.counts()
        if int(counts.min()) <= self.path_transform_.options.difference:
            series = int(counts.argmin())
            raise ValueError(
                f"the window {window} of series {batch.first + series} has {int(counts[series])} points, too few to "
                f"take differences {self.path_transform_.options.difference} times; give longer series or windows, or "
                "a smaller difference"
            )
        paths = self.path_transform_.paths(part)
        values, lengths = paths.values.to(dtype), paths.lengths
        if self.depth_ is None:
            return signature(values, words=self.elements_, lengths=lengths)
        if self.logarithm_:
            return logsignature(values, self.depth_, lengths=lengths)
        return signature(values, depth=self.depth_, lengths=lengths)[:, 1:]

    def _feature_names(self, channels: tuple[str, ...]) -> list[str]:
        names = self.path_transform_.names(channels)
        if len(set(names)) < len(names):  # such as a channel of the user that is called "time"
            names = self.path_transform_.names([f"{name} {i}" for i, name in enumerate(channels)])
        if self.logarithm_:
            features = [bracket_name(element, names) for element in self.elements_]
        else:
            features = word_names(self.elements_, names)
        if len(self.windows_) == 1:
            return features
        return [f"{name} ({window})" for window in self.windows_ for name in features]

    def _options(self) -> PathOptions:
        for name in ("time", "base_point", "lead_lag", "standardise", "logsignature"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False, got {getattr(self, name)!r}")
        if self.time_channel is not None and not self.time:
            raise ValueError("time_channel holds the time stamps of the path, but time=False leaves time out of it")
        return PathOptions(self.time, self.base_point, self.append, self.lead_lag, self.difference)  # pyright: ignore

    def _depth(self) -> int:
        return _DEFAULT_DEPTH if self.depth is None else at_least("depth", self.depth, 1)

    def _elements(self, channels: int) -> tuple[Any, ...]:
        """Returns the words, or elements of the Lyndon basis, that the features of a window stand for."""
        if self.words is None:
            depth = self._depth()
            return tuple(logsignature_basis(channels, depth) if self.logsignature else word_list(channels, depth)[1:])
        if self.depth is not None:
            raise ValueError("give depth or words, got both")
        if self.logsignature:
            raise ValueError("the logarithm of a signature has no words to choose from; give depth instead of words")
        words = check_words(self.words, channels)
        if not words:
            raise ValueError("words is empty; give at least one word, or depth")
        return tuple(words)

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        return {"depth": 2}
