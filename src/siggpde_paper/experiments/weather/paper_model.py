"""The paper's own model of the weather: probit, untruncated kernel, the first M words, Nadam in three phases.

A path is time and the channels, without a base point: its signature sees changes within a window and no levels. `each`
scales as tslearn's TimeSeriesScalerMeanVariance does, every channel of every window to mean 0 and spread 1, which takes
away the size of the changes too; else every channel is scaled by its mean and spread over all training windows.

The prior is f ~ GP(0, k) with the signature kernel k, the inducing variables are u_a = <f, word a>, and with
q(u) = N(m, S) and the word a's term s_a(X) of the signature

    posterior mean of f at X = sum over words a of m_a s_a(X).

The paper reads the importance of a word from |m_a|. A word whose term hardly varies is then as important as one that
tells windows apart; sd_X(s_a(X)) |m_a| is what the word contributes to the differences between windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import GroupShuffleSplit
from torch import Tensor

from siggpde.explain.terms import word_features
from siggpde.gp.inducing import OrthogonalSignatureFeatures
from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.likelihoods import Bernoulli
from siggpde.gp.model import SignatureGP
from siggpde.series import SeriesBatch
from siggpde.training import History, PaperSchedule, fit
from siggpde_paper.experiments.methods import each_standardised, standardised, with_time
from siggpde_paper.experiments.results import Record
from siggpde_paper.experiments.weather.features import before_rain
from siggpde_paper.gpsig.models import lengthscales

_CHUNK = 1024
_TOL = 1e-6  # of the kernel, as in the other experiments


@dataclass(frozen=True)
class Scaling:
    """How windows (n, channels, length) become paths (n, length, 1 + channels), time first; `train` are paths as yet
    unscaled."""

    each: bool
    train: Tensor

    @staticmethod
    def of(x: np.ndarray, each: bool) -> Scaling:
        return Scaling(each, _with_time(x))

    def __call__(self, x: np.ndarray) -> Tensor:
        paths = _with_time(x)
        return each_standardised(paths) if self.each else standardised(self.train, paths)[1]


@dataclass(frozen=True)
class PaperModel:
    """The trained model, how it scales windows, and what happened in training."""

    model: SignatureGP
    scaling: Scaling
    history: History

    def latent(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and standard deviation of f, two (n,)."""
        mean, variance = self._latent(x)
        return mean[:, 0].numpy(), variance[:, 0].sqrt().numpy()

    def log_odds(self, x: np.ndarray) -> np.ndarray:
        """log p - log (1 - p) of rain, (n,), with p = Phi(mean / sqrt(1 + variance))."""
        mean, variance = self._latent(x)
        wet, dry = (
            self.model.likelihood.log_predictive(mean, variance, torch.full((len(x),), label)) for label in (1, 0)
        )
        return (wet - dry).numpy()

    def settings(self) -> Record:
        """Iterations, CPU seconds of one, the validation NLPP that was kept, and the scales of the kernel."""
        history = self.history
        scores = [record.nlpp for record in history.of("hyperparameters") if record.nlpp is not None]
        return {
            "iterations": history.steps,
            "seconds_per_iteration": {
                name: history.step_seconds[name] / count for name, count in history.steps.items()
            },
            "validation_nlpp": min(scores, default=None),
            "theta": self.model.kernel.theta.tolist(),
            "amplitude": float(self.model.kernel.amplitude.detach()),
        }

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of all iterations, those before an interruption too."""
        return sum(self.history.step_seconds.values())

    def features(self, x: np.ndarray, wet: np.ndarray, names: Sequence[str], top: int) -> dict[str, list[Record]]:
        """The `top` words on windows x (n, channels, length), "by_size" |m| and "by_spread" sd x |m|, largest first.

        `importance` is that measure and `share` its share in the sum over all words; the constant does not count as a
        word. `before_rain` is the mean of its term before rain minus its mean otherwise, in standard deviations.
        """
        letters, words = ("time", *names), self.model.features.words
        terms = word_features(self.model, SeriesBatch(self.scaling(x))).detach().numpy()
        mean = self.model.variational.mean.detach().double().numpy()[0]
        is_word = np.array([len(word) > 0 for word in words])

        def ranked(measure: np.ndarray) -> list[Record]:
            order = np.argsort(-measure, kind="stable")[:top]
            return [
                {
                    "name": "–".join(letters[letter] for letter in words[place]),
                    "letters": [letters[letter] for letter in words[place]],
                    "importance": float(measure[place]),
                    "share": float(measure[place] / measure.sum()),
                    "mean": float(mean[place]),
                    "before_rain": before_rain(terms[:, place], wet),
                }
                for place in order.tolist()
            ]

        size = np.abs(mean) * is_word
        return {"by_size": ranked(size), "by_spread": ranked(size * terms.std(axis=0))}

    def _latent(self, x: np.ndarray) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            return self.model.predict_f(self.scaling(x), chunk=_CHUNK)


def fit_paper_model(
    x: np.ndarray,
    wet: np.ndarray,
    blocks: np.ndarray,
    settings: Mapping[str, Any],
    *,
    each: bool,
    seed: int,
    checkpoint: Path | None = None,
) -> PaperModel:
    """Trains with windows x (n, channels, length) whose outcomes are `wet` (n,); scales start as GPSig's do.

    `settings` have M, `inducing`; the share `validation` of the `blocks` (n,) that judges hyperparameters; and the
    `schedule`. With a `checkpoint` an interrupted fit goes on.
    """
    scaling = Scaling.of(x, each)
    paths = scaling(x)
    channels = paths.shape[2]
    points = torch.full((len(paths),), paths.shape[1])
    theta = 1 / lengthscales(paths, points, torch.Generator().manual_seed(seed))
    features = OrthogonalSignatureFeatures(channels, settings["inducing"], "lexicographic")
    model = SignatureGP(SignatureKernel(channels, theta=theta, tol=_TOL), features, Bernoulli())
    history = fit(
        model,
        (paths, torch.from_numpy(wet.astype(np.int64))),
        PaperSchedule(**settings["schedule"]),
        validation=split_blocks(blocks, settings["validation"], seed),
        seed=seed,
        checkpoint=checkpoint,
        resume=checkpoint is not None,
    )
    return PaperModel(model, scaling, history)


def split_blocks(blocks: np.ndarray, share: float, seed: int) -> tuple[list[int], list[int]]:
    """Rows for training and for validation, the latter those of a `share` of the blocks, drawn at random."""
    if len(np.unique(blocks)) < 2:
        raise ValueError("validation by blocks needs two or more of them; give more weeks, or shorter blocks")
    splitter = GroupShuffleSplit(n_splits=1, test_size=share, random_state=seed)
    train, valid = next(splitter.split(blocks, groups=blocks))
    return train.tolist(), valid.tolist()


def _with_time(x: np.ndarray) -> Tensor:
    return with_time(torch.from_numpy(np.ascontiguousarray(x.swapaxes(1, 2))))
