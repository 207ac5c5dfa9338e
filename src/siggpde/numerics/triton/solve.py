"""Batches of series prepared for the grids, and the grids of their pieces [series][field][step], which share the
scheme, solved and differentiated: the reverse sweep keeps the state every sqrt(steps) rows, memory grows as
steps^1.5."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt, log

import torch
from torch import Tensor

from siggpde.numerics.inputs import COSTLY, NOT_FINITE, OVERFLOW, row_mask
from siggpde.numerics.static_kernels import StaticKernel, squared_segments
from siggpde.numerics.triton import at_once, cdiv, run, tile
from siggpde.numerics.triton.grid import FAR, collect, pull_back, pull_back_lifted, reverse, sweep
from siggpde.numerics.triton.plan import SCHEME_DEGREE, PlanRequest, Plans, make_plans

Failure = tuple[int, int, int, int, int]
_BLOCK = 128


def failure(code: int, series: int, index: int = -1, side: int = 0) -> Failure:
    """A failure in the form of `siggpde.numerics.inputs`: (code, series, index, channel, side)."""
    return code, series, index, -1, side


@dataclass
class Part:
    """Members of a batch of one scheme, ready to be solved."""

    members: Tensor
    scheme: int
    steps: Steps


class Batch:
    """The segments of a batch and their plans: `values` (n, length - 1, fields) are the increments, zero after the end
    of a series, `squared` (n, length - 1) their squared lengths."""

    lifted = False

    def __init__(self, x: Tensor, lengths: Tensor | None, theta: Tensor | None = None):
        self.segments = (
            torch.full_like(x[:, 0, 0], x.shape[1] - 1, dtype=torch.int64) if lengths is None else lengths - 1
        )
        self.values, self.squared = self._measure(x if theta is None else x * theta, row_mask(x, lengths)[:, :, None])
        self.finite = (torch.isfinite(x) | ~row_mask(x, lengths)[:, :, None]).flatten(1).all(1)
        self.shape, self.dtype, self.device = x.shape, x.dtype, x.device
        self.plans: Plans

    def _measure(self, points: Tensor, inside: Tensor) -> tuple[Tensor, Tensor]:
        """`values` and `squared` of scaled points (n, length, channels); `inside` (n, length, 1): before the end."""
        increments = torch.where(inside[:, 1:], points[:, 1:] - points[:, :-1], 0.0)
        return increments, increments.double().square().sum(2)

    def check(self, request: PlanRequest) -> Failure | None:
        """The first series that is not finite, or has a segment so long that k is out of range for certain."""
        largest = self.squared.amax(1) if self.squared.shape[1] else self.squared.sum(1)
        bad = ~self.finite | ~(largest <= request.too_long**2)
        if not bool(bad.any()):
            return None
        if not bool(self.finite.all()):
            return failure(NOT_FINITE, int((~self.finite).nonzero()[0]))
        return failure(OVERFLOW, int(bad.nonzero()[0]))

    def plan(self, request: PlanRequest, tighten: Tensor | None = None) -> None:
        tol = torch.full_like(self.squared[:, :1].sum(1), request.tol)
        if tighten is not None:
            tol = tol / tighten.clamp(min=1)
        self.plans = make_plans(self.squared, self.segments, request, tol)

    def costly(self) -> Failure | None:
        """The first series whose pieces take too much work."""
        costly = self.plans.costly(self.segments)
        return failure(COSTLY, int(costly.nonzero()[0])) if bool(costly.any()) else None

    def plan_again(self, members: Tensor, request: PlanRequest, tighten: Tensor) -> None:
        plans = make_plans(self.squared[members], self.segments[members], request, request.tol / tighten)
        for name, new in vars(plans).items():
            getattr(self.plans, name)[members] = new

    def groups(self, members: Tensor) -> Iterator[tuple[Tensor, int, list[int]]]:
        """Yields members by scheme and number of pieces, ascending: (members, scheme, their pieces)."""
        scheme, steps = self.plans.scheme[members], self.plans.steps[members]
        order = torch.argsort(scheme * (int(steps.max()) + 1 if len(steps) else 1) + steps, stable=True)
        known = torch.stack([scheme[order], steps[order]]).tolist()
        begin = 0
        while begin < len(order):
            end = begin
            while end < len(order) and known[0][end] == known[0][begin]:
                end += 1
            yield members[order[begin:end]], known[0][begin], known[1][begin:end]
            begin = end

    def part(self, members: Tensor, scheme: int, longest: int) -> Part:
        """The pieces of some members, [series][field][step]."""
        values, counts = self.values[members], self.plans.counts[members]
        if self._split(counts):
            piece = torch.arange(longest, device=self.device).expand(len(members), -1).contiguous()
            segment = torch.searchsorted(counts.cumsum(1), piece, right=True)
            segment = segment.clamp(max=max(0, counts.shape[1] - 1))
            values = self._pieces(values, counts, segment, piece)
            values = torch.where((piece < self.plans.steps[members][:, None])[:, :, None], values, 0.0)
        values = values[:, :longest].transpose(1, 2).contiguous()
        return Part(members, scheme, Steps(values, self.plans.steps[members].contiguous(), self.lifted))

    def _pieces(self, values: Tensor, counts: Tensor, segment: Tensor, piece: Tensor) -> Tensor:
        """The pieces (series, steps, fields); piece j is one of `counts` equal parts of the segment `segment[:, j]`."""
        return (values / counts[:, :, None]).gather(1, segment[:, :, None].expand(-1, -1, values.shape[2]))

    def of_segments(self, part: Part, pieces: Tensor) -> Tensor:
        """Gradients of pieces [series][field][step] as gradients of segments (series, length - 1, fields)."""
        counts = self.plans.counts[part.members].contiguous()
        n, segments = counts.shape
        out = pieces.new_zeros(n, segments, pieces.shape[1])
        if not self._split(counts):
            out[:, : pieces.shape[2]] = pieces.transpose(1, 2)
            return out
        inside = torch.arange(segments, device=self.device) < self.segments[part.members][:, None]
        counts = torch.where(inside, counts, 0)
        starts = counts.cumsum(1) - counts
        counts_or_one = counts.clamp(min=1)
        # A segment after the end of a series has no pieces: it reads the zero that stands after the last of them.
        padded = torch.nn.functional.pad(pieces, (0, 1)).contiguous()
        run(
            collect, cdiv(out.numel(), _BLOCK), out, padded, starts, counts_or_one, out, out.numel(), segments,
            pieces.shape[1], padded.shape[2], int(counts.max()), MEAN=not self.lifted, BLOCK=_BLOCK,
        )  # fmt: skip
        return out

    def of_points(self, of_segments: Tensor) -> Tensor:
        """Gradients of segments (n, length - 1, fields) as gradients of scaled points (n, length, channels)."""
        pad = torch.nn.functional.pad
        return pad(of_segments, (0, 0, 1, 0)) - pad(of_segments, (0, 0, 0, 1))

    @staticmethod
    def _split(counts: Tensor) -> bool:
        return bool((counts > 1).any())


class LiftedBatch(Batch):
    """The segments of lifted paths: `values` (n, length - 1, 2 channels + 2) are start and end over the bandwidth, the
    amplitude, and 1; `squared` their squared lengths in the Hilbert space of the kernel."""

    lifted = True

    def __init__(self, x: Tensor, lengths: Tensor | None, static: StaticKernel, theta: Tensor | None = None):
        _, self.bandwidth, self.amplitude, _ = static.numbers
        self.static = static._replace(bandwidth=self.bandwidth, amplitude=self.amplitude)
        super().__init__(x, lengths, theta)

    def _measure(self, points: Tensor, inside: Tensor) -> tuple[Tensor, Tensor]:
        points = torch.where(inside, points, 0.0)
        self.points = points / self.bandwidth
        ones = torch.ones_like(points[:, 1:, :1])
        fields = [self.points[:, :-1], self.points[:, 1:], ones * self.amplitude, ones]
        squared = squared_segments(self.static, points.double())
        return torch.where(inside[:, 1:], torch.cat(fields, 2), 0.0), torch.where(inside[:, 1:, 0], squared, 0.0)

    def _pieces(self, values: Tensor, counts: Tensor, segment: Tensor, piece: Tensor) -> Tensor:
        """Pieces share the points of their segment: only the amplitude is divided by their number."""
        pieces = values.gather(1, segment[:, :, None].expand(-1, -1, values.shape[2]))
        pieces[:, :, -2] /= counts.gather(1, segment)
        pieces[:, :, -1] = (counts.cumsum(1).gather(1, segment) == piece + 1).to(values)
        return pieces

    def of_segments(self, part: Part, pieces: Tensor) -> Tensor:
        out = super().of_segments(part, pieces)
        out[:, :, -2] /= self.plans.counts[part.members]
        return out

    def of_points(self, of_segments: Tensor) -> Tensor:
        return self._of_scaled(of_segments) / self.bandwidth

    def of_log_scales(self, of_segments: Tensor, centre: Tensor) -> Tensor:
        """Gradients in log factors of the channels, (n, channels), float64, of points less `centre`, which cancels."""
        return ((self.points.double() - centre) * self._of_scaled(of_segments).double()).sum(1)

    def of_log_parameters(self, of_segments: Tensor, centre: Tensor) -> Tensor:
        """Gradients in the logarithms of bandwidth and amplitude, (n, 2), float64."""
        bandwidth = -self.of_log_scales(of_segments, centre).sum(1)
        amplitude = of_segments[:, :, -2].double().sum(1) * self.amplitude
        return torch.stack([bandwidth, amplitude], 1)

    def _of_scaled(self, of_segments: Tensor) -> Tensor:
        channels, pad = self.shape[2], torch.nn.functional.pad
        start, end = of_segments[:, :, :channels], of_segments[:, :, channels : 2 * channels]
        return pad(start, (0, 0, 0, 1)) + pad(end, (0, 0, 1, 0))


def make_batch(x: Tensor, lengths: Tensor | None, static: StaticKernel | None, theta: Tensor | None = None) -> Batch:
    """The batch of the paths, scaled by theta (channels,), and lifted if there is a static kernel."""
    return Batch(x, lengths, theta) if static is None else LiftedBatch(x, lengths, static, theta)


_OWN, _OTHER = 16, 32


@dataclass(frozen=True)
class Steps:
    """Pieces [series][field][step], and the number of steps of each series; those after it are padding."""

    values: Tensor
    rows: Tensor
    lifted: bool = False

    @property
    def count(self) -> int:
        return self.values.shape[0]

    @property
    def fields(self) -> int:
        return self.values.shape[1]

    @property
    def channels(self) -> int:
        return self.fields // 2 - 1 if self.lifted else self.fields

    @property
    def longest(self) -> int:
        return self.values.shape[2]


class Grids:
    """The grids of all pairs of x and y, or of each x with itself if y is None. With `log_value` they are rescaled:
    values of k(X, X) are then logarithms, those of pairs are divided by the exponentials of `log_norm` (pairs,)."""

    def __init__(self, x: Steps, y: Steps | None, scheme: int, log_value: bool, log_norm: Tensor | None = None):
        self.x, self.y, self.scheme, self.log = x, x if y is None else y, scheme, log_value
        self.log_norm = log_norm
        self.symmetric = y is None
        self.pairs = x.count if y is None else x.count * y.count
        self.degree = SCHEME_DEGREE[scheme]
        self.series_in_tile, self.rows_in_tile = tile(x.longest)
        self.bottom = x.values.new_zeros(self.pairs, self.degree + log_value, self.y.longest)
        self.corner = x.values.new_zeros(self.pairs if self.symmetric else 0, 1 + log_value, x.longest + 1)
        self.corner[:, 0] = 1
        self.value = x.values.new_zeros(1 + log_value, 0 if self.symmetric else self.pairs)
        self.value[0] = 1

    def solve(self) -> Tensor:
        """The values (pairs,), or the logarithms of k(X, X)."""
        self._sweep(0, self.x.longest)
        return self._values()

    def diagonal(self) -> Tensor:
        """U(i, i), or its logarithm to base 2, (series, longest + 1), after `solve` or `differentiate`."""
        values = self.corner[:, 0]
        return values.log2() + self.corner[:, 1] if self.log else values

    def differentiate(self, weight: Tensor | None, of_columns: bool) -> tuple[Tensor, Tensor, Tensor | None]:
        """Values, and the gradients [series][field][step], by rows and by columns, of their sum weighted by `weight`
        (pairs,); for k(X, X) that is None and the gradient the sum of both. For scales of increments `of_columns` false
        leaves one out."""
        x, y = self.x, self.y
        size = rows_per_segment(x.longest, self.degree, self.rows_in_tile)
        segments = max(1, cdiv(x.longest, size))
        checkpoints: list[Tensor] = []
        for s in range(segments - 1):
            checkpoints.append(self.bottom.clone())
            self._sweep(s * size, (s + 1) * size)
        fields = 2 * self.degree + 1 + self.log
        store = x.values.new_empty(self.pairs, min(size, max(1, x.longest)), fields, y.longest)
        rho_bar = torch.empty_like(store[:, :, 0])
        bottom_bar = torch.zeros_like(self.bottom)
        corner_bar = torch.zeros_like(self.corner)
        of_x, of_y = torch.zeros_like(x.values), torch.zeros_like(y.values) if of_columns else None
        for s in reversed(range(segments)):
            begin, end = s * size, min((s + 1) * size, x.longest)
            if s < segments - 1:
                self.bottom = checkpoints.pop()
            rho_bar.zero_()
            self._sweep(begin, end, store, rho_bar)  # the sweep leaves rho, the reverse puts its sensitivity there
            if s == segments - 1:
                weight = self._seed(bottom_bar, corner_bar, weight)
            run(
                reverse, cdiv(self.pairs, self.series_in_tile), x.values,
                x.rows, y.rows, store, bottom_bar, corner_bar, weight, rho_bar, *self._sizes(),
                begin, end, SCHEME=self.scheme, SYMMETRIC=self.symmetric, LOG=self.log, SERIES=self.series_in_tile,
                ROWS=self.rows_in_tile,
            )  # fmt: skip
            self._pull_back(rho_bar, begin, end, of_x, of_y)
        return self._values(), of_x, of_y

    def _sizes(self) -> tuple[int, ...]:
        return self.pairs, self.y.count, self.x.longest, self.y.longest

    def _sweep(self, begin: int, end: int, store: Tensor | None = None, rho: Tensor | None = None) -> None:
        x, y = self.x, self.y
        run(
            sweep, cdiv(self.pairs, self.series_in_tile), x.values,
            x.values, y.values, x.rows, y.rows, self.bottom, self.corner, self.value, store, rho, *self._sizes(), begin,
            end, x.channels, SCHEME=self.scheme, SYMMETRIC=self.symmetric, LOG=self.log, STORE=store is not None,
            LIFTED=x.lifted, SERIES=self.series_in_tile, ROWS=self.rows_in_tile,
        )  # fmt: skip

    def _values(self) -> Tensor:
        if not self.symmetric:
            return self.value[0] * self._scale() if self.log else self.value[0]
        at = self.x.rows[:, None]
        end = self.corner[:, 0].gather(1, at)[:, 0]
        return end.log() + self.corner[:, 1].gather(1, at)[:, 0] * log(2) if self.log else end

    def _scale(self) -> Tensor:
        """What the rescaled value of a pair is multiplied by."""
        assert self.log_norm is not None
        return (self.value[1] * log(2) - self.log_norm).exp()

    def _seed(self, bottom_bar: Tensor, corner_bar: Tensor, weight: Tensor | None) -> Tensor | None:
        """Sets the sensitivities of the result itself in their place for k(X, X), and returns them for pairs."""
        if self.log:
            bottom_bar[:, self.degree] = FAR.value
        if not self.symmetric:
            return weight * self._scale() if self.log and weight is not None else weight
        at = self.x.rows[:, None]
        end = self.corner[:, 0].gather(1, at)
        corner_bar[:, 0].scatter_(1, at, 1 / end if self.log else torch.ones_like(end))
        if self.log:
            corner_bar[:, 1] = FAR.value
            corner_bar[:, 1].scatter_(1, at, self.corner[:, 1].gather(1, at))
        return None

    def _pull_back(self, rho_bar: Tensor, begin: int, end: int, of_x: Tensor, of_y: Tensor | None) -> None:
        x, y = self.x, self.y
        rows, columns = end - begin, y.longest
        grid = rows * columns
        x_size, y_size = x.fields * x.longest, y.fields * y.longest
        # Strides of rho_bar and of the partner's pieces, by their series and by the other one.
        if self.symmetric:
            others, by_x, by_y = (1, 1), (grid, 0, y_size, 0), (grid, 0, x_size, 0)
        else:
            others = (y.count, x.count)
            by_x, by_y = (grid * y.count, grid, 0, y_size), (grid, grid * y.count, 0, x_size)
        pieces, part = x.values[:, :, begin:], of_x[:, :, begin:]
        sizes = rows, columns, others[0], x.longest, y.longest, *by_x[:2], columns, 1, *by_x[2:]
        self._pull_back_side(rho_bar, pieces, y.values, part, *sizes, add=False)
        if of_y is not None:
            sizes = columns, rows, others[1], y.longest, x.longest, *by_y[:2], 1, columns, *by_y[2:]
            self._pull_back_side(rho_bar, y.values, pieces, of_y, *sizes, add=True)

    def _pull_back_side(
        self, rho_bar: Tensor, pieces: Tensor, partner: Tensor, out: Tensor, steps: int, *sizes: int, add: bool
    ) -> None:
        """Adds to the gradient of a side; without `add` the places it goes to are known to be zero."""
        blocks, channels = pieces.shape[0] * cdiv(steps, _OWN), self.x.channels
        tiles = {"OWN": _OWN, "OTHER": _OTHER}
        if self.x.lifted:
            run(pull_back_lifted, blocks, out, rho_bar, pieces, partner, out, channels, steps, *sizes, **tiles)
        else:
            run(pull_back, blocks * channels, out, rho_bar, partner, out, channels, steps, *sizes, ADD=add, **tiles)


def rows_per_segment(steps: int, degree: int, rows_in_tile: int) -> int:
    """The number of rows, in whole bands, that about minimises the memory of stored cells and checkpoints."""
    best = isqrt(max(1, steps * degree // (2 * degree + 2)))
    return rows_in_tile * max(1, (best + rows_in_tile // 2) // rows_in_tile)


def pairs_at_once(x_steps: int, y_steps: int, scheme: int, element: int, gradient: bool) -> int:
    degree = SCHEME_DEGREE[scheme]
    numbers = (degree + 1) * y_steps + 2 * (x_steps + 1)
    if gradient:
        size = rows_per_segment(x_steps, degree, tile(x_steps)[1])
        numbers = 2 * numbers + (2 * degree + 3) * size * y_steps + cdiv(max(1, x_steps), size) * (degree + 1) * y_steps
    return at_once(numbers * element)
