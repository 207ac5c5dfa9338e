"""A committee: the fitted model behind an estimator, and its implementation for views of the series."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Protocol, cast

import torch
from torch import Tensor

from siggpde.committee.link import ClassLink, probability_spread
from siggpde.committee.mixture import NormalMixture, Recalibration
from siggpde.committee.novelty import Novelty, Scores, joined_variances
from siggpde.committee.recipes import Recipe
from siggpde.committee.regression import Regression
from siggpde.committee.update import Posterior, updated
from siggpde.committee.weight_space import FeatureWeights, feature_latents
from siggpde.series import SeriesBatch
from siggpde.views.base import Block, Learned, Rows, Standard, parts_of, rows_of
from siggpde.views.kinds import SavedBlocks, states_of

_CHUNK = 1024
_LARGEST_CHUNK = 2**24  # numbers of series handled at a time
_JOINED = 2**23  # numbers of joined variances at a time


class Latents(NamedTuple):
    """Mean (n, outputs) of the latents, and their variance: (n,) where all latents have one, else (n, outputs)."""

    mean: Tensor
    variance: Tensor

    @property
    def std(self) -> Tensor:
        """The standard deviations of the latents, (n, outputs)."""
        spread = self.variance.sqrt()
        return (spread[:, None] if spread.ndim == 1 else spread).expand_as(self.mean)


class Prediction(Protocol):
    """What a committee says of n series, computed once; `scores` of novelty are None where it has none."""

    @property
    def scores(self) -> Scores | None: ...

    def latents(self) -> Latents: ...

    def probabilities(self) -> Tensor:
        """Returns class probabilities (n, classes) in float64, rows summing to 1."""
        ...

    def probability_spread(self) -> Tensor:
        """Returns the standard deviations (n, classes) of the probabilities over the latents."""
        ...

    def mean_and_variance(self) -> tuple[Tensor, Tensor]:
        """Returns mean and variance of y, two (n,)."""
        ...

    def quantiles(self, levels: list[float]) -> Tensor:
        """Returns quantiles of y, (n, levels)."""
        ...

    def log_predictive(self, y: Tensor) -> Tensor:
        """Returns log p(y) of targets (n,): labels 0..classes-1, or numbers."""
        ...


class Committee(ABC):
    """What estimators, explanations, reports and saved models call on a fitted model: `ViewCommittee`, or `PaperModel`.
    Numbers are in the units of the fit, `landmarks` the standardised training series in the model, `left_out` training
    series as the others predict them, `tried` name, loss and weight of every candidate, `iterations` steps of the
    longest training."""

    method: ClassVar[str]
    members: Any
    weights: Tensor
    novelty: Novelty | None
    left_out: LeftOutRecord | None
    landmarks: SeriesBatch | None
    link: ClassLink | None
    blocks: Sequence[Block]
    tried: Sequence[tuple[str, float, float]]
    iterations: int = 1

    @property
    def device(self) -> torch.device:
        """The device of the members, on which batches have to be."""
        return self.weights.device

    @property
    @abstractmethod
    def classes(self) -> int | None:
        """How many classes the committee predicts; None where it predicts numbers."""

    @property
    @abstractmethod
    def likelihood_name(self) -> str:
        """The likelihood, by its name or in words."""

    @abstractmethod
    def to(self, device: torch.device | str) -> Committee:
        """Moves everything to a device, in place, and returns the committee; after an error nothing has moved."""

    @abstractmethod
    def predict(self, batch: SeriesBatch) -> Prediction:
        """Returns the predictions of a batch."""

    @abstractmethod
    def update(self, batch: SeriesBatch, y: Tensor) -> None:
        """Learns from new series and their targets y (n,), in place; after an error nothing has changed."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Returns everything that predictions and updates depend on as nested plain values and tensors."""

    def p_values(self, batch: SeriesBatch, by_class: bool = False) -> tuple[Tensor, Scores]:
        """Returns p-values (n,), or by class (n, classes), and the scores of novelty behind them."""
        scores = self.predict(batch).scores
        assert scores is not None and self.novelty is not None
        return self.novelty.p_values(scores.score, by_class=by_class), scores

    def latents(self, batch: SeriesBatch) -> Latents:
        return self.predict(batch).latents()

    def probabilities(self, batch: SeriesBatch) -> Tensor:
        return self.predict(batch).probabilities()

    def mean_and_variance(self, batch: SeriesBatch) -> tuple[Tensor, Tensor]:
        return self.predict(batch).mean_and_variance()

    def quantiles(self, batch: SeriesBatch, levels: list[float]) -> Tensor:
        return self.predict(batch).quantiles(levels)

    def log_predictive(self, batch: SeriesBatch, y: Tensor) -> Tensor:
        return self.predict(batch).log_predictive(y)


