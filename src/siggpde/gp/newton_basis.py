r"""The Newton basis of landmark series: finite features for a kernel that has none.

For landmarks :math:`Z_1, \dots, Z_m` with :math:`K_{ZZ} = L L^T` the features are :math:`\phi(X) = L^{-1} k(Z, X)`.
Then :math:`k(X, Y) \approx \phi(X) \cdot \phi(Y)`, exactly where X or Y is a landmark, and what is left out of the
variance, the tail :math:`k(X, X) - |\phi(X)|^2`, is never negative. Column j of the features depends on the first j
landmarks only, as Newton's polynomials do on their nodes.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from siggpde.gp.inducing import Projection, positive_tail
from siggpde.gp.kernel import PathKernel
from siggpde.gp.pivoting import pivoted_cholesky
from siggpde.numerics import inputs
from siggpde.numerics.averaging import average_sides, check_max_points
from siggpde.numerics.signature_kernel import Lengths
from siggpde.numerics.words import as_integer
from siggpde.series import SeriesBatch

log = logging.getLogger(__name__)

Kernel = PathKernel | tuple[Callable[..., Tensor], Callable[..., Tensor]]
"""A covariance function, or the pair of functions (gram, diagonal): `gram(x, y, lengths=, y_lengths=)` returns (n, m),
`gram(x, lengths=)` the symmetric (n, n) and `diagonal(x, lengths=)` (n,)."""

_TENSORS = ("landmarks_", "factor_", "pivots_", "tails_")


class NewtonBasis:
    """At most `count` series as landmarks of a kernel, and the features phi(X) = L^-1 k(landmarks, X) they give.

    `fit` takes as the next landmark the series with the largest tail k(X, X) - |phi(X)|², until there are `count` or
    the largest tail is at most `threshold` times the mean of k(X, X). Only the columns of landmarks are ever solved,
    several at a time, and no matrix is larger than (n, count). Series of more than `max_points` points are averaged
    down to it, those of `fit` and new ones alike, and the log says so.

    `kernel` is a `SignatureKernel`, any `PathKernel`, or a pair of functions as `signature_kernel` and
    `signature_kernel_diag`. Everything is float64, on the device of the kernel's values, and carries no graph: the
    landmarks belong to the kernel's parameters as they were in `fit`, which keeps a copy of them. `tol` is the relative
    accuracy of the kernel, that of a `SignatureKernel` if not given: tails below zero by no more than it allows are
    rounding.

    After `fit`, with m landmarks:

    - `landmarks_`: their numbers among the series, in the order they were taken, (m,);
    - `factor_`: L, lower triangular, (m, m); `pivots_`: its squared diagonal, (m,);
    - `tails_`: of the series of `fit`, (n,); `features_`: their features, (n, m);
    - `series_`: the landmarks themselves, as they meet new series.

    Examples:
        >>> from siggpde import SignatureKernel, signature_kernel
        >>> x = torch.tensor([[0.0, 1.0], [0.0, 2.0], [0.0, 1.0]]).double()[:, :, None]
        >>> basis = NewtonBasis(SignatureKernel(1), 3).fit(x)
        >>> basis.landmarks_
        tensor([1, 0])
        >>> seen = basis(x)
        >>> torch.allclose(seen.features @ seen.features.T, signature_kernel(x))
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
        self._frozen: PathKernel | None = None
        self.count = most
        self.threshold = threshold
        self.max_points = max_points
        self.tol: float = getattr(kernel, "tol", 0.0) if tol is None else tol

    @property
    def size(self) -> int:
        """The number of landmarks that `fit` found."""
        self._check_fitted()
        return len(self.landmarks_)

    @torch.no_grad()
    def fit(self, x: inputs.Series, *, lengths: Lengths = None) -> NewtonBasis:
        """Chooses landmarks among x (n, length, channels) or a list of (length_i, channels); returns itself."""
        batch = self._shortened(x, lengths)
        if len(batch) == 0:
            raise ValueError("x has no series; give at least one to choose landmarks from")
        if isinstance(self.kernel, PathKernel):  # as it is now: the factor below belongs to it
            self._frozen = copy.deepcopy(self.kernel)
        diagonal = self._diagonal(batch)
        mean = float(diagonal.mean())
        if not mean > 0:
            raise ValueError(f"the mean of k(X, X) is {mean}; landmarks need a kernel that is positive somewhere")
        self._check_pair(batch, diagonal)
        limit = self.threshold * mean
        done = pivoted_cholesky(
            diagonal,
            lambda rows: self._gram(batch, batch[rows.to(batch.values.device)]),
            lambda rows: self._gram(batch[rows.to(batch.values.device)]),
            self.count,
            limit,
        )
        self._tails(diagonal, done.features)  # raises where the kernel is not positive definite
        self.landmarks_, self.pivots_, self.tails_ = done.landmarks, done.pivots, done.tails
        self.features_ = done.features
        self.factor_ = done.features[done.landmarks].clone()
        self.series_ = batch[done.landmarks.to(batch.values.device)]
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
        """What `fit` found, as plain tensors; the features of the series of `fit` are not kept."""
        self._check_fitted()
        state = {name: getattr(self, name) for name in _TENSORS}
        state["series_values"], state["series_lengths"] = self.series_.values, self.series_.counts()
        state["max_points"] = torch.tensor(self.max_points or 0)
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> NewtonBasis:
        """Takes over what another basis, of the same kernel and settings, has found; returns itself."""
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
        found = f", {len(self.landmarks_)} found" if hasattr(self, "landmarks_") else ""
        return f"NewtonBasis(at most {self.count} landmarks{found}, threshold={self.threshold})"

    def _check_fitted(self) -> None:
        if not hasattr(self, "landmarks_"):
            raise ValueError("this NewtonBasis has no landmarks yet; call fit(x), or load_state_dict(state)")

    def _tails(self, variance: Tensor, features: Tensor) -> tuple[Tensor, int]:
        # The solve makes errors of the kernel larger; up to the threshold, below which no tail counts, they do no harm.
        return positive_tail(variance, features, max(self.tol, self.threshold / 64), None)

    def _shortened(self, x: inputs.Series, lengths: Any) -> SeriesBatch:
        if isinstance(self.kernel, PathKernel):
            batch = self.kernel.as_paths(x, lengths)
        else:
            values, counts = inputs.as_batch(x, lengths)
            batch = SeriesBatch(values.double(), counts)
        ((values, counts),) = average_sides(self.max_points, (batch.values, batch.lengths))
        return SeriesBatch(values, counts)

    def _check_pair(self, batch: SeriesBatch, diagonal: Tensor) -> None:
        """Raises ValueError where the two functions of a kernel are not those of one kernel."""
        if isinstance(self.kernel, PathKernel):
            return
        row = int(diagonal.argmax())
        own, other = float(diagonal[row]), float(self._gram(batch[torch.tensor([row], device=batch.values.device)]))
        if not abs(own - other) <= 1e-3 * abs(own):
            raise ValueError(
                f"the functions of the kernel do not belong together: for series {row} diagonal gives {own:.6g} and "
                f"gram {other:.6g}; a normalised gram needs a diagonal of ones"
            )

    def _diagonal(self, batch: SeriesBatch) -> Tensor:
        if isinstance(self.kernel, PathKernel):
            return (self._frozen or self.kernel)(batch.values, diag=True, lengths=batch.lengths).double()
        return self.kernel[1](batch.values, lengths=batch.lengths).double()

    def _gram(self, x: SeriesBatch, y: SeriesBatch | None = None) -> Tensor:
        gram = (self._frozen or self.kernel) if isinstance(self.kernel, PathKernel) else self.kernel[0]
        others: dict[str, Any] = {} if y is None else {"y_lengths": y.lengths}
        args = (x.values,) if y is None else (x.values, y.values)
        return gram(*args, lengths=x.lengths, **others).double()
