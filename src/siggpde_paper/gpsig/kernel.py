"""The truncated signature kernel of GPSig, by tiles of pairs of series that are computed again in reverse."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd import Function

from siggpde.gp.kernel import PathKernel
from siggpde.numerics import inputs
from siggpde.numerics.autograd import once_differentiable
from siggpde.numerics.signature import signature
from siggpde.numerics.signature_kernel import Lengths
from siggpde.numerics.words import count_up_to, letter_counts, words_up_to
from siggpde_paper.gpsig.series_levels import (
    Static,
    cells_of_tile,
    checked_series,
    compiled_paired_levels,
    core_has_pairs,
    increment_kernel,
    linear_pair_levels,
    paired_increment_kernel,
    rbf_pair_levels,
    scaled_pair,
    sequence_levels,
)

Compute = Callable[..., Tensor]
Method = Literal["auto", "explicit", "recursion", "core"]
_MAX_WORDS = 2000
_CELLS = 2**17  # numbers of a tile: larger ones do not fit the cache, smaller ones are mostly overhead


def over_pairs(compute: Compute, x: Tensor, y: Tensor | None, tile: tuple[int, int]) -> Tensor:
    """compute(x, y) (k, n, m) by tiles of rows; without y of x with itself, where `compute` must be symmetric."""
    return _Tiles.apply(compute, tile, x, x if y is None else y, y is None)  # pyright: ignore[reportReturnType]


def tile_shape(cells: int, rows: int, columns: int, max_cells: int) -> tuple[int, int]:
    """Rows and columns of a tile of at most `max_cells` numbers, `cells` for each pair, but at least one pair.

    >>> tile_shape(10, 100, 20, 1000), tile_shape(10, 100, 400, 1000)
    ((5, 20), (1, 100))
    """
    pairs = max(1, max_cells // max(1, cells))
    if columns <= pairs:
        return max(1, min(rows, pairs // max(1, columns))), max(1, columns)
    return 1, pairs


class _Tiles(Function):
    @staticmethod
    def forward(ctx: Any, compute: Compute, tile: tuple[int, int], x: Tensor, y: Tensor, same: bool):  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.compute, ctx.tile, ctx.same = compute, tile, same
        ctx.save_for_backward(x, y)
        out: Tensor | None = None
        for rows, columns in _tiles(len(x), len(y), tile, same):
            values = compute(x[rows], y[columns])
            if out is None:
                out = values.new_empty(len(values), len(x), len(y))
            out[:, rows, columns] = values
            if same and rows != columns:
                out[:, columns, rows] = values.mT
        return compute(x, y) if out is None else out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        x, y = ctx.saved_tensors
        wanted = ctx.needs_input_grad[2:4]
        gradients = once_differentiable(_pull_back, ctx.compute, ctx.tile, ctx.same, wanted, x, y, grad)
        return None, None, *gradients, None


def _pull_back(
    compute: Compute, tile: tuple[int, int], same: bool, wanted: tuple[bool, bool], x: Tensor, y: Tensor, grad: Tensor
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients in x and y, as far as wanted; of x with itself, both in the one of x."""
    of_x = torch.zeros_like(x) if wanted[0] else None
    of_y = of_x if same else torch.zeros_like(y) if wanted[1] else None
    for rows, columns in _tiles(len(x), len(y), tile, same):
        left = x[rows].detach().requires_grad_(wanted[0])
        right = y[columns].detach().requires_grad_(wanted[1])
        outgoing = grad[:, rows, columns]
        if same and rows != columns:
            outgoing = outgoing + grad[:, columns, rows].mT
        with torch.enable_grad():
            value = compute(left, right)
        learned = [(left, of_x, rows), (right, of_y, columns)]
        sums = [total[span] for _, total, span in learned if total is not None]
        slopes = torch.autograd.grad(value, [part for part, *_ in learned if part.requires_grad], outgoing)
        for total, slope in zip(sums, slopes, strict=True):
            total.add_(slope)
    return of_x, None if same else of_y


def _tiles(rows: int, columns: int, tile: tuple[int, int], same: bool) -> Iterator[tuple[slice, slice]]:
    """Tiles of all pairs; of x with itself, the squares on the diagonal and the tiles to their right."""

    def spans(first: int, end: int, step: int) -> Iterator[slice]:
        return (slice(start, min(start + step, end)) for start in range(first, end, max(1, step)))

    for span in spans(0, rows, tile[0]):
        if same:
            yield span, span
        for other in spans(span.stop if same else 0, columns, tile[1]):
            yield span, other