@dataclass
class Member:
    """A recipe of kernels, its posterior on landmarks or in the space of features, the `norms` (m,) of the landmarks
    before a power, and `score`, the leave-one-out loss in nats a series."""

    recipe: Recipe
    posterior: Regression | FeatureWeights
    norms: Tensor | None
    score: float

    @property
    def regression(self) -> Regression:
        return cast(Regression, self.posterior)

    @property
    def features(self) -> FeatureWeights:
        return cast(FeatureWeights, self.posterior)

    @property
    def alpha(self) -> Tensor:
        """The weights (m, outputs) of the landmarks: the mean of the latents is k(X, landmarks) alpha."""
        return self.regression.alpha

    def mixed(self, rows: Mapping[str, Rows]) -> Rows:
        """Returns the rows of the member's kernel, from those of all kernels."""
        return self.recipe.mix(rows, self.norms, len(self.alpha))

    def to(self, device: torch.device | str) -> Member:
        norms = None if self.norms is None else self.norms.to(device)
        return replace(self, posterior=self.posterior.to(device), norms=norms)

    def state(self) -> dict[str, Any]:
        state = {"recipe": self.recipe.state(), "score": self.score, **self.posterior.state()}
        if "parts" in state:
            return state
        (alpha, others), norms = (
            _cut(self.alpha, len(self.regression.root)),
            _cut(self.norms, len(self.regression.root)),
        )
        exact = {"others": {"alpha": others, "norms": norms[1]}} if len(others) else {}
        return {**state, "alpha": alpha, "norms": norms[0], **exact}

    @staticmethod
    def from_state(state: Mapping[str, Any]) -> Member:
        posterior = (FeatureWeights if "parts" in state else Regression).from_state(state)
        norms, others = state.get("norms"), state.get("others")
        if others is not None:
            posterior = replace(posterior, alpha=torch.cat([state["alpha"], others["alpha"]]))
            norms = None if norms is None else torch.cat([norms, others["norms"]])
        return Member(Recipe.from_state(state["recipe"]), posterior, norms, state["score"])


def _cut(rows: Any, count: int) -> tuple[Any, Any]:
    return (None, None) if rows is None else (rows[:count], rows[count:])


_TOGETHER = 2**22  # numbers of rows that are mixed at a time


class _SameSeries(NamedTuple):
    """The `numbers` (k,) of members that refer to so many `series`, and the shares (k, C) of kernels `names` in their
    averages."""

    numbers: list[int]
    series: int
    names: list[str]
    shares: Tensor


