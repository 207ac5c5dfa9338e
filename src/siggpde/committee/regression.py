"""The posterior of a member in closed form: a Gaussian-process regression on Gram rows against landmarks
(docs/design.md, The regression of a member)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from siggpde.numerics.products import product
from siggpde.views.base import Learned, Rows

NOISES = tuple(10.0 ** (k / 2) for k in range(-10, 5))
TIE = 1e-4  # nats a series: of noise levels as good as each other the smaller is taken
_RANK = 1e-9  # eigenvalues of K below this share of the largest carry no digits
_EXPLAINED = 1e-3  # directions of which the data explain a smaller share are left out of the root of a large member
_LEFT_OUT = 0.01  # the share of the mean variance of left-out series by which the root of a large member may miss
_FEW = 8  # series
_SMALL = 512  # landmarks up to which a root is kept whole and in float64


class Level(NamedTuple):
    """Left-out predictions at one level of the noise: mean (n, outputs), variance of the latent (n,), log density (n,)
    of each series' own target less the prior of its temperature, and the variance of the noise of numbers."""

    mean: Tensor
    variance: Tensor
    log_density: Tensor
    noise_variance: float


@dataclass
class LeftOut:
    """Predictions of series from all the others: mean (n, outputs), variance of the latent (n,), score in nats a
    series, log density (n,) of each series' own target; `levels` has those at every noise."""

    mean: Tensor
    variance: Tensor
    score: float
    log_density: Tensor
    levels: list[Level]


