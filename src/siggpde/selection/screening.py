"""Automatic choice of path transform, scales and words, by leave-one-out before any variational fit.

Candidates are compared by a regression on the features S_M/|S_M|, whose leave-one-out errors are known in closed form,
so that one costs a fraction of a second. Its settings carry over to the Gaussian process; its weights only start q(u).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

from siggpde.distributed.ranks import ALONE, Ranks
from siggpde.distributed.shard import Shard
from siggpde.gp.inducing import OrthogonalSignatureFeatures
from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.leave_one_out import LeaveOneOut
from siggpde.gp.likelihoods import Gaussian, LeastSquares, Likelihood, targets
from siggpde.gp.model import SignatureGP
from siggpde.gp.variational import Covariance
from siggpde.numerics import inputs
from siggpde.numerics.signature_kernel import Lengths
from siggpde.numerics.words import Word
from siggpde.progress import Progress
from siggpde.selection.candidates import Candidate as Candidate  # noqa: PLC0414 - part of this module
from siggpde.selection.candidates import first_round, neighbours
from siggpde.selection.trial import Trial, best_kinds
from siggpde.selection.trials import Sample, Trials
from siggpde.series import PathTransform, SeriesBatch
from siggpde.series.batch import all_gather_series, as_series_batch, pad_to_longest

_START_AMPLITUDE = 60.0
_SMALLEST_AMPLITUDE = 1e-8
_WORK = 4e9
_COVARIANCE_BYTES = 2**27


@dataclass
class Screening:
    """The settings that the screening chose, and a report of all that it tried.

    `series` is the number of series that the transform and the result were learned from. `others` are the best of the
    other kinds (other path options or another degree), the best first.
    """

    trial: Trial[LeaveOneOut]
    classes: int | None
    report: list[dict[str, Any]]
    seconds: float
    y_scale: float
    series: int
    others: list[Screening] = field(default_factory=list)

    @property
    def candidate(self) -> Candidate:
        """The settings that were tried."""
        return self.trial.candidate

    @property
    def transform(self) -> PathTransform:
        """From series to paths, as learned from the series of the trial."""
        return self.trial.transform

    @property
    def theta(self) -> Tensor:
        """The scales of the channels of the paths, (channels,)."""
        return self.trial.theta

    @property
    def words(self) -> list[Word]:
        """The words of the features."""
        return self.trial.words

    @property
    def result(self) -> LeaveOneOut:
        """Score, error, noise and weights of the regression on these features."""
        return self.trial.result

    def build(
        self,
        likelihood: Likelihood | None = None,
        *,
        rank: int | Literal["auto"] | None = "auto",
        covariance: Covariance | Literal["auto"] = "auto",
        dtype: torch.dtype = torch.float64,
    ) -> SignatureGP:
        """A model with these settings: the normalised kernel of the chosen words, `rank` directions of them.

        The likelihood is LeastSquares for classes and Gaussian for numbers unless given. For these two the covariance
        is shared and `rank="auto"` takes the words themselves; for others every latent has its own, and "auto" takes
        500 directions, or fewer where the covariances would fill more than 128 MB.
        """
        amplitude, noise = self.amplitude_and_noise()
        if likelihood is None and self.classes is None:
            likelihood = Gaussian(noise=noise)
        elif likelihood is None:
            assert self.classes is not None
            likelihood = LeastSquares(self.classes, noise=noise, temperature=self.result.temperature)
        elif not likelihood.is_gaussian and self.classes is not None:
            amplitude = _START_AMPLITUDE
        if covariance == "auto":
            covariance = "shared" if likelihood.is_gaussian else "full"
        channels = len(self.theta)
        kernel = SignatureKernel(channels, theta=self.theta, amplitude=amplitude, normalized=True, words=self.words)
        if rank == "auto" and likelihood.is_gaussian:
            rank = None
        elif rank == "auto":
            each = dtype.itemsize * {"full": likelihood.latents, "shared": 1, "diagonal": 0}[covariance]
            rank = 500 if each == 0 else max(1, min(500, math.isqrt(_COVARIANCE_BYTES // each)))
        directions = None if rank is None else min(rank, len(self.words))
        features = OrthogonalSignatureFeatures(
            channels, len(self.words), "lexicographic", directions, chosen=self.words
        )
        model = SignatureGP(kernel, features, likelihood, covariance=covariance, dtype=dtype)
        return model.to(self.theta.device)

    def amplitude_and_noise(self) -> tuple[float, float]:
        """Amplitude of the kernel and noise variance that a model starts from, in units of the targets."""
        return self.result.amplitude_and_noise(self.y_scale, _SMALLEST_AMPLITUDE)

    def to(self, device: torch.device) -> Screening:
        """The screening with its tensors on a device, on which `build` then makes models."""
        others = [other.to(device) for other in self.others]
        trial = replace(self.trial, theta=self.theta.to(device), result=self.result.to(device))
        return replace(self, trial=trial, others=others)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for the History and for reports."""
        return {
            "chosen": self.trial.settings,
            "theta": self.theta.tolist(),
            "words": len(self.words),
            "score": self.result.score,
            "error": self.result.error,
            "seconds": self.seconds,
            "tried": self.report,
        }

    def starting_mean(self, model: SignatureGP) -> Tensor | None:
        """The regression's weights as a mean of q(u), (latents, M); None where the model has other words or latents."""
        if model.features.words != self.words or self.result.weights.shape[1] != model.likelihood.latents:
            return None
        factor = self.y_scale if self.classes is None else self.result.temperature
        weights = self.result.weights * (1.0 if isinstance(model.likelihood, LeastSquares) else factor)
        if model.features.basis is not None:
            weights = model.features.basis.T @ weights
        return (weights / model.kernel.amplitude.detach().sqrt()).T


