"""The closed form of the Gaussian likelihood: exact leave-one-out predictions, and the schedule `Exact`."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from siggpde.gp.features import Projection
from siggpde.gp.likelihoods import Gaussian
from siggpde.gp.model import AnyGP
from siggpde.gp.natural_gradients import solve_gaussian
from siggpde.gp.phases import Phase, check_positive
from siggpde.gp.trainer import Trainer
from siggpde.gp.variational import VariationalGaussian, times_lower

NOISES = tuple(10.0 ** (-k / 2) for k in range(-4, 17))
_TIE = 1e-6
_SMALLEST_AMPLITUDE = 1e-12
_CHUNK = 4096
_SCORED_ROWS = 4000


class BestNoise(NamedTuple):
    """The noise with the least score, minus the mean log density of left-out targets, and the amplitude there."""

    score: float
    noise: float
    amplitude: float


def best_noise(features: Tensor, y: Tensor) -> BestNoise:
    """Returns the best of `NOISES` for features F (n, M) and targets y (n,), by the log density of left-out targets,
    predicted as y_i - [A y]_i / A_ii with A = (F F^T + s I)^-1 and the amplitude that explains y best."""
    n, count = features.shape
    if not bool(torch.isfinite(features).all()):
        raise ArithmeticError("leave-one-out needs finite features")
    targets = y[:, None].to(features)
    dual = n <= count
    share, vectors = torch.linalg.eigh(features @ features.T if dual else features.T @ features)
    share = share.clamp_min(0.0)
    left = vectors if dual else features @ vectors / share.sqrt().clamp_min(1e-150)
    if not dual:
        kept = share > 1e-13 * share[-1]
        share, left = share[kept], left[:, kept]
    turned = left.T @ targets
    outside = targets - left @ turned if not dual else torch.zeros_like(targets)
    best: BestNoise | None = None
    for noise in NOISES:
        gain = 1.0 / (share + noise)
        solved = left @ (gain[:, None] * turned) + outside / noise
        squares = left.square()
        inverse = squares @ gain + (0.0 if dual else (1 - squares.sum(dim=1)).clamp_min(0.0) / noise)
        amplitude = (targets * solved).mean().clamp_min(1e-300)
        variance = amplitude / inverse
        squared = (solved / inverse[:, None])[:, 0].square()
        score = float((0.5 * (squared / variance + variance.log() + math.log(2 * math.pi))).mean())
        # Where all series are predicted exactly, scores differ by rounding alone: then the most noise is the safest.
        if math.isfinite(score) and (best is None or score < best.score - _TIE):
            best = BestNoise(score, noise, float(amplitude))
    if best is None:
        raise ArithmeticError("no noise level gave finite leave-one-out errors")
    return best


def left_out(
    likelihood: Gaussian, root: Tensor, mean: Tensor, projection: Projection, y: Tensor
) -> tuple[Tensor, Tensor]:
    """Returns mean and variance, two (n, 1), of the latent of every series from all the other series.

    With Sigma^-1 = I + sum s_n s_n^T / noise, v_n = s_n^T Sigma s_n and h_n = v_n / noise they are
    (mu_n - h_n t_n) / (1 - h_n) and v_n / (1 - h_n), in float64, with 1 - h_n at least noise / (noise + |s_n|²).
    `root` (M, M), lower triangular, and `mean` (1, M) are those of q(u); the tail is added as it is.
    """
    features, targets = projection.features.double(), y.double()[:, None]
    latent_mean = features @ mean.double().T
    variance = times_lower(features, root.double()).square().sum(dim=1, keepdim=True)
    precision = 1 / likelihood.noise.detach()
    alone = 1 / (1 + precision * (projection.variance - projection.tail).detach()[:, None])
    rest = torch.maximum(1 - variance * precision, alone)
    return targets + (latent_mean - targets) / rest, variance / rest + projection.tail.detach()[:, None]


@dataclass(frozen=True)
class Exact:
    """The optimum in closed form, for the `Gaussian` likelihood: no steps, nothing to tune.

    Noise and amplitude are those with the best leave-one-out predictions, known for every level of noise from one
    eigendecomposition; q(u) follows exactly. Scales stay.

    Parameters
    ----------
    tune : bool, default True
        False leaves noise and amplitude as they are.
    max_tuned : int, default 8000
        At most so many series, drawn at random, decide noise and amplitude; all decide q(u).

    Examples
    --------
    >>> from siggpde import OrthogonalSignatureFeatures, SignatureGP, SignatureKernel, fit, likelihoods
    >>> model = SignatureGP(SignatureKernel(1), OrthogonalSignatureFeatures(1, 3), likelihoods.Gaussian())
    >>> x, y = torch.tensor([[[0.0], [1.0]], [[0.0], [-1.0]]] * 5), torch.tensor([1, 0] * 5)
    >>> history = fit(model, (x, y), Exact(), progress=False)
    >>> model.predict(x[:2])[0].round(decimals=2)
    tensor([1., 0.], dtype=torch.float64)
    """

    tune: bool = True
    max_tuned: int = 8000

    def __post_init__(self) -> None:
        check_positive(self, "max_tuned")

    def phases(self, model: AnyGP) -> list[Phase[Any]]:
        if not model.likelihood.is_gaussian:
            name = type(model.likelihood).__name__
            raise ValueError(f"Exact() is for the Gaussian likelihood, not {name}; take NaturalGradients()")
        if not model.variational.full:
            raise ValueError("Exact() has no covariance='diagonal'; take 'shared' or 'full'")
        return [ExactPosterior(self)]


@dataclass
class ExactState:
    """Whether noise and amplitude are tuned, and the posterior's mean (1, M) and root (M, M), float64, once solved."""

    tuned: bool = False
    mean: Tensor | None = None
    root: Tensor | None = None


