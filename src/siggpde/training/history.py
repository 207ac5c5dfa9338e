"""What happened in a fit: one record for every evaluation, as plain numbers."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Record:
    """The state of a fit at one moment; what was not evaluated is None.

    `elbo` is per training series (of the minibatch in stochastic phases); `nlpp` and `accuracy` are those of the
    validation set; `seconds` counts from the start of the fit.
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

    `steps` counts the iterations of the phases that take minibatches, and `step_seconds` is the CPU time of all their
    updates: without set-up, evaluations and checkpoints.
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
