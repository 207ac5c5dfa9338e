"""From a committee of regressions to one with another likelihood, and its updates with new series.

The recipes of kernels are chosen in closed form (`committee.fitting`); what the regression of a recipe knows of noise,
amplitude and temperature is where its `FeatureGP` starts. Amplitude and likelihood are learned by the ELBO; how far
class latents can be trusted is then learned from left-out series.
"""

from __future__ import annotations

import copy
import logging
import time
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from siggpde.committee.feature_gp import FeatureGP, Features, leading_whitening
from siggpde.committee.fit_checkpoint import FitCheckpoint
from siggpde.committee.natural_ascent import Ascent
from siggpde.committee.novelty import Novelty
from siggpde.committee.starting import Start
from siggpde.committee.variational_calibration import fit_scale, left_out_latents
from siggpde.committee.variational_views import VariationalMember, VariationalViewCommittee
from siggpde.committee.view_committee import ViewCommittee
from siggpde.distributed.shard import Shard
from siggpde.gp.likelihoods.base import Classification
from siggpde.progress import Progress
from siggpde.series import SeriesBatch
from siggpde.training.history import History, Record
from siggpde.training.new_series import settle_from_posterior
from siggpde.training.posterior_update import in_batches
from siggpde.views.base import Rows

log = logging.getLogger(__name__)

_JOINT = 20_000  # series that amplitude and likelihood are learned from; q(u) sees all of them
_SCALED = 1000  # series that the scale of class latents is learned from


@dataclass(frozen=True)
class AscentSettings:
    """At most `max_iter` steps with and as many without learning amplitude and likelihood, until `deadline` (a time of
    `time.perf_counter`)."""

    max_iter: int = 60
    deadline: float | None = None
    progress: bool | None = False


def fit_variational(
    chosen: ViewCommittee,
    batch: SeriesBatch,
    y: Tensor,
    start: Start,
    settings: AscentSettings,
    shard: Shard,
    checkpoint: FitCheckpoint | None = None,
) -> VariationalViewCommittee:
    """The committee with the recipes, landmarks and weights of `chosen`, and the likelihood of `start`.

    `batch` and `y` are the series of this rank and their targets, as the likelihood takes them.
    """
    checkpoint = checkpoint or FitCheckpoint(None)
    rows: dict[str, Rows] = {}
    for block in chosen.blocks:
        rows |= block.landmark_rows()
    members = []
    for member in chosen.members:
        whitening = leading_whitening(member.mixed(rows).gram)
        likelihood, amplitude = start.likelihood(member), start.amplitude(member)
        gp = FeatureGP(likelihood, whitening.shape[1], amplitude).to(chosen.device)
        members.append(VariationalMember(member.recipe, whitening, member.norms, gp, member.score))
    order = chosen.weights.argsort(descending=True, stable=True)  # the first are trained where time is short
    members = [members[index] for index in order.tolist()]
    committee = VariationalViewCommittee(
        chosen.standard, chosen.landmarks, chosen.blocks, members, chosen.weights[order]
    )  # fmt: skip
    features = committee.features(batch)
    with Progress(settings.progress if shard.ranks.leads else False) as bar:
        for index, (member, own) in enumerate(zip(members, features, strict=True)):
            if index and _late(settings, shard):
                log.warning("time limit: %d of %d members are left out", len(members) - index, len(members))
                committee.members = members[:index]
                committee.weights = committee.weights[:index] / committee.weights[:index].sum()
                break
            bar.start(f"member {index + 1}", 2 * settings.max_iter)
            name = f"member-{index + 1}"
            member.history = _ascend(name, member, own, y, start, settings, shard, checkpoint, bar)
            if isinstance(member.gp.likelihood, Classification):
                some = _some(_SCALED, shard, y)
                member.scale = fit_scale(member.gp, own[some], y[some], shard.ranks)
            log.info("member %d, %s: %s", index + 1, member.recipe.name, member.history)
    if batch.facts is not None:

        def variances(some: Tensor) -> Tensor:
            left_out = [
                member.scale(*left_out_latents(member.gp, own[some], y[some]))[1].mean(1)
                for member, own in zip(committee.members, features, strict=False)
            ]
            return torch.stack(left_out)

        labels = y if isinstance(committee.likelihood, Classification) else None
        committee.novelty = Novelty.of_some(_SCALED, committee.weights, batch.facts, shard, variances, labels)
    return committee


def _ascend(
    name: str,
    member: VariationalMember,
    features: Features,
    y: Tensor,
    start: Start,
    settings: AscentSettings,
    shard: Shard,
    checkpoint: FitCheckpoint,
    bar: Progress,
) -> History:
    history = History(schedule="natural gradients", steps={"learning": 0, "q": 0}, phase_seconds={})
    local = _some(_JOINT, shard, y)
    learned_from = len(shard.evenly_spaced(_JOINT))
    begun = time.perf_counter()
    kept = checkpoint.read(name)
    if kept is not None:
        history.steps |= kept["steps"]
    for phase, learn in (("learning", True), ("q", False)):
        rows = local if learn and learned_from < shard.total else slice(None)
        ascent = Ascent(member.gp, features[rows], y[rows], shard.ranks)
        if kept is not None and kept["phase"] == phase:
            ascent.restore(kept["ascent"])
            settled, kept = kept["settled"], None
        elif kept is not None:  # this phase was finished
            continue
        else:
            settled = False
            if learn:
                ascent.start(*start.sites(member.gp.likelihood, y[rows]))
        while not settled and ascent.steps < settings.max_iter:
            if ascent.steps and _late(settings, shard):
                history.stopped[phase] = "time limit"
                break
            settled = ascent.step(learn=learn)
            seconds = time.perf_counter() - begun
            elbo = ascent.elbo / (learned_from if learn else shard.total)
            amplitude = float(member.gp.log_amplitude.detach().exp())
            history.records.append(Record(phase, ascent.steps, seconds, elbo=elbo, amplitude=amplitude))
            history.steps[phase] = ascent.steps
            state = {"phase": phase, "ascent": ascent.state(), "settled": settled, "steps": dict(history.steps)}
            checkpoint.write(state, name, now=settled or ascent.steps == settings.max_iter)
            bar.step(history.latest())
        history.phase_seconds[phase] = time.perf_counter() - begun - history.seconds
    return history


def _some(most: int, shard: Shard, y: Tensor) -> Tensor:
    """At most so many of the series of all ranks: those of this rank, as places among its own targets y."""
    return shard.local_index(shard.select(shard.evenly_spaced(most))).to(y.device)


def _late(settings: AscentSettings, shard: Shard) -> bool:
    if settings.deadline is None:
        return False
    return bool(shard.ranks.broadcast_value(float(time.perf_counter() > settings.deadline)))


@torch.no_grad()
def update_variational(committee: VariationalViewCommittee, batch: SeriesBatch, y: Tensor) -> None:
    """Updates q(u) of all members in place with new series and their targets (n,); after an error none has changed.

    The q(u) of before is the prior of what comes. Amplitude, likelihood and scale stay as they are; a series
    counts as one of its class did in the fit.
    """
    members = []
    for member, features in zip(committee.members, committee.features(batch), strict=True):
        gp = copy.deepcopy(member.gp)
        settle_from_posterior(gp, in_batches(gp.project(features), gp.likelihood.check_targets(y)))
        if not bool(torch.isfinite(gp.variational.mean).all()):
            raise ArithmeticError("the update with the new series is not finite; look for outliers in X and y")
        members.append(replace(member, gp=gp))
    committee.members = members
