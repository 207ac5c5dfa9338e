"""The state of a running fit, which phases work on and checkpoints keep."""

from __future__ import annotations

import time
from typing import Any, Protocol

import torch
from torch import Tensor

from siggpde.distributed.ranks import Ranks
from siggpde.distributed.shard import Shard
from siggpde.gp.inducing import Projection
from siggpde.gp.likelihoods.base import Classification
from siggpde.gp.model import AnyGP
from siggpde.gp.word_choice import principal_directions
from siggpde.progress import Progress
from siggpde.training.history import History, Record
from siggpde.training.path_cache import PathStore, joined
from siggpde.training.signature_cache import SignatureCache

_CHUNK = 4096
_ROWS_FOR_DIRECTIONS = 1500


class Phase(Protocol):
    """One phase of a schedule. All that changes between iterations is in the model or in `trainer.scratch`."""

    name: str
    most: int

    def begin(self, trainer: Trainer) -> None:
        """Once, at the start: fills `trainer.scratch`."""

    def prepare(self, trainer: Trainer) -> None:
        """Before the first iteration, and again after a resume: computes what follows from the state."""

    def iterate(self, trainer: Trainer) -> str | None:
        """One iteration; returns why the phase is over, or None."""
        ...

    def finish(self, trainer: Trainer) -> None:
        """Once, at the end."""


class Trainer:
    """A model, its data with signatures computed once, which rows are for training, and what happened so far.

    Rows are numbered through all ranks, and every rank knows all targets `y`; its `cache` has the rows of its `shard`.
    """

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
    ) -> None:
        self.model, self.cache, self.y = model, cache, y.to(model.device)
        self.shard = Shard(Ranks(), len(y)) if shard is None else shard
        self.ranks = self.shard.ranks
        self.train, self.valid = train, valid
        self.history, self.generator = history, generator
        self.scratch: dict[str, Any] = {}
        self.phase = 0
        self.iteration = 0
        self.earlier_seconds = 0.0
        self._started = time.perf_counter()
        self.bar = Progress(False)

    @property
    def seconds(self) -> float:
        return self.earlier_seconds + time.perf_counter() - self._started

    @torch.no_grad()
    def project(self, rows: Tensor) -> Projection:
        """What the model sees of those of the rows that are here, without gradients; rounded tails are counted."""
        places = self.shard.local_index(self.shard.select(rows))
        seen = joined([self.cache.project(self.model, place) for place in places.split(_CHUNK)])
        self.history.rounded_tails = max(self.history.rounded_tails, seen.rounded)
        return seen

    @torch.no_grad()
    def validate(self) -> tuple[float, float | None] | None:
        """NLPP and, for classes, accuracy on the validation rows; None where there are none."""
        if len(self.valid) == 0:
            return None
        mean, variance = self.model.latent_marginals(self.project(self.valid))
        y = self.y[self.shard.select(self.valid)]
        likelihood = self.model.likelihood
        found = [likelihood.log_predictive(mean, variance, y).double().sum()]
        if isinstance(likelihood, Classification):
            found.append((likelihood.predict(mean, variance).argmax(dim=1) == y).double().sum())
        nlpp, *right = (float(total) / len(self.valid) for total in self.ranks.all_reduce_sum(*found))
        return -nlpp, right[0] if right else None

    def batch(self, rows: Tensor, size: int) -> Tensor:
        """The next `size` of the rows; every series comes once before any comes again."""
        order: Tensor = self.scratch["order"] if "order" in self.scratch else rows[:0]
        picked = order[:size]
        rest = order[size:]
        while len(picked) < min(size, len(rows)):
            fresh = rows[torch.randperm(len(rows), generator=self.generator)]
            missing = size - len(picked)
            again = torch.isin(fresh, picked)
            fresh = torch.cat([fresh[~again], fresh[again]])
            picked, rest = torch.cat([picked, fresh[:missing]]), fresh[missing:]
        self.scratch["order"] = rest
        return picked

    def record(self, phase: str, **facts: Any) -> None:
        kernel = self.model.kernel
        self.history.records.append(
            Record(
                phase=phase,
                iteration=self.iteration,
                seconds=self.seconds,
                theta=kernel.theta.tolist(),
                amplitude=float(kernel.amplitude.detach()),
                **facts,
            )
        )

    @torch.no_grad()
    def place_features(self, count: int) -> None:
        """Pick words and directions anew for the present scales; q(u) is carried over for what is kept.

        Words by energy where the features ask for it; directions where they ask for a rank, or where there are more
        words than series: then as many directions as series span all of them, and nothing is lost. Inducing variables
        that are no words stay where they are.
        """
        features, q = self.model.features, self.model.variational
        if not isinstance(self.cache, SignatureCache):
            return
        old_words, old_basis = features.words, features.basis
        fresh = q.covariance_is_prior() and not bool(q.mean.any())
        if features.order == "energy" and set(features.words) != set(self.cache.pool):
            features.choose(self.cache.choose_words(self.model, count, self.ranks))
        features.rotate(None)
        rank = features.rank
        if rank is None and len(features.words) > len(self.y):
            rank = len(self.y)
        if rank is not None:
            every = max(1, len(self.y) // max(_ROWS_FOR_DIRECTIONS, 2 * rank))
            some = torch.arange(0, len(self.y), every)
            rows = self.shard.all_gather(some, self.project(some).features)
            features.rotate(self.ranks.broadcast(lambda: principal_directions(rows, rank)))
        if fresh or features.size != q.size or features.words != old_words or features.basis is not old_basis:
            if fresh:
                self.model.reset_variational()
            else:
                overlap = _overlap(old_words, old_basis, features.words, features.basis, self.model.device)
                self.model.variational = q.carried(overlap)


def _overlap(
    old_words: list, old_basis: Tensor | None, words: list, basis: Tensor | None, device: torch.device | None = None
) -> Tensor:
    """Q'^T Q of the new and old directions, each over its own words."""
    place = {word: index for index, word in enumerate(old_words)}
    common = [(i, place[word]) for i, word in enumerate(words) if word in place]
    new, old = torch.tensor([i for i, _ in common]), torch.tensor([j for _, j in common])
    left = torch.eye(len(words), dtype=torch.float64, device=device) if basis is None else basis
    right = torch.eye(len(old_words), dtype=torch.float64, device=device) if old_basis is None else old_basis
    return left[new].T @ right[old]
