"""A batch of series prepared for the grids: segments, plans, pieces in groups; and gradients of pieces added up.

Everything stays on the device of the series, except scheme and number of pieces of each series, which the host needs
as sizes of launches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from siggpde.numerics.errors import NOT_FINITE, OVERFLOW
from siggpde.numerics.inputs import row_mask
from siggpde.numerics.triton.launch import cdiv, run
from siggpde.numerics.triton.plan import PlanRequest, Plans, make_plans
from siggpde.numerics.triton.pull_back import collect
from siggpde.numerics.triton.solve import Steps

Failure = tuple[int, int, int, int, int]
_BLOCK = 128


def failure(code: int, series: int, index: int = -1, side: int = 0) -> Failure:
    """A failure in the form of `siggpde.numerics.errors`: (code, series, index, channel, side)."""
    return code, series, index, -1, side


@dataclass
class Part:
    """Members of a batch of one scheme, ready to be solved."""

    members: Tensor
    scheme: int
    steps: Steps


class Batch:
    """The segments of a batch, and how each series is planned.

    `values` (n, length - 1, fields) are the increments, zero after the end of a series; `squared` (n, length - 1) their
    squared lengths.
    """

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
        """`values` and `squared` of scaled points (n, length, channels); `inside` (n, length, 1): not after the end."""
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

    def plan_again(self, members: Tensor, request: PlanRequest, tighten: Tensor) -> None:
        tol = request.tol / tighten
        self.plans.replace(members, make_plans(self.squared[members], self.segments[members], request, tol))

    def groups(self, members: Tensor) -> Iterator[tuple[Tensor, int, list[int]]]:
        """Members by scheme and number of pieces: (members, scheme, their pieces), ascending."""
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
        """Pieces (series, steps, fields): the `segment` (series, steps) of each, cut into `counts` equal ones."""
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