def screen(
    series: inputs.Series | SeriesBatch,
    y: Any,
    *,
    lengths: Lengths = None,
    times: Tensor | None = None,
    candidates: Sequence[Candidate] | None = None,
    max_series: int = 1000,
    max_words: int = 2000,
    seed: int = 0,
    time_limit: float | None = None,
    progress: bool | None = False,
    ranks: Ranks = ALONE,
) -> Screening:
    """Compare settings for raw series (n, length, channels) and targets y, and return the best with a report.

    y: integers 0..C-1 for classes, floats for regression. `times` (n, length) are time stamps; a `SeriesBatch` brings
    its own lengths and times. `candidates` are all tried; by default there are two rounds: every kind of path and of
    words at a few scales on few series, then scales around the best four kinds on `max_series`. The work is bounded by
    the number of series tried, so that the same seed chooses the same on every machine; after `time_limit` seconds the
    search ends with the best so far. `progress` shows a bar; None does so on a terminal. With `ranks`, each rank passes
    its own series and tries some of the candidates; all return the same.
    """
    started = time.perf_counter()
    with ranks.together():
        batch = as_series_batch(series, lengths, times)
        target = torch.as_tensor(y).to(batch.values.device)
        if target.shape != (len(batch),):
            raise ValueError(f"y must have shape ({len(batch)},), one target a series, got {tuple(target.shape)}")
        # Checked before a sample is taken: errors name series by their index among all.
        inputs.check_finite(batch.values, batch.lengths, "series")
    shard, target = Shard(ranks, len(batch)), ranks.all_gather_rows(target)
    if shard.total < 2:
        raise ValueError(f"screening compares predictions of series left out: it needs two or more, got {shard.total}")
    batch = pad_to_longest(batch, ranks)
    classes, scale = None, 1.0
    if target.is_floating_point():
        target = targets.finite(target).double()
        scale = float(target.std(correction=0)) or 1.0
        target = target / scale
    else:
        classes = max(2, int(target.max()) + 1)
        target = targets.labels(target, classes)
    size = max(2, min(shard.total, max_series, int(_WORK / (batch.values.shape[1] * max_words))))
    order = torch.randperm(shard.total, generator=torch.Generator().manual_seed(seed))
    indices = order[:size].sort().values
    trials = Trials(Sample(indices, all_gather_series(shard, indices, batch), target[indices]), order, classes)
    with Progress(progress if ranks.leads else False) as bar:

        def go_on() -> bool:
            bar.step()
            return time_limit is None or time.perf_counter() - started <= time_limit

        for round_size, proposals in _rounds(trials, candidates, max_words):
            bar.start("screening", -(-len(proposals) // ranks.count))
            trials.run(proposals, round_size, ranks, go_on)
    seconds = time.perf_counter() - started
    best, *others = [
        Screening(trial, classes, trials.report, seconds, scale, trials.max_series)
        for trial in best_kinds(trials.ranked())
    ]
    best.others = others
    return best


def _rounds(
    trials: Trials, candidates: Sequence[Candidate] | None, max_words: int
) -> Iterator[tuple[int, list[Candidate]]]:
    """Rounds of (number of series, candidates). The number of series follows from the work, never from the clock."""
    size, length, channels = trials.sample.batch.values.shape
    if candidates is not None:
        yield size, list(candidates)
        return
    coarse = min(max_words, 1200)
    few = max(2, min(size, 500, int(_WORK / (10 * length * coarse))))
    yield few, first_round(channels, coarse)
    kinds = best_kinds(trials.ranked(), 4)
    yield size, [near for trial in kinds for near in neighbours(trial.candidate, max_words)]
