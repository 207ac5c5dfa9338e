"""From a clean batch of series and targets to a committee: screen, train, weigh; resumable at every step."""

from __future__ import annotations

import logging
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from siggpde.distributed.shard import Shard, fingerprint, pad_to_longest
from siggpde.ensemble.committee import Committee, Member, sharpen, stack
from siggpde.ensemble.recalibration import deviations, recalibrate
from siggpde.estimators.screening_file import as_screening, read_screening, write_screening
from siggpde.gp.likelihoods import Bernoulli, Gaussian, LeastSquares, Likelihood, Poisson, RobustMax, Softmax, StudentT
from siggpde.paths import PathOptions, SeriesBatch
from siggpde.selection.candidates import Candidate, first_round
from siggpde.selection.screening import Screening, screen
from siggpde.training import Exact, NaturalGradients, fit
from siggpde.training.class_link import class_weights
from siggpde.training.phases.exact import left_out_latents

log = logging.getLogger(__name__)

CLASSIFIERS = ("auto", "least_squares", "softmax", "bernoulli", "robustmax")
REGRESSORS = ("auto", "gaussian", "student_t", "poisson")
MOST_MEMBERS = 4
_MANY = 20_000
_ROWS_FOR_WEIGHTS = 2000
_BYTES_IN_DOUBLE = 2**31
_NOT_IN_FINGERPRINT = ("progress", "checkpoint", "resume", "cache_dir")


@dataclass(frozen=True)
class FitSettings:
    """What a fit needs to know besides the data; everything here is decided before it starts."""

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


def fit_committee(batch: SeriesBatch, y: Tensor, classes: int | None, settings: FitSettings, shard: Shard) -> Committee:
    """Members trained on all the series, and their weights. y: labels 0..classes-1, or numbers for None.

    `batch` are the series of this rank's `shard`, padded as those of all; y are the targets of all.
    """
    started = time.perf_counter()
    exact = settings.likelihood in ("auto", "least_squares", "gaussian")
    found = _screening(batch, y, settings, shard)
    wanted = settings.members or (MOST_MEMBERS if exact and shard.total <= _MANY else 1)
    members: list[Member] = []
    for place, choice in enumerate([found, *found.others][:wanted]):
        spent = shard.ranks.broadcast_value(time.perf_counter() - started)
        if members and settings.time_limit is not None and spent > settings.time_limit:
            log.info("time limit: %d of %d members were trained", place, wanted)
            break
        rest = None if settings.time_limit is None else max(1.0, settings.time_limit - spent)
        members.append(_member(place, choice, batch, y, classes, settings, rest, shard))
    if exact:
        return _weighed(members, batch, y, shard)
    return Committee(members, torch.full((len(members),), 1 / len(members), dtype=torch.float64, device=y.device))


def _screening(batch: SeriesBatch, y: Tensor, settings: FitSettings, shard: Shard) -> Screening:
    path = None if settings.checkpoint is None else settings.checkpoint / "screening.pt"
    mark = "" if path is None else data_fingerprint(batch, y, shard, settings)
    if path is not None and settings.resume:
        state = shard.ranks.broadcast(lambda: read_screening(path, mark) if path.exists() else None)
        if state is not None:
            return as_screening(state).to(batch.values.device)
    if (
        path is not None and shard.ranks.leads
    ):  # a member that an earlier fit left would be taken for one of this fit when it is resumed
        for old in [path, *path.parent.glob("member-*.pt")]:
            old.unlink(missing_ok=True)
    candidates = None
    if settings.options is not None:
        every = first_round(batch.values.shape[2], settings.n_features)
        candidates = list(dict.fromkeys(Candidate(settings.options, c.path_length, c.time_scale, c.words, c.degree)
                                        for c in every))  # fmt: skip
    limit = None if settings.time_limit is None else settings.time_limit / 2
    # The latent of counts is the logarithm of their rate, and so large as that, not as the counts.
    target = (y + 0.5).log() if settings.likelihood == "poisson" else y
    found = screen(
        batch.values, _own(target, shard), lengths=batch.lengths, times=batch.times, candidates=candidates,
        max_words=settings.n_features, seed=settings.seed, time_limit=limit, progress=settings.progress,
        ranks=shard.ranks,
    )  # fmt: skip
    log.info("screened %d settings in %.1f s; best: %s", len(found.report), found.seconds, describe(found.candidate))
    if path is not None and shard.ranks.leads:
        write_screening(path, found, mark)
    return found


