"""The signature kernel k(X, Y) = <S(X), S(Y)> by its PDE (Lemercier et al., 2021), exact and differentiable."""

from collections.abc import Sequence
from numbers import Real
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from siggpde.numerics import gradients, inputs, native
from siggpde.numerics.autograd import Pairs
from siggpde.numerics.backend import backend_for
from siggpde.numerics.inputs import average_sides, checked_once
from siggpde.numerics.static_kernels import KernelSettings, Parameter, Static, StaticKernel, check_static
from siggpde.numerics.words import as_integer

Solver = Literal["series", "fd"]
Gradient = Literal["adjoint", "variation", "augmented"]

_MAX_REFINE = 12
Lengths = Tensor | Sequence[int] | None


def signature_kernel(
    x: inputs.Series,
    y: inputs.Series | None = None,
    *,
    static: Static = "linear",
    bandwidth: Parameter | None = None,
    amplitude: Parameter = 1.0,
    alpha: float | None = None,
    normalize: bool = False,
    solver: Solver = "series",
    refine: int = 0,
    tol: float = 1e-8,
    gradient: Gradient = "adjoint",
    lengths: Lengths = None,
    y_lengths: Lengths = None,
    max_points: int | None = None,
    n_jobs: int | None = None,
) -> Tensor:
    """Returns the Gram matrix of signature kernels k(X_i, Y_j) = <S(X_i), S(Y_j)>.

    k(X, Y) = U(T, T), where U_st = <X'_s, Y'_t> U and U(0, .) = U(., 0) = 1. No value depends on the rest of the batch.

    Parameters
    ----------
    x : Tensor (n, length, channels), or list of tensors (length_i, channels)
        The series, in float32 or float64. Gradients flow to x and y.
    y : as x, of m series, optional
        The other series; without them the matrix is that of x with itself.
    static : {"linear", "rbf", "matern12", "matern32", "matern52", "rational_quadratic"}
        Lifts the paths by a kernel kappa(x, y) = amplitude² c(|x - y| / bandwidth) of points
        (`siggpde.numerics.static_kernels` has the formulas): <dx_i, dy_j> becomes kappa(x_(i+1), y_(j+1)) -
        kappa(x_i, y_(j+1)) - kappa(x_(i+1), y_j) + kappa(x_i, y_j). "matern12" has no gradient where points of x and y
        coincide: such a pair of points adds nothing to it.
    bandwidth, amplitude : float or scalar Tensor
        Those of the static kernel, 1 if left out. Gradients flow to tensors.
    alpha : float, optional
        Of "rational_quadratic", 1 if left out.
    normalize : bool
        Whether to return k(X, Y) / sqrt(k(X, X) k(Y, Y)), between -1 and 1, also where k itself would overflow.
    solver : {"series", "fd"}
        "series" bounds |error| / sqrt(k(X, X) k(Y, Y)) by `tol`; "fd", finite differences, uses `refine`.
    refine : int
        Dyadic refinements of "fd".
    tol : float
        The accuracy of "series", at least 16 roundings of the dtype.
    gradient : {"adjoint", "variation", "augmented"}
        By the exact reverse sweep of the solver, by variation of the PDE (Algorithm 2 of Lemercier et al., 2021), or by
        the augmented PDE (their Algorithm 1). The last two are there for comparison: slow, in plain torch on GPUs too,
        where only the adjoint has Triton kernels, and always at full accuracy.
    lengths, y_lengths : arrays of int (n,) and (m,), optional
        Only so many points of each series count.
    max_points : int, optional
        Longer series are first averaged down to so many points (`average_points`), and the log says so.
    n_jobs : int, optional
        Threads, by default torch's number.

    Returns
    -------
    Tensor (n, m)
        The kernels, symmetric (n, n) without y.

    Examples
    --------
    >>> x = torch.tensor([[[0.0], [1.0]], [[0.0], [2.0]]]).double()
    >>> signature_kernel(x)
    tensor([[ 2.2796,  4.2524],
            [ 4.2524, 11.3019]], dtype=torch.float64)
    """
    threads = inputs.thread_count(n_jobs)
    xs, x_counts = inputs.as_batch(x, lengths)
    refinement, tol, _, normalize = check_settings(solver, refine, tol, gradient, xs.dtype, False, normalize)
    ys, y_counts = (None, None) if y is None else inputs.as_batch(y, y_lengths, "y")
    if ys is not None:
        if xs.shape[2] != ys.shape[2]:
            raise ValueError(f"x has {xs.shape[2]} channels and y has {ys.shape[2]}; they need the same")
        if xs.dtype != ys.dtype or xs.device != ys.device:
            kinds = f"x is {xs.dtype} on {xs.device} and y is {ys.dtype} on {ys.device}"
            raise ValueError(f"{kinds}; convert one to the other")
        if len(xs) == 0 or len(ys) == 0:  # no pair, so that the backends have nothing to do
            inputs.check_finite(xs, x_counts, "x")
            inputs.check_finite(ys, y_counts, "y")
    elif y_lengths is not None:
        raise ValueError("y_lengths is given, but y is not; for the Gram matrix of x alone give `lengths`")
    if max_points is not None:
        sides = average_sides(max_points, (xs, x_counts), *([] if ys is None else [(ys, y_counts)]))
        (xs, x_counts), (ys, y_counts) = sides[0], (None, None) if ys is None else sides[1]
    lift, factor = check_static(static, bandwidth, amplitude, alpha)
    if factor is not None:
        xs, ys = times_amplitude(xs, x_counts, factor), None if ys is None else times_amplitude(ys, y_counts, factor)
    wanted = xs.requires_grad or (ys is not None and ys.requires_grad) or (lift is not None and lift.differentiable)
    differentiable = torch.is_grad_enabled() and wanted
    pairs = Pairs(xs, x_counts, ys, y_counts, None, KernelSettings(lift, refinement, tol, threads))
    if gradient != "adjoint":
        check_algorithm(gradient, lift, normalize)
        if differentiable:
            return gradients.gram(pairs, gradient)
    if normalize:
        return normalized_gram(pairs, differentiable)
    return backend_for(xs, ys, static=lift).gram(pairs, differentiable)


