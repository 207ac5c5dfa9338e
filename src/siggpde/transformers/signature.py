"""SignatureTransformer: series to signatures or log-signatures, of the whole or of windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from siggpde.estimators.settings import at_least
from siggpde.numerics.lie_basis import bracket_name
from siggpde.numerics.logsignature import logsignature, logsignature_basis
from siggpde.numerics.requested_words import word_list
from siggpde.numerics.signature import signature
from siggpde.numerics.words import check_words, word_names
from siggpde.series import PathOptions, PathTransform, Preparation, SeriesBatch
from siggpde.transformers.base import TAGS, SeriesTransformer, TransformerBase
from siggpde.transformers.intervals import Interval, intervals

_DEFAULT_DEPTH = 3
_CHUNK_VALUES = 2**22  # numbers of series handled at a time: 32 MB, so that paths never take much beside the table


class SignatureTransformer(SeriesTransformer, TransformerBase):
    """The signature of every series, or its logarithm, as features for any model that takes a table.

    X is (n_cases, n_channels, n_timepoints), 2-D for one channel, or a list of (n_channels, n_timepoints_i) arrays for
    series of unequal lengths; NaN are gaps, which are filled by straight lines. A series becomes a path, and of the
    path, or of the paths of windows of the series, the signature is taken.

    - `depth`: all words of 1 to `depth` letters; None is 3. Or `words`: a list of words, each a tuple of channels of
      the path, where time, if it is there, is channel 0.
    - `logsignature`: take the logarithm of the signature, in coordinates of the Lyndon basis, which are far fewer
      (`siggpde.logsignature`).
    - `time`, `base_point`, `append`, `lead_lag`, `difference`: how a series becomes a path, as in
      `siggpde.series.PathOptions`. `standardise`: every channel is shifted and scaled to mean 0 and spread 1 over the
      training series; else it is taken as it is.
    - `time_channel`: the channel of X that holds time stamps.
    - `window`: "whole"; "sliding", windows of `window_length`, each `window_step` after the one before (by default half
      a length) and a last one at the end; "expanding", windows from the start, the first of `window_length`, each
      longer by `window_step` than the one before (by default one length); "dyadic", the whole, its halves and so on
      `window_depth` times (by default 2). Lengths and steps are numbers of points (integers) in a series of the median
      length of the training series, or shares of a series (floats; by default a quarter). Series of other lengths are
      divided in the same proportions, so all have the same features. Each window becomes a path of its own, with its
      own time and base point.
    - `channel_names`: for the names of features. `dtype` of the features: "float64", "float32", or "auto" for that of
      X. `n_jobs`: threads; -1 takes all cores, None torch's number.

    After `fit`: `elements_` (words, or brackets of the logarithm), `windows_`, `path_transform_`, `preparation_`,
    `n_channels_` and `channel_names_`. What comes of a series does not depend on others that are transformed with it.
    The table has the features of the first window first, in the order of `elements_`.

    Examples:
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
        self._options()  # what is wrong with the settings is said before anything is wrong with X
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
        return {
            "path_transform_": transform, "windows_": windows, "elements_": elements, "depth_": depth,
            "logarithm_": self.logsignature,
        }  # fmt: skip

    def _features(self, batch: SeriesBatch, dtype: torch.dtype) -> Tensor:
        width = len(self.elements_)
        table = torch.empty(len(batch), width * len(self.windows_), dtype=dtype)
        size = max(1, _CHUNK_VALUES // (batch.values.shape[1] * batch.channels))
        for number, window in enumerate(self.windows_):
            columns = slice(number * width, (number + 1) * width)
            for start, chunk in zip(range(0, len(batch), size), batch.split(size), strict=True):
                table[start : start + len(chunk), columns] = self._window(chunk, window, dtype)
        return table

    def _window(self, batch: SeriesBatch, window: Interval, dtype: torch.dtype) -> Tensor:
        """The features (n, elements) of one window of every series."""
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
        values = paths.values.to(dtype)
        if self.depth_ is None:
            return signature(values, words=self.elements_, lengths=paths.lengths)
        if self.logarithm_:
            return logsignature(values, self.depth_, lengths=paths.lengths)
        return signature(values, depth=self.depth_, lengths=paths.lengths)[:, 1:]

    def _feature_names(self, channels: tuple[str, ...]) -> list[str]:
        names = self.path_transform_.names(channels)
        if len(set(names)) < len(names):  # such as a channel of the user that is called "time"
            names = self.path_transform_.names([f"{name} {i}" for i, name in enumerate(channels)])
        if self.logarithm_:
            own = [bracket_name(element, names) for element in self.elements_]
        else:
            own = word_names(self.elements_, names)
        if len(self.windows_) == 1:
            return own
        return [f"{name} ({window})" for window in self.windows_ for name in own]

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
        """What the features of a window stand for: words, or elements of the Lyndon basis."""
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