def _member(
    place: int,
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
        transform = type(transform)(transform.options)
        transform.fit(batch.values, lengths=batch.lengths, times=batch.times, ranks=shard.ranks)
    dtype = settings.dtype
    if dtype is None:
        large = shard.total * len(choice.words) * 8 > _BYTES_IN_DOUBLE
        dtype = torch.float32 if large else torch.float64
    likelihood = make_likelihood(settings, classes, choice)
    model = choice.build(likelihood, dtype=dtype)
    exact = likelihood.is_gaussian
    schedule = Exact() if exact else NaturalGradients(max_iter=settings.max_iter)
    paths, lengths = transform(batch.values, lengths=batch.lengths, times=batch.times)
    try:
        history = fit(
            model,
            (paths, _own(y, shard)),
            schedule,
            lengths=lengths,
            validation=0.0 if exact else 0.2,
            seed=settings.seed,
            time_limit=time_limit,
            progress=settings.progress,
            checkpoint=None if settings.checkpoint is None else settings.checkpoint / f"member-{place + 1}.pt",
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
    log.info("member %d, %s: %s", place + 1, describe(choice.candidate), history)
    facts = {**asdict(choice.candidate), "used_words": len(choice.words), "screened": choice.result.score}
    return Member(transform, model, facts, score, history)


def make_likelihood(settings: FitSettings, classes: int | None, choice: Screening) -> Likelihood:
    """The likelihood asked for, or the one that suits the data."""
    name, weight = settings.likelihood, settings.class_weight
    amplitude = max(choice.result.amplitude, 1e-8) * choice.y_scale**2
    noise = amplitude * choice.result.noise
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


def _weighed(members: list[Member], batch: SeriesBatch, y: Tensor, shard: Shard) -> Committee:
    """Weights by stacking on left-out series, at most 2000 of them, evenly spaced; for numbers their tails too."""
    rows = torch.arange(0, len(y), max(1, -(-len(y) // _ROWS_FOR_WEIGHTS)))
    held, targets = shard.select(rows), y[rows]
    picked = batch[shard.local_index(held)]
    densities, means, variances, chances = [], [], [], []
    for member in members:
        latents = []
        for piece in picked.split(512):
            own = y[held[piece.first : piece.first + len(piece)]]
            paths, lengths = member.paths(piece)
            latents.append(left_out_latents(member.model, paths, own, lengths))
        mean, variance = (shard.all_gather(rows, torch.cat(parts)) for parts in zip(*latents, strict=True))
        likelihood = member.model.likelihood
        densities.append(likelihood.log_predictive(mean, variance, targets).double())
        if isinstance(likelihood, Gaussian):
            mean, variance = likelihood.predict(mean, variance)
            means.append(mean.double())
            variances.append(variance.double())
        else:
            chances.append(likelihood.predict(mean, variance).double())
    weights = stack(torch.stack(densities))
    if chances:
        likelihood = members[0].model.likelihood
        assert isinstance(likelihood, LeastSquares)
        average = (weights[:, None, None] * torch.stack(chances)).sum(dim=0)
        return Committee(members, weights, None, sharpen(average, targets, class_weights(likelihood, targets)))
    z = deviations(targets.double(), torch.stack(means), torch.stack(variances).sqrt(), weights)
    return Committee(members, weights, recalibrate(z))


def data_fingerprint(batch: SeriesBatch, y: Tensor, shard: Shard, settings: FitSettings | None = None) -> str:
    """A hash of the training data, and of the settings that decide what is made of it; the same for any ranks."""
    facts = None
    if settings is not None:
        facts = {k: v for k, v in asdict(settings).items() if k not in _NOT_IN_FINGERPRINT}
    return fingerprint(shard, [batch.values, batch.times], batch.lengths, y, facts)


def padded_alike(batch: SeriesBatch, shard: Shard) -> SeriesBatch:
    """The series of this rank, as long as the longest of all ranks, and numbered among all."""
    values, lengths = pad_to_longest(batch.values, batch.lengths, shard.ranks)
    times = None if batch.times is None else pad_to_longest(batch.times, None, shard.ranks)[0]
    return SeriesBatch(values, lengths, times, shard.first)


def _own(y: Tensor, shard: Shard) -> Tensor:
    return y[shard.first : shard.first + shard.size]


def describe(candidate: Candidate) -> str:
    """A candidate in a few words."""
    options = candidate.options
    parts = ["base point" if options.base_point else "no base point"]
    parts += [f"{options.append} channels"] if options.append == "variation" else []
    parts += ["arc-length channel"] if options.append == "arc" else []
    parts += ["lead-lag"] if options.lead_lag else []
    parts += [f"difference {options.difference}"] if options.difference else []
    parts += [f"words of degree {candidate.degree}"] if candidate.degree else []
    return ", ".join([*parts, f"path length {candidate.path_length:.3g}", f"weight of time {candidate.time_scale:.3g}"])
