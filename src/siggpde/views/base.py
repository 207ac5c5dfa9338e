"""What a view and a block are, and series at mean 0 and spread 1, as all views see them."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from siggpde.distributed.ranks import ALONE, Ranks
from siggpde.numerics.products import FeatureProducts
from siggpde.series import SeriesBatch
from siggpde.series.statistics import mean_and_spread

_SMALLEST_VARIANCE = 1e-9  # of a series at the mean of the landmarks, whose own is 1


class Rows(NamedTuple):
    """The rows of a kernel for n series.

    Attributes
    ----------
    gram : Tensor (n, m)
        k(X, landmarks), float64.
    variance : Tensor (n,)
        k(X, X), float64.
    """

    gram: Tensor
    variance: Tensor


class Part(NamedTuple):
    """Features that belong to a kernel, which is the mean of phi phi^T over its parts.

    Attributes
    ----------
    name : str
        The name of the kernel.
    numbers : Tensor (n, p)
        The features phi in units: int16, of windows, or floats.
    unit : float
    """

    name: str
    numbers: Tensor
    unit: float = 1.0

    @property
    def values(self) -> Tensor:
        """The features phi (n, p), in float64 where numbers are whole."""
        return self.numbers if self.numbers.is_floating_point() else self.numbers.double() * self.unit

    @property
    def width(self) -> int:
        """The number of features, p."""
        return self.numbers.shape[1]

    def rows(self, rows: slice) -> Part:
        """Returns the features of some of the series."""
        return self._replace(numbers=self.numbers[rows])

    def times(self, factor: float) -> Part:
        """Returns the features times a number."""
        if self.numbers.is_floating_point():
            return self._replace(numbers=self.numbers * factor)
        return self._replace(unit=self.unit * factor)


class Learned:
    """A dataclass of tensors and plain values that a fit has learned."""

    def state(self) -> dict[str, Any]:
        """Returns everything by the names of the fields."""
        return vars(self).copy()

    def to(self, device: torch.device | str) -> Self:
        """Returns a copy on a device."""
        moved = copy.copy(self)
        vars(moved).update({name: part.to(device) for name, part in vars(self).items() if isinstance(part, Tensor)})
        return moved


@dataclass(frozen=True)
class Centring(Learned):
    """The mean (m,) over the landmarks of every column of the Gram matrix, the mean of these, and the scale s of k(X,
    Z) = s (kappa(X, Z) - mean(X) - mean(Z) + mean), whose k(Z, Z) is 1 in the mean over the landmarks; `count` of the
    series of the columns are landmarks, None for all."""

    columns: Tensor
    mean: float
    scale: float
    count: int | None = None

    @staticmethod
    def of(landmarks: Rows, rounding: float = 1e-12) -> Centring:
        """Learns from the rows of the landmarks; a kernel that is constant on them, but for `rounding`, stays 0."""
        columns = landmarks.gram.mean(0)
        mean = float(columns.mean())
        spread = float(landmarks.variance.mean()) - mean
        varies = spread > rounding * float(landmarks.variance.abs().mean())
        return Centring(columns, mean, 1 / spread if varies else 0.0)

    def __call__(self, rows: Rows) -> Rows:
        means = rows.gram[:, : self.count].mean(1)
        gram = (rows.gram - means[:, None] - self.columns.to(means)).add_(self.mean).mul_(self.scale)
        variance = (rows.variance - 2 * means + self.mean) * self.scale
        return Rows(gram, variance.clamp_min(_SMALLEST_VARIANCE))


class Block(ABC):
    """A view fitted to landmarks: `raw` gives the rows of its kernels by name, `rows` the same centred, of n series or
    by default of the landmarks."""

    kind: str
    rounding: ClassVar[float] = 1e-12  # of the kernels, relative
    centring: dict[str, Centring]
    widths: Sequence[int] = ()  # features of every part, known without landmarks; none for kernels by the PDE
    prepared: Any = None  # of the landmarks, made at the first prediction; no part of the state, and of no copy

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "prepared"}

    def centre(self) -> dict[str, Rows]:
        """Learns the centring from the landmarks; returns their rows."""
        self.centring, rows = {}, {}
        for name, raw in self.raw().items():
            self.centring[name] = Centring.of(raw, self.rounding)
            rows[name] = self.centring[name](raw)
        return rows

    @torch.no_grad()
    def rows(self, batch: SeriesBatch | None = None) -> dict[str, Rows]:
        """Returns the rows by the name of the kernel, centred and scaled."""
        rows = self.raw(batch)
        for name, raw in rows.items():
            rows[name] = self.centring[name](raw)
        return rows

    @abstractmethod
    def raw(self, batch: SeriesBatch | None = None) -> dict[str, Rows]:
        """Returns the rows by the name of the kernel, as they are."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Returns everything that the landmarks do not tell, as plain values and tensors."""

    def roughly(self) -> Block:
        """Returns the block for sums over very many series, in which small errors of kernels average out."""
        return self

    def keep(self, names: set[str]) -> Block | None:
        """Returns the block with those of its kernels that are among `names`; None where there is none of them."""
        return self if names & self.centring.keys() else None

    def to(self, device: torch.device | str) -> Self:
        """Returns a copy on a device, to which batches then have to come."""
        block = copy.copy(self)
        block.centring = {name: centring.to(device) for name, centring in self.centring.items()}
        return block

    @property
    def width(self) -> int:
        """The numbers kept in memory for every landmark."""
        return 0


class Table(NamedTuple):
    """Features of several parts, from the number `first` on, side by side (n, p), and the unit of each part."""

    first: int
    numbers: Tensor
    units: list[float]


