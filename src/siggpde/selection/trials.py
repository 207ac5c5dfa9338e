"""Trials of candidate settings on a sample of the series, by one process or by several."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from siggpde.distributed.ranks import Ranks
from siggpde.gp.leave_one_out import TIE, LeaveOneOut, leave_one_out
from siggpde.numerics import inputs
from siggpde.numerics.signature import signature
from siggpde.paths import PathTransform, SeriesBatch
from siggpde.selection.candidates import Candidate, channel_scales, choose_words
from siggpde.word_sets import Word


@dataclass
class Trial:
    """A candidate tried: its transform, channel scales and words, and how well it predicts series left out."""

    transform: PathTransform
    theta: Tensor
    words: list[Word]
    result: LeaveOneOut

    def state(self) -> dict[str, Any]:
        """Plain values and tensors, from which `from_state` makes the trial again."""
        words = [list(word) for word in self.words]
        result = dict(self.result.__dict__)
        return {"transform": self.transform.state(), "theta": self.theta, "words": words, "result": result}

    def to(self, device: torch.device) -> Trial:
        """The trial with its tensors on a device."""
        return replace(self, theta=self.theta.to(device), result=self.result.to(device))

    @staticmethod
    def from_state(state: dict[str, Any]) -> Trial:
        words = [tuple(word) for word in state["words"]]
        return Trial(
            PathTransform.from_state(state["transform"]), state["theta"], words, LeaveOneOut(**state["result"])
        )


@dataclass
class Sample:
    """Series to try candidates on, their targets y (m,), and their indices (m,) among all series, in order."""

    indices: Tensor
    batch: SeriesBatch
    y: Tensor


class Trials:
    """Runs trials of candidates and ranks them.

    `order` is a permutation of all series. A trial on `size` series takes the first `size` of it, so that all trials of
    one size see the same series; `max_series` is the largest size of a completed trial.
    """

    def __init__(self, sample: Sample, order: Tensor, classes: int | None) -> None:
        self.sample, self.order, self.classes = sample, order, classes
        self.completed: dict[tuple[int, Candidate], Trial] = {}
        self.max_series = 0
        self.report: list[dict[str, Any]] = []

    def run(self, candidates: Sequence[Candidate], size: int, ranks: Ranks, go_on: Callable[[], bool]) -> None:
        """Tries candidates on `size` series, until `go_on()` is False.

        Candidates are shared out among the ranks; afterwards every rank has all trials.
        """
        new = [candidate for candidate in dict.fromkeys(candidates) if (size, candidate) not in self.completed]
        outcomes: list[tuple[int, Trial | None, dict[str, Any]]] = []
        with ranks.together():
            for index in range(ranks.rank, len(new), ranks.count):
                outcomes.append((index, *self._try(new[index], size)))
                if not go_on():
                    break
        if not ranks.alone:
            states = [(index, trial and trial.state(), entry) for index, trial, entry in outcomes]
            device = self.sample.batch.values.device
            outcomes = [
                (index, Trial.from_state(state).to(device) if state else None, entry)
                for of_rank in ranks.all_gather(states)
                for index, state, entry in of_rank
            ]
        for index, trial, entry in sorted(outcomes, key=lambda outcome: outcome[0]):
            self.report.append(entry)
            if trial is not None:
                self.completed[size, new[index]] = trial
                self.max_series = max(self.max_series, size)

    def _try(self, candidate: Candidate, size: int) -> tuple[Trial | None, dict[str, Any]]:
        """The trial of a candidate, None where its numbers overflow, and its entry in the report."""
        started = time.perf_counter()
        rows = torch.searchsorted(self.sample.indices, self.order[:size].sort().values)
        batch = self.sample.batch[rows]
        transform = PathTransform(candidate.options).fit(batch)
        paths = transform.paths(batch)
        theta = channel_scales(paths, candidate)
        entry = {**asdict(candidate.options), "degree": candidate.degree}
        entry |= {"path_length": candidate.path_length, "time_scale": candidate.time_scale, "series": size}
        try:
            words = choose_words(paths, theta, candidate)
            values = signature(paths.values * theta, words=words, lengths=paths.lengths)
            norms = values.norm(dim=1, keepdim=True)
            if not bool(torch.isfinite(norms).all()):
                inputs.raise_overflow(norms, "the norm of the signature")
            result = leave_one_out(values / norms, self.sample.y[rows], self.classes)
        except ArithmeticError as error:
            return None, {**entry, "failed": str(error)}
        seconds = time.perf_counter() - started
        scores = {"score": result.score, "error": result.error, "noise": result.noise, "seconds": seconds}
        return Trial(transform, theta, words, result), {**entry, "words": len(words), **scores}

    def ranked(self) -> list[tuple[Candidate, Trial]]:
        """Candidates tried on the largest number of series so far, the best first; of ties the one tried first."""
        if not self.completed:
            raise ArithmeticError("no candidate could be scored; see the report: " + str(self.report[:3]))
        trials = [(candidate, trial) for (n, candidate), trial in self.completed.items() if n == self.max_series]
        return sorted(trials, key=lambda item: round(item[1].result.score / TIE))