@dataclass
class Regression(Learned):
    """alpha (m, outputs), root B (m, r), in float32 for more than 512 landmarks, noise variance at unit amplitude,
    amplitude sigma², and `counts` (m,), the weights of the training series where these are the landmarks, else None;
    of an exact member alpha has further rows, one for every other training series."""

    alpha: Tensor
    root: Tensor
    noise: float
    amplitude: float
    counts: Tensor | None = None

    def predict(self, rows: Rows, turned_root: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns mean k_X alpha (n, outputs) and variance sigma² (k(X, X) - |k_X B|²) (n,) of the latents;
        `turned_root` is B^T in float32, by which one series takes a fourth of the time and many twice as long."""
        gram = rows.gram[:, : len(self.root)]
        turned = turned_root if len(gram) <= _FEW else None
        root = gram @ self.root.to(gram) if turned is None else product(gram, turned)
        explained = root.square_().sum(1)
        return rows.gram @ self.alpha, self.amplitude * (rows.variance - explained).clamp_min(0.0)

    @staticmethod
    def from_state(state: Mapping[str, Any]) -> Regression:
        return Regression(state["alpha"], state["root"], state["noise"], state["amplitude"], state.get("counts"))


def fit_exact(rows: Rows, targets: Targets) -> tuple[Regression, LeftOut]:
    """Returns the regression with all n training series as landmarks; their rows are (n, n), the constant included."""
    gram, tail = rows.gram, (rows.variance - rows.gram.diagonal()).clamp_min(0.0)
    outputs, counts = targets.signs(), targets.counts
    scale = counts.sqrt()[:, None]
    share, vectors = eigh(gram * scale * scale.T)
    share = _without_errors(share)
    turned, squares = vectors.T @ (outputs * scale), vectors.square()
    groups = None if targets.groups is None else Groups.of(targets.groups)

    def at(noise: float) -> tuple[Tensor, Tensor]:
        gain = 1 / (share + noise)
        solved = vectors @ (gain[:, None] * turned)
        if groups is None:
            inverse = squares @ gain
            errors = solved / inverse[:, None]
        else:
            errors, variance = groups.solve(vectors * gain.sqrt(), solved)
            inverse = 1 / variance
        return errors / scale, inverse

    noise, left_out, amplitude = best_noise(at, targets, outputs, NOISES)
    left_out.variance += amplitude * tail
    # New series have nothing in directions of eigenvalue 0 but errors of the kernel, which 1 / noise would blow up.
    vectors, share, turned = vectors[:, share > 0], share[share > 0], turned[share > 0]
    alpha = vectors @ (turned / (share + noise)[:, None]) * scale
    root = vectors / (share + noise).sqrt() * scale
    if len(root) > _SMALL:
        kept = _worth_keeping(root, gram, _LEFT_OUT * float(left_out.variance.mean()) / amplitude)
        root = root[:, kept].float()
    return Regression(alpha, root.contiguous(), noise, amplitude, counts), left_out


def best_noise(
    at: Callable[[float], tuple[Tensor, Tensor]], targets: Targets, outputs: Tensor, noises: Sequence[float]
) -> tuple[float, LeftOut, float]:
    """Returns the one of the `noises` with the best leave-one-out score, its predictions and the amplitude; `at(noise)`
    gives the errors (n, outputs), and 1 / variance (n,) of the left-out (weighted) targets."""
    best: tuple[float, LeftOut, float] | None = None
    levels: list[Level] = []
    weights = targets.counts
    for noise in noises:
        errors, inverse = at(noise)
        if not bool(torch.isfinite(errors).all()):
            continue
        amplitude = max(float((errors.square() * (inverse * weights)[:, None]).mean()), 1e-12)
        variance = amplitude / (inverse * weights)  # of the target, in units without weights
        mean = outputs - errors
        log_density, prior = targets.log_density(mean, variance)
        score = prior - float(targets.average(log_density))
        if not math.isfinite(score):
            continue
        latent = (variance - amplitude * noise / weights).clamp_min(0.0)
        levels.append(Level(mean, latent, log_density - prior, amplitude * noise))
        if best is None or score < best[1].score - TIE:
            best = noise, LeftOut(mean, latent, score, log_density, levels), amplitude
    if best is None:
        raise ArithmeticError("no noise level gave finite leave-one-out errors; look for outliers in X and y")
    return best


def _without_errors(share: Tensor) -> Tensor:
    """Returns ascending eigenvalues, 0 for those no larger than errors of the kernel, which the least one shows."""
    return torch.where(share > -2 * share[0].clamp_max(0.0), share, 0.0).clamp_min(0.0)


def _worth_keeping(root: Tensor, gram: Tensor, allowed: float) -> Tensor:
    """Returns the columns of the root that keep the mean variance of landmarks within `allowed`."""
    explained = (gram @ root).square().mean(0)
    order = explained.argsort(descending=True)
    missing = explained.sum() - explained[order].cumsum(0)
    count = int((missing > allowed).sum()) + 1
    return order[:count].sort().values


def eigh(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Returns eigenvalues (n,), ascending, and eigenvectors (n, n) of a symmetric matrix, by one thread: their bits
    depend on the number of threads, and close eigenvalues turn vectors by far more than rounding."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        share, vectors = torch.linalg.eigh(matrix)
    finally:
        torch.set_num_threads(threads)
    return share, vectors


def whitening_of(gram: Tensor) -> Tensor:
    """Returns R (m, r) with R R^T = K^-1 for a Gram matrix K (m, m), without eigenvalues that are mostly rounding."""
    share, vectors = eigh(gram)
    kept = _without_errors(share) > _RANK * share[-1]
    return vectors[:, kept] / share[kept].sqrt()


@dataclass
class Normal:
    """The normal equations of a member on whitened features: Phi^T W Phi (r, r) and Phi^T W Y (r, outputs)."""

    whitening: Tensor
    precision: Tensor
    shift: Tensor

    @staticmethod
    def of(gram: Tensor, outputs: int) -> Normal:
        """Returns zero sums, for landmarks with this Gram matrix (m, m)."""
        whitening = whitening_of(gram)
        rank = whitening.shape[1]
        return Normal(whitening, gram.new_zeros(rank, rank), gram.new_zeros(rank, outputs))

    def add(self, rows: Rows, targets: Targets) -> None:
        """Adds n series."""
        features = rows.gram @ self.whitening
        weighed = features * targets.counts[:, None]
        self.precision += weighed.T @ features
        self.shift += weighed.T @ targets.signs()

    def solve(
        self, rows: Rows, targets: Targets, spectrum: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Regression, LeftOut]:
        """Returns the regression, with the noise that is best for some of the series that were added, and these left
        out; `spectrum` is `eigh` of the precision, where it is known."""
        share, vectors = eigh(self.precision) if spectrum is None else spectrum
        share = share.clamp_min(0.0)
        turned = vectors.T @ self.shift
        features = rows.gram @ (self.whitening @ vectors)
        squares, outputs = features.square(), targets.signs()
        weights, scale = targets.counts, targets.counts.sqrt()[:, None]
        tail = (rows.variance - squares.sum(1)).clamp_min(0.0)
        groups = None if targets.groups is None else Groups.of(targets.groups)

        def at(noise: float) -> tuple[Tensor, Tensor]:
            gain = 1 / (share + noise)
            errors = outputs - features @ (gain[:, None] * turned)
            if groups is None:
                inverse = 1 / (1 - squares @ gain * weights).clamp_min(1e-9)
                errors = errors * inverse[:, None]
            else:
                errors, inverse = groups.solve(features * gain.sqrt() * scale, errors * scale, complement=True)
                errors = errors / scale
            # The variance of a left-out target is noise / w / (1 - h), and what no landmark explains beside it.
            variance = noise / weights * inverse + tail
            return errors, 1 / (variance * weights)

        noise, left_out, amplitude = best_noise(at, targets, outputs, NOISES)
        weight = (1 / (share + noise))[:, None] * turned
        turn = self.whitening @ vectors
        explained = share / (share + noise)
        root = turn * explained.sqrt()
        if len(root) > _SMALL:
            root = root[:, explained > _EXPLAINED].float()
        return Regression(turn @ weight, root.contiguous(), noise, amplitude), left_out


_GROWTH = 1.25  # groups of nearly one size are solved together, padded to the largest of them
_LARGEST = 2**25  # numbers of a batch of blocks


@dataclass(frozen=True)
class Groups:
    """Batches of groups of about one size: rows (g, b) of the series, and (g, b) which of these are no padding."""

    batches: tuple[tuple[Tensor, Tensor], ...]

    @staticmethod
    def of(numbers: Tensor) -> Groups:
        """Makes groups of integers (n,), which are equal for series of one group."""
        _, inverse, counts = numbers.unique(return_inverse=True, return_counts=True)
        order, ends = inverse.argsort(stable=True), counts.cumsum(0)
        batches, by_size = [], counts.argsort().tolist()
        sizes = counts.tolist()
        while by_size:
            taken = [group for group in by_size if sizes[group] <= _GROWTH * sizes[by_size[0]]]
            by_size = by_size[len(taken) :]
            width = max(sizes[group] for group in taken)
            places = torch.arange(width, device=numbers.device)
            inside = places < counts[taken][:, None]
            starts = (ends - counts)[taken]
            batches.append((order[torch.where(inside, starts[:, None] + places, starts[:, None])], inside))
        return Groups(tuple(batches))

    def solve(self, factor: Tensor, values: Tensor, *, complement: bool = False) -> tuple[Tensor, Tensor]:
        """Returns, for the blocks A_g A_g^T, or I - A_g A_g^T, of a factor A (n, r), their inverses times values (n,
        outputs), and the diagonals (n,) of their inverses."""
        solved, diagonal = torch.empty_like(values), torch.empty_like(values[:, 0])
        for rows, inside in self.batches:
            size = max(1, _LARGEST // (rows.shape[1] * factor.shape[1]))
            eye = torch.eye(rows.shape[1], dtype=factor.dtype, device=factor.device)
            for part, within in zip(rows.split(size), inside.split(size), strict=True):
                some = factor[part] * within[:, :, None]
                block = some @ some.mT
                block = eye - block if complement else block + torch.diag_embed((~within).to(factor))
                lower = torch.linalg.cholesky(block)
                solution = torch.cholesky_solve(values[part] * within[:, :, None], lower)
                solved[part[within]] = solution[within]
                diagonal[part[within]] = torch.cholesky_inverse(lower).diagonal(dim1=1, dim2=2)[within]
        return solved, diagonal

    def without(self, inverse: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Returns Q_gg^-1 values_g (n, outputs) and the diagonals (n,) of Q_gg^-1 of every group g, of Q (n, n)."""
        solved, diagonal = torch.empty_like(values), torch.empty_like(values[:, 0])
        for rows, inside in self.batches:
            pairs = inside[:, :, None] & inside[:, None, :]
            block = torch.where(pairs, inverse[rows[:, :, None], rows[:, None, :]], 0.0)
            lower = torch.linalg.cholesky(block + torch.diag_embed((~inside).to(block)))
            solved[rows[inside]] = torch.cholesky_solve(values[rows] * inside[:, :, None], lower)[inside]
            diagonal[rows[inside]] = torch.cholesky_inverse(lower).diagonal(dim1=1, dim2=2)[inside]
        return solved, diagonal


_TEMPERATURES = tuple(2.0 ** (k / 2) for k in range(13))


@dataclass(frozen=True)
class Targets:
    """y (n,): labels 0..classes-1, or numbers where `classes` is None; `weights` (n,) are 1 on average, and series with
    equal integers `groups` (n,) are left out together."""

    y: Tensor
    classes: int | None
    weights: Tensor | None = None
    groups: Tensor | None = None

    def __len__(self) -> int:
        return len(self.y)

    @property
    def counts(self) -> Tensor:
        """What every series counts, (n,): its weight, or 1."""
        return (
            torch.ones(len(self.y), dtype=torch.float64, device=self.y.device) if self.weights is None else self.weights
        )

    def __getitem__(self, rows: Tensor | slice) -> Targets:
        weights = None if self.weights is None else self.weights[rows]
        return Targets(self.y[rows], self.classes, weights, None if self.groups is None else self.groups[rows])

    def signs(self) -> Tensor:
        """Returns what is regressed on, (n, outputs) in float64: ±1 for every class, or the numbers."""
        if self.classes is None:
            return self.y.double()[:, None]
        return 2.0 * torch.nn.functional.one_hot(self.y.long(), self.classes).double() - 1.0

    def log_density(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, float]:
        """Returns log p (n,) of the targets for means (n, outputs) and variances of y (n,), and the prior of the
        temperature: of classes by a softmax at the best of a few temperatures, with one label in n + 2 unpredictable,
        as few series predicted right prove no certainty."""
        n = len(self)
        if self.classes is None:
            squared = (self.y.double() - mean[:, 0]).square() / variance
            return -0.5 * (squared + variance.log() + math.log(2 * math.pi)), 0.0
        lapse = 1 / (n + 2)
        factors = torch.tensor(_TEMPERATURES, dtype=torch.float64, device=mean.device)
        chances = torch.softmax(factors[:, None, None] * mean, dim=2)
        likelihoods = chances.gather(2, self.y.long().expand(len(factors), n)[:, :, None])[:, :, 0]
        logs = ((1 - lapse) * likelihoods + lapse / self.classes).log()
        prior = 0.5 * (factors / 4.0).log().square() / n
        best = int((prior - self.average(logs)).argmin())
        return logs[best], float(prior[best])

    def average(self, values: Tensor) -> Tensor:
        """Returns the mean over the series, the last axis, with their weights."""
        return values.mean(-1) if self.weights is None else (values * self.weights).sum(-1) / self.weights.sum()
