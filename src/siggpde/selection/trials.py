"""Trials of candidate settings on a sample of the series, by one process or by several."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from siggpde.distributed.ranks import Ranks
from siggpde.gp.leave_one_out import TIE, LeaveOneOut, leave_one_out
from siggpde.selection.candidates import Candidate
from siggpde.selection.trial import Prepared, Trial, ways
from siggpde.series import PathTransform, SeriesBatch


@dataclass
class Sample:
    """Series to try candidates on, their targets y (m,), and their indices (m,) among all series, in order."""

    indices: Tensor
    batch: SeriesBatch
    y: Tensor


class _Outcome(NamedTuple):
    """The place of a candidate in its round, its trial, None where numbers overflowed, and its entry in the report."""

    place: int
    trial: Trial[LeaveOneOut] | None
    entry: dict[str, Any]


class Trials:
    """Runs trials of candidates and ranks them.

    `order` is a permutation of all series. A trial on `size` series takes the first `size` of it, so that all trials of
    one size see the same series; `max_series` is the largest size of a completed trial.
    """

    def __init__(self, sample: Sample, order: Tensor, classes: int | None) -> None:
        self.sample, self.order, self.classes = sample, order, classes
        self.completed: dict[tuple[int, Candidate], Trial[LeaveOneOut]] = {}
        self.max_series = 0
        self.report: list[dict[str, Any]] = []

    def run(self, candidates: Sequence[Candidate], size: int, ranks: Ranks, go_on: Callable[[], bool]) -> None:
        """Tries candidates on `size` series, until `go_on()` is False.

        Candidates are shared out among the ranks; afterwards every rank has all trials. A rank tries candidates of one
        way of making paths one after the other, and holds the paths of that way alone.
        """
        new = [candidate for candidate in dict.fromkeys(candidates) if (size, candidate) not in self.completed]
        with ranks.together():
            outcomes = self._outcomes(new, range(ranks.rank, len(new), ranks.count), size, go_on)
        if not ranks.alone:
            states = [(place, _state(trial), entry) for place, trial, entry in outcomes]
            outcomes = [
                _Outcome(place, self._from_state(new[place], state), entry)
                for of_rank in ranks.all_gather(states)
                for place, state, entry in of_rank
            ]
        for place, trial, entry in sorted(outcomes, key=lambda outcome: outcome.place):
            self.report.append(entry)
            if trial is not None:
                self.completed[size, new[place]] = trial
                self.max_series = max(self.max_series, size)

    def _outcomes(
        self, new: Sequence[Candidate], places: Sequence[int], size: int, go_on: Callable[[], bool]
    ) -> list[_Outcome]:
        """The outcomes of the candidates at these places, way by way, until `go_on()` is False."""
        rows = torch.searchsorted(self.sample.indices, self.order[:size].sort().values)
        batch, y = self.sample.batch[rows], self.sample.y[rows]
        outcomes = []
        for options, own in ways(new[place] for place in places).items():
            started = time.perf_counter()  # that of the first candidate includes the paths
            prepared = Prepared.of(batch, options)
            for place in (places[index] for index in own):
                trial, entry = _try(prepared, new[place], y, self.classes)
                if trial is not None:
                    entry["seconds"] = time.perf_counter() - started
                outcomes.append(_Outcome(place, trial, entry))
                if not go_on():
                    return outcomes
                started = time.perf_counter()
            del prepared  # before the paths of the next way are made
        return outcomes

    def _from_state(self, candidate: Candidate, state: dict[str, Any] | None) -> Trial[LeaveOneOut] | None:
        """The trial of a candidate that another rank made, on the device of the sample."""
        if state is None:
            return None
        device = self.sample.batch.values.device
        transform, result = PathTransform.from_state(state["transform"]), LeaveOneOut(**state["result"])
        words = [tuple(word) for word in state["words"]]
        return Trial(candidate, transform, state["theta"].to(device), words, result.to(device))

    def ranked(self) -> list[Trial[LeaveOneOut]]:
        """Trials on the largest number of series so far, the best first; of ties the one tried first."""
        if not self.completed:
            raise ArithmeticError("no candidate could be scored; see the report: " + str(self.report[:3]))
        trials = [trial for (n, _), trial in self.completed.items() if n == self.max_series]
        return sorted(trials, key=lambda trial: round(trial.result.score / TIE))


def _try(
    prepared: Prepared, candidate: Candidate, y: Tensor, classes: int | None
) -> tuple[Trial[LeaveOneOut] | None, dict[str, Any]]:
    """The trial of a candidate, None where its numbers overflow, and its entry in the report."""
    entry = {**asdict(candidate.options), "degree": candidate.degree}
    entry |= {"path_length": candidate.path_length, "time_scale": candidate.time_scale, "series": len(y)}
    try:
        seen = prepared.describe(candidate)
        result = leave_one_out(seen.features, y, classes)
    except ArithmeticError as error:
        return None, {**entry, "failed": str(error)}
    scores = {"score": result.score, "error": result.error, "noise": result.noise}
    return prepared.trial(candidate, seen, result), {**entry, "words": len(seen.words), **scores}


def _state(trial: Trial[LeaveOneOut] | None) -> dict[str, Any] | None:
    """Plain values and tensors of a trial, for other ranks, which know its candidate."""
    if trial is None:
        return None
    words = [list(word) for word in trial.words]
    result = dict(trial.result.__dict__)
    return {"transform": trial.transform.state(), "theta": trial.theta, "words": words, "result": result}
