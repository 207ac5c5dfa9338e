"""What a phase of a schedule is: work on a model that can be interrupted and resumed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from siggpde.training.trainer import Trainer


@dataclass
class PhaseState:
    """All that a phase changes besides the model, the minibatches and the History: what a checkpoint keeps of it.

    Fields are tensors and numbers, and lists and dictionaries of them.
    """

    def state_dict(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_state_dict(cls, values: dict[str, Any]) -> Self:
        return cls(**values)


class Control(Protocol):
    """What a phase calls between its steps, when its state is consistent: there a fit may be saved, or end."""

    def after_step(self, *, last: bool = False) -> bool:
        """Shows progress and, but for the last step, saves a checkpoint when one is due.

        Returns whether the time limit has passed.
        """
        ...


class Phase(Protocol):
    """One phase of a schedule; `max_steps` is how often at most it calls `Control.after_step`.

    `time_share` is the share of a time limit, from the start of the fit, at which the phase is late.
    """

    name: str
    max_steps: int
    time_share: float

    def begin(self, trainer: Trainer) -> None:
        """Makes the state that the phase starts from."""

    def state_dict(self) -> dict[str, Any]:
        """The state, for a checkpoint."""
        ...

    def load_state_dict(self, values: dict[str, Any]) -> None:
        """Takes over the state of a checkpoint, instead of `begin`."""

    def run(self, trainer: Trainer, control: Control) -> str:
        """Does what is left to do, and returns why it ended."""
        ...


State = TypeVar("State", bound=PhaseState)


class IterativePhase(Generic[State]):
    """A phase of at most `max_steps` iterations, each of which may be the last."""

    name: str
    max_steps: int
    time_share: float = 1.0
    state: State
    state_type: ClassVar[type[PhaseState]]

    def begin(self, trainer: Trainer) -> None:
        """Sets `state`."""
        raise NotImplementedError

    def prepare(self, trainer: Trainer) -> None:
        """Before the first iteration, and again after a resume: computes what follows from model and state."""
        raise NotImplementedError

    def iterate(self, trainer: Trainer) -> str | None:
        """One iteration; returns why the phase is over, or None."""
        raise NotImplementedError

    def finish(self, trainer: Trainer) -> None:
        """After the last iteration."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        return self.state.state_dict()

    def load_state_dict(self, values: dict[str, Any]) -> None:
        self.state = self.state_type.from_state_dict(values)  # pyright: ignore[reportAttributeAccessIssue]

    def run(self, trainer: Trainer, control: Control) -> str:
        self.prepare(trainer)
        reason = None
        while reason is None:
            reason = self.iterate(trainer)
            trainer.iteration += 1
            if reason is None and trainer.iteration >= self.max_steps:
                reason = f"{self.max_steps} iterations"
            late = control.after_step(last=reason is not None)
            if reason is None and late:
                reason = "time limit"
        self.finish(trainer)
        return reason
