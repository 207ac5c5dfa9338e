"""How to train: the schedules that `fit` takes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NaturalGradients:
    """Natural gradients for q(u), Adam for the hyperparameters; nothing to tune. The default.

    Phase `q` settles q(u) on the training part. Phase `hyperparameters` alternates `inner` Adam steps of scales,
    amplitude and likelihood with one step of q(u), watches the validation part, and ends with the best state seen.
    Phase `all` settles q(u) on all the series.

    - `max_iter`: the most iterations of a phase.
    - `learn`: False skips the hyperparameters.
    - `settle`: a phase of q(u) ends when a step raises the ELBO by less than this, in nats a series.
    - `patience`: evaluations without improvement after which the hyperparameters are left.
    - `batch`: series of a stochastic step; None takes max(1024, 2 M).
    - `max_joint`: up to this many series q(u) takes steps on all of them; above, stochastic steps only.
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
        _positive(self, "max_iter", "learning_rate", "inner", "settle", "patience", "max_joint")
        if self.batch is not None:
            _positive(self, "batch")


@dataclass(frozen=True)
class PaperSchedule:
    """The SigGPDE paper's: Nadam in three equal phases, as `iterations` each with minibatches of `batch` series.

    q(u) alone; q(u) and hyperparameters, the validation NLPP watched every `evaluate_every` iterations and the best
    state restored; q(u) alone on training and validation series. Inducing variables that can move do so with q(u);
    words stay as they are, however many, so that nothing is factorised. A time limit gives every phase a third.

    - `patience`: a phase with a validation part ends after so many evaluations none of which lowered the NLPP by more
      than 0.5 % of the best before, and the last phase takes as many iterations as the first did; None for never.
    - `cpu_budget`: seconds of CPU time, a third of them for each phase, after which it ends; None for no end.
    """

    iterations: int = 5000
    batch: int = 50
    learning_rate: float = 1e-3
    evaluate_every: int = 250
    patience: int | None = None
    cpu_budget: float | None = None

    def __post_init__(self) -> None:
        _positive(self, "iterations", "batch", "learning_rate", "evaluate_every")
        _positive(self, *(name for name in ("patience", "cpu_budget") if getattr(self, name) is not None))


@dataclass(frozen=True)
class Exact:
    """The optimum in closed form, for the `Gaussian` likelihood: no steps, nothing to tune.

    Noise and amplitude are those with the best leave-one-out predictions, known for every level of noise from one
    eigendecomposition; q(u) follows exactly. Scales stay.

    - `tune`: False leaves noise and amplitude as they are.
    - `max_tuned`: at most so many series, drawn at random, decide noise and amplitude; all decide q(u).
    """

    tune: bool = True
    max_tuned: int = 8000

    def __post_init__(self) -> None:
        _positive(self, "max_tuned")


Schedule = NaturalGradients | PaperSchedule | Exact


def _positive(settings: object, *names: str) -> None:
    for name in names:
        value = getattr(settings, name)
        if not value > 0:
            raise ValueError(f"{name} must be positive, got {value!r}")
