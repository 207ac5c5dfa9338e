"""The untruncated signature kernel, normalised, by its PDE: of paths, or of paths lifted by a static kernel."""

from __future__ import annotations

import copy
import math
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Self

import torch
from torch import Tensor

from siggpde.gp.landmarks import NewtonBasis
from siggpde.numerics.signature_kernel import PreparedSeries, signature_kernel, signature_kernel_diag
from siggpde.numerics.triton.plan import ROUGH_TOL, PlanRequest, make_plans
from siggpde.series import PathOptions, PathTransform, SeriesBatch
from siggpde.series.batch import pool
from siggpde.views.base import Block, Rows, View
from siggpde.views.paths import channel_scales, path_lengths

_PAIRS_OF_POINTS = 4000
_ROUGH, _LONGEST_OF_FLOAT32 = 1e-3, 30.0  # k(X, X) of such paths is below exp(60), in the range of float32
TOLERANCE = 1e-4  # from which probabilities follow to 1e-6; 1e-3 moves them by up to 5e-5, and float32 by 1e-5
_PRECISE = 1e-10  # for series that are alike
_LONGEST = 100.0  # the series of longer paths are shrunk: work grows with the square of the length, and k is near 0
_LONG = 300.0  # paths up to this length have k(X, X) below exp(600), in the range of float64
_ALIKE, _LOOKED_AT = 1e-2, 64  # 1 - the mean of k(X, Y) below which series are alike, and of how many it is taken
_CELLS_PER_SECOND, _LIFTED_CELLS_PER_SECOND = 1.2e9, 0.4e9  # of one core with AVX-512
_NEGLIGIBLE = {False: 1e-4, True: 1e-8}  # the tail 1 - |phi(X)|² at which no more pivots are taken, by `precise`


