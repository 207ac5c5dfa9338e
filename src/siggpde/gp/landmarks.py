"""Landmark series Z as inducing variables u = f(Z), for kernels without words: with k(Z, Z) = L L^T features are L^-1
k(Z, X). Landmarks are pivots of a Cholesky decomposition: the next has the largest tail."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from siggpde.gp.features import InducingFeatures, Projection, positive_tail
from siggpde.gp.kernel import PathKernel
from siggpde.numerics import inputs
from siggpde.numerics.inputs import average_sides, check_max_points
from siggpde.numerics.signature_kernel import Lengths
from siggpde.numerics.words import as_integer
from siggpde.series import SeriesBatch


class LandmarkFeatures(InducingFeatures):
    """The values of the process at given series, (m, length, channels), as inducing variables of any `PathKernel`.

    The series stay as they are; kernel parameters may be learned.

    Parameters
    ----------
    series : array (m, length, channels) or list of series
        The landmarks.
    lengths : array of int, optional
        Their numbers of points, where they are padded.
    jitter : float, default 1e-10
        Added to the diagonal of k(Z, Z), in units of its mean, so that series much like each other can be factorised.

    Examples
    --------
    >>> from siggpde import SignatureKernel
    >>> kernel = SignatureKernel(1, static="rbf", normalized=True)
    >>> x = torch.tensor([[[0.0], [1.0]], [[0.0], [2.0]], [[0.0], [-1.0]]]).double()
    >>> LandmarkFeatures.choose(kernel, x, 2)(kernel, x).tail.detach() < 1
    tensor([True, True, True])
    """

    values: Tensor
    lengths: Tensor | None

    def __init__(self, series: inputs.Series, *, lengths: Lengths = None, jitter: float = 1e-10) -> None:
        super().__init__()
        if not 0 <= jitter < 1:
            raise ValueError(f"jitter must be at least 0 and below 1, got {jitter!r}")
        values, counts = inputs.as_batch(series, lengths, "series")
        if len(values) == 0:
            raise ValueError("series has no landmark; give at least one series")
        self.channels, self.jitter = values.shape[2], jitter
        self.register_buffer("values", values.detach().to(torch.float64, copy=True))
        self.register_buffer("lengths", None if counts is None else counts.clone())

    @classmethod
    def choose(
        cls, kernel: PathKernel, x: inputs.Series, count: int, *, lengths: Lengths = None, jitter: float = 1e-10
    ) -> LandmarkFeatures:
        """At most `count` of the series x, by `NewtonBasis`: the next is the one with the largest tail."""
        basis = NewtonBasis(kernel, count).fit(x, lengths=lengths)
        return cls(basis.series_.values, lengths=basis.series_.lengths, jitter=jitter)

    @property
    def size(self) -> int:
        return len(self.values)

    def inducing_covariance(self, kernel: PathKernel | None = None) -> Tensor:
        """E[u u^T] = k(Z, Z) (m, m) without jitter; it depends on the kernel, which has to be given."""
        if kernel is None:
            raise ValueError("the covariance of landmarks depends on the kernel; give inducing_covariance(kernel)")
        return kernel(self.values, lengths=self.lengths)

    def forward(self, kernel: PathKernel, x: inputs.Series, *, lengths: Lengths = None) -> Projection:
        """The projection of x (n, length, channels), differentiable in the kernel."""
        self.check(kernel)
        paths: SeriesBatch = kernel.as_paths(x, lengths)
        gram = self.inducing_covariance(kernel)
        gram = gram + self.jitter * gram.diagonal().mean() * torch.eye(self.size, dtype=gram.dtype, device=gram.device)
        factor, info = torch.linalg.cholesky_ex(gram)
        if int(info):
            raise ArithmeticError(
                f"landmark {int(info) - 1} is a combination of those before it, so that k(Z, Z) cannot be factorised; "
                "choose them by LandmarkFeatures.choose, or give a larger jitter"
            )
        cross = kernel(self.values, paths.values, lengths=self.lengths, y_lengths=paths.lengths)
        features = torch.linalg.solve_triangular(factor, cross, upper=False).T
        variance = kernel(paths.values, diag=True, lengths=paths.lengths)
        tail, rounded = positive_tail(variance, features, getattr(kernel, "tol", 0.0), None)
        return Projection(features, variance, tail, rounded)

    def extra_repr(self) -> str:
        return f"{self.size} landmarks of {self.channels} channels, jitter={self.jitter}"


log = logging.getLogger(__name__)

Kernel = PathKernel | tuple[Callable[..., Tensor], Callable[..., Tensor]]
"""A covariance function, or the pair of functions (gram, diagonal): `gram(x, y, lengths=, y_lengths=)` returns (n, m),
`gram(x, lengths=)` the symmetric (n, n) and `diagonal(x, lengths=)` (n,)."""

_TENSORS = ("landmarks_", "factor_", "pivots_", "tails_")


class NewtonBasis:
    """At most `count` series as landmarks of a kernel, and the features phi(X) = L^-1 k(landmarks, X) they give.

    `fit` takes as the next landmark the series with the largest tail k(X, X) - |phi(X)|², until there are `count` or
    the largest tail is at most `threshold` times the mean of k(X, X). Only the columns of landmarks are ever solved.
    Everything is float64, on the device of the kernel's values, and carries no graph: `fit` keeps a copy of the
    kernel's parameters.

    Parameters
    ----------
    kernel : SignatureKernel, PathKernel or pair of functions
        The kernel; a pair of functions is like `signature_kernel` and `signature_kernel_diag`.
    count : int
        The largest number of landmarks.
    threshold : float
        The largest tail that needs no further landmark, in units of the mean of k(X, X).
    max_points : int, optional
        Longer series are averaged down to so many points, and the log says so.
    tol : float, optional
        The relative accuracy of the kernel, by default that of a `SignatureKernel`: tails below zero by no more than it
        allows are rounding.

    Attributes
    ----------
    landmarks_ : Tensor (m,)
        The numbers of the landmarks among the series, in the order they were taken.
    factor_ : Tensor (m, m)
        L, lower triangular.
    pivots_ : Tensor (m,)
        The squared diagonal of L.
    tails_, features_ : Tensor (n,), Tensor (n, m)
        Those of the series of `fit`.
    series_ : SeriesBatch
        The landmarks themselves, as they meet new series.

    Examples
    --------
    >>> from siggpde import SignatureKernel, signature_kernel
    >>> x = torch.tensor([[0.0, 1.0], [0.0, 2.0], [0.0, 1.0]]).double()[:, :, None]
    >>> basis = NewtonBasis(SignatureKernel(1), 3).fit(x)
    >>> basis.landmarks_
    tensor([1, 0])
    >>> torch.allclose(basis(x).features @ basis(x).features.T, signature_kernel(x))
    True
    """

    landmarks_: Tensor
    factor_: Tensor
    pivots_: Tensor
    tails_: Tensor
    features_: Tensor
    series_: SeriesBatch

    def __init__(
        self,
        kernel: Kernel,
        count: int,
        *,
        threshold: float = 1e-6,
        max_points: int | None = None,
        tol: float | None = None,
    ) -> None:
        most = as_integer(count)
        if most is None or most < 1:
            raise ValueError(f"count must be a positive whole number of landmarks, got {count!r}")
        if not 0 <= threshold < 1:
            raise ValueError(f"threshold must be from 0 to below 1, a share of the mean of k(X, X), got {threshold!r}")
        check_max_points(max_points)
        if not isinstance(kernel, PathKernel):
            if not (isinstance(kernel, tuple) and len(kernel) == 2 and all(map(callable, kernel))):
                raise TypeError(f"kernel must be a PathKernel or a pair (gram, diagonal) of functions, got {kernel!r}")
            if tol is None:
                tol = 1e-8  # that of `signature_kernel`
        self.kernel = kernel
        self._functions = _functions(kernel)
        self.count, self.threshold, self.max_points = most, threshold, max_points
        self.tol: float = getattr(kernel, "tol", 0.0) if tol is None else tol

    @property
    def size(self) -> int:
        """The number of landmarks that `fit` chose."""
        self._check_fitted()
        return len(self.landmarks_)

    @torch.no_grad()
    def fit(self, x: inputs.Series, *, lengths: Lengths = None) -> NewtonBasis:
        """Chooses landmarks among x (n, length, channels) or a list of (length_i, channels); returns itself."""
        batch = self._shortened(x, lengths)
        if len(batch) == 0:
            raise ValueError("x has no series; give at least one to choose landmarks from")
        if isinstance(self.kernel, PathKernel):  # as it is now: the factor below belongs to it
            self._functions = _functions(copy.deepcopy(self.kernel))
        diagonal = self._diagonal(batch)
        mean = float(diagonal.mean())
        if not mean > 0:
            raise ValueError(f"the mean of k(X, X) is {mean}; landmarks need a kernel that is positive somewhere")
        self._check_pair(batch, diagonal)
        limit = self.threshold * mean
        device = batch.values.device

        def columns(rows: Tensor) -> Tensor:
            return self._gram(batch, batch[rows.to(device)])

        done = pivoted_cholesky(diagonal, columns, lambda rows: self._gram(batch[rows.to(device)]), self.count, limit)
        self._tails(diagonal, done.features)  # raises where the kernel is not positive definite
        self.landmarks_, self.features_, self.pivots_, self.tails_ = done
        self.factor_ = done.features[done.landmarks].clone()
        self.series_ = batch[done.landmarks.to(device)]
        if self.size < min(self.count, len(batch)):
            log.info(
                "stopped at %d of %d landmarks: the largest tail of %d series, %.1e, is not above %.1e",
                self.size, self.count, len(batch), float(done.tails.max()), limit,
            )  # fmt: skip
        return self

    @torch.no_grad()
    def __call__(self, x: inputs.Series, *, lengths: Lengths = None) -> Projection:
        """Features (n, m), k(X, X) (n,) and tails (n,) of x (n, length, channels): one Gram matrix, one solve."""
        self._check_fitted()
        batch = self._shortened(x, lengths)
        variance = self._diagonal(batch)
        across = self._gram(batch, self.series_)
        features = torch.linalg.solve_triangular(self.factor_, across.T, upper=False).T.contiguous()
        return Projection(features, variance, *self._tails(variance, features))

    def state_dict(self) -> dict[str, Tensor]:
        """Returns what `fit` learned, as plain tensors; the features of the series of `fit` are not kept."""
        self._check_fitted()
        state = {name: getattr(self, name) for name in _TENSORS}
        state["series_values"], state["series_lengths"] = self.series_.values, self.series_.counts()
        state["max_points"] = torch.tensor(self.max_points or 0)
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> NewtonBasis:
        """Takes over what another basis, of the same kernel and settings, has learned; returns itself."""
        missing = {*_TENSORS, "series_values", "series_lengths", "max_points"} - set(state)
        if missing:
            raise ValueError(f"this is not the state of a NewtonBasis: {', '.join(sorted(missing))} missing")
        points = int(state["max_points"]) or None
        if points != self.max_points:
            raise ValueError(f"the state is of a basis with max_points={points}, this one has {self.max_points}")
        for name in _TENSORS:
            setattr(self, name, state[name])
        values, lengths = state["series_values"], state["series_lengths"]
        self.series_ = SeriesBatch(values, None if bool((lengths == values.shape[1]).all()) else lengths)
        return self

    def __repr__(self) -> str:
        fitted = f", {len(self.landmarks_)} found" if hasattr(self, "landmarks_") else ""
        return f"NewtonBasis(at most {self.count} landmarks{fitted}, threshold={self.threshold})"

    def _check_fitted(self) -> None:
        if not hasattr(self, "landmarks_"):
            raise ValueError("this NewtonBasis has no landmarks yet; call fit(x), or load_state_dict(state)")

    def _tails(self, variance: Tensor, features: Tensor) -> tuple[Tensor, int]:
        # The solve makes errors of the kernel larger; up to the threshold, below which no tail counts, they do no harm.
        return positive_tail(variance, features, max(self.tol, self.threshold / 64), None)

    def _shortened(self, x: inputs.Series, lengths: Any) -> SeriesBatch:
        if isinstance(self.kernel, PathKernel):
            batch = self.kernel.as_paths(x, lengths)
            values, counts = batch.values, batch.lengths
        else:
            values, counts = inputs.as_batch(x, lengths)
        return SeriesBatch(*average_sides(self.max_points, (values.double(), counts))[0])

    def _check_pair(self, batch: SeriesBatch, diagonal: Tensor) -> None:
        """Raises ValueError where the two functions of a kernel are not those of one kernel."""
        if isinstance(self.kernel, PathKernel):
            return
        row = int(diagonal.argmax())
        some = batch[torch.tensor([row], device=batch.values.device)]
        variance, other = float(diagonal[row]), float(self._gram(some))
        if not abs(variance - other) <= 1e-3 * abs(variance):
            raise ValueError(
                f"the functions of the kernel do not belong together: for series {row} diagonal gives {variance:.6g} "
                f"and gram {other:.6g}; a normalised gram needs a diagonal of ones"
            )

    def _diagonal(self, batch: SeriesBatch) -> Tensor:
        return self._functions[1](batch.values, lengths=batch.lengths).double()

    def _gram(self, x: SeriesBatch, y: SeriesBatch | None = None) -> Tensor:
        if y is None:
            return self._functions[0](x.values, lengths=x.lengths).double()
        return self._functions[0](x.values, y.values, lengths=x.lengths, y_lengths=y.lengths).double()


def _functions(kernel: Kernel) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    return (kernel, partial(kernel, diag=True)) if isinstance(kernel, PathKernel) else kernel


# Among so many rows of the largest tails the next pivots are looked for, to be solved together; see `_next_pivots`.
# Below as many times _ROWS_EACH rows they are fewer: what the candidates cost is then small beside the columns.
_CANDIDATES = 32
_ROWS_EACH = 16
# A tail of so many roundings of K_ii is zero.
_ROUNDINGS = 64.0


class PivotedCholesky(NamedTuple):
    """K ~ features @ features.T, features (n, m); their rows at the pivots, `landmarks` (m,) in the order they were
    taken, are lower triangular with squared diagonal `pivots` (m,). `tails` (n,) are K_ii - |features_i|² >= 0."""

    landmarks: Tensor
    features: Tensor
    pivots: Tensor
    tails: Tensor


def pivoted_cholesky(
    diagonal: Tensor,
    columns: Callable[[Tensor], Tensor],
    among: Callable[[Tensor], Tensor],
    count: int,
    threshold: float = 0.0,
) -> PivotedCholesky:
    """Pivoted Cholesky of K (n, n) with at most `count` pivots, until the largest tail, of equal ones the first, is not
    above `threshold`: `diagonal` (n,), `columns(rows)` is K[:, rows] and `among(rows)` the symmetric K[rows][:,
    rows]."""
    n = len(diagonal)
    count = min(count, n)
    rounding = _ROUNDINGS * torch.finfo(diagonal.dtype).eps * diagonal
    features, tails = diagonal.new_zeros(n, count), diagonal.clone()
    taken = torch.zeros_like(diagonal, dtype=torch.bool)
    landmarks: list[int] = []
    pivots: list[Tensor] = []
    # Columns that were solved and are not used yet: what the first so many features had left of them.
    waiting: dict[int, tuple[Tensor, int]] = {}
    while len(landmarks) < count:
        row, size = int(tails.argmax()), len(landmarks)
        if not float(tails[row]) > threshold:
            break
        if row not in waiting:
            wanted = _next_pivots(tails, features[:, :size], among, count - size - len(waiting), threshold)
            wanted = [other for other in wanted if other not in waiting]
            rows = torch.tensor(wanted, device=diagonal.device)
            solved = columns(rows) - features[:, :size] @ features[rows, :size].T
            waiting |= {other: (column, size) for other, column in zip(wanted, solved.unbind(1), strict=True)}
        column, known = waiting.pop(row)
        rest = column - features[:, known:size] @ features[row, known:size]
        if not bool(rest[row] > rounding[row]):  # the matrix has less there than its diagonal says: nothing is left
            tails[row] = 0.0
            continue
        features[:, size] = torch.where(taken, 0.0, rest / rest[row].sqrt())  # exactly triangular
        tails = tails - features[:, size].square()
        tails = torch.where(tails > rounding, tails, 0.0)
        tails[row] = 0.0
        taken[row] = True
        landmarks.append(row)
        pivots.append(rest[row])
    size = len(landmarks)
    return PivotedCholesky(
        torch.tensor(landmarks, dtype=torch.int64, device=diagonal.device),
        features[:, :size].clone() if size < count else features,
        torch.stack(pivots) if pivots else diagonal.new_zeros(0),
        tails,
    )


def _next_pivots(
    tails: Tensor, features: Tensor, among: Callable[[Tensor], Tensor], most: int, threshold: float
) -> list[int]:
    """The next pivots, several at once as far as they are certain, by the rule on the rows of the largest tails alone:
    the largest of these is the largest of all while it is above every tail elsewhere, which can only fall."""
    first = int(tails.argmax())
    size = min(_CANDIDATES, len(tails) // _ROWS_EACH)
    if most <= 1 or size <= 1:
        return [first]
    largest, rows = tails.sort(descending=True, stable=True)
    elsewhere = max(float(largest[size]), threshold)
    rows = rows[:size].sort().values  # so that of equal tails the first row is taken here too
    left = tails[rows].clone()
    rest = among(rows) - features[rows] @ features[rows].T
    chosen: list[int] = []
    while len(chosen) < most:
        at = int(left.argmax())
        if chosen and not float(left[at]) > elsewhere:
            break
        chosen.append(int(rows[at]))
        if not bool(rest[at, at] > 0):
            break
        step = rest[at] / rest[at, at].sqrt()
        rest = rest - step[:, None] * step
        left = left - step.square()
        left[at] = 0.0
    return chosen
