"""Degree and splitting of each series, the cheapest within the tolerance, by the rule and constants of the native core
(`csrc/plan.cpp`, `csrc/signature_kernel.hpp`), chosen on the device from the series alone."""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial

import torch
from torch import Tensor

# Coefficients of the edges of each scheme, in order of cost. Scheme 0 is finite differences: two powers of rho.
SCHEME_DEGREE = (1, 2, 3, 4, 5, 6, 8)
FINITE_DIFFERENCES, FIRST_LEGENDRE_SCHEME = 0, 1
# Floating-point operations of one cell of each scheme, approximately; the planner only compares them.
CELL_WORK = (14, 36, 80, 150, 245, 375, 760)

# More work than this on one series, and this many times that of its segments as they are, is refused.
MOST_WORK = 1.5e10
MOST_TIMES_SEGMENTS = 100.0

# No piece of a segment is longer than this, and pieces of this length divided by each of the factors are tried.
LONGEST_PIECE = 1.5
CUT_FACTORS = (1, 2, 3, 4, 6, 8, 12, 16)

# A path that goes out and comes back has U(i, i) fall along the diagonal. The error of a cell relative to k is then
# larger by up to the square of that fall, and the tolerance is divided by as much. Above MAX_INFLATION rounding errors
# dominate anyway.
MAX_INFLATION = 1e12
MAX_PASSES = 6
# Falls as small as those of a random walk are within the slack of the bound.
ORDINARY_FALL = 10.0
# Measured on paths that come back: up to about five roundings, times the square of the fall.
ROUNDINGS = 5.0
# The relative rounding error above which a result counts as inaccurate.
INACCURATE_ABOVE_F64 = 1e-6
INACCURATE_ABOVE_F32 = 1e-2
# The tolerance of the first, rough solution that tells where a path comes back, for Gram matrices.
ROUGH_TOL = 1e-2


@dataclass(frozen=True)
class PlanRequest:
    """What a plan has to achieve; `diagonal_only`: only k(X, X) is wanted."""

    refine: int
    tol: float
    diagonal_only: bool
    too_long: float


@dataclass
class Plans:
    """The plans of n series: scheme, longest piece (0: whole segments), bound of the error, and number of pieces."""

    scheme: Tensor
    longest: Tensor
    estimate: Tensor
    counts: Tensor  # (n, segments): the pieces of each segment
    steps: Tensor

    def costly(self, segments: Tensor) -> Tensor:
        """Returns (n,): whether the pieces of a series take too much work."""
        work = torch.tensor(CELL_WORK, dtype=torch.float64, device=self.steps.device)
        most = (MOST_TIMES_SEGMENTS * work[FIRST_LEGENDRE_SCHEME] * segments.double() ** 2).clamp(min=MOST_WORK)
        return (self.longest > 0) & (work[self.scheme] * self.steps.double() ** 2 > most)


def make_plans(squared: Tensor, segments: Tensor, request: PlanRequest, tol: Tensor) -> Plans:
    """Plans series: squared (n, length - 1) is |dx|^2, float64, zero after the end; segments (n,); tol (n,)."""
    n = len(squared)
    longest = squared.amax(1).sqrt() if squared.shape[1] else squared.new_zeros(n)
    if request.refine >= 0:
        return Plans(
            torch.zeros_like(segments), torch.zeros_like(tol), torch.zeros_like(tol),
            torch.full_like(squared, 2**request.refine, dtype=torch.int64), segments * 2**request.refine,
        )  # fmt: skip
    length = (segments * squared.sum(1)).sqrt()
    fourth, eighth = (squared**2).sum(1), (squared**4).sum(1)
    scheme, estimate = _cheapest(fourth, eighth, longest, length, tol, request.diagonal_only)
    still = longest == 0
    scheme = torch.where(still, FIRST_LEGENDRE_SCHEME, scheme)
    estimate = torch.where(still, 0.0, estimate)
    piece = torch.zeros_like(longest)
    short = longest <= LONGEST_PIECE
    four = SCHEME_DEGREE.index(4)
    cut = ~still & ~(short & (scheme <= four) & (estimate <= tol))
    if bool(cut.any()):
        at = cut.nonzero()[:, 0]
        scheme[at], piece[at], estimate[at] = _cut(
            squared[at], segments[at], scheme[at], estimate[at], longest[at], length[at], tol[at], request.diagonal_only
        )
    counts = torch.where(piece[:, None] > 0, piece_count(squared.sqrt(), piece[:, None]), 1)
    inside = torch.arange(squared.shape[1], device=squared.device) < segments[:, None]
    return Plans(scheme, piece, estimate, counts, torch.where(inside, counts, 0).sum(1))


