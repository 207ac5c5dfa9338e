"""Fits that stop in the middle."""

from typing import Any

import pytest

from siggpde.gp.exact import ExactPosterior
from siggpde.gp.phases import LearnHyperparameters, NadamPhase, SettleQ


class Interruption(Exception):
    pass


def interrupt(monkeypatch: pytest.MonkeyPatch, phase: str, at: int) -> None:
    """Raises in place of iteration `at` of a phase."""
    for kind in (SettleQ, LearnHyperparameters, NadamPhase, ExactPosterior):
        iterate = kind.iterate

        def stopped(self: Any, trainer: Any, iterate: Any = iterate) -> str | None:
            if self.name == phase and trainer.iteration == at:
                raise Interruption
            return iterate(self, trainer)

        monkeypatch.setattr(kind, "iterate", stopped)
