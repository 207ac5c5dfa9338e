"""From a batch of series and targets to a committee: screen settings, train members, weigh them.

Every step can be resumed from a checkpoint.
"""

from __future__ import annotations

import logging
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from siggpde.distributed.shard import Shard
from siggpde.ensemble.committee import Committee, Member
from siggpde.ensemble.recalibration import deviations, recalibrate
from siggpde.ensemble.stacking import sharpen, stack
from siggpde.estimators.screening_checkpoint import as_screening, read_screening, write_screening
from siggpde.gp.likelihood_names import LikelihoodName
from siggpde.gp.likelihoods import Bernoulli, Gaussian, LeastSquares, Likelihood, Poisson, RobustMax, Softmax, StudentT
from siggpde.paths import PathOptions, PathTransform, SeriesBatch
from siggpde.paths.sharding import fingerprint
from siggpde.selection.candidates import Candidate, describe, first_round
from siggpde.selection.screening import Screening, screen
from siggpde.training import Exact, NaturalGradients, fit
from siggpde.training.class_link import class_weights
from siggpde.training.left_out import left_out_latents
from siggpde.views import View
from siggpde.views.defaults import KINDS

log = logging.getLogger(__name__)

_MAX_MEMBERS = 4
_MAX_SERIES_OF_COMMITTEES = 20_000
_MAX_SERIES_FOR_WEIGHTS = 2000
_MAX_FLOAT64_BYTES = 2**31  # of the features of all series; above, they are float32
_NOT_IN_FINGERPRINT = ("progress", "checkpoint", "resume", "cache_dir")


@dataclass(frozen=True)
class FitSettings:
    """The checked settings of a fit."""

    likelihood: str
    members: int | None
    n_features: int
    options: PathOptions | None
    class_weight: tuple[float, ...] | None
    max_iter: int
    time_limit: float | None
    seed: int
    dtype: torch.dtype | None
    progress: bool | None
    checkpoint: Path | None
    resume: bool
    cache_dir: Path | None = None
    views: tuple[tuple[str, ...], tuple[View, ...]] = (KINDS, ())
    keep_series: bool = True


def fit_committee(batch: SeriesBatch, y: Tensor, classes: int | None, settings: FitSettings, shard: Shard) -> Committee:
    """Members trained on all the series, and their weights. y: labels 0..classes-1, or numbers for None.

    `batch` are the series of this rank's `shard`, padded as those of all; y are the targets of all.
    """
    started = time.perf_counter()
    exact = LikelihoodName(settings.likelihood).closed_form
    screening = _screening(batch, y, settings, shard)
    large = shard.total > _MAX_SERIES_OF_COMMITTEES
    wanted = settings.members or (_MAX_MEMBERS if exact and not large else 1)
    members: list[Member] = []
    for index, choice in enumerate([screening, *screening.others][:wanted]):
        rest = None
        if settings.time_limit is not None:
            spent = shard.ranks.broadcast_value(time.perf_counter() - started)
            if members and spent > settings.time_limit:
                log.info("time limit: %d of %d members were trained", index, wanted)
                break
            rest = max(1.0, settings.time_limit - spent)
        members.append(_train_member(index, choice, batch, y, classes, settings, rest, shard))
    if exact:
        return _weighted_committee(members, batch, y, shard)
    return Committee(members, torch.full((len(members),), 1 / len(members), dtype=torch.float64, device=y.device))


def _screening(batch: SeriesBatch, y: Tensor, settings: FitSettings, shard: Shard) -> Screening:
    path = None if settings.checkpoint is None else settings.checkpoint / "screening.pt"
    run = "" if path is None else data_fingerprint(batch, y, shard, settings)
    if path is not None and settings.resume:
        state = shard.ranks.broadcast(lambda: read_screening(path, run) if path.exists() else None)
        if state is not None:
            return as_screening(state).to(batch.values.device)
    if path is not None and shard.ranks.leads:
        # Members that an earlier fit left would be taken for those of this fit when it is resumed.
        for old in [path, *path.parent.glob("member-*.pt")]:
            old.unlink(missing_ok=True)
    candidates = None
    if settings.options is not None:
        every = first_round(batch.channels, settings.n_features)
        candidates = list(dict.fromkeys(Candidate(settings.options, c.path_length, c.time_scale, c.words, c.degree)
                                        for c in every))  # fmt: skip
    limit = None if settings.time_limit is None else settings.time_limit / 2
    # The latent of counts is the logarithm of their rate: the screening compares on that scale.
    target = (y + 0.5).log() if settings.likelihood == "poisson" else y
    screening = screen(
        batch, target[shard.rows], candidates=candidates, max_words=settings.n_features, seed=settings.seed,
        time_limit=limit, progress=settings.progress, ranks=shard.ranks,
    )  # fmt: skip
    tried, best = len(screening.report), describe(screening.candidate)
    log.info("screened %d settings in %.1f s; best: %s", tried, screening.seconds, best)
    if path is not None and shard.ranks.leads:
        write_screening(path, screening, run)
    return screening


