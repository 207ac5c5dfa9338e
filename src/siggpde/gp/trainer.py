"""The state of a running fit, which phases work on and checkpoints keep."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from siggpde.distributed.ranks import Ranks
from siggpde.distributed.shard import Shard
from siggpde.gp.cache import PathStore, SignatureCache, concatenated
from siggpde.gp.features import Projection, grow_pool, principal_directions
from siggpde.gp.likelihoods.base import Classification
from siggpde.gp.model import AnyGP, SignatureGP
from siggpde.numerics.words import Word, words
from siggpde.series import SeriesBatch
from siggpde.series.batch import all_gather_series
from siggpde.utils.progress import Progress

Part = Literal["train", "all"]
"""The training part, or training and validation together."""

_CHUNK = 4096
_ROWS_FOR_DIRECTIONS = 1500


class Trainer:
    """A model, its data with signatures computed once, which rows are for training, and what happened so far. Rows are
    numbered through all ranks, which have all targets `y` and `weights` (n,) and the `cache` of their `shard`;
    `span_series` lets directions replace words where these are more than the series."""

    def __init__(
        self,
        model: AnyGP,
        cache: SignatureCache | PathStore,
        y: Tensor,
        train: Tensor,
        valid: Tensor,
        history: History,
        generator: torch.Generator,
        shard: Shard | None = None,
        *,
        weights: Tensor | None = None,
    ) -> None:
        self.model, self.cache, self.y = model, cache, y.to(model.device)
        self.weights = None if weights is None else weights.to(model.device, model.dtype)
        self.shard = Shard(Ranks(), len(y)) if shard is None else shard
        self.ranks = self.shard.ranks
        self.train, self.valid, self.span_series = train, valid, True
        self.history, self.minibatches = history, Minibatches(generator)
        self.phase, self.iteration, self.earlier_seconds = 0, 0, 0.0
        self._started = time.perf_counter()
        self.bar = Progress(False)

    @property
    def seconds(self) -> float:
        return self.earlier_seconds + time.perf_counter() - self._started

    def rows(self, which: Part) -> Tensor:
        """Rows of the training part, or of training and validation together, in order."""
        return self.train if which == "train" else torch.cat([self.train, self.valid]).sort().values

    @torch.no_grad()
    def project(self, rows: Tensor) -> Projection:
        """The projection of those of the rows that this rank holds, without gradients; rounded tails are counted."""
        index = self.shard.local_index(rows)
        parts = [self.cache.project(self.model, part) for part in index.split(_CHUNK)]
        projection = parts[0] if len(parts) == 1 else concatenated(parts)
        self.history.rounded_tails = max(self.history.rounded_tails, projection.rounded)
        return projection

    @torch.no_grad()
    def validate(self) -> tuple[float | None, float | None]:
        """NLPP and, for classes, accuracy on the validation rows, by the weights of series; None without such rows."""
        if len(self.valid) == 0:
            return None, None
        mean, variance = self.model.latent_marginals(self.project(self.valid))
        rows = self.shard.select(self.valid)
        y, likelihood = self.y[rows], self.model.likelihood
        scores = [likelihood.log_predictive(mean, variance, y).double()]
        if isinstance(likelihood, Classification):
            scores.append((likelihood.predict(mean, variance).argmax(dim=1) == y).double())
        size = len(self.valid)
        if self.weights is not None:
            size = float(self.weights[self.valid].double().sum())
            scores = [score * self.weights[rows].double() for score in scores]
        totals = self.ranks.all_reduce_sum(*(score.sum() for score in scores))
        log_density, *accuracy = (float(total) / size for total in totals)
        return -log_density, accuracy[0] if accuracy else None

    def record(self, phase: str, **values: Any) -> None:
        theta, amplitude = self.model.kernel.theta.tolist(), float(self.model.kernel.amplitude.detach())
        record = Record(phase, self.iteration, self.seconds, theta=theta, amplitude=amplitude, **values)
        self.history.records.append(record)

    @torch.no_grad()
    def choose_features(self, count: int) -> None:
        """Chooses `count` words by energy, and directions, anew; q(u) is carried over to those that are kept."""
        features, q = self.model.features, self.model.variational
        if not isinstance(self.cache, SignatureCache):
            return
        old_words, old_basis = features.words, features.basis
        fresh = q.covariance_is_prior() and not bool(q.mean.any())
        if features.order == "energy" and set(features.words) != set(self.cache.pool):
            features.choose(self.cache.choose_words(self.model, count, self.ranks))
        features.rotate(None)
        directions = features.rank
        if directions is None and self.span_series and len(features.words) > len(self.y):
            directions = len(self.y)
        if directions is not None:
            every = max(1, len(self.y) // max(_ROWS_FOR_DIRECTIONS, 2 * directions))
            rows = torch.arange(0, len(self.y), every)
            values = self.shard.all_gather(rows, self.project(rows).features)
            features.rotate(self.ranks.broadcast(lambda: principal_directions(values, directions)))
        if fresh:
            self.model.reset_variational()
        elif features.size != q.size or features.words != old_words or features.basis is not old_basis:
            overlap = _overlap(old_words, old_basis, features.words, features.basis, self.model.device)
            self.model.variational = q.carried_over(overlap)


def _overlap(
    old_words: list, old_basis: Tensor | None, words: list, basis: Tensor | None, device: torch.device | None = None
) -> Tensor:
    """Returns Q'^T Q for the new and the old directions, which may have different words."""
    old_index = {word: index for index, word in enumerate(old_words)}
    common = [(i, old_index[word]) for i, word in enumerate(words) if word in old_index]
    new, old = torch.tensor([i for i, _ in common]), torch.tensor([j for _, j in common])
    left = torch.eye(len(words), dtype=torch.float64, device=device) if basis is None else basis
    right = torch.eye(len(old_words), dtype=torch.float64, device=device) if old_basis is None else old_basis
    return left[new].T @ right[old]


