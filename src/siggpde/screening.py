"""Settings without a human: path transforms, scales and words, compared by leave-one-out before any variational fit.

The stand-in is a regression on the features S_M/|S_M|, whose leave-one-out errors are known in closed form, so that
a candidate costs a fraction of a second. Its settings carry over to the Gaussian process; its weights only start q(u).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

from siggpde import _inputs
from siggpde.goursat import Lengths
from siggpde.inducing import OrthogonalSignatureFeatures, grow_pool
from siggpde.kernel import SignatureKernel
from siggpde.leave_one_out import LeaveOneOut, leave_one_out
from siggpde.likelihoods import Gaussian, Likelihood, Softmax
from siggpde.model import SignatureGP
from siggpde.paths import PathOptions, PathTransform
from siggpde.signature import signature
from siggpde.variational import Covariance
from siggpde.words import Word, count_up_to, words_up_to

_START_AMPLITUDE = 60.0
_SERIES_FOR_POOL = 128
_WORK = 4e9
_MOST_BYTES = 2**27


@dataclass(frozen=True)
class Candidate:
    """Settings to try: path options, the median length of a path after scaling, the weight of the time channel and
    the most words."""

    options: PathOptions = field(default_factory=PathOptions)
    path_length: float = 8.0
    time_scale: float = 1.0
    words: int = 4000


@dataclass
class Screening:
    """What the screening chose, and a report of everything it tried."""

    candidate: Candidate
    transform: PathTransform
    theta: Tensor
    words: list[Word]
    result: LeaveOneOut
    classes: int | None
    report: list[dict[str, Any]]
    seconds: float
    y_scale: float

    def build(
        self,
        likelihood: Likelihood | None = None,
        *,
        rank: int | Literal["auto"] | None = "auto",
        covariance: Covariance = "full",
        dtype: torch.dtype = torch.float64,
    ) -> SignatureGP:
        """A model with these settings: the normalised kernel of the chosen words, `rank` directions of them.

        `rank="auto"` takes 500, or fewer where the covariances of many latents would fill more than 128 MB; None takes
        the words themselves. The likelihood is Softmax for classes and Gaussian for numbers unless given.
        """
        amplitude = _START_AMPLITUDE
        if self.classes is None:
            amplitude = max(self.result.amplitude, 1e-8) * self.y_scale**2
            likelihood = likelihood or Gaussian(noise=amplitude * self.result.noise)
        elif likelihood is None:
            likelihood = Softmax(self.classes)
        channels = len(self.theta)
        kernel = SignatureKernel(channels, theta=self.theta, amplitude=amplitude, normalized=True, words=self.words)
        if rank == "auto":
            each = dtype.itemsize * likelihood.latents * (1 if covariance == "full" else 0)
            rank = 500 if each == 0 else max(1, min(500, math.isqrt(_MOST_BYTES // each)))
        kept = None if rank is None else min(rank, len(self.words))
        features = OrthogonalSignatureFeatures(channels, len(self.words), "lexicographic", kept, chosen=self.words)
        return SignatureGP(kernel, features, likelihood, covariance=covariance, dtype=dtype)

    def to_dict(self) -> dict[str, Any]:
        """Plain facts, for the History and for reports."""
        return {
            "chosen": asdict(self.candidate),
            "theta": self.theta.tolist(),
            "words": len(self.words),
            "score": self.result.score,
            "error": self.result.error,
            "seconds": self.seconds,
            "tried": self.report,
        }

    def starting_mean(self, model: SignatureGP) -> Tensor | None:
        """The weights found, as a mean of q(u), (latents, M); None where the model has other words or latents."""
        if model.features.words != self.words or self.result.weights.shape[1] != model.likelihood.latents:
            return None
        weights = self.result.weights * self.result.temperature * (self.y_scale if self.classes is None else 1.0)
        if model.features.basis is not None:
            weights = model.features.basis.T @ weights
        return (weights / model.kernel.amplitude.detach().sqrt()).T


def screen(
    series: _inputs.Series,
    y: Any,
    *,
    lengths: Lengths = None,
    candidates: Sequence[Candidate] | None = None,
    max_series: int = 1500,
    max_words: int = 4000,
    seed: int = 0,
    time_limit: float | None = 60.0,
) -> Screening:
    """Compare settings for raw series (n, length, channels) and targets y, and return the best with a report.

    y: integers 0..C-1 for classes, floats for regression. `candidates` are all tried; by default a search of two
    rounds: path options and lengths on few series, then lengths, time scales and words around the best two on
    `max_series`. `time_limit` seconds end the search early, with the best so far.
    """
    started = time.perf_counter()
    batch, counts = _inputs.as_batch(series, lengths, "series")
    target = torch.as_tensor(y)
    if target.shape != (len(batch),):
        raise ValueError(f"y must have shape ({len(batch)},), one target a series, got {tuple(target.shape)}")
    if len(batch) < 2:
        raise ValueError(f"screening compares predictions of series left out: it needs two or more, got {len(batch)}")
    classes = None if target.is_floating_point() else int(target.max()) + 1
    scale = 1.0
    if classes is None:
        scale = float(target.double().std(correction=0)) or 1.0
        target = target.double() / scale
    judge = _Judge(batch, counts, target, classes, max_words, seed)
    for size, proposals in _rounds(judge, batch.shape[2], candidates, max_series, max_words):
        for candidate in proposals:
            judge.add(candidate, size)
            if time_limit is not None and time.perf_counter() - started > time_limit:
                break
    candidate, found = judge.best()
    return Screening(
        candidate, found.transform, found.theta, found.words, found.result, classes,
        judge.report, time.perf_counter() - started, scale,
    )  # fmt: skip


@dataclass
class _Found:
    transform: PathTransform
    theta: Tensor
    words: list[Word]
    result: LeaveOneOut


class _Judge:
    """Tries candidates on a subset of the series, the same one for all of a size."""

    def __init__(
        self, batch: Tensor, counts: Tensor | None, y: Tensor, classes: int | None, max_words: int, seed: int
    ) -> None:
        self.batch, self.counts, self.y, self.classes, self.max_words = batch, counts, y, classes, max_words
        self.order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))
        self.found: dict[tuple[int, Candidate], _Found] = {}
        self.report: list[dict[str, Any]] = []

    def add(self, candidate: Candidate, size: int) -> None:
        if (size, candidate) in self.found:
            return
        started = time.perf_counter()
        rows = self.order[:size].sort().values
        counts = None if self.counts is None else self.counts[rows]
        series = self.batch[rows]
        transform = PathTransform(candidate.options).fit(series, lengths=counts)
        paths, counts = transform(series, lengths=counts)
        theta = _scales(paths, candidate)
        chosen = _words(paths, counts, theta, candidate.words)
        facts = {"path_length": candidate.path_length, "time_scale": candidate.time_scale, **asdict(candidate.options)}
        try:
            values = signature(paths * theta, words=chosen, lengths=counts)
            result = leave_one_out(values / values.norm(dim=1, keepdim=True), self.y[rows], self.classes)
        except (ArithmeticError, OverflowError) as trouble:
            self.report.append({**facts, "series": size, "words": len(chosen), "failed": str(trouble)})
            return
        self.found[size, candidate] = _Found(transform, theta, chosen, result)
        seconds = time.perf_counter() - started
        judged = {"score": result.score, "error": result.error, "noise": result.noise, "seconds": seconds}
        self.report.append({**facts, "series": size, "words": len(chosen), **judged})

    def ranked(self) -> list[tuple[Candidate, _Found]]:
        """Candidates tried on the most series so far, the best first."""
        if not self.found:
            raise ArithmeticError("no candidate could be judged; see the report: " + str(self.report[:3]))
        most = max(size for size, _ in self.found)
        tried = [(candidate, found) for (size, candidate), found in self.found.items() if size == most]
        return sorted(tried, key=lambda item: item[1].result.score)

    def best(self) -> tuple[Candidate, _Found]:
        return self.ranked()[0]


def _rounds(
    judge: _Judge, channels: int, candidates: Sequence[Candidate] | None, max_series: int, max_words: int
) -> Iterator[tuple[int, list[Candidate]]]:
    n, length = judge.batch.shape[:2]
    most = max(2, min(n, max_series, int(_WORK / (length * max_words))))
    if candidates is not None:
        yield most, list(candidates)
        return
    few = min(most, 700)
    shapes = [PathOptions(), PathOptions(base_point=False)]
    shapes += [PathOptions(append="variation")] if 1 < channels <= 12 else []
    shapes += [PathOptions(append="arc")]
    shapes += [PathOptions(lead_lag=True)] if channels <= 6 else []
    coarse = min(max_words, 1500)
    yield few, [Candidate(shape, length, 1.0, coarse) for shape in shapes for length in (4.0, 12.0)]
    good: list[PathOptions] = []
    for candidate, _ in judge.ranked():
        if candidate.options not in good:
            good.append(candidate.options)
    yield most, [Candidate(shape, length, 1.0, max_words) for shape in good[:2] for length in (4.0, 8.0, 16.0)]
    best = judge.best()[0]
    yield most, [replace(best, time_scale=scale) for scale in (0.4, 2.5)]
    best = judge.best()[0]
    yield most, [replace(best, path_length=best.path_length * factor) for factor in (0.7, 1.4)]


def _scales(paths: Tensor, candidate: Candidate) -> Tensor:
    """Channel scales that give the paths the median length asked for; time, channel 0, weighs `time_scale`."""
    weights = torch.ones(paths.shape[2], dtype=torch.float64)
    if candidate.options.time:
        weights[0] = candidate.time_scale
    steps = (paths * weights).diff(dim=1).norm(dim=2).sum(dim=1)
    median = float(steps.median())
    return weights * (candidate.path_length / median if median > 0 else 1.0)


def _words(paths: Tensor, counts: Tensor | None, theta: Tensor, most: int) -> list[Word]:
    """All words up to the deepest level that fits, where that takes most of the room; else those with most energy."""
    channels = len(theta)
    depth = 1
    while depth < 12 and count_up_to(channels, depth + 1) <= most:
        depth += 1
    if depth >= 3 and count_up_to(channels, depth) >= 0.8 * most:
        return words_up_to(channels, depth)
    rows = torch.arange(0, len(paths), max(1, len(paths) // _SERIES_FOR_POOL))
    kernel = SignatureKernel(channels, theta=theta)
    return grow_pool(kernel, paths[rows], None if counts is None else counts[rows], most)