class PreparedSeries:
    """Series x (m, length, channels) that meet others again and again, with the linear or the "rbf" kernel: what they
    cost alone is paid once.

    Examples
    --------
    >>> x, y = torch.tensor([[[0.0], [1.0]]]).double(), torch.tensor([[[0.0], [2.0]]]).double()
    >>> PreparedSeries(x)(y)
    tensor([[4.2524]], dtype=torch.float64)
    """

    def __init__(
        self,
        x: inputs.Series,
        *,
        lengths: Lengths = None,
        tol: float = 1e-8,
        static: Static = "linear",
        bandwidth: Parameter | None = None,
        amplitude: Parameter = 1.0,
    ) -> None:
        self.x, self.lengths = inputs.as_batch(x, lengths)
        lift, self.factor = check_static(static, bandwidth, amplitude, None)
        self.x = times_amplitude(self.x, self.lengths, self.factor)
        self.settings = KernelSettings(lift, *check_settings("series", 0, tol, "adjoint", self.x.dtype)[:2], 1)

    def __call__(self, y: inputs.Series, lengths: Lengths = None) -> Tensor:
        """Returns k(X_i, Y_j), (m, n), without gradient, for other series y (n, length, channels)."""
        ys, counts = inputs.as_batch(y, lengths, "y")
        ys, backend = times_amplitude(ys, counts, self.factor), backend_for(self.x, ys, static=self.settings.static)
        if backend is not native or not len(ys):
            return backend.gram(Pairs(self.x, self.lengths, ys, counts, None, self.settings), False)
        if self not in _prepared:
            _prepared[self] = native.prepared_series(self.x, self.lengths, self.settings)
        return native.prepared_gram(_prepared[self], self.x, self.lengths, ys, counts)


_prepared: WeakKeyDictionary[PreparedSeries, Any] = WeakKeyDictionary()  # no part of copies and pickles


def signature_kernel_diag(
    x: inputs.Series,
    *,
    lengths: Lengths = None,
    static: Static = "linear",
    bandwidth: Parameter | None = None,
    amplitude: Parameter = 1.0,
    alpha: float | None = None,
    log: bool = False,
    solver: Solver = "series",
    refine: int = 0,
    tol: float = 1e-8,
    gradient: Gradient = "adjoint",
    max_points: int | None = None,
    n_jobs: int | None = None,
) -> Tensor:
    """Returns k(X_i, X_i) of every series.

    This is the diagonal of the covariance C_ff of the paper, all that training needs of it, at half the work of the
    diagonal of `signature_kernel`.

    Parameters
    ----------
    log : bool
        Whether to return the logarithm, which exists where k itself would overflow.
    x, lengths, static, bandwidth, amplitude, alpha, solver, refine, tol, gradient, max_points, n_jobs
        Those of `signature_kernel`.

    Returns
    -------
    Tensor (n,)
        k(X_i, X_i), or its logarithm.

    Examples
    --------
    >>> signature_kernel_diag(torch.tensor([[[0.0], [1.0]]]).double())
    tensor([2.2796], dtype=torch.float64)
    """
    threads = inputs.thread_count(n_jobs)
    xs, counts = inputs.as_batch(x, lengths)
    refinement, tol, log, _ = check_settings(solver, refine, tol, gradient, xs.dtype, log)
    if max_points is not None:
        ((xs, counts),) = average_sides(max_points, (xs, counts))
    lift, factor = check_static(static, bandwidth, amplitude, alpha)
    if factor is not None:
        xs = times_amplitude(xs, counts, factor)
    wide = xs.double() if log else xs  # k itself may be out of the range of float32
    differentiable = torch.is_grad_enabled() and (xs.requires_grad or (lift is not None and lift.differentiable))
    if gradient != "adjoint":
        check_algorithm(gradient, lift)
        if differentiable:
            return gradients.diagonal(wide, counts, refinement, log, gradient).to(xs.dtype)
    settings = KernelSettings(lift, refinement, tol, threads)
    backend = backend_for(xs, static=lift)
    return backend.diagonal(wide, counts, settings, log, differentiable).to(xs.dtype)


