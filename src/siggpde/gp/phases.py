"""Schedules and their phases, which can be interrupted: the paper's three of Nadam, and natural gradients."""

import copy
import math
import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from siggpde.gp.model import AnyGP
from siggpde.gp.nadam import Minibatch, Nadam, q_step
from siggpde.gp.natural_gradients import Batch, Climb, NaturalGradient, in_batches
from siggpde.gp.trainer import Part, Trainer, frozen, trainable
from siggpde.gp.variational import NaturalParameters

_IMPROVEMENT = 0.005  # an evaluation counts as an improvement when it lowers the NLPP by this share
_STILL_RISING = 0.1  # nats a series by which the ELBO rises between two evaluations while scales are far off
# Curvature of the first step from the prior: that of a softmax or logistic likelihood at its steepest.
_START_CURVATURE = 0.25


def check_positive(settings: object, *names: str) -> None:
    """Raises a ValueError that names the first of these settings that is not positive."""
    for name in names:
        value = getattr(settings, name)
        if value is None or not value > 0:
            raise ValueError(f"{name} must be positive, got {value!r}")


State = TypeVar("State")


class Phase(Generic[State]):
    """One phase of a schedule: at most `max_steps` iterations, between which a fit may be saved, or end. `state`, a
    `state_type` of tensors and plain values, is all that it changes besides model, minibatches and History;
    `time_share` is the share of a time limit at which the phase is late, None for never."""

    name: str
    max_steps: int
    time_share: float | None = 1.0
    state: State
    state_type: type[State]

    def begin(self, trainer: Trainer) -> None:
        """Makes the state that the phase starts from."""
        trainer.minibatches.reset()
        self.state = self.state_type()

    def prepare(self, trainer: Trainer) -> None:
        """Computes what follows from model and state, before the first iteration, and again after a resume."""

    def iterate(self, trainer: Trainer) -> str | None:
        """Makes one iteration and returns why the phase is over, or None."""
        raise NotImplementedError

    def finish(self, trainer: Trainer) -> None:
        """Does what is left after the last iteration."""


@dataclass(frozen=True)
class PaperSchedule:
    """The SigGPDE paper's: Nadam in three equal phases, as `iterations` each with minibatches of `batch` series.

    q(u) alone; q(u) and hyperparameters, the validation NLPP watched every `evaluate_every` iterations and the best
    state restored; q(u) alone on training and validation series. Inducing variables that can move do so with q(u);
    words stay as they are, however many, so that nothing is factorised. A time limit gives every phase a third.

    Parameters
    ----------
    iterations : int, default 5000
        Iterations of each phase.
    batch : int, default 50
        Series of a minibatch.
    learning_rate : float, default 1e-3
        The rate of Nadam.
    evaluate_every : int, default 250
        Iterations from one evaluation of the validation NLPP to the next.
    patience : int, optional
        A phase with a validation part ends after so many evaluations none of which lowered the NLPP by more than 0.5 %
        of the best before, and the last phase takes as many iterations as the first did. By default no phase does.
    cpu_budget : float, optional
        Seconds of CPU time, a third of them for each phase, after which it ends; by default it does not.

    Examples
    --------
    >>> from siggpde import OrthogonalSignatureFeatures, SignatureGP, SignatureKernel, fit, likelihoods
    >>> model = SignatureGP(SignatureKernel(1), OrthogonalSignatureFeatures(1, 3), likelihoods.Bernoulli())
    >>> x, y = torch.tensor([[[0.0], [1.0]], [[0.0], [-1.0]]] * 5), torch.tensor([1, 0] * 5)
    >>> fit(model, (x, y), PaperSchedule(iterations=4), progress=False).stopped
    {'q': '4 iterations', 'hyperparameters': '4 iterations', 'all': '4 iterations'}
    """

    iterations: int = 5000
    batch: int = 50
    learning_rate: float = 1e-3
    evaluate_every: int = 250
    patience: int | None = None
    cpu_budget: float | None = None

    def __post_init__(self) -> None:
        check_positive(self, "iterations", "batch", "learning_rate", "evaluate_every")
        check_positive(self, *(name for name in ("patience", "cpu_budget") if getattr(self, name) is not None))

    def phases(self, model: AnyGP) -> list[Phase[Any]]:
        if model.variational.shared:
            raise ValueError("the paper's schedule has no covariance='shared'; take 'full' or 'diagonal'")
        return [
            NadamPhase("q", "train", False, self, 1 / 3),
            NadamPhase("hyperparameters", "train", True, self, 2 / 3),
            NadamPhase("all", "all", False, self),
        ]