def _train_member(
    index: int,
    choice: Screening,
    batch: SeriesBatch,
    y: Tensor,
    classes: int | None,
    settings: FitSettings,
    time_limit: float | None,
    shard: Shard,
) -> Member:
    transform = choice.transform
    if shard.total > choice.series:  # standardise by all the series, not by those that were screened
        transform = PathTransform(transform.options).fit(batch, ranks=shard.ranks)
    dtype = settings.dtype
    if dtype is None:
        large = shard.total * len(choice.words) * 8 > _MAX_FLOAT64_BYTES
        dtype = torch.float32 if large else torch.float64
    likelihood = make_likelihood(settings, classes, choice)
    model = choice.build(likelihood, dtype=dtype)
    exact = likelihood.is_gaussian
    schedule = Exact() if exact else NaturalGradients(max_iter=settings.max_iter)
    paths = transform.paths(batch)
    try:
        history = fit(
            model,
            (paths.values, y[shard.rows]),
            schedule,
            lengths=paths.lengths,
            validation=0.0 if exact else 0.2,
            seed=settings.seed,
            time_limit=time_limit,
            progress=settings.progress,
            checkpoint=None if settings.checkpoint is None else settings.checkpoint / f"member-{index + 1}.pt",
            checkpoint_every=30.0,
            resume=settings.resume,
            screening=None if exact else choice,
            cache_dir=settings.cache_dir,
            ranks=shard.ranks,
        )
    except torch.linalg.LinAlgError as error:  # pyright: ignore[reportPrivateImportUsage]
        raise ArithmeticError(
            f"the fit with likelihood={settings.likelihood!r} left the range of numbers ({error}); look for outliers "
            "in X and y, or take likelihood='auto'"
        ) from error
    score = next((record.nlpp for record in reversed(history.records) if record.nlpp is not None), None)
    log.info("member %d, %s: %s", index + 1, describe(choice.candidate), history)
    origin = {**asdict(choice.candidate), "used_words": len(choice.words), "screened": choice.result.score}
    return Member(transform, model, origin, score, history)


def make_likelihood(settings: FitSettings, classes: int | None, choice: Screening) -> Likelihood:
    """The likelihood of the settings; for "auto" least squares for classes and Gaussian for numbers."""
    name, weight = settings.likelihood, settings.class_weight
    _, noise = choice.amplitude_and_noise()
    if classes is None:
        if name == "student_t":
            return StudentT(scale=max(noise, 1e-12) ** 0.5)
        return Poisson() if name == "poisson" else Gaussian(noise=noise)
    if name == "softmax":
        return Softmax(classes, class_weight=weight)
    if name == "robustmax":
        return RobustMax(classes, class_weight=weight)
    if name == "bernoulli":
        return Bernoulli(class_weight=weight)
    return LeastSquares(classes, noise=noise, temperature=choice.result.temperature, class_weight=weight)


def _weighted_committee(members: list[Member], batch: SeriesBatch, y: Tensor, shard: Shard) -> Committee:
    """The committee with weights by stacking, and with sharpness (classes) or recalibration (numbers).

    All from predictions of left-out series, at most 2000 of them, evenly spaced.
    """
    rows = torch.arange(0, len(y), max(1, -(-len(y) // _MAX_SERIES_FOR_WEIGHTS)))
    local_rows, targets = shard.select(rows), y[rows]
    local = batch[shard.local_index(local_rows)]
    densities, means, variances, probabilities = [], [], [], []
    for member in members:
        latents = []
        for chunk in local.split(512):
            chunk_targets = y[local_rows[chunk.first : chunk.first + len(chunk)]]
            paths = member.paths(chunk)
            latents.append(left_out_latents(member.model, paths.values, chunk_targets, paths.lengths))
        mean, variance = (shard.all_gather(rows, torch.cat(chunks)) for chunks in zip(*latents, strict=True))
        likelihood = member.model.likelihood
        densities.append(likelihood.log_predictive(mean, variance, targets).double())
        if isinstance(likelihood, Gaussian):
            mean, variance = likelihood.predict(mean, variance)
            means.append(mean.double())
            variances.append(variance.double())
        else:
            probabilities.append(likelihood.predict(mean, variance).double())
    weights = stack(torch.stack(densities))
    if probabilities:
        likelihood = members[0].model.likelihood
        assert isinstance(likelihood, LeastSquares)
        average = (weights[:, None, None] * torch.stack(probabilities)).sum(dim=0)
        return Committee(members, weights, None, sharpen(average, targets, class_weights(likelihood, targets)))
    z = deviations(targets.double(), torch.stack(means), torch.stack(variances).sqrt(), weights)
    return Committee(members, weights, recalibrate(z))


def data_fingerprint(batch: SeriesBatch, y: Tensor, shard: Shard, settings: FitSettings | None = None) -> str:
    """A hash of the training data, and of the settings that affect the result; the same for any number of ranks."""
    relevant = None
    if settings is not None:
        relevant = {k: v for k, v in asdict(settings).items() if k not in _NOT_IN_FINGERPRINT}
    return fingerprint(shard, batch, y, relevant)
