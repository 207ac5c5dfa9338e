"""`method="paper"`: SigGPDE as published, one model behind the estimators' interface."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from siggpde.committee.committee import Committee, Latents
from siggpde.committee.mixture import NormalMixture, Recalibration
from siggpde.committee.novelty import Novelty, Scores
from siggpde.distributed.shard import Shard
from siggpde.estimators.settings import FitSettings, Validation
from siggpde.estimators.targets import SampleInfo
from siggpde.gp.features import OrthogonalSignatureFeatures
from siggpde.gp.kernel import SignatureKernel, lengthscales
from siggpde.gp.likelihoods import Bernoulli, Gaussian, Likelihood, Poisson, RobustMax, Softmax, StudentT
from siggpde.gp.model import SignatureGP
from siggpde.gp.natural_gradients import update_posterior
from siggpde.gp.phases import PaperSchedule
from siggpde.gp.trainer import History
from siggpde.gp.training import fit
from siggpde.numerics.signature_kernel import signature_kernel_diag
from siggpde.persistence import model_from_state, model_state
from siggpde.series import PathOptions, PathTransform, SeriesBatch
from siggpde.series.batch import all_gather_series

log = logging.getLogger(__name__)

PAPER_PATH = PathOptions(base_point=False, clock="points")

_EVALUATIONS = 20  # of a phase: every 250 of 5000 iterations, as in the paper's experiments
_TOL, _ROUGH_TOL = 1e-6, 1e-2
_MAX_LOG_NORM = 10.0
_SHRINK, _MAX_SHRINKS = 0.9, 100
_SERIES_FOR_SCALES = 200
_SERIES_FOR_NOVELTY = 1000
_CHUNK = 1024
_MAX_FLOAT64_BYTES = 2**31  # of the features of all series; above, they are float32


def fit_by_the_paper(
    batch: SeriesBatch, y: Tensor, classes: int | None, settings: FitSettings, info: SampleInfo, shard: Shard
) -> PaperModel:
    """The fitted model of the series of this rank's `shard` and the targets y of all: labels, or numbers for None."""
    transform = PathTransform(settings.options or PAPER_PATH).fit(batch, ranks=shard.ranks)
    paths = transform.paths(batch)
    model = paper_model(paths, paper_likelihood(settings, classes), settings, shard)
    checkpoint = None if settings.checkpoint is None else settings.checkpoint / "member-1.pt"
    if checkpoint is not None and not settings.resume and shard.ranks.leads:
        checkpoint.unlink(missing_ok=True)
    history = fit(
        model,
        (paths.values, y[shard.rows]),
        PaperSchedule(
            settings.max_iter,
            settings.batch_size,
            settings.learning_rate,
            settings.evaluate_every or max(1, settings.max_iter // _EVALUATIONS),
        ),
        lengths=paths.lengths,
        sample_weight=None if info.weights is None else info.weights[shard.rows],
        validation=_validation(settings, info),
        seed=settings.seed,
        time_limit=settings.time_limit,
        progress=settings.progress,
        checkpoint=checkpoint,
        checkpoint_every=30.0,
        resume=settings.resume,
        cache_dir=settings.cache_dir,
        ranks=shard.ranks,
    )
    log.info("method 'paper', %d words: %s", model.features.size, history)
    origin = {"method": "paper", "options": asdict(transform.options), "used_words": model.features.size}
    scores = [record.nlpp for record in history.of("hyperparameters") if record.nlpp is not None]
    committee = PaperModel(transform, model, origin, min(scores, default=None), history).to(y.device)
    if batch.statistics is not None:
        committee.novelty = Novelty.of_some(
            _SERIES_FOR_NOVELTY,
            committee.weights,
            batch.statistics,
            shard,
            lambda some: committee.member_latents(batch[some])[1].mean(2),  # by the model that has seen them
            None if classes is None else y[shard.rows],
        )
    return committee


def paper_model(paths: SeriesBatch, likelihood: Likelihood, settings: FitSettings, shard: Shard) -> SignatureGP:
    """The model before training, on the device of the paths."""
    dtype = settings.dtype
    if dtype is None:
        large = shard.total * settings.n_features * 8 > _MAX_FLOAT64_BYTES
        dtype = torch.float32 if large else torch.float64
    theta = starting_scales(paths, shard, settings.seed) if settings.theta is None else settings.theta
    kernel = SignatureKernel(paths.channels, theta=theta, tol=_TOL)
    features = OrthogonalSignatureFeatures(paths.channels, settings.n_features, "lexicographic")
    return SignatureGP(kernel, features, likelihood, dtype=dtype).to(paths.values.device)


def paper_likelihood(settings: FitSettings, classes: int | None) -> Likelihood:
    """The likelihood of the settings; for "auto" RobustMax, for two classes a probit link, for numbers Gaussian."""
    name, weight = settings.likelihood, settings.class_weight
    if classes is None:
        return {"student_t": StudentT, "poisson": Poisson}.get(name, Gaussian)()
    if name == "softmax":
        return Softmax(classes, class_weight=weight)
    if name == "bernoulli" or (name == "auto" and classes == 2):
        return Bernoulli(class_weight=weight)
    return RobustMax(classes, class_weight=weight)


@torch.no_grad()
def starting_scales(paths: SeriesBatch, shard: Shard, seed: int) -> Tensor:
    """Scales theta (channels,) that training starts from: those of the paper's experiments, about 1 / sqrt(2 d) for d
    channels of unit spread; lowered, with a warning, until k(X, X), which grows exponentially in the length of a path,
    is at most e^10 for each of up to 200 series."""
    random = torch.Generator().manual_seed(seed)
    theta = usual = 1 / lengthscales(paths.values, paths.lengths, random, shard.ranks).cpu()
    first = None
    rows = torch.arange(0, shard.total, max(1, -(-shard.total // _SERIES_FOR_SCALES)))
    sample = all_gather_series(shard, rows, paths)
    for _ in range(_MAX_SHRINKS):
        scaled = sample.values * theta.to(sample.values)
        norms = signature_kernel_diag(scaled, lengths=sample.lengths, tol=_ROUGH_TOL, log=True)
        largest = shard.ranks.broadcast_value(float(norms.max()))
        first = largest if first is None else first
        if largest <= _MAX_LOG_NORM:
            break
        # log k grows by theta^4 at the most, at first
        theta = theta * min(_SHRINK, (_MAX_LOG_NORM / largest) ** 0.25)
    if theta is not usual and shard.ranks.leads:
        log.warning(
            "at the scales that the paper's experiments start from, k(X, X) of a series would be e^%.0f: training "
            "starts from %.3g times these scales; give theta to start elsewhere",
            first,
            float(theta[0] / usual[0]),
        )
    return theta


def _validation(settings: FitSettings, info: SampleInfo) -> Validation:
    """The share of series that judges hyperparameters, or the rows for both parts; of groups whole ones are drawn."""
    if info.groups is None or not isinstance(settings.validation, float):
        return settings.validation
    groups = info.groups
    numbers, counts = groups.cpu().unique(return_counts=True)
    order = torch.randperm(len(numbers), generator=torch.Generator().manual_seed(settings.seed))
    before = counts[order].cumsum(0) - counts[order]
    held = torch.isin(groups.cpu(), numbers[order[before < settings.validation * len(groups)]])
    return (~held).nonzero()[:, 0].tolist(), held.nonzero()[:, 0].tolist()


@dataclass
class PaperModel(Committee):
    """A `SignatureGP` and the transform that makes its paths; it is its own only member.

    `score` is the validation NLPP, `history` None for a loaded model. Models saved by early versions have a
    `recalibration` of the tails of numbers, and a `sharpness`, the power of class probabilities.
    """

    method: ClassVar[str] = "paper"
    left_out = landmarks = link = None
    blocks = tried = ()

    transform: PathTransform
    model: SignatureGP
    settings: dict[str, Any]
    score: float | None
    history: History | None = None
    novelty: Novelty | None = None
    recalibration: Recalibration | None = None
    sharpness: float = 1.0
    weights: Tensor = field(default_factory=lambda: torch.ones(1, dtype=torch.float64))

    @property
    def members(self) -> Sequence[PaperModel]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return (self,)

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def iterations(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return 1 if self.history is None else max(1, len(self.history.records), sum(self.history.steps.values()))

    @property
    def classes(self) -> int | None:
        return getattr(self.model.likelihood, "classes", None)

    @property
    def likelihood_name(self) -> str:
        return type(self.model.likelihood).__name__

    def to(self, device: torch.device | str) -> PaperModel:
        self.model.to(device)
        self.transform.to(device)
        self.weights = self.weights.to(device)
        return self

    def paths(self, batch: SeriesBatch) -> SeriesBatch:
        return self.transform.paths(batch)

    @torch.no_grad()
    def member_latents(self, batch: SeriesBatch) -> tuple[Tensor, Tensor]:
        """Returns means and variances of the latents, two (1, n, latents) in float64."""
        prediction = self._look(batch)
        return prediction.mean.double()[None], prediction.variance.double()[None]

    def _look(self, batch: SeriesBatch) -> PaperPrediction:
        chunks = map(self.paths, batch.split(_CHUNK))
        pairs = [self.model.predict_f(paths.values, lengths=paths.lengths) for paths in chunks]
        mean, variance = (torch.cat(parts) for parts in zip(*pairs, strict=True))
        return PaperPrediction(self, mean, variance)

    @torch.no_grad()
    def predict(self, batch: SeriesBatch) -> PaperPrediction:
        prediction = self._look(batch)
        if self.novelty is not None and batch.statistics is not None:
            prediction.scores = self.novelty.scores(prediction.variance.double().mean(1)[None], batch.statistics)
        return prediction

    def update(self, batch: SeriesBatch, y: Tensor) -> None:
        """Updates q(u) by natural gradients."""
        before = {name: value.clone() for name, value in self.model.state_dict().items()}
        paths = self.paths(batch)
        try:
            update_posterior(self.model, paths.values, y.to(self.device), lengths=paths.lengths)
        except BaseException:
            self.model.load_state_dict(before)
            raise

    def state(self) -> dict[str, Any]:
        """Returns the entries of a manifest and, as "tensors", the tensors by their names."""
        tensors, settings = model_state(self.model)
        member = {
            "model": settings,
            "transform": self.transform.state(),
            "settings": self.settings,
            "score": self.score,
            "history": None if self.history is None else {"phases": self.history.phase_seconds},
        }
        recalibration, novelty = self.recalibration, self.novelty
        return {
            "tensors": {"weights": self.weights, **{f"member0.{name}": part for name, part in tensors.items()}},
            "members": [member],
            "sharpness": self.sharpness,
            **({} if recalibration is None else {"recalibration": vars(recalibration).copy()}),
            **({} if novelty is None else {"novelty": novelty.state()}),
        }

    @staticmethod
    def from_state(state: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> PaperModel:
        """Returns the model of the entries of a manifest and the `tensors` of its Gaussian process."""
        member, recalibration, novelty = state["members"][0], state.get("recalibration"), state.get("novelty")
        return PaperModel(
            PathTransform.from_state(member["transform"]),
            model_from_state(dict(tensors), member["model"]),
            dict(member["settings"]),
            member["score"],
            novelty=None if novelty is None else Novelty.from_state(novelty),
            recalibration=None if recalibration is None else Recalibration(**recalibration),
            sharpness=float(state.get("sharpness", 1.0)),
        )


@dataclass
class PaperPrediction:
    """Mean and variance of the latents of n series, two (n, latents), and their scores of novelty or None."""

    committee: PaperModel
    mean: Tensor
    variance: Tensor
    scores: Scores | None = None

    def latents(self) -> Latents:
        return Latents(self.mean.double(), self.variance.double())

    @torch.no_grad()
    def probabilities(self) -> Tensor:
        probabilities = self._likelihood.predict(self.mean, self.variance).double()
        if self.committee.sharpness != 1.0:
            probabilities = probabilities**self.committee.sharpness
        probabilities = probabilities / probabilities.sum(dim=1, keepdim=True)
        novelty = self.committee.novelty
        if self.scores is None or novelty is None:
            return probabilities
        return novelty.mixed(probabilities, self.scores.score, novelty.frequencies)

    def probability_spread(self) -> Tensor:
        raise ValueError(
            "return_std=True is for likelihood='auto' and method='views'; latent(X) has the spread of the latents"
        )

    @torch.no_grad()
    def mean_and_variance(self) -> tuple[Tensor, Tensor]:
        return self._mixture().mean_and_variance()

    @torch.no_grad()
    def quantiles(self, levels: list[float]) -> Tensor:
        if self._likelihood.is_gaussian:
            return self._mixture().quantiles(levels)
        columns = [self._likelihood.quantile(self.mean, self.variance, level).double() for level in levels]
        return torch.stack(columns, dim=1)

    @torch.no_grad()
    def log_predictive(self, y: Tensor) -> Tensor:
        y, novelty = y.to(self.committee.device), self.committee.novelty
        if self.committee.recalibration is not None:
            return self._mixture().log_density(y)
        if self.committee.sharpness != 1.0:
            return self.probabilities().log().gather(1, y.long()[:, None])[:, 0]
        density = self._likelihood.log_predictive(self.mean, self.variance, self.committee.model.targets(y)).double()
        if self.scores is None or novelty is None or novelty.labels is None:
            return density
        return novelty.mixed(density.exp(), self.scores.score, novelty.frequencies[y.long().cpu()]).log()

    @property
    def _likelihood(self) -> Any:
        return self.committee.model.likelihood

    def _mixture(self) -> NormalMixture:
        mean, variance = (part.double()[None] for part in self._likelihood.predict(self.mean, self.variance))
        return NormalMixture(mean, variance, self.committee.weights, self.committee.recalibration)