@dataclass
class NadamState:
    """Nadam, an average of the ELBO per series, CPU seconds, and with `learn` the best model and its scores."""

    optimizer: dict[str, Any] | None = None
    elbo: float | None = None
    cpu_seconds: float = 0.0
    best: dict[str, Any] | None = None
    best_nlpp: float = math.inf
    reference_nlpp: float = math.inf
    idle: int = 0


class NadamPhase(Phase[NadamState]):
    """Minibatch steps of q(u) and features; with `learn` of hyperparameters too, ending at the best validation NLPP."""

    state_type = NadamState

    def __init__(self, name: str, which: Part, learn: bool, schedule: PaperSchedule, time_share: float = 1.0) -> None:
        self.name, self.learn, self.time_share = name, learn, time_share
        self.which: Part = which
        self.schedule, self.max_steps = schedule, schedule.iterations

    def prepare(self, trainer: Trainer) -> None:
        self.rows = trainer.rows(self.which)
        self.local_rows = trainer.shard.select(self.rows)
        model = trainer.model
        modules = (model.features, model.kernel, model.likelihood) if self.learn else (model.features,)
        self.parameters: list[Tensor] = [parameter for module in modules for parameter in trainable(module)]
        q = model.variational
        self.optimizer = Nadam([q.mean, q.root, *self.parameters], self.schedule.learning_rate)
        if self.state.optimizer is not None:
            self.optimizer.load(self.state.optimizer)
        fixed = not self.learn and not trainable(model.features)
        self.projection = trainer.project(self.rows) if fixed else None
        first = trainer.history.steps.get("q")
        if self.which == "all" and self.schedule.patience is not None and first is not None:
            self.max_steps = first

    def iterate(self, trainer: Trainer) -> str | None:
        started = time.process_time()
        rows = trainer.minibatches.next(self.rows, self.schedule.batch)
        elbo = self._step(trainer, rows) / len(self.rows)
        stepped = time.process_time()
        history, state, done = trainer.history, self.state, trainer.iteration + 1
        history.steps[self.name] = done
        history.step_seconds[self.name] = history.step_seconds.get(self.name, 0.0) + stepped - started
        state.elbo = elbo if state.elbo is None else 0.98 * state.elbo + 0.02 * elbo
        state.optimizer = self.optimizer.state()
        budget = self.schedule.cpu_budget
        used = state.cpu_seconds + stepped - started
        spent = budget is not None and bool(trainer.ranks.broadcast_value(used > budget / 3))
        settled = False
        if spent or done % self.schedule.evaluate_every == 0 or done == self.max_steps:
            self._evaluate(trainer)
            settled = self.schedule.patience is not None and state.idle >= self.schedule.patience
        state.cpu_seconds += time.process_time() - started
        return "settled" if settled else "budget spent" if spent else None

    def finish(self, trainer: Trainer) -> None:
        if not trainer.history.of(self.name):  # a time limit came before the first evaluation
            self._evaluate(trainer)
        if self.state.best is not None:
            trainer.model.load_state_dict(self.state.best)

    def _step(self, trainer: Trainer, rows: Tensor) -> float:
        """One update of everything this phase learns; returns the estimate of the ELBO before it."""
        model, optimizer, total = trainer.model, self.optimizer, len(self.rows)
        local_rows = trainer.shard.select(rows)
        y, of_features = trainer.y[local_rows], self.projection is None
        weights = None if trainer.weights is None else trainer.weights[local_rows]
        for module in (model.likelihood, model.kernel, model.features) if of_features else (model.likelihood,):
            module.zero_grad(set_to_none=True)
        if self.projection is not None:
            projection = self.projection[torch.searchsorted(self.local_rows, local_rows)]
        else:
            with torch.enable_grad(), nullcontext() if self.learn else frozen(model.kernel):
                projection = trainer.cache.project(model, trainer.shard.local_index(local_rows))
        features, tail = projection.features, projection.tail
        batch, rates = Minibatch(features, tail, y, total, weights, len(rows)), optimizer.advance()
        gradient = q_step(model, optimizer, rates, batch, of_features=of_features, ranks=trainer.ranks)
        if of_features:
            assert gradient.features is not None and gradient.tail is not None
            pairs = [(features, gradient.features), (tail, gradient.tail.to(tail))]
            pairs = [(tensor, grad) for tensor, grad in pairs if tensor.requires_grad]
            if pairs:
                torch.autograd.backward([tensor for tensor, _ in pairs], [grad for _, grad in pairs])
        trainer.ranks.all_reduce_gradients(self.parameters)
        for index, parameter in enumerate(self.parameters, 2):
            grad = parameter.grad
            optimizer.update(index, torch.zeros_like(parameter) if grad is None else grad, rates)
        return gradient.elbo

    def _evaluate(self, trainer: Trainer) -> None:
        state = self.state
        nlpp, accuracy = trainer.validate() if self.which == "train" else (None, None)
        trainer.record(self.name, elbo=state.elbo, nlpp=nlpp, accuracy=accuracy)
        if nlpp is None:
            return
        if nlpp < state.reference_nlpp - _IMPROVEMENT * abs(nlpp):
            state.reference_nlpp, state.idle = nlpp, 0
        else:
            state.idle += 1
        if nlpp < state.best_nlpp:
            state.best_nlpp = nlpp
            state.best = copy.deepcopy(trainer.model.state_dict()) if self.learn else None