@dataclass(frozen=True)
class KernelView(View):
    """The signature kernel of series, which sees words of every length.

    Parameters
    ----------
    name : str
        The name of the kernel.
    base_point : bool, default False
        Whether positions count.
    bandwidth : float or None, default None
        None for the linear static kernel of the paper; else h of exp(-|x - y|² / 2 h²), in median distances of points.
    time_weight : float, default 1.0
        The weight of time, which runs from 0 to 1, against the other channels, in units of sqrt(channels).
    path_length : float, default 6.0
        The median length of paths, in the Hilbert space of the static kernel.
    max_points : int, default 32
        The most points of a series; longer ones are averaged down.
    max_pivots : int, default 300
        The most landmarks; of more, so many are chosen that stand for all.

    Examples
    --------
    >>> series = SeriesBatch(torch.arange(40.0).sin().double().reshape(5, 8, 1))
    >>> KernelView("lifted", bandwidth=1.0).fit(series)[1]["lifted"].gram.shape
    torch.Size([5, 5])
    """

    name: str
    base_point: bool = False
    bandwidth: float | None = None
    time_weight: float = 1.0
    path_length: float = 6.0
    max_points: int = 32
    max_pivots: int = 300

    @property
    def kind(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] - of the settings, not of the class
        return "kernel" if self.bandwidth is None else "lifted"

    def seconds(self, landmarks: SeriesBatch, series: int) -> float:
        """Returns about the seconds of one core for the rows of so many series: cells over a fixed speed, for equal
        steps, so that the same series have the same views on every machine."""
        columns = min(len(landmarks), self.max_pivots)
        points = max(2, min(landmarks.values.shape[1], self.max_points) + int(self.base_point))
        pieces, rough = _pieces(points - 1, self.path_length)
        cells = series * columns * pieces**2 + (series + columns) * rough * (rough + 1) // 2
        return cells / (_CELLS_PER_SECOND if self.bandwidth is None else _LIFTED_CELLS_PER_SECOND)

    def fit(self, landmarks: SeriesBatch) -> tuple[KernelBlock, dict[str, Rows]]:
        short = pool(landmarks, self.max_points)
        transform = PathTransform(PathOptions(base_point=self.base_point)).fit(short)
        paths = transform.paths(short)
        weight = self.time_weight * math.sqrt(landmarks.channels / 12)  # the clock of paths runs to sqrt(12)
        if self.bandwidth is None:
            theta, scales = channel_scales(paths, weight, self.path_length), (1.0, 1.0)
        else:
            theta = torch.ones(paths.channels, dtype=torch.float64, device=paths.values.device)
            theta[0] = weight
            scales = _lifted_scales(paths, theta, self.bandwidth, self.path_length)
        count = min(len(landmarks), _LOOKED_AT)  # evenly spread over all landmarks
        some = landmarks[torch.arange(count, device=landmarks.values.device) * len(landmarks) // count]
        gram = KernelBlock(self, transform, theta, scales, some).raw()[self.name].gram
        alike = 1 - float(gram.mean()) < _ALIKE  # centring leaves little more than errors of the kernel
        block = KernelBlock(self, transform, theta, scales, landmarks, precise=alike)
        return block, block.centre()


@cache
def _pieces(segments: int, path_length: float) -> tuple[int, int]:
    """Returns how many pieces equal segments are cut into, by the plan of a pair and by that of a rough k(X, X)."""
    squared = torch.full((1, segments), (path_length / segments) ** 2, dtype=torch.float64)
    counts = []
    for tol, alone in ((TOLERANCE, False), (max(TOLERANCE, ROUGH_TOL), True)):
        request = PlanRequest(-1, tol, alone, math.inf)
        plans = make_plans(squared, torch.tensor([segments]), request, torch.tensor([tol], dtype=torch.float64))
        counts.append(int(plans.steps))
    return counts[0], counts[1]


class KernelBlock(Block):
    """Rows of the kernel against the landmarks, or with more than `view.max_pivots` of them phi(X)^T phi(Z) with the
    features phi(X) = L^-1 k(pivots, X) of `NewtonBasis`; `precise` solves to 1e-10, since centring makes errors larger
    where all series are alike."""

    rounding = 1e-7
    rough = False

    def __init__(
        self,
        view: KernelView,
        transform: PathTransform,
        theta: Tensor,
        scales: tuple[float, float],
        landmarks: SeriesBatch,
        pivots: Tensor | None = None,
        factor: Tensor | None = None,
        precise: bool = False,
    ) -> None:
        self.view, self.transform, self.theta, self.scales = view, transform, theta, scales
        self.precise, self.kind = precise, view.kind
        lift = {"static": "rbf", "bandwidth": scales[0], "amplitude": scales[1]}
        self.lift: dict[str, Any] = {} if view.bandwidth is None else lift
        self.landmarks = paths = self._paths(landmarks)
        if pivots is None and len(paths) > view.max_pivots:
            # As tol too: tails that are as far below zero as errors of the kernel take them are no defect.
            least = _NEGLIGIBLE[precise]
            basis = NewtonBasis((self._gram_of, _ones), view.max_pivots, threshold=least, tol=least)
            basis.fit(paths.values, lengths=paths.lengths)
            pivots, factor = basis.landmarks_, basis.factor_
        self.pivots, self.factor = pivots, factor
        self.landmarks = paths if pivots is None else paths[pivots]
        self.features = None if pivots is None else self._whitened(self._gram(paths, self.landmarks))

    @property
    def width(self) -> int:
        return 0 if self.features is None else self.features.shape[1]

    def raw(self, batch: SeriesBatch | None = None) -> dict[str, Rows]:
        features = self.features
        if batch is not None:
            gram = self._gram(self._paths(batch), self.landmarks)
            gram = gram if features is None else self._whitened(gram) @ features.T
        else:  # half of the pairs are solved
            gram = self._gram(self.landmarks, None) if features is None else features @ features.T
        return {self.view.name: Rows(gram, torch.ones_like(gram[:, 0]))}

    def gram(self, batch: SeriesBatch) -> Tensor:
        """Returns the raw kernel of n series among themselves, (n, n): half of the pairs are solved."""
        return self._gram(self._paths(batch), None)

    def _whitened(self, gram: Tensor) -> Tensor:
        assert self.factor is not None
        return torch.linalg.solve_triangular(self.factor, gram.T, upper=False).T.contiguous()

    def roughly(self) -> KernelBlock:
        block = copy.copy(self)
        block.rough = not self.precise and self._fits_float32(self.landmarks).all().item()
        return block

    def _fits_float32(self, paths: SeriesBatch) -> Tensor:
        bandwidth, amplitude = self.scales
        linear = self.view.bandwidth is None
        lengths = path_lengths(paths.values) if linear else amplitude * _lifted_lengths(paths.values, bandwidth)
        return lengths <= _LONGEST_OF_FLOAT32

    def _rough_gram(self, paths: SeriesBatch) -> Tensor:
        """Returns the kernel with the landmarks, of short paths to `_ROUGH` in float32, in a third of the time."""
        settings, inside, known = {"tol": _ROUGH, **self.lift}, self._fits_float32(paths), copy.copy(self)
        known.rough = False
        gram = torch.empty(len(paths), len(self.landmarks), dtype=torch.float64, device=paths.values.device)
        if not bool(inside.all()):
            gram[~inside] = known._gram(paths[(~inside).nonzero()[:, 0]], self.landmarks)
        short = paths[inside.nonzero()[:, 0]]
        sides = [(side.values.float(), side.lengths) for side in (short, self.landmarks)]
        scales = [signature_kernel_diag(x, lengths=counts, **settings).double().rsqrt() for x, counts in sides]
        (x, lengths), (y, y_lengths) = sides
        rough = signature_kernel(x, y, lengths=lengths, y_lengths=y_lengths, **settings).double()
        gram[inside] = rough * scales[0][:, None] * scales[1]
        return gram

    def _gram(self, paths: SeriesBatch, others: SeriesBatch | None) -> Tensor:
        """Returns the normalised kernel (n, m) in float64, by its logarithm where that is precise or paths can be long;
        landmarks are in the lanes, however few the paths are."""
        if self.rough and others is self.landmarks:
            return self._rough_gram(paths)
        x, lengths = paths.values, paths.lengths
        settings = {"tol": _PRECISE if self.precise else TOLERANCE, **self.lift}
        against: dict[str, Any] = {} if others is None else {"y": others.values, "y_lengths": others.lengths}
        if self.precise or self.scales[1] * 2**0.5 * (self.view.max_points + 1) > _LONG:
            return signature_kernel(x, lengths=lengths, normalize=True, **against, **settings)
        scale = self._inverse_norms(paths)
        if others is None or others is not self.landmarks:
            gram = signature_kernel(x, lengths=lengths, **against, **settings)
            return gram * scale[:, None] * (scale if others is None else self._inverse_norms(others))
        if self.prepared is None:
            series = PreparedSeries(others.values, lengths=others.lengths, **settings)
            self.prepared = series, self._inverse_norms(others)
        kernel, other_scale = self.prepared
        return kernel(x, lengths).T.contiguous() * scale[:, None] * other_scale

    def _inverse_norms(self, paths: SeriesBatch) -> Tensor:
        return signature_kernel_diag(paths.values, lengths=paths.lengths, tol=TOLERANCE, **self.lift).rsqrt()

    def _gram_of(self, x: Tensor, y: Tensor | None = None, *, lengths: Any = None, y_lengths: Any = None) -> Tensor:
        return self._gram(SeriesBatch(x, lengths), None if y is None else SeriesBatch(y, y_lengths))

    def _paths(self, batch: SeriesBatch) -> SeriesBatch:
        paths = self.transform.paths(pool(batch, self.view.max_points))
        values = paths.values * self.theta.to(paths.values)
        if self.view.bandwidth is None:
            shrink = (_LONGEST / path_lengths(values[:, :, 1:])).clamp(max=1.0)[:, None, None]
            values = torch.cat([values[:, :, :1], values[:, :, 1:] * shrink], dim=2)
        return SeriesBatch(values.contiguous(), paths.lengths)

    def to(self, device: torch.device | str) -> Self:
        block = super().to(device)
        block.theta, block.transform = self.theta.to(device), copy.copy(self.transform).to(device)
        block.landmarks = self.landmarks.to(torch.device(device))
        block.pivots, block.factor, block.features = (
            None if part is None else part.to(device) for part in (self.pivots, self.factor, self.features)
        )
        return block

    def state(self) -> dict[str, Any]:
        learned = {"transform": self.transform.state(), "theta": self.theta, "scales": list(self.scales)}
        learned |= {"pivots": self.pivots, "factor": self.factor, "precise": self.precise}
        return {"view": asdict(self.view), **learned}

    @staticmethod
    def from_state(state: dict[str, Any], landmarks: SeriesBatch) -> KernelBlock:
        view, transform = KernelView(**state["view"]), PathTransform.from_state(state["transform"])
        bandwidth, amplitude = state["scales"]
        learned = state["pivots"], state["factor"], state["precise"]
        return KernelBlock(view, transform, state["theta"], (bandwidth, amplitude), landmarks, *learned)


def _ones(x: Tensor, *, lengths: Any = None) -> Tensor:
    return torch.ones(len(x), dtype=torch.float64, device=x.device)


def _lifted_lengths(values: Tensor, bandwidth: float) -> Tensor:
    """Returns the lengths (n,) of lifts of amplitude 1: |phi(x) - phi(y)|² = 2 - 2 kappa(x, y)."""
    squared = (values.diff(dim=1) / bandwidth).square().sum(2)
    return (-2 * torch.expm1(-squared / 2)).sqrt().sum(1)


def _lifted_scales(paths: SeriesBatch, theta: Tensor, factor: float, path_length: float) -> tuple[float, float]:
    """Returns the bandwidth, `factor` times the median distance of points, and the amplitude for this path length."""
    values = paths.values * theta
    points = values[paths.inside()]
    random = torch.Generator().manual_seed(0)
    first, second = torch.randint(len(points), (2, _PAIRS_OF_POINTS), generator=random)
    bandwidth = factor * float((points[first] - points[second]).norm(dim=1).median())
    if not bandwidth > 0:
        return 1.0, 1.0
    median = float(_lifted_lengths(values, bandwidth).median())
    return bandwidth, path_length / median if median > 0 else 1.0