def signature_kernel_diag_scales(
    x: inputs.Series,
    theta: Tensor,
    *,
    lengths: Lengths = None,
    static: Static = "linear",
    bandwidth: Parameter | None = None,
    amplitude: Parameter = 1.0,
    alpha: float | None = None,
    log: bool = False,
    solver: Solver = "series",
    refine: int = 0,
    tol: float = 1e-8,
    n_jobs: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Returns k(X_i, X_i) of the paths with scaled channels, and its gradient in the logarithms of the scales.

    These are the gradients of the channel scales (ARD) in the paper's section 4: dk/dlog theta_c =
    2 sum_ij (dk/drho_ij) theta_c² dx_i^c dx_j^c, with rho_ij = sum_c theta_c² dx_i^c dx_j^c.

    Parameters
    ----------
    theta : Tensor (d,)
        The scales of the channels.
    log : bool
        Whether both results are those of log k.
    x, lengths, static, bandwidth, amplitude, alpha, solver, refine, tol, n_jobs
        Those of `signature_kernel`.

    Returns
    -------
    Tensor (n,), Tensor (n, d)
        k and dk/dlog theta, computed in one pass; neither carries a graph.

    Examples
    --------
    >>> x, theta = torch.tensor([[[0.0], [2.0]]]).double(), torch.tensor([0.5]).double()
    >>> signature_kernel_diag_scales(x, theta)
    (tensor([2.2796], dtype=torch.float64), tensor([[3.1813]], dtype=torch.float64))
    """
    threads = inputs.thread_count(n_jobs)
    xs, counts = inputs.as_batch(x, lengths)
    refinement, tol, log, _ = check_settings(solver, refine, tol, "adjoint", xs.dtype, log)
    lift, factor = check_static(static, bandwidth, amplitude, alpha)
    backend = backend_for(xs, theta if isinstance(theta, Tensor) else None, static=lift)
    scales, xs = check_scales(theta, xs), times_amplitude(xs.detach(), counts, factor).detach()
    settings = KernelSettings(lift, refinement, tol, threads)
    wide = xs.double() if log else xs
    value, slope = backend.diagonal_with_scale_gradient(wide, counts, scales.to(wide.dtype), settings, log)
    return value.to(xs.dtype), slope.to(xs.dtype)


def signature_kernel_diag_gradient(
    x: inputs.Series,
    *,
    lengths: Lengths = None,
    static: Static = "linear",
    bandwidth: Parameter | None = None,
    amplitude: Parameter = 1.0,
    alpha: float | None = None,
    log: bool = False,
    solver: Solver = "series",
    refine: int = 0,
    tol: float = 1e-8,
    n_jobs: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Returns k(X_i, X_i) and its gradient in the points of X_i, in one pass.

    There is no graph: for small batches autograd costs more than the gradient itself.

    Parameters
    ----------
    log : bool
        Whether both results are those of log k.
    x, lengths, static, bandwidth, amplitude, alpha, solver, refine, tol, n_jobs
        Those of `signature_kernel`.

    Returns
    -------
    Tensor (n,), Tensor (n, length, channels)
        k and its gradient, which is zero after the end of a series.

    Examples
    --------
    >>> k, slope = signature_kernel_diag_gradient(torch.tensor([[[0.0], [1.0]]]).double())
    >>> k, slope.flatten()
    (tensor([2.2796], dtype=torch.float64), tensor([-3.1813,  3.1813], dtype=torch.float64))
    """
    threads = inputs.thread_count(n_jobs)
    xs, counts = inputs.as_batch(x, lengths)
    refinement, tol, log, _ = check_settings(solver, refine, tol, "adjoint", xs.dtype, log)
    lift, factor = check_static(static, bandwidth, amplitude, alpha)
    settings = KernelSettings(lift, refinement, tol, threads)
    backend = backend_for(xs, static=lift)
    scaled = times_amplitude(xs, counts, factor)
    scaled = scaled.double() if log else scaled
    value, slope = backend.diagonal_with_gradient(scaled, counts, settings, log)
    return value.to(xs.dtype), times_amplitude(slope.to(xs.dtype), None, factor).detach()


@checked_once
def check_settings(
    solver: Any, refine: Any, tol: Any, gradient: Any, dtype: torch.dtype, log: Any = False, normalize: Any = False
) -> tuple[int, float, bool, bool]:
    """Checks the settings; returns refinements, -1 for "series", the tolerance, `log` and `normalize` for a backend."""
    if not isinstance(solver, str) or solver not in ("series", "fd"):
        raise ValueError(f"solver must be 'series' or 'fd', got {solver!r}")
    if not isinstance(gradient, str) or gradient not in ("adjoint", "variation", "augmented"):
        raise ValueError(f"gradient must be 'adjoint', 'variation' or 'augmented', got {gradient!r}")
    pieces = as_integer(refine)
    if pieces is None or not 0 <= pieces <= _MAX_REFINE:
        raise ValueError(f"refine must be an integer from 0 to {_MAX_REFINE}, got {refine!r}")
    if pieces != 0 and solver == "series":
        raise ValueError(f"refine={refine} is for solver='fd'; the series solver takes its accuracy from `tol`")
    if not isinstance(tol, Real) or not 0 < float(tol) < 1:
        raise ValueError(f"tol must be between 0 and 1, got {tol!r}")
    for name, value in (("log", log), ("normalize", normalize)):
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"{name} must be True or False, got {value!r}")
    tol = max(float(tol), 16 * torch.finfo(dtype).eps)
    return -1 if solver == "series" else pieces, tol, bool(log), bool(normalize)