@dataclass(frozen=True)
class NaturalGradients:
    """Natural gradients for q(u), Adam for the hyperparameters; nothing to tune. The default.

    Phase `q` settles q(u) on the training part. Phase `hyperparameters` alternates `inner` Adam steps of scales,
    amplitude and likelihood with one step of q(u), watches the validation part, and ends with the best state seen.
    Phase `all` settles q(u) on all the series.

    Parameters
    ----------
    max_iter : int, default 60
        The most iterations of a phase.
    learn : bool, default True
        False skips the hyperparameters.
    learning_rate : float, default 0.05
        The rate of Adam.
    inner : int, default 5
        Steps of Adam for each step of q(u).
    batch : int, optional
        Series of a stochastic step; max(1024, 2 M) by default.
    settle : float, default 2e-4
        A phase of q(u) ends when a step raises the ELBO by less than this, in nats a series.
    patience : int, default 3
        Evaluations without improvement after which the hyperparameters are left; one at which the ELBO has risen by
        more than 0.1 nats a series does not count.
    max_joint : int, default 60000
        Up to this many series q(u) takes steps on all of them; above, stochastic steps only.

    Examples
    --------
    >>> from siggpde import OrthogonalSignatureFeatures, SignatureGP, SignatureKernel, fit, likelihoods
    >>> model = SignatureGP(SignatureKernel(1), OrthogonalSignatureFeatures(1, 3), likelihoods.Bernoulli())
    >>> x, y = torch.tensor([[[0.0], [1.0]], [[0.0], [-1.0]]] * 5), torch.tensor([1, 0] * 5)
    >>> fit(model, (x, y), NaturalGradients(learn=False), progress=False).stopped
    {'q': 'settled', 'all': 'settled'}
    """

    max_iter: int = 60
    learn: bool = True
    learning_rate: float = 0.05
    inner: int = 5
    batch: int | None = None
    settle: float = 2e-4
    patience: int = 3
    max_joint: int = 60_000

    def __post_init__(self) -> None:
        optional = ("batch",) if self.batch is not None else ()
        check_positive(self, "max_iter", "learning_rate", "inner", "settle", "patience", "max_joint", *optional)

    def phases(self, model: AnyGP) -> list[Phase[Any]]:
        hyperparameters = [LearnHyperparameters("hyperparameters", self)] if self.learn else []
        return [SettleQ("q", "train", self), *hyperparameters, SettleQ("all", "all", self)]


@dataclass
class NaturalState:
    """Natural parameters of q(u), the step rho, idle and warm-up steps, and with learning Adam and the best model."""

    precision: Tensor
    shift: Tensor
    rho: float
    warm_up: int = 0
    idle: int = 0
    optimizer: dict[str, Any] | None = None
    best: dict[str, Any] | None = None
    best_score: float = math.inf
    highest_elbo: float = math.inf