def piece_count(length: Tensor, piece: Tensor) -> Tensor:
    """The smallest number of equal pieces no longer than `piece`, int64."""
    whole = torch.where(piece > 0, length / piece, 0.0).floor()
    count = torch.where(whole * piece < length, whole + 1, whole)
    return torch.where(length <= piece, 1, count).long()


def _cheapest(
    fourth: Tensor, eighth: Tensor, longest: Tensor, length: Tensor, tol: Tensor, diagonal_only: bool
) -> tuple[Tensor, Tensor]:
    """The first scheme whose bound meets the tolerance, or the last; and its bound, with a factor for the powers of rho
    that long pieces miss and, for k(X, X) alone, for the size of levels m and m + 1 of the signature."""
    excess = longest.clamp(min=1)
    large, level = excess**6, length**2 / 2
    scheme = torch.zeros_like(fourth, dtype=torch.int64)
    estimate = torch.zeros_like(fourth)
    m = SCHEME_DEGREE[FIRST_LEGENDRE_SCHEME]
    for candidate in range(FIRST_LEGENDRE_SCHEME, len(SCHEME_DEGREE)):
        while m < SCHEME_DEGREE[candidate]:
            large = large * (torch.where(longest > 1, 10 / excess, excess) if m == 3 else excess)
            level = level * (length / (m + 1))
            m += 1
        # C_m = 2 (m!/(2m)!)^2 / (2m+1): the error of k beside |S(X)||S(Y)| is at most C_m sum_j |dx_j|^(2m+1).
        constant = 2 * (factorial(m) / factorial(2 * m)) ** 2 / (2 * m + 1)
        value = constant * _power_sum(m, fourth, eighth, longest) * large
        if diagonal_only:
            value = value * level.clamp(max=1) * (level * length / (m + 1)).clamp(max=1)
        better = (scheme == 0) | (estimate > tol)
        scheme, estimate = torch.where(better, candidate, scheme), torch.where(better, value, estimate)
    return scheme, estimate


def _power_sum(m: int, fourth: Tensor, eighth: Tensor, longest: Tensor) -> Tensor:
    """A bound of the sum of |piece|^(2m+1) from those of the fourth and eighth powers, by Hoelder's inequality."""
    square = torch.where(fourth > 0, eighth / fourth, 0.0).sqrt()
    if m == 2:
        return fourth * square.sqrt()
    if m == 3:
        return fourth * square * square.sqrt()
    return eighth * longest ** (2 * m - 7)


def _cut(
    squared: Tensor, segments: Tensor, scheme: Tensor, estimate: Tensor, longest: Tensor, length: Tensor, tol: Tensor,
    diagonal_only: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The best plans that may split segments: (scheme, longest piece, bound)."""
    r = squared.sqrt()
    whole = longest <= LONGEST_PIECE
    within_tol = whole & (estimate <= tol)
    work = torch.tensor(CELL_WORK, dtype=r.dtype, device=r.device)
    best = torch.where(whole, work[scheme] * segments.double() ** 2, 0.0)
    piece, stopped = torch.zeros_like(longest), torch.zeros_like(within_tol)
    inside = torch.arange(r.shape[1], device=r.device) < segments[:, None]
    for factor in CUT_FACTORS:
        candidate = longest.clamp(max=LONGEST_PIECE) / factor
        count = piece_count(r, candidate[:, None]).double()
        part = r / count
        steps = torch.where(inside, count, 0.0).sum(1)
        stopped = stopped | ((candidate < longest) & within_tol & (work[FIRST_LEGENDRE_SCHEME] * steps**2 >= best))
        new, value = _cheapest(
            (count * part**4).sum(1), (count * part**8).sum(1), part.amax(1), length, tol, diagonal_only
        )  # fmt: skip
        cost, meets = work[new] * steps**2, value <= tol
        improves = torch.where(within_tol, meets & (cost < best), meets | (value < estimate)) | (best == 0)
        take = improves & (candidate < longest) & ~stopped
        scheme, piece = torch.where(take, new, scheme), torch.where(take, candidate, piece)
        estimate, best = torch.where(take, value, estimate), torch.where(take, cost, best)
        within_tol = torch.where(take, meets, within_tol)
    return scheme, piece, estimate
