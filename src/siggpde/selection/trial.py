"""Candidates of the screening tried on some of the series, by one process or by several."""

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
from siggpde.paths import PathTransform
from siggpde.selection.candidates import Candidate, choose_words, scales
from siggpde.word_sets import Word


@dataclass
class Found:
    """What was made of a candidate, and how well it predicts."""

    transform: PathTransform
    theta: Tensor
    words: list[Word]
    result: LeaveOneOut

    def state(self) -> dict[str, Any]:
        """The same as plain values and tensors."""
        words = [list(word) for word in self.words]
        result = dict(self.result.__dict__)
        return {"transform": self.transform.state(), "theta": self.theta, "words": words, "result": result}

    def to(self, device: torch.device) -> Found:
        """The same on a device."""
        return replace(self, theta=self.theta.to(device), result=self.result.to(device))

    @staticmethod
    def from_state(state: dict[str, Any]) -> Found:
        words = [tuple(word) for word in state["words"]]
        return Found(
            PathTransform.from_state(state["transform"]), state["theta"], words, LeaveOneOut(**state["result"])
        )


@dataclass
class Sample:
    """Some of the series: their numbers `rows` among all, in order, and what is known of them."""

    rows: Tensor
    values: Tensor
    lengths: Tensor | None
    times: Tensor | None
    y: Tensor


class Judge:
    """Tries candidates on the first series of an `order` of all, the same ones for all of a size."""

    def __init__(self, sample: Sample, order: Tensor, classes: int | None) -> None:
        self.sample, self.order, self.classes = sample, order, classes
        self.found: dict[tuple[int, Candidate], Found] = {}
        self.report: list[dict[str, Any]] = []

    def add(self, candidates: Sequence[Candidate], size: int, ranks: Ranks, go_on: Callable[[], bool]) -> None:
        """Tries candidates on so many series, each rank some of them, while `go_on` says so; every rank learns all."""
        new = [candidate for candidate in dict.fromkeys(candidates) if (size, candidate) not in self.found]
        tried: list[tuple[int, Found | None, dict[str, Any]]] = []
        with ranks.together():
            for place in range(ranks.rank, len(new), ranks.count):
                tried.append((place, *self._tried(new[place], size)))
                if not go_on():
                    break
        if not ranks.alone:
            states = [(place, found and found.state(), facts) for place, found, facts in tried]
            every = [item for part in ranks.all_gather(states) for item in part]
            own = self.sample.values.device
            tried = [
                (place, Found.from_state(state).to(own) if state else None, facts) for place, state, facts in every
            ]
        for place, found, facts in sorted(tried, key=lambda item: item[0]):
            self.report.append(facts)
            if found is not None:
                self.found[size, new[place]] = found

    def _tried(self, candidate: Candidate, size: int) -> tuple[Found | None, dict[str, Any]]:
        """What comes of a candidate, None where nothing does, and what to report."""
        started = time.perf_counter()
        sample, rows = self.sample, torch.searchsorted(self.sample.rows, self.order[:size].sort().values)
        counts = None if sample.lengths is None else sample.lengths[rows]
        times = None if sample.times is None else sample.times[rows]
        series = sample.values[rows]
        transform = PathTransform(candidate.options).fit(series, lengths=counts, times=times)
        paths, counts = transform(series, lengths=counts, times=times)
        theta = scales(paths, candidate)
        facts = {**asdict(candidate.options), "degree": candidate.degree}
        facts |= {"path_length": candidate.path_length, "time_scale": candidate.time_scale, "series": size}
        try:
            chosen = choose_words(paths, counts, theta, candidate)
            values = signature(paths * theta, words=chosen, lengths=counts)
            norms = values.norm(dim=1, keepdim=True)
            if not bool(torch.isfinite(norms).all()):
                inputs.raise_overflow(norms, "the norm of the signature")
            result = leave_one_out(values / norms, sample.y[rows], self.classes)
        except ArithmeticError as trouble:
            return None, {**facts, "failed": str(trouble)}
        seconds = time.perf_counter() - started
        judged = {"score": result.score, "error": result.error, "noise": result.noise, "seconds": seconds}
        return Found(transform, theta, chosen, result), {**facts, "words": len(chosen), **judged}

    @property
    def most(self) -> int:
        """The most series that a candidate was tried on."""
        return max(size for size, _ in self.found)

    def ranked(self) -> list[tuple[Candidate, Found]]:
        """Candidates tried on the most series so far, the best first; of those alike the one tried first."""
        if not self.found:
            raise ArithmeticError("no candidate could be judged; see the report: " + str(self.report[:3]))
        tried = [(candidate, found) for (size, candidate), found in self.found.items() if size == self.most]
        return sorted(tried, key=lambda item: round(item[1].result.score / TIE))