class NaturalPhase(Phase[NaturalState]):
    """What the phases of `NaturalGradients` have in common: steps of q(u) in natural parameters."""

    state_type = NaturalState

    def __init__(self, name: str, schedule: NaturalGradients) -> None:
        self.name, self.schedule, self.max_steps = name, schedule, schedule.max_iter

    def begin(self, trainer: Trainer) -> None:
        trainer.minibatches.reset()
        rho = 1.0 if trainer.model.likelihood.is_gaussian else 0.5
        self.state = NaturalState(*trainer.model.variational.natural_parameters(), rho)

    def prepare(self, trainer: Trainer) -> None:
        natural = (part.to(trainer.model.device) for part in (self.state.precision, self.state.shift))
        self.gradient = NaturalGradient(trainer.model, NaturalParameters(*natural), ranks=trainer.ranks)

    def batch_size(self, trainer: Trainer) -> int:
        return self.schedule.batch or max(1024, 2 * trainer.model.variational.size)

    def stochastic_step(
        self, batches: list[Batch], count: int, total: int, rho: float, curvature: float | None = None
    ) -> float:
        """One step from `count` of `total` series; returns the estimate of the ELBO per series."""
        value = self.gradient.step(batches, total, rho, curvature)
        self.state.precision, self.state.shift = self.gradient.natural
        return value / count - float(self.gradient.model.variational.kl().detach()) / total

    def climb_step(self, climb: Climb) -> float:
        """Takes a step on all the series and returns by how much the ELBO rose."""
        gain = climb.step()
        (self.state.precision, self.state.shift), self.state.rho = self.gradient.natural, climb.rho
        return gain


class SettleQ(NaturalPhase):
    """Steps of q(u) alone until the ELBO has settled."""

    def __init__(self, name: str, which: Part, schedule: NaturalGradients) -> None:
        super().__init__(name, schedule)
        self.which: Part = which

    def prepare(self, trainer: Trainer) -> None:
        super().prepare(trainer)
        self.rows = trainer.rows(self.which)
        self.local_rows = trainer.shard.select(self.rows)
        self.y = trainer.y[self.local_rows]
        self.projection = trainer.project(self.rows) if len(self.rows) <= self.schedule.max_joint else None
        self.climb: Climb | None = None

    def begin(self, trainer: Trainer) -> None:
        super().begin(trainer)
        if not trainer.model.likelihood.is_gaussian and trainer.model.variational.covariance_is_prior():
            # One pass over the data in small steps, where that is cheaper.
            minibatches = math.ceil(len(trainer.rows(self.which)) / self.batch_size(trainer))
            self.state.warm_up = 2 * minibatches if minibatches > 2 else 1

    def iterate(self, trainer: Trainer) -> str | None:
        state, done = self.state, trainer.iteration - self.state.warm_up
        if done < 0:
            self._stochastic(trainer, 0.5)
            return None
        if self.projection is None:
            # Too many series for joint steps: steps on minibatches shrink, so that the average over batches remains.
            self._stochastic(trainer, 0.5 / (1 + done / 4))
            return "settled" if done * self.batch_size(trainer) / len(self.rows) >= 2 and done >= 20 else None
        if self.climb is None:
            self.climb = Climb(self.gradient, in_batches(self.projection, self.y), state.rho)
        gain = self.climb_step(self.climb) / len(self.rows)
        trainer.record(self.name, elbo=self.climb.elbo / len(self.rows), step=self.climb.rho)
        # Before the hyperparameters are learned, q(u) need not be exact.
        enough = self.schedule.settle * (5 if self.schedule.learn and self.which == "train" else 1)
        state.idle = state.idle + 1 if gain < enough else 0
        return "settled" if gain <= 0 or state.idle >= 2 else None

    def finish(self, trainer: Trainer) -> None:
        if self.which == "train" and len(trainer.valid):
            nlpp, accuracy = trainer.validate()
            trainer.record(self.name, nlpp=nlpp, accuracy=accuracy)

    def _stochastic(self, trainer: Trainer, rho: float) -> None:
        """A step from one minibatch; the first from the prior is a whole one with the steepest curvature."""
        rows = trainer.minibatches.next(self.rows, self.batch_size(trainer))
        index = torch.searchsorted(self.local_rows, trainer.shard.select(rows))
        projection = trainer.project(rows) if self.projection is None else self.projection[index]
        first = trainer.iteration == 0 and self.state.warm_up > 0
        step = (1.0, _START_CURVATURE) if first else (rho, None)
        elbo = self.stochastic_step(in_batches(projection, self.y[index]), len(rows), len(self.rows), *step)
        trainer.record(self.name, elbo=elbo, step=rho)