class FeatureBlock(Block):
    """A block of finite features: k(X, Y) is the mean over the parts of phi(X)^T phi(Y); the features of the
    `landmarks` are given part by part, or computed from the series. If `count` is a number, rows are against further
    series too, whose features come after those of so many landmarks. `kernels` has the name of the kernel of every
    part, in their order; no landmark is needed for it."""

    kernels: list[str]
    count: int | None = None

    def __init__(self, landmarks: list[Part] | SeriesBatch) -> None:
        self.landmarks = landmarks if isinstance(landmarks, list) else list(self.parts(landmarks))

    @abstractmethod
    def parts(self, batch: SeriesBatch) -> Iterator[Part]:
        """Yields the features of n series, part by part, always in the same order."""

    @abstractmethod
    def names(self, channels: Sequence[str]) -> list[list[str]]:
        """Returns the names of the features of every part; `channels` are the names of the channels of the series."""

    def letters(self, channels: Sequence[str]) -> list[list[tuple[str, ...]]]:
        """Returns, for the features of every part, the channels in their words, in order; () where there is no word."""
        return [[()] * len(names) for names in self.names(channels)]

    def extended(self, series: SeriesBatch) -> Self:
        """Returns the block with rows against further series, after the landmarks; kernels stay as they are."""
        block, columns, counts = copy.copy(self), dict[str, Tensor](), Counter(part.name for part in self.landmarks)
        block.count, block.landmarks = len(self.landmarks[0].numbers), []
        for part, more in zip(self.landmarks, self.parts(series), strict=True):
            assert more.unit == part.unit
            block.landmarks.append(part._replace(numbers=torch.cat([part.numbers, more.numbers])))
            column = more.values.double() @ part.values.double().mean(0) / counts[part.name]
            columns[part.name] = columns[part.name] + column if part.name in columns else column
        block.centring = {
            name: replace(one, columns=torch.cat([one.columns, columns[name]]), count=block.count)
            for name, one in self.centring.items()
        }
        return block

    def to(self, device: torch.device | str) -> Self:
        block = super().to(device)
        block.landmarks = [part._replace(numbers=part.numbers.to(device)) for part in self.landmarks]
        return block

    def raw(self, batch: SeriesBatch | Iterable[Part] | None = None) -> dict[str, Rows]:
        """Returns the rows by the name of the kernel, as they are; series may be given by their features too."""
        names, values, all_units = zip(*self.landmarks, strict=True)
        counts, rows, sums = Counter(names), dict[str, Rows](), None
        if self.prepared is None:
            self.prepared = FeatureProducts(values, list(all_units), list(map(list(counts).index, names)))
        if batch is None:
            batch = self.landmarks if self.count is None else [part.rows(slice(self.count)) for part in self.landmarks]
        for number, some in enumerate(self.tables(batch) if isinstance(batch, SeriesBatch) else batch):
            table = Table(number, some.numbers, [some.unit]) if isinstance(some, Part) else some
            sums = self.prepared.add(sums, *table)
        assert sums is not None
        for (name, count), gram, norms in zip(counts.items(), *sums, strict=True):
            rows[name] = Rows(gram.div_(count), norms.div_(count))
        return rows

    def tables(self, batch: SeriesBatch) -> Iterator[Part] | Iterator[Table]:
        """Returns the features of n series, of several parts at a time where these are computed together."""
        return self.parts(batch)

    @property
    def width(self) -> int:
        return sum(part.width for part in self.landmarks)


def parts_of(blocks: Iterable[Block], seen: SeriesBatch) -> Iterator[Part]:
    """Yields the features of n standardised series, of all blocks that have some, part by part."""
    for block in blocks:
        if isinstance(block, FeatureBlock):
            yield from block.parts(seen)


def rows_of(blocks: Iterable[Block], seen: SeriesBatch | None = None) -> dict[str, Rows]:
    """Returns the rows of the kernels of all blocks, at n standardised series or at the landmarks."""
    rows: dict[str, Rows] = {}
    for block in blocks:
        rows |= block.rows(seen)
    return rows


class View(ABC):
    """Settings of a way of looking at series.

    Examples
    --------
    >>> series = SeriesBatch(torch.arange(40.0).sin().double().reshape(5, 8, 1))
    >>> from siggpde.views import PathView
    >>> block, rows = PathView("path").fit(series[:4])
    >>> block.rows(series)["path"].gram.shape
    torch.Size([5, 4])
    """

    kind: ClassVar[str]

    @abstractmethod
    def fit(self, landmarks: SeriesBatch) -> tuple[Block, dict[str, Rows]]:
        """Returns the block of these landmark series, and their rows."""


_CHUNK_VALUES = 2**20
_FURTHEST = 1e5


@dataclass(frozen=True)
class Standard(Learned):
    """Mean and spread (channels,) of all points of the training series; values are rounded to float32, as landmarks are
    saved, and cut off at 1e5 spreads, where all series are just far."""

    mean: Tensor
    spread: Tensor

    @staticmethod
    def fit(batch: SeriesBatch, ranks: Ranks = ALONE) -> Standard:
        """Learns mean and spread from the series of all `ranks`."""
        mean, spread = mean_and_spread(partial(batch.split, len(batch), _CHUNK_VALUES), ranks)
        return Standard(_rounded(mean), _rounded(spread))

    def __call__(self, batch: SeriesBatch) -> SeriesBatch:
        values = (batch.values - self.mean.to(batch.values)) / self.spread.to(batch.values)
        return replace(batch, values=values.clamp(-_FURTHEST, _FURTHEST).float().double()).hold_last()


def _rounded(values: Tensor) -> Tensor:
    """Rounds to 32 binary digits, as the last digits of a sum, which depend on the ranks, would decide about others."""
    digits, exponents = torch.frexp(values)
    return torch.ldexp((digits * 2.0**32).round() / 2.0**32, exponents)