class ExactPosterior(Phase[ExactState]):
    """The one phase of `Exact`: noise and amplitude, the posterior, and scores of left-out series."""

    name = "exact"
    max_steps = 3
    time_share = None
    state_type = ExactState

    def __init__(self, schedule: Exact) -> None:
        self.schedule = schedule

    @torch.no_grad()
    def iterate(self, trainer: Trainer) -> str | None:
        if not self.state.tuned:
            if self.schedule.tune:
                self._tune(trainer)
            self.state.tuned = True
        elif self.state.root is None:
            self._solve(trainer)
        else:
            self._score(trainer)
            return "exact"
        return None

    def _tune(self, trainer: Trainer) -> None:
        """Noise and amplitude with the best leave-one-out predictions of a regression on the features."""
        model, rows = trainer.model, _subsample(trainer, self.schedule.max_tuned)
        features = trainer.shard.all_gather(rows, trainer.project(rows).features).double()
        # Noise is tried relative to features of mean square 1, also where the kernel is not normalised.
        size = float(features.square().sum(dim=1).mean())
        features = features / math.sqrt(size)
        y, likelihood = trainer.y[rows].double(), model.likelihood
        spread = float(y.std(correction=0)) or 1.0
        _, noise, amplitude = trainer.ranks.broadcast(lambda: list(best_noise(features, y / spread)))
        amplitude = max(amplitude, _SMALLEST_AMPLITUDE) * spread**2  # constant targets would have none
        model.kernel.log_amplitude.add_(math.log(amplitude / size))
        assert isinstance(likelihood, Gaussian)
        likelihood.log_noise.fill_(math.log(amplitude * noise))

    def _solve(self, trainer: Trainer) -> None:
        q = trainer.model.variational
        exact = VariationalGaussian(q.latents, q.size, "shared", device=q.mean.device)
        chunks = trainer.bar.over(self._chunks(trainer), "adding up")
        batches = ((trainer.project(rows).features, trainer.y[rows]) for rows in chunks)
        if not solve_gaussian(exact, trainer.model.likelihood, batches, ranks=trainer.ranks):
            raise ArithmeticError(
                "the posterior could not be solved: the noise is too small beside the features for double precision; "
                "give the likelihood more noise and Exact(tune=False)"
            )
        q.root.copy_(exact.root.expand_as(q.root))
        q.mean.copy_(exact.mean)
        self.state.mean, self.state.root = exact.mean.detach(), exact.root.detach()[0]

    def _score(self, trainer: Trainer) -> None:
        likelihood = trainer.model.likelihood
        assert isinstance(likelihood, Gaussian)
        assert self.state.root is not None and self.state.mean is not None
        rows = _subsample(trainer, _SCORED_ROWS)
        y, projection = trainer.y[trainer.shard.select(rows)], trainer.project(rows)
        root, mean = (part.to(projection.features.device) for part in (self.state.root, self.state.mean))
        latents = left_out(likelihood, root, mean, projection, y)
        mean, variance = (trainer.shard.all_gather(rows, part) for part in latents)
        nlpp = -float(likelihood.log_predictive(mean, variance, trainer.y[rows]).mean())
        model, fit = trainer.model, 0.0
        for part in trainer.bar.over(self._chunks(trainer), "ELBO"):
            marginals = model.latent_marginals(trainer.project(part))
            fit += float(likelihood.expected_log_prob(*marginals, trainer.y[part]).double().sum())
        (fit_of_ranks,) = trainer.ranks.all_reduce_sum(torch.tensor(fit, dtype=torch.float64))
        elbo = float(fit_of_ranks) - float(model.variational.kl())
        trainer.record(self.name, elbo=elbo / len(trainer.rows("all")), nlpp=nlpp)

    def _chunks(self, trainer: Trainer) -> tuple[Tensor, ...]:
        """All the rows of this rank, 4096 at a time: the closed form needs no validation part."""
        return trainer.shard.select(trainer.rows("all")).split(_CHUNK)


def _subsample(trainer: Trainer, size: int) -> Tensor:
    """At most `size` of all the rows, the same ones at every call."""
    rows = trainer.rows("all")
    if len(rows) <= size:
        return rows
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(trainer.history.seed))
    return rows[order[:size]].sort().values