@dataclass(frozen=True)
class PreparedMembers:
    """What predictions of K members from the rows of the kernels `names` need, made at the first of them: members that
    refer to the same series, and the roots in float32 the other way around."""

    members: list[Member]
    names: list[str]
    parts: list[_SameSeries]
    turned_roots: list[Tensor | None]

    @staticmethod
    def of(members: list[Member], names: list[str]) -> PreparedMembers:
        turned, parts, same = [], [], dict[int, list[int]]()
        for number, member in enumerate(members):
            root, alpha = member.regression.root, member.regression.alpha
            turned.append(root.T.contiguous() if root.dtype == torch.float32 and root.is_cpu else None)
            same.setdefault(len(alpha), []).append(number)
        for count, numbers in same.items():
            weights = [dict(members[k].recipe.weights) for k in numbers]
            used = list(filter(set().union(*weights).__contains__, names))
            shares = [own.get(name, 0.0) / sum(own.values()) for own in weights for name in used]
            table = torch.tensor(shares, dtype=torch.float64, device=members[0].regression.root.device)
            parts.append(_SameSeries(numbers, count, used, table.view(len(weights), len(used))))
        return PreparedMembers(members, names, parts, turned)

    def latents(self, rows: Mapping[str, Rows]) -> tuple[Tensor, Tensor]:
        """Returns means (K, n, outputs) and variances (K, n) of the latents, from the rows of all kernels."""
        n, alpha = len(rows[self.names[0]].variance), self.members[0].regression.alpha
        variances = alpha.new_empty(len(self.members), n)
        means = alpha.new_empty(*variances.shape, alpha.shape[1])
        for numbers, series, names, shares in self.parts:
            grams, own = zip(*map(rows.__getitem__, names), strict=True)
            own, size = shares @ torch.stack(own), max(1, _TOGETHER // (len(names) * series))
            for start in range(0, n, size):
                some = slice(start, start + size)
                stacked = torch.stack([gram[some, :series] for gram in grams])
                plain = (shares @ stacked.flatten(1)).view(len(numbers), *stacked.shape[1:])
                for k, gram, variance in zip(numbers, plain, own[:, some], strict=True):
                    mixed = self.members[k].recipe.raised(Rows(gram, variance), self.members[k].norms)
                    predicted = self.members[k].regression.predict(mixed, self.turned_roots[k])
                    means[k, some], variances[k, some] = predicted
        return means, variances


@dataclass(frozen=True)
class LeftOutRecord(Learned):
    """What a committee keeps of n training series, left out one by one or group by group.

    - `y` (n,): their targets, labels 0..classes-1 or numbers in the units of the committee.
    - `mean` (n, outputs), `variance` (n,): the committee's latents.
    - `variances` (K, n), `means` (K, n, outputs), float32: those of the members. Only exact records have means, and
      those of earlier versions have none.
    - `groups` (n,): integers, or None.
    - `exact`: the series are the landmarks, in their order, and nothing else was learned from.
    - `rows` (n,): their numbers among the series of the fit; earlier versions did not keep them.
    """

    y: Tensor
    mean: Tensor
    variance: Tensor
    variances: Tensor
    groups: Tensor | None
    exact: bool
    means: Tensor | None = None
    rows: Tensor | None = None


@dataclass(frozen=True)
class ViewPrediction:
    """What a committee on views says of n series: means (K, n, outputs) and variances (K, n) of its members' latents,
    and the scores of novelty, None where they are not known."""

    committee: ViewCommittee
    means: Tensor
    variances: Tensor
    scores: Scores | None = None

    def latents(self) -> Latents:
        return average_latents(self.means, self.variances, self.committee.weights)

    def probabilities(self) -> Tensor:
        link = self.committee.link
        assert link is not None
        return self.committee.shown(link, *self.latents(), None if self.scores is None else self.scores.score)

    def probability_spread(self) -> Tensor:
        assert self.committee.link is not None
        return probability_spread(self.committee.link, *self.latents())

    def mixture(self) -> NormalMixture:
        """Returns the predictive distribution of numbers: far from all training series mean 0 and variance 1."""
        means, total = self.means[:, :, 0], self.variances + self.committee.noise_variances[:, None]
        if self.scores is not None:
            assert self.committee.novelty is not None
            trust = self.committee.novelty.trust(self.scores.score).to(means)
            total = trust * total + (1 - trust) * (1 + trust * means.square())
            means = trust * means
        return NormalMixture(means, total, self.committee.weights, self.committee.recalibration)

    def mean_and_variance(self) -> tuple[Tensor, Tensor]:
        return self.mixture().mean_and_variance()

    def quantiles(self, levels: list[float]) -> Tensor:
        return self.mixture().quantiles(levels)

    def log_predictive(self, y: Tensor) -> Tensor:
        y = y.to(self.committee.device)
        if self.committee.link is None:
            return self.mixture().log_density(y)
        return self.probabilities().gather(1, y.long()[:, None])[:, 0].log()


def average_latents(means: Tensor, variances: Tensor, weights: Tensor) -> Latents:
    """Returns mu = sum of w_k mu_k and v = sum of w_k (v_k + (mu_k - mu)²), from (K, n, outputs) and (K, n)."""
    share = weights.to(means)
    mean = (share[:, None, None] * means).sum(0)
    disagreement = (means - mean).square().mean(2)
    return Latents(mean, (share[:, None] * (variances + disagreement)).sum(0))


@dataclass
class ViewCommittee(Committee):
    """A committee of Gaussian processes on views of the series, brought to mean 0 and spread 1 by `standard`: the
    default model. Blocks and members refer to the `landmarks`, or without them to features less their `centres`; means
    of exact members also to all `others` of the training series;
    `class_weights` (classes,) are 1 on average, None for all alike; `posteriors` are kept between updates, and not
    saved."""

    method: ClassVar[str] = "views"

    standard: Standard
    landmarks: SeriesBatch | None
    blocks: Sequence[Block]
    members: list[Member]
    weights: Tensor
    link: ClassLink | None = None
    recalibration: Recalibration | None = None
    class_weights: Tensor | None = None
    left_out: LeftOutRecord | None = None
    novelty: Novelty | None = None
    centres: list[Tensor] = field(default_factory=list)
    tried: Sequence[tuple[str, float, float]] = ()
    others: SeriesBatch | None = None
    posteriors: list[Posterior] | None = field(default=None, repr=False, compare=False)
    prepared: PreparedMembers | None = field(default=None, repr=False, compare=False)

    @property
    def classes(self) -> int | None:
        return None if self.link is None else len(self.link.offset)

    @property
    def likelihood_name(self) -> str:
        return "Gaussian" if self.link is None else "least squares on ±1, then a softmax link"

    def to(self, device: torch.device | str) -> ViewCommittee:
        def moved(part: Any) -> Any:
            return None if part is None else part.to(torch.device(device))

        names = ("standard", "landmarks", "others", "weights", "link", "class_weights", "left_out")
        parts = {name: moved(getattr(self, name)) for name in names}
        for name in ("blocks", "members", "centres"):
            parts[name] = [moved(part) for part in getattr(self, name)]
        vars(self).update(parts, posteriors=None, prepared=None)
        return self

    def rows(self, batch: SeriesBatch) -> dict[str, Rows]:
        """Returns the rows of all kernels at n series against the landmarks."""
        return rows_of(self.blocks, self.standard(batch))

    @torch.no_grad()
    def member_latents(self, batch: SeriesBatch) -> tuple[Tensor, Tensor]:
        """Returns means (K, n, outputs) and variances (K, n) of the members' latents."""
        start, whole = 0, None
        for part in batch.split(_CHUNK, _LARGEST_CHUNK):
            seen = self.standard(part)
            if self.landmarks is None:
                posteriors = [member.features for member in self.members]
                means, variances = feature_latents(posteriors, parts_of(self.blocks, seen), self.centres, len(seen))
            else:
                means, variances = self.latents_from(rows_of(self.blocks, seen))
            if len(part) == len(batch):
                return means, variances
            if whole is None:  # parts kept from chunk to chunk would keep the memory between them from being used again
                count, n = len(means), len(batch)
                whole = means.new_empty(count, n, means.shape[2]), variances.new_empty(count, n)
            rows = slice(start, start + len(part))
            whole[0][:, rows], whole[1][:, rows] = means, variances
            start = rows.stop
        assert whole is not None
        return whole

    def latents_from(self, rows: Mapping[str, Rows]) -> tuple[Tensor, Tensor]:
        """Returns the same as `member_latents`, from the rows of all kernels."""
        prepared = self.prepared
        if prepared is None or prepared.members is not self.members or prepared.names != list(rows):
            prepared = self.prepared = PreparedMembers.of(self.members, list(rows))
        return prepared.latents(rows)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "prepared": None}

    def predict(self, batch: SeriesBatch) -> ViewPrediction:
        return self.predicted(*self.member_latents(batch), batch.described)

    def predicted(self, means: Tensor, variances: Tensor, statistics: Tensor | None) -> ViewPrediction:
        """Returns the predictions of series by their members' latents, (K, n, outputs) and (K, n), and statistics."""
        scores = None
        if self.novelty is not None and statistics is not None:
            scores = self.novelty.scores(variances + self.noise_variances[:, None], statistics)
        return ViewPrediction(self, means, variances, scores)

    def shown(self, link: ClassLink, mean: Tensor, variance: Tensor, score: Tensor | None) -> Tensor:
        """Returns the probabilities (n, classes) of a link for latents, mixed with the class frequencies where series
        with these scores (n,) of novelty are far from all training series."""
        chances = link.probabilities(mean, variance)
        chances = chances / chances.sum(dim=1, keepdim=True)
        if score is None or self.novelty is None or link.frequencies is None:
            return chances
        if bool((score <= self.novelty.limit).all()):  # the model's own probabilities, whole
            return chances
        return self.novelty.mixed(chances, score, link.frequencies)

    def latents(self, batch: SeriesBatch) -> Latents:
        return average_latents(*self.member_latents(batch), self.weights)

    @property
    def noise_variances(self) -> Tensor:
        """The variances (K,) by which targets have more than latents, float64."""
        noises = [member.posterior.noise * member.posterior.amplitude for member in self.members]
        return torch.tensor(noises, dtype=torch.float64, device=self.weights.device)

    @torch.no_grad()
    def p_values(self, batch: SeriesBatch, by_class: bool = False) -> tuple[Tensor, Scores]:
        """Returns p-values and scores; with landmarks for all training series, and no groups, each joins these."""
        record = self.left_out
        if self.landmarks is None or record is None or not record.exact or record.groups is not None:
            return super().p_values(batch, by_class)
        assert self.novelty is not None
        p_values, scores = [], []
        joined = _JOINED // (len(self.members) * len(record.y))
        for part in batch.split(max(1, min(_CHUNK, joined)), _LARGEST_CHUNK):
            rows = self.rows(part)
            variances = self.latents_from(rows)[1] + self.noise_variances[:, None]
            described = part.described
            assert described is not None
            scores.append(self.novelty.scores(variances, described))
            p_values.append(self.novelty.p_values(scores[-1].score, joined_variances(self, rows), by_class))
        return torch.cat(p_values), Scores(*(torch.cat(columns) for columns in zip(*scores, strict=True)))

    def update(self, batch: SeriesBatch, y: Tensor) -> None:
        """Updates the posterior of all members in the span of the landmarks (`committee.update`)."""
        if self.landmarks is None:
            raise ValueError(
                "partial_fit learns from more series by the landmarks, which keep_series=False left out of the model; "
                "fit one with keep_series=True"
            )
        self.members, self.posteriors = updated(self, batch, y.to(self.device))
        if self.left_out is not None:
            self.left_out = replace(self.left_out, exact=False)

    def state(self) -> dict[str, Any]:
        """Returns everything but transformers of the user's own, and features that the landmarks tell."""
        optional = {"link": self.link, "left_out": self.left_out, "novelty": self.novelty}
        state = {
            "standard": self.standard.state(),
            "blocks": states_of(self.blocks),
            "weights": self.weights,
            "members": [member.state() for member in self.members],
            "recalibration": None if self.recalibration is None else asdict(self.recalibration),
            **{name: None if part is None else part.state() for name, part in optional.items()},
        }
        if self.landmarks is None:
            return {"kind": "weights", **state, "centres": self.centres}
        others = {} if self.others is None else {"others": _series_state(self.others)}
        series = {"landmarks": _series_state(self.landmarks), **others}
        return {"kind": "views", **state, **series, "class_weights": self.class_weights}

    @staticmethod
    def from_state(state: Mapping[str, Any], transformers: Mapping[str, Any]) -> ViewCommittee:
        """Returns the committee of a `state`; `transformers` are those of the user's own views, by name."""
        landmarks, others = (_series_from(state.get(name)) for name in ("landmarks", "others"))
        blocks = SavedBlocks(state["blocks"], landmarks, transformers, others)
        if landmarks is None:
            _check_widths(blocks, [len(centre) for centre in state["centres"]])
        link, recalibration = state["link"], state["recalibration"]
        left_out, novelty = state.get("left_out"), state.get("novelty")  # None in models of early versions
        return ViewCommittee(
            Standard(**state["standard"]),
            landmarks,
            blocks,
            [Member.from_state(member) for member in state["members"]],
            state["weights"],
            None if link is None else ClassLink(**link),
            None if recalibration is None else Recalibration(**recalibration),
            state.get("class_weights"),
            None if left_out is None else LeftOutRecord(**left_out),
            None if novelty is None else Novelty.from_state(novelty),
            state.get("centres", []),
            others=others,
        )


def _series_state(series: SeriesBatch) -> dict[str, Tensor | None]:
    state = {"values": series.values.float(), "lengths": series.lengths, "times": series.times}
    if series.facts is None:
        return state
    gaps = series.facts.isnan()
    return state | {"facts": torch.where(gaps, 0.0, series.facts), "gaps": gaps.long()}


def _series_from(state: Mapping[str, Any] | None) -> SeriesBatch | None:
    if state is None:
        return None
    facts = state.get("facts")
    facts = None if facts is None else torch.where(state["gaps"] > 0, torch.nan, facts)
    return SeriesBatch(state["values"].double(), state["lengths"], state["times"], facts=facts)


def _check_widths(blocks: Sequence[Block], centres: list[int]) -> None:
    """Raises a ValueError where blocks do not give as many features as there are means of them."""
    widths = [width for block in blocks for width in block.widths]
    if widths != centres:
        wrong = next((pair for pair in zip(widths, centres, strict=False) if pair[0] != pair[1]), None)
        what = f"{len(widths)} parts" if wrong is None else f"a part of {wrong[0]} features"
        raise ValueError(f"the blocks give {what}, for which the model has other weights; save the model again")
