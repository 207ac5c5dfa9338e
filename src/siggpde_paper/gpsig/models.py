"""The GPSig models of the paper, GPSig-IT (inducing tensors) and GPSig-IS (inducing sequences), whitened; `gpsig`."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.linalg import solve_triangular

from siggpde.gp.features import InducingFeatures, Projection, positive_tail
from siggpde.gp.kernel import PathKernel, lengthscales
from siggpde.gp.likelihoods import Likelihood
from siggpde.gp.likelihoods.base import Classification
from siggpde.gp.model import SparseGP
from siggpde.numerics import inputs
from siggpde.numerics.autograd import once_differentiable
from siggpde.numerics.signature import signature
from siggpde.numerics.signature_kernel import Lengths
from siggpde.series import SeriesBatch
from siggpde_paper.gpsig.kernel import Method, TruncatedKernel, over_pairs, tile_shape
from siggpde_paper.gpsig.series_levels import Static, checked_series, point_kernel, scaled_pair
from siggpde_paper.gpsig.tensor_levels import (
    compiled_levels,
    core_has_tensors,
    product_levels,
    slot_count,
    slot_gram_levels,
    slot_index,
    tensor_levels,
)

_MAX_BYTES = 2**31
_CELLS = 2**15  # pairs and times of a tile, for every slot
Quotas = Literal["equal", "proportional", "none"]
_NOISE = 0.4
Kind = Literal["tensors", "sequences"]


class WhitenedFeatures(InducingFeatures):
    """Features L^-1 Kuf of a `TruncatedKernel`, L L^T = Kuu + jitter I, with Kuu and Kuf by recursion or by words."""

    def __init__(self, channels: int, count: int, jitter: float = 1e-6) -> None:
        super().__init__()
        if not isinstance(count, int) or count < 1:
            raise ValueError(f"count must be an integer, at least 1, got {count!r}")
        if not 0 < jitter < 1:
            raise ValueError(f"jitter must be between 0 and 1, got {jitter!r}")
        self.channels, self.count, self.jitter = channels, count, jitter

    @property
    def size(self) -> int:
        return self.count

    def word_rows(self, kernel: TruncatedKernel) -> Tensor:
        """Rows (M, words) whose inner products with those of series are Kuf, for explicit kernels."""
        raise NotImplementedError

    def gram(self, kernel: TruncatedKernel) -> Tensor:
        """Kuu (M, M) by recursion."""
        raise NotImplementedError

    def cross(self, kernel: TruncatedKernel, xs: Tensor) -> Tensor:
        """Kuf (M, n) by recursion, for xs of `TruncatedKernel.padded_series`."""
        raise NotImplementedError

    def check(self, kernel: PathKernel) -> None:
        super().check(kernel)
        if not isinstance(kernel, TruncatedKernel):
            raise ValueError(f"{type(self).__name__} are for a TruncatedKernel, not for a {type(kernel).__name__}")

    def inducing_covariance(self, kernel: TruncatedKernel | None = None) -> Tensor:
        """E[u u^T] (M, M) without jitter; it depends on the kernel, which has to be given."""
        if kernel is None:
            raise ValueError(
                f"the covariance of {type(self).__name__} depends on the kernel; give inducing_covariance(kernel)"
            )
        self.check(kernel)
        if not kernel.explicit:
            return self.gram(kernel)
        rows = self.word_rows(kernel)
        return rows @ rows.T

    def cross_covariance(self, kernel: TruncatedKernel, x: inputs.Series, *, lengths: Lengths = None) -> Tensor:
        """E[u f(X)] (M, n) for x (n, length, channels)."""
        self.check(kernel)
        xs = kernel.padded_series(x, lengths)
        if kernel.explicit:
            return self.word_rows(kernel) @ kernel.weighted_words(kernel.scaled_signatures(xs)).T
        return self.cross(kernel, xs)

    def forward(self, kernel: TruncatedKernel, x: inputs.Series, *, lengths: Lengths = None) -> Projection:
        """The projection of x (n, length, channels), differentiable in kernel and inducing variables."""
        xs = kernel.padded_series(x, lengths)
        if kernel.explicit:
            return self._from_words(kernel, kernel.scaled_signatures(xs))
        return self._whitened(self.gram(kernel), self.cross(kernel, xs), kernel.combine(kernel.squared_norms(xs)))

    def signatures(self, kernel: TruncatedKernel, paths: SeriesBatch) -> Tensor | None:
        """S(theta X) (n, words), where the kernel is explicit and they take less than 2 GiB."""
        if not kernel.explicit or 8 * len(paths) * len(kernel.letters) > _MAX_BYTES:
            return None
        with torch.no_grad():
            paths = kernel.as_paths(paths.values, paths.lengths)
            return signature(paths.values * kernel.theta, depth=kernel.level, lengths=paths.lengths)

    def project_signatures(self, kernel: TruncatedKernel, plain: Tensor, reference: Tensor) -> Projection:
        """The projection from S(X) (n, words) of series that were scaled by exp(reference)."""
        if not kernel.explicit:
            raise ValueError("this kernel is not a product of signatures; call the features with the series instead")
        return self._from_words(kernel, plain * kernel.word_scales(reference))

    def _from_words(self, kernel: TruncatedKernel, scaled: Tensor) -> Projection:
        rows, series = self.word_rows(kernel), kernel.weighted_words(scaled)
        return self._whitened(rows @ rows.T, rows @ series.T, series.square().sum(dim=1))

    def _whitened(self, gram: Tensor, cross: Tensor, variance: Tensor) -> Projection:
        features = whiten(gram, cross, self.jitter).T
        return Projection(features, variance, *positive_tail(variance, features, self.jitter, None))


def whiten(gram: Tensor, cross: Tensor, jitter: float) -> Tensor:
    """Returns L^-1 cross (M, n), where L L^T = gram + jitter I."""
    return _Whiten.apply(gram, cross, jitter)  # pyright: ignore[reportReturnType]


class _Whiten(Function):
    """With A = L^-1 C and its gradient a, that in C is L^-T a, and that in L L^T is -sym(L^-T T L^-1), T being the
    lower triangle of a A^T with half its diagonal: half as many triangular solves as by differentiating each step."""

    @staticmethod
    def forward(ctx: Any, gram: Tensor, cross: Tensor, jitter: float) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        shifted = gram.clone()
        shifted.diagonal().add_(jitter)
        factor, info = torch.linalg.cholesky_ex(shifted)
        if int(info) != 0 or not bool(torch.isfinite(factor.diagonal()).all()):
            raise ArithmeticError(
                f"the covariance of the inducing variables, with {jitter:.0e} on its diagonal, is not positive "
                "definite: its values are too large for rounding; scale the series down or give a larger jitter"
            )
        result = solve_triangular(factor, cross, upper=False)
        ctx.save_for_backward(factor, result)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        gradients = once_differentiable(_pull_back_whitening, *ctx.saved_tensors, grad, ctx.needs_input_grad[0])
        return *gradients, None


def _pull_back_whitening(factor: Tensor, result: Tensor, grad: Tensor, with_gram: bool) -> tuple[Tensor | None, Tensor]:
    cross = solve_triangular(factor.T, grad, upper=True)
    if not with_gram:
        return None, cross
    triangle = (grad @ result.T).tril_()
    triangle.diagonal().mul_(0.5)
    half = solve_triangular(factor.T, triangle, upper=True)
    whole = solve_triangular(factor, half, upper=False, left=False)
    return (whole + whole.T).mul_(-0.5), cross


class InducingTensors(WhitenedFeatures):
    """GPSig-IT: `count` tensors, each with a rank-one tensor z_1 x .. x z_m in every level m = 1 .. `level`.

    A slot is one of the vectors z_k, in the space of the series and scaled by theta likewise: the difference of its two
    points, or of their features by a static kernel. Slots are ordered by position k and then by level (`slot_index`).

    Parameters
    ----------
    channels, count : int
        Channels of the series, and the number of tensors.
    level : int, default 4
        The highest level; level 0 of all tensors is 1.
    values : Tensor (count, slots, 2, channels), optional
        The initial points; standard normal numbers by default.
    jitter : float, default 1e-6
        Added to the diagonal of C_uu.

    Examples
    --------
    >>> InducingTensors(channels=2, count=5, level=3).values.shape
    torch.Size([5, 6, 2, 2])
    """

    def __init__(
        self, channels: int, count: int, level: int = 4, *, values: Tensor | None = None, jitter: float = 1e-6
    ) -> None:
        super().__init__(channels, count, jitter)
        self.level = level
        self.values = _parameter(values, (count, slot_count(level), 2, channels))

    @property
    def slots(self) -> Tensor:
        """The slots (M, slots, channels) of linear static kernels."""
        return self.values[:, :, 1] - self.values[:, :, 0]

    def check(self, kernel: PathKernel) -> None:
        super().check(kernel)
        if isinstance(kernel, TruncatedKernel) and kernel.level != self.level:
            raise ValueError(f"the kernel has {kernel.level} levels and the inducing tensors {self.level}")

    def word_rows(self, kernel: TruncatedKernel) -> Tensor:
        slots = self.slots
        levels = [slots.new_ones(self.count, 1)]
        for of_level in range(1, self.level + 1):
            first, *others = (slots[:, slot_index(k, of_level, self.level)] for k in range(1, of_level + 1))
            product = first
            for following in others:
                product = (product[:, :, None] * following[:, None, :]).flatten(1)
            levels.append(product)
        zero = torch.zeros_like(kernel.log_theta)
        return kernel.weighted_words(torch.cat(levels, dim=1) * kernel.word_scales(zero))

    def gram(self, kernel: TruncatedKernel) -> Tensor:
        scaled = self._points(kernel.static) * kernel.theta
        if kernel.static == "linear" and kernel.compiled:
            return kernel.combine(slot_gram_levels(scaled[:, :, 0], self.level))
        tile = tile_shape(1, self.count, self.count, _CELLS)
        return kernel.combine(
            over_pairs(lambda a, b: product_levels(_slot_grams(kernel.static, a, b), self.level), scaled, None, tile)
        )

    def cross(self, kernel: TruncatedKernel, xs: Tensor) -> Tensor:
        left, right = scaled_pair(kernel.static, self._points(kernel.static), xs, kernel.theta)
        if kernel.static == "linear":
            right = right.diff(dim=1)

        def levels(tensors: Tensor, series: Tensor) -> Tensor:
            return tensor_levels(_slot_products(kernel.static, tensors, series), self.level, kernel.order)

        if kernel.static == "linear" and kernel.compiled and core_has_tensors(left, right, self.level):
            values = compiled_levels(left[:, :, 0], right, self.level, kernel.order)
        else:
            values = over_pairs(levels, left, right, tile_shape(xs.shape[1] - 1, self.count, len(xs), _CELLS))
        return kernel.combine(values)

    def _points(self, static: Static) -> Tensor:
        """The points of every slot, (M, slots, points, channels): the slot itself for "linear", else two points."""
        return self.slots[:, :, None] if static == "linear" else self.values

    def extra_repr(self) -> str:
        return f"{self.count} tensors of {self.channels} channels, level={self.level}, jitter={self.jitter}"


def _slot_grams(static: Static, left: Tensor, right: Tensor) -> Tensor:
    """Inner products of slots (slots, M, M') of points (M, slots, points, channels)."""
    (rows, slots, points, channels), columns = left.shape, len(right)
    left, right = (tensors.transpose(0, 1).reshape(slots, -1, channels) for tensors in (left, right))
    values = point_kernel(static, left, right).view(slots, rows, points, columns, points)
    return (values if points == 1 else values.diff(dim=2).diff(dim=4))[:, :, 0, :, 0]


def _slot_products(static: Static, tensors: Tensor, series: Tensor) -> Tensor:
    """G(t) (slots, M, n, t) of slots with increments; series are increments already for the linear static kernel."""
    (rows, slots, points, channels), (n, length, _) = tensors.shape, series.shape
    left = tensors.transpose(0, 1).reshape(-1, channels)
    values = point_kernel(static, left, series.reshape(-1, channels)).view(slots, rows, points, n, length)
    return (values if static == "linear" else values.diff(dim=2).diff(dim=4))[:, :, 0]


def _parameter(values: Tensor | None, shape: tuple[int, ...]) -> nn.Parameter:
    """A copy of the values, checked; by default standard normal numbers."""
    if values is None:
        values = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    if tuple(values.shape) != shape:
        raise ValueError(f"values must have shape {shape}, got {tuple(values.shape)}")
    if not bool(torch.isfinite(values.detach()).all()):
        raise ValueError("values must be finite, got NaN or infinity")
    return nn.Parameter(values.detach().to(torch.float64, copy=True))


class InducingSequences(WhitenedFeatures):
    """GPSig-IS: `count` learned series Z (count, length, channels), whose values f(Z) are the inducing variables.

    Parameters
    ----------
    channels, count : int
        Channels of the series, and the number of inducing series.
    length : int, default 5
        Points of every inducing series.
    values : Tensor (count, length, channels), optional
        The initial Z, which theta scales as it scales the series; standard normal numbers by default.
    jitter : float, default 1e-6
        Added to the diagonal of C_uu.

    Examples
    --------
    >>> InducingSequences(channels=2, count=3).values.shape
    torch.Size([3, 5, 2])
    """

    def __init__(
        self, channels: int, count: int, length: int = 5, *, values: Tensor | None = None, jitter: float = 1e-6
    ) -> None:
        super().__init__(channels, count, jitter)
        if not isinstance(length, int) or length < 2:
            raise ValueError(f"length must be an integer, at least 2, got {length!r}")
        self.length = length
        self.values = _parameter(values, (count, length, channels))

    def word_rows(self, kernel: TruncatedKernel) -> Tensor:
        return kernel.weighted_words(kernel.scaled_signatures(self.values))

    def gram(self, kernel: TruncatedKernel) -> Tensor:
        return kernel(self.values)

    def cross(self, kernel: TruncatedKernel, xs: Tensor) -> Tensor:
        return kernel.combine(kernel.pair_levels(self.values, xs))

    def extra_repr(self) -> str:
        return f"{self.count} sequences of {self.length} points and {self.channels} channels, jitter={self.jitter}"


def chosen_series(y: Tensor, count: int, classes: int, random: torch.Generator, quotas: Quotas = "equal") -> Tensor:
    """Indices (count,) of series, as the `quotas` of `gpsig` say."""
    chosen: list[Tensor] = []
    if quotas != "equal":
        groups = [(y == label).nonzero()[:, 0] for label in range(classes if quotas == "proportional" else 0)]
        for members in (*groups, torch.arange(len(y))):
            wanted = min(count * len(members) // len(y), count - sum(map(len, chosen)))
            chosen.append(members[torch.randint(len(members), (wanted,), generator=random)])
        return torch.cat(chosen)
    for label in range(classes):
        members = (y == label).nonzero()[:, 0]
        chosen.append(members[torch.randperm(len(members), generator=random)[: count // classes]])
    while (missing := count - sum(map(len, chosen))) > 0:
        chosen.append(torch.randperm(len(y), generator=random)[:missing])
    return torch.cat(chosen)


def initial_tensors(x: Tensor, lengths: Tensor, level: int, random: torch.Generator) -> Tensor:
    """Inducing tensors (n, slots, 2, channels), one for each series x: noisy pairs of points at random times."""
    series = _at_least(x, level + 1)
    n, steps = len(series), series.shape[1] - 1
    values = series.new_empty(n, slot_count(level), 2, series.shape[2])
    rows = torch.arange(n)[:, None]
    for m in range(1, level + 1):
        keys = torch.rand(n, steps, dtype=torch.float64, generator=random)
        keys[torch.arange(steps) >= (lengths[:, None] - 1).clamp_min(m)] = 2.0  # after its end
        times = keys.argsort(dim=1)[:, :m].sort(dim=1).values
        for position in range(1, m + 1):
            time = times[:, position - 1 : position]
            values[:, slot_index(position, m, level)] = torch.cat([series[rows, time], series[rows, time + 1]], dim=1)
    return _noisy(values, random)


def initial_sequences(x: Tensor, lengths: Tensor, points: int, random: torch.Generator) -> Tensor:
    """Windows (n, points, channels) of consecutive points at a random start, one of every series, with noise added."""
    series = _at_least(x, points)
    starts = (lengths - points).clamp_min(0) + 1
    start = (torch.rand(len(series), dtype=torch.float64, generator=random) * starts).long()
    times = start[:, None] + torch.arange(points)
    return _noisy(series[torch.arange(len(series))[:, None], times], random)


def _at_least(x: Tensor, points: int) -> Tensor:
    """Series x continued by their last points where they have fewer than `points`."""
    return torch.cat([x, x[:, -1:].expand(-1, max(0, points - x.shape[1]), -1)], dim=1)


def _noisy(values: Tensor, random: torch.Generator) -> Tensor:
    return values + _NOISE * torch.randn(values.shape, dtype=values.dtype, generator=random)


def gpsig(
    x: inputs.Series,
    y: Any,
    likelihood: Likelihood,
    *,
    kind: Kind = "tensors",
    count: int,
    level: int = 4,
    static: Static = "linear",
    order: int | None = None,
    classes: int | None = None,
    seed: int = 0,
    lengths: Lengths = None,
    method: Method = "auto",
    quotas: Quotas = "equal",
) -> SparseGP[TruncatedKernel, InducingTensors | InducingSequences]:
    """Returns a GPSig model of standardised series, ready to be trained.

    Parameters
    ----------
    x, lengths
        Series (n, length, channels), or a list of (length_i, channels), and their numbers of points, if unequal.
    y : array-like (n,)
        Their targets.
    likelihood : Likelihood
        p(y | f).
    kind : {"tensors", "sequences"}, default "tensors"
        Inducing variables: tensors (GPSig-IT) or series of level + 1 points (GPSig-IS).
    count : int
        The number of inducing variables, which start from training series.
    level, static, order, method
        Those of `TruncatedKernel`.
    classes : int, optional
        Classes to start from; 0 draws from all series, as for regression. By default those of the likelihood.
    seed : int, default 0
        Of everything random.
    quotas : {"equal", "proportional", "none"}, default "equal"
        How many series of each class: count // classes, where it has as many, and the rest from all; or, drawn with
        replacement, in proportion to the classes or from all, as the authors' code does.

    Returns
    -------
    SparseGP

    Examples
    --------
    >>> from siggpde.likelihoods import Softmax
    >>> gpsig(torch.randn(6, 5, 2), [0, 1, 2, 0, 1, 2], Softmax(3), count=3, level=2).features
    InducingTensors(3 tensors of 2 channels, level=2, jitter=1e-06)
    """
    if kind not in ("tensors", "sequences"):
        raise ValueError(f"kind must be 'tensors' or 'sequences', got {kind!r}")
    batch, counts = inputs.as_batch(x, lengths)
    device = batch.device
    batch, counts = batch.cpu(), None if counts is None else counts.cpu()  # the device of the random generator
    series = checked_series(batch.to(torch.float64), counts)
    points = torch.full((len(series),), batch.shape[1]) if counts is None else counts
    targets = likelihood.check_targets(y).cpu()
    if len(targets) != len(series) or len(series) == 0:
        raise ValueError(f"there are {len(series)} series and {len(targets)} targets; give one each, at least one")
    if not isinstance(count, int) or count < 1:
        raise ValueError(f"count must be an integer, at least 1, got {count!r}")
    random = torch.Generator().manual_seed(seed)
    if classes is None:
        classes = likelihood.classes if isinstance(likelihood, Classification) else 0
    channels = series.shape[2]
    theta = 1 / lengthscales(series, points, random)
    kernel = TruncatedKernel(channels, level, order=order, static=static, theta=theta, method=method)
    rows = chosen_series(targets, count, classes, random, quotas)
    start = series[rows], points[rows]
    features: InducingTensors | InducingSequences
    if kind == "tensors":
        features = InducingTensors(channels, count, level, values=initial_tensors(*start, level, random))
    else:
        features = InducingSequences(channels, count, level + 1, values=initial_sequences(*start, level + 1, random))
    return SparseGP(kernel, features, likelihood).to(device)