class Minibatches:
    """Draws row numbers so that every series comes once before any comes again."""

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator
        self.upcoming = torch.empty(0, dtype=torch.int64)

    def reset(self) -> None:
        self.upcoming = self.upcoming[:0]

    def next(self, rows: Tensor, size: int) -> Tensor:
        """The next `size` of the rows, or all of them where there are fewer."""
        picked, upcoming = self.upcoming[:size], self.upcoming[size:]
        while len(picked) < min(size, len(rows)):
            shuffled = rows[torch.randperm(len(rows), generator=self.generator)]
            missing = size - len(picked)
            again = torch.isin(shuffled, picked)
            shuffled = torch.cat([shuffled[~again], shuffled[again]])
            picked, upcoming = torch.cat([picked, shuffled[:missing]]), shuffled[missing:]
        self.upcoming = upcoming
        return picked

    def state_dict(self) -> dict[str, Any]:
        return {"generator": self.generator.get_state(), "upcoming": self.upcoming}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.generator.set_state(state["generator"])
        self.upcoming = state["upcoming"]


_SERIES_FOR_POOL = 256
_SMALLEST_FOR_VALIDATION = 50


def word_pool(model: SignatureGP, batch: SeriesBatch, shard: Shard) -> list[Word]:
    """The words whose signatures are kept: those of a finite kernel; else up to four for each that is wanted."""
    kernel, features = model.kernel, model.features
    if kernel.words is not None:
        return kernel.words
    if features.order == "lexicographic":
        return features.words
    rows = torch.arange(0, shard.total, max(1, shard.total // _SERIES_FOR_POOL))
    sample = all_gather_series(shard, rows, batch)
    count = len(features.words)
    lists = shard.ranks.broadcast(lambda: [list(word) for word in grow_pool(kernel, sample, 4 * count)])
    pool = [tuple(word) for word in lists]
    if len(pool) < count:  # fewer words than wanted have any energy
        pool = sorted({*pool, *words(kernel.channels, count)}, key=lambda word: (len(word), word))
    return pool


def split_rows(
    validation: float | tuple[Sequence[int], Sequence[int]], y: Tensor, classes: bool, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Rows for training and for validation, each in order."""
    n = len(y)
    if not isinstance(validation, int | float):
        train, valid = (torch.as_tensor(rows, dtype=torch.int64).cpu().sort().values for rows in validation)
        both = torch.cat([train, valid])
        if len(train) == 0 or len(both.unique()) != len(both) or both.min() < 0 or both.max() >= n:
            raise ValueError(f"validation must be two disjoint lists of row numbers below {n}, the first not empty")
        return train, valid
    if not 0 <= validation < 1:
        raise ValueError(f"validation must be a share from 0 up to 1, got {validation!r}")
    if validation == 0 or n < _SMALLEST_FOR_VALIDATION:
        return torch.arange(n), torch.empty(0, dtype=torch.int64)
    y = y.cpu()  # row numbers are kept there
    chosen = torch.zeros(n, dtype=torch.bool)
    groups = [(y == label).nonzero()[:, 0] for label in y.unique()] if classes else [torch.arange(n)]
    for rows in groups:
        order = rows[torch.randperm(len(rows), generator=generator)]
        chosen[order[: int(validation * len(rows) + 1e-9)]] = True
    return (~chosen).nonzero()[:, 0], chosen.nonzero()[:, 0]


def trainable(module: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


@contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    parameters = trainable(module)
    for parameter in parameters:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)


@dataclass
class Record:
    """The state of a fit at one moment; what was not evaluated is None.

    Attributes
    ----------
    phase, iteration : str, int
        Where in the fit it was made.
    seconds : float
        Since the start of the fit.
    elbo : float, optional
        Per training series (of the minibatch in stochastic phases).
    nlpp, accuracy : float, optional
        Those of the validation set.
    theta, amplitude : list of float, float, optional
        Hyperparameters of the kernel.
    step : float, optional
        The step of q(u).
    """

    phase: str
    iteration: int
    seconds: float
    elbo: float | None = None
    nlpp: float | None = None
    accuracy: float | None = None
    theta: list[float] | None = None
    amplitude: float | None = None
    step: float | None = None


@dataclass
class History:
    """Records in order, seconds spent in every phase, why each phase ended, and what was noticed on the way.

    Attributes
    ----------
    records : list of Record
        One for every evaluation.
    phase_seconds, stopped : dict
        Seconds spent in each phase, and why it ended.
    steps, step_seconds : dict
        Iterations of the phases that take minibatches, and the CPU time of all their updates: without set-up,
        evaluations and checkpoints.
    rounded_tails : int
        The most tails of one projection that were negative within rounding.
    seed, schedule : int, str
        What the fit was given.

    Examples
    --------
    >>> print(History([Record("q", 3, 0.2, elbo=-0.51)], {"q": 0.2}, {"q": "settled"}, schedule="NaturalGradients"))
    NaturalGradients: q 0.2 s (settled); ELBO -0.5100 a series
    """

    records: list[Record] = field(default_factory=list)
    phase_seconds: dict[str, float] = field(default_factory=dict)
    stopped: dict[str, str] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)
    step_seconds: dict[str, float] = field(default_factory=dict)
    rounded_tails: int = 0
    seed: int = 0
    schedule: str = ""

    def of(self, phase: str) -> list[Record]:
        """The records of one phase."""
        return [record for record in self.records if record.phase == phase]

    @property
    def seconds(self) -> float:
        return sum(self.phase_seconds.values())

    @property
    def elbo(self) -> float | None:
        """The last ELBO per series that was evaluated."""
        return next((r.elbo for r in reversed(self.records) if r.elbo is not None), None)

    def latest(self) -> str:
        """The last ELBO and NLPP in a few words, for a progress bar."""
        nlpp = next((r.nlpp for r in reversed(self.records) if r.nlpp is not None), None)
        parts = [f"{name} {value:.4f}" for name, value in (("ELBO", self.elbo), ("NLPP", nlpp)) if value is not None]
        return "  ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(data: dict[str, Any]) -> History:
        rest = {key: value for key, value in data.items() if key != "records"}
        return History(records=[Record(**record) for record in data["records"]], **rest)

    def save(self, path: str | Path) -> None:
        """Writes it as JSON."""
        Path(path).write_text(json.dumps(self.to_dict(), indent=1) + "\n", encoding="utf-8")

    def __str__(self) -> str:
        ended = {name: f" ({reason})" for name, reason in self.stopped.items()}
        parts = [f"{name} {seconds:.1f} s{ended.get(name, '')}" for name, seconds in self.phase_seconds.items()]
        elbo = "" if self.elbo is None else f"; ELBO {self.elbo:.4f} a series"
        return f"{self.schedule}: " + ", ".join(parts) + elbo