def check_scales(theta: Any, x: Tensor) -> Tensor:
    """Channel scales (channels,) as a tensor like x."""
    try:
        scales = torch.as_tensor(theta).detach()
    except (TypeError, ValueError, RuntimeError):  # not numbers
        scales = None
    if scales is not None and not scales.is_complex():
        scales = scales.to(dtype=x.dtype, device=x.device).contiguous()
        if scales.shape == x.shape[2:] and bool(torch.isfinite(scales).all()):
            return scales
    raise ValueError(f"theta must be {x.shape[2]} finite scales, one a channel of x, got {theta!r}")


def times_amplitude(x: Tensor, lengths: Tensor | None, factor: Parameter | None) -> Tensor:
    """x times the amplitude of the linear static kernel; padding, which may be NaN, has no part in its gradient."""
    if not isinstance(factor, Tensor):
        return x if factor is None else x * factor
    return torch.where(inputs.row_mask(x, lengths)[:, :, None], x, 0.0) * factor.to(x)


def check_algorithm(gradient: Gradient, lift: StaticKernel | None, normalize: bool = False) -> None:
    """Raises a ValueError where the paper's algorithms do not apply: they are for the plain, linear kernel only."""
    if normalize or lift is not None:
        what = "normalize=True" if normalize else f"static={lift.name!r}" if lift else ""
        raise ValueError(f"gradient={gradient!r} is for static='linear', not normalised; for {what} take 'adjoint'")


def normalized_gram(pairs: Pairs, differentiable: bool) -> Tensor:
    """k(X_i, Y_j) / sqrt(k(X_i, X_i) k(Y_j, Y_j)), (n, m), of x's dtype, by float64 logarithms; y None means x."""
    x, x_lengths, y, y_lengths, _, settings = pairs
    wide, other = x.double(), None if y is None else y.double()
    backend = backend_for(wide, other, static=settings.static)
    norm_x = backend.diagonal(wide, x_lengths, settings, True, differentiable) / 2
    norm_y = norm_x
    if other is not None:
        try:
            norm_y = backend.diagonal(other, y_lengths, settings, True, differentiable) / 2
        except (ValueError, ArithmeticError) as error:  # which calls its argument x
            raise type(error)(str(error).replace(" of x", " of y").replace("x is not", "y is not")) from error
    value = backend.gram(pairs._replace(x=wide, y=other, norms=(norm_x, norm_y)), differentiable)
    if other is None:
        value = torch.where(torch.eye(len(x), dtype=torch.bool, device=x.device), 1.0, value)
    return value.to(x.dtype)