class TruncatedKernel(PathKernel):
    """GPSig's covariance function sigma² sum_m v_m k_m(theta X, theta Y) over levels m = 0 .. `level`; v_m are learned.

    Parameters
    ----------
    channels : int
        Channels of the series.
    level : int, default 4
        The highest level.
    order : int, optional
        How often a time may occur in a product; by default `level`, for the levels of the signature kernel.
    static : {"linear", "rbf"}, default "linear"
        The static kernel on points.
    theta : float or sequence of floats, default 1.0
        Initial scales of the channels.
    amplitude : float, default 1.0
        The initial sigma².
    method : {"auto", "explicit", "recursion", "core"}, default "auto"
        "explicit" takes inner products of truncated signatures (linear static kernel, full order), "recursion" never
        does, and "auto" does for at most 2000 words. "core", and "auto" where it is not explicit, is the recursion by
        the native core for what it has (pairs of series for two to five levels of full order, inducing tensors of the
        linear kernel), and torch for the rest.

    Examples
    --------
    >>> kernel = TruncatedKernel(1, level=2)
    >>> kernel(torch.tensor([[[0.0], [2.0]]]).double(), diag=True).detach()
    tensor([9.], dtype=torch.float64)
    """

    letters: Tensor
    lengths_of_words: Tensor
    log_weights: nn.Parameter

    def __init__(
        self,
        channels: int,
        level: int = 4,
        *,
        order: int | None = None,
        static: Static = "linear",
        theta: float | Sequence[float] | Tensor = 1.0,
        amplitude: float = 1.0,
        method: Method = "auto",
    ) -> None:
        super().__init__(channels, theta, amplitude)
        if not isinstance(level, int) or level < 1:
            raise ValueError(f"level must be an integer, at least 1, got {level!r}")
        self.level, self.order = level, level if order is None else order
        if not isinstance(self.order, int) or not 1 <= self.order <= level:
            raise ValueError(f"order must be an integer from 1 to the level, {level}, got {order!r}")
        if static not in ("linear", "rbf"):
            raise ValueError(f"static must be 'linear' or 'rbf', got {static!r}")
        self.static: Static = static
        if method not in ("auto", "explicit", "recursion", "core"):
            raise ValueError(f"method must be 'auto', 'explicit', 'recursion' or 'core', got {method!r}")
        self.method: Method = method
        self.compiled = method in ("auto", "core")
        possible = static == "linear" and self.order == level
        if method == "explicit" and not possible:
            raise ValueError(
                f"method='explicit' needs the linear static kernel and full order, {level}; got static={static!r} and "
                f"order={self.order}. Use method='recursion'"
            )
        count = count_up_to(channels, level)
        self.explicit = method == "explicit" or (method == "auto" and possible and count <= _MAX_WORDS)
        listed = words_up_to(channels, level) if self.explicit else []
        self.register_buffer("letters", letter_counts(listed, channels).double(), persistent=False)
        sizes = torch.tensor([len(word) for word in listed], dtype=torch.int64)
        self.register_buffer("lengths_of_words", sizes, persistent=False)
        self.log_weights = nn.Parameter(torch.zeros(level + 1, dtype=torch.float64))

    @property
    def weights(self) -> Tensor:
        """v_0 .. v_level."""
        return self.log_weights.exp()

    def forward(self, *series: Any, **more: Any) -> Tensor:
        """Covariances (n, m), with `diag=True` (n,), of the arguments of `levels`."""
        return self.combine(self.levels(*series, **more))

    def levels(
        self,
        x: inputs.Series,
        y: inputs.Series | None = None,
        diag: bool = False,
        *,
        lengths: Lengths = None,
        y_lengths: Lengths = None,
    ) -> Tensor:
        """k_1 .. k_level of theta X and theta Y, (level, n, m), or (level, n) with `diag=True`; k_0 is 1."""
        self.check_arguments(y, diag, y_lengths)
        xs = self.padded_series(x, lengths)
        ys = None if y is None else self.padded_series(y, y_lengths, "y")
        if diag:
            return self.squared_norms(xs)
        if not self.explicit:
            return self.pair_levels(xs, ys)
        left = self.scaled_signatures(xs)
        return self._level_products(left, left if ys is None else self.scaled_signatures(ys), False)

    def combine(self, levels: Tensor) -> Tensor:
        """sigma² sum_m v_m k_m of levels (level, ...); k_0 is 1."""
        weights = self.amplitude * self.weights
        return weights[0] + torch.tensordot(weights[1:], levels, dims=1)

    def padded_series(self, x: inputs.Series, lengths: Lengths = None, name: str = "x") -> Tensor:
        """x as a tensor in float64, checked to be finite, with padding set to the last point of every series."""
        paths = self.as_paths(x, lengths, name)
        return checked_series(paths.values, paths.lengths, name)

    def squared_norms(self, xs: Tensor) -> Tensor:
        """k_1 .. k_level of theta X with itself (level, n)."""
        if self.explicit:
            scaled = self.scaled_signatures(xs)
            return self._level_products(scaled, scaled, True)
        rows, _ = tile_shape((xs.shape[1] - 1) ** 2, len(xs), 1, self._cells_of_tile(xs, xs))

        def levels(x: Tensor, _: Tensor) -> Tensor:
            if self._in_core(x, x):
                return compiled_paired_levels(self.static, x, self.level)[:, :, None]
            return sequence_levels(paired_increment_kernel(self.static, x, x), self.level, self.order)[:, :, None]

        return over_pairs(levels, xs * self.theta, xs.new_empty(1), (rows, 1))[:, :, 0]

    def scaled_signatures(self, xs: Tensor) -> Tensor:
        """S(theta X) (n, words), where the kernel is explicit; the signature itself needs no gradient in theta."""
        fixed = self.log_theta.detach()
        return signature(xs * fixed.exp(), depth=self.level) * self.word_scales(fixed)

    def word_scales(self, reference: Tensor) -> Tensor:
        """theta_a1 .. theta_aj over the same product of reference scales, for every word, (words,)."""
        return (self.letters @ (self.log_theta - reference)).exp()

    def weighted_words(self, scaled: Tensor) -> Tensor:
        """Rows (n, words) whose inner products are covariances, from S(theta X)."""
        factors = (0.5 * (self.log_amplitude + self.log_weights[self.lengths_of_words])).exp()
        return scaled * factors

    def _in_core(self, xs: Tensor, ys: Tensor) -> bool:
        return self.compiled and core_has_pairs(xs, ys, self.level, self.order)

    def _cells_of_tile(self, xs: Tensor, ys: Tensor) -> int:
        if self._in_core(xs, ys):
            return cells_of_tile((xs.shape[1] - 1) * (ys.shape[1] - 1))
        return max(1, _CELLS // max(1, min(self.level - 1, self.order)))

    def pair_levels(self, xs: Tensor, ys: Tensor | None) -> Tensor:
        """k_1 .. k_level of theta X and theta Y, by recursion, (level, n, m)."""
        left, right = (xs * self.theta, None) if ys is None else scaled_pair(self.static, xs, ys, self.theta)
        other = left if right is None else right
        if self.static == "linear" and self._in_core(left, other):
            return linear_pair_levels(left.diff(dim=1), None if right is None else right.diff(dim=1), self.level)

        def levels(x: Tensor, y: Tensor) -> Tensor:
            if self._in_core(x, y):
                return rbf_pair_levels(x, y, self.level)
            return sequence_levels(increment_kernel(self.static, x, y), self.level, self.order)

        cells = (left.shape[1] - 1) * (other.shape[1] - 1)
        tile = tile_shape(cells, len(left), len(other), self._cells_of_tile(left, other))
        return over_pairs(levels, left, right, tile)

    def _level_products(self, left: Tensor, right: Tensor, paired: bool) -> Tensor:
        sizes = [self.channels**m for m in range(self.level + 1)]
        levels = list(zip(left.split(sizes, dim=1), right.split(sizes, dim=1), strict=True))[1:]
        return torch.stack([(a * b).sum(dim=1) if paired else a @ b.T for a, b in levels])

    def extra_repr(self) -> str:
        return (
            f"{self.channels} channels, level={self.level}, order={self.order}, static={self.static!r}, "
            f"method={self.method!r}"
        )