class LearnHyperparameters(NaturalPhase):
    """Adam for scales, amplitude and likelihood in turn with steps of q(u); ends with the best state that it had."""

    def prepare(self, trainer: Trainer) -> None:
        super().prepare(trainer)
        model, state = trainer.model, self.state
        self.parameters = [p for part in (model.kernel, model.likelihood, model.features) for p in trainable(part)]
        if not self.parameters:
            state.best = copy.deepcopy(model.state_dict())
            return
        self.optimizer = torch.optim.Adam(self.parameters, lr=self.schedule.learning_rate, betas=(0.9, 0.95))
        if state.optimizer is not None:
            self.optimizer.load_state_dict(state.optimizer)
        if state.best is None:
            self._evaluate(trainer, None)

    def iterate(self, trainer: Trainer) -> str | None:
        if not self.parameters:
            return "nothing to learn"
        for _ in range(self.schedule.inner):
            self._adam(trainer)
        elbo = self._step_of_q(trainer)
        self.state.optimizer = copy.deepcopy(self.optimizer.state_dict())
        self._evaluate(trainer, elbo)
        return "no more improvement" if self.state.idle >= self.schedule.patience else None

    def finish(self, trainer: Trainer) -> None:
        assert self.state.best is not None
        trainer.model.load_state_dict(self.state.best)

    def _adam(self, trainer: Trainer) -> None:
        model = trainer.model
        size = min(512, len(trainer.train))
        rows = trainer.shard.select(trainer.minibatches.next(trainer.train, size))
        with frozen(model.variational):
            self.optimizer.zero_grad()
            if len(rows):  # the KL divergence is constant here: q(u) is frozen
                marginals = model.latent_marginals(trainer.cache.project(model, trainer.shard.local_index(rows)))
                loss = -model.likelihood.expected_log_prob(*marginals, trainer.y[rows]).sum() / size
                loss.backward()
            trainer.ranks.all_reduce_gradients(self.parameters)
            self.optimizer.step()

    def _batches(self, trainer: Trainer, rows: Tensor) -> list[Batch]:
        return in_batches(trainer.project(rows), trainer.y[trainer.shard.select(rows)])

    def _step_of_q(self, trainer: Trainer) -> float:
        """One step of q(u) at the new hyperparameters; returns the ELBO per series after it."""
        rows, total = trainer.train, len(trainer.train)
        if total > self.schedule.max_joint:
            rows = trainer.minibatches.next(rows, 4 * self.batch_size(trainer))
        batches = self._batches(trainer, rows)
        if len(rows) < total:
            return self.stochastic_step(batches, len(rows), total, 0.3)
        climb = Climb(self.gradient, batches, self.state.rho)
        self.climb_step(climb)
        return climb.elbo / total

    def _evaluate(self, trainer: Trainer, elbo: float | None) -> None:
        """Compares by validation NLPP, or without a validation part by the ELBO; keeps the best state."""
        state = self.state
        nlpp, accuracy = trainer.validate()
        if elbo is not None:
            trainer.record(self.name, elbo=elbo, nlpp=nlpp, accuracy=accuracy)
        elif nlpp is None and len(trainer.train) <= self.schedule.max_joint:
            elbo = Climb(self.gradient, self._batches(trainer, trainer.train)).elbo / len(trainer.train)
        score = nlpp if nlpp is not None else (-elbo if elbo is not None else math.inf)
        if score < state.best_score - 1e-4 or state.best is None:
            state.best_score, state.best, state.idle = score, copy.deepcopy(trainer.model.state_dict()), 0
        elif elbo is None or elbo < state.highest_elbo + _STILL_RISING:
            state.idle += 1
        if elbo is not None:
            state.highest_elbo = elbo if state.highest_elbo == math.inf else max(state.highest_elbo, elbo)
