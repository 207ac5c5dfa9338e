"""The model of the paper behind the estimators' interface: one sparse variational Gaussian process on paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from siggpde.committee.committee import Committee, Latents
from siggpde.committee.mixture import NormalMixture, Recalibration
from siggpde.committee.novelty import Novelty, Scores
from siggpde.gp.model import SignatureGP
from siggpde.gp.natural_gradients import update_posterior
from siggpde.gp.trainer import History
from siggpde.persistence import model_from_state, model_state
from siggpde.series import PathTransform, SeriesBatch

_CHUNK = 1024


@dataclass
class PaperModel(Committee):
    """A `SignatureGP` and the transform that makes its paths; it is its own only member.

    Attributes
    ----------
    transform
        How paths are made of series.
    model
        The Gaussian process.
    settings
        What it was fitted with: the method, the options of paths, the number of words.
    score
        The validation NLPP, None where there were no validation series.
    history
        What happened in training; None for a model that was loaded.
    recalibration, sharpness
        Of models saved by early versions: a correction of the tails of numbers, and the power of class probabilities.
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
        """Returns the paths of the series, as the model takes them."""
        return self.transform.paths(batch)

    @torch.no_grad()
    def member_latents(self, batch: SeriesBatch) -> tuple[Tensor, Tensor]:
        """Returns means and variances of the latents, two (1, n, latents) in float64."""
        prediction = self._look(batch)
        return prediction.mean.double()[None], prediction.variance.double()[None]

    def _look(self, batch: SeriesBatch) -> PaperPrediction:
        pairs = []
        for chunk in batch.split(_CHUNK):
            paths = self.paths(chunk)
            pairs.append(self.model.predict_f(paths.values, lengths=paths.lengths))
        mean, variance = (torch.cat(parts) for parts in zip(*pairs, strict=True))
        return PaperPrediction(self, mean, variance)

    @torch.no_grad()
    def predict(self, batch: SeriesBatch) -> PaperPrediction:
        prediction = self._look(batch)
        if self.novelty is not None and batch.facts is not None:
            prediction.scores = self.novelty.scores(prediction.variance.double().mean(1)[None], batch.facts)
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
        if len(state["members"]) != 1:
            raise ValueError(
                f"it averages {len(state['members'])} models of words, which this version does not have; fit it anew"
            )
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
    """What the paper's model says of n series: mean and variance of the latents, two (n, latents), and the scores of
    novelty, None where they are not known."""

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
        return novelty.mixed(probabilities, self.scores, novelty.frequencies)

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
        return novelty.mixed(density.exp(), self.scores, novelty.frequencies[y.long().cpu()]).log()

    @property
    def _likelihood(self) -> Any:
        return self.committee.model.likelihood

    def _mixture(self) -> NormalMixture:
        mean, variance = (part.double()[None] for part in self._likelihood.predict(self.mean, self.variance))
        return NormalMixture(mean, variance, self.committee.weights, self.committee.recalibration)
