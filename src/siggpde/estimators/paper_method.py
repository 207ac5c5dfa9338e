"""`method="paper"`: SigGPDE as published, one model behind the estimators' interface.

Time and the standardised channels are the path. The covariance is the untruncated signature kernel, whose diagonal and
gradients come from its PDE, with learned channel scales and amplitude. The first M words are the inducing variables and
three phases of Nadam train everything. C_uu = I: nothing is inverted or factorised, in training or in prediction.
"""

from __future__ import annotations

import logging
from dataclasses import asdict

import torch
from torch import Tensor

from siggpde.committee.novelty import Novelty
from siggpde.distributed.shard import Shard
from siggpde.estimators.paper_model import PaperModel
from siggpde.estimators.settings import FitSettings
from siggpde.estimators.targets import Beside
from siggpde.gp.features import OrthogonalSignatureFeatures
from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.likelihoods import Bernoulli, Gaussian, Likelihood, Poisson, RobustMax, Softmax, StudentT
from siggpde.gp.model import SignatureGP
from siggpde.gp.phases import PaperSchedule
from siggpde.gp.trainer import History
from siggpde.gp.training import fit
from siggpde.numerics.signature_kernel import signature_kernel_diag
from siggpde.series import PathOptions, PathTransform, SeriesBatch
from siggpde.series.batch import all_gather_series

log = logging.getLogger(__name__)

PAPER_PATH = PathOptions(base_point=False)

_BATCH = 50
_VALIDATION = 0.2
_EVALUATIONS = 20  # of a phase: every 250 of 5000 iterations, as in the paper's experiments
_TOL, _ROUGH_TOL = 1e-6, 1e-2
_MAX_LOG_NORM = 10.0
_SHRINK, _MAX_SHRINKS = 0.9, 100
_SERIES_FOR_SCALES = 200
_SERIES_FOR_NOVELTY = 1000
_MAX_FLOAT64_BYTES = 2**31  # of the features of all series; above, they are float32


def fit_by_the_paper(
    batch: SeriesBatch, y: Tensor, classes: int | None, settings: FitSettings, beside: Beside, shard: Shard
) -> PaperModel:
    """The fitted model. y: labels 0..classes-1, or numbers for None.

    `batch` are the series of this rank's `shard`, padded as those of all; y are the targets of all. Validation leaves
    out whole groups; weights of series, on average 1, count in training and in validation scores.
    """
    transform = PathTransform(settings.options or PAPER_PATH).fit(batch, ranks=shard.ranks)
    paths = transform.paths(batch)
    model = paper_model(paths, paper_likelihood(settings, classes), settings, shard)
    checkpoint = None if settings.checkpoint is None else settings.checkpoint / "member-1.pt"
    if checkpoint is not None and not settings.resume and shard.ranks.leads:
        checkpoint.unlink(missing_ok=True)
    history = fit(
        model,
        (paths.values, y[shard.rows]),
        PaperSchedule(settings.max_iter, _BATCH, evaluate_every=max(1, settings.max_iter // _EVALUATIONS)),
        lengths=paths.lengths,
        sample_weight=None if beside.weights is None else beside.weights[shard.rows],
        validation=_VALIDATION if beside.groups is None else _split_by_groups(beside.groups, settings.seed),
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
    committee = PaperModel(transform, model, origin, _best_nlpp(history), history).to(y.device)
    if batch.facts is not None:
        committee.novelty = Novelty.of_some(
            _SERIES_FOR_NOVELTY,
            committee.weights,
            batch.facts,
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
    kernel = SignatureKernel(paths.channels, theta=starting_scales(paths, shard), tol=_TOL)
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
def starting_scales(paths: SeriesBatch, shard: Shard) -> Tensor:
    """Scales theta (channels,) that training starts from.

    1 / sqrt(2 d) for d channels of unit spread: two points then have mean squared distance 1. Where k(X, X) of one of
    up to 200 series is above e^10, as for long or rough series, all scales are lowered until none is: k grows
    exponentially in the length of a path.
    """
    channels = paths.channels
    theta = torch.full((channels,), (2 * channels) ** -0.5, dtype=torch.float64)
    rows = torch.arange(0, shard.total, max(1, -(-shard.total // _SERIES_FOR_SCALES)))
    sample = all_gather_series(shard, rows, paths)
    for _ in range(_MAX_SHRINKS):
        scaled = sample.values * theta.to(sample.values)
        norms = signature_kernel_diag(scaled, lengths=sample.lengths, tol=_ROUGH_TOL, log=True)
        largest = shard.ranks.broadcast_value(float(norms.max()))
        if largest <= _MAX_LOG_NORM:
            break
        theta *= min(_SHRINK, (_MAX_LOG_NORM / largest) ** 0.25)  # log k grows by theta^4 at the most, at first
    return theta


def _split_by_groups(groups: Tensor, seed: int) -> tuple[list[int], list[int]]:
    """Rows for training and for validation, of which groups drawn at random make up a fifth or a little more."""
    numbers, counts = groups.cpu().unique(return_counts=True)
    order = torch.randperm(len(numbers), generator=torch.Generator().manual_seed(seed))
    before = counts[order].cumsum(0) - counts[order]
    held = torch.isin(groups.cpu(), numbers[order[before < _VALIDATION * len(groups)]])
    return (~held).nonzero()[:, 0].tolist(), held.nonzero()[:, 0].tolist()


def _best_nlpp(history: History) -> float | None:
    """The validation NLPP of the state that the second phase ended with; None where there were no validation series."""
    scores = [record.nlpp for record in history.of("hyperparameters") if record.nlpp is not None]
    return min(scores, default=None)
