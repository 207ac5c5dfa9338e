"""One record of a trial: paths are prepared once for each way of making them, and nothing else changes by that."""

import gc
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor

import siggpde
from siggpde.gp.leave_one_out import leave_one_out
from siggpde.numerics.signature import signature
from siggpde.selection.candidates import Candidate, channel_scales, choose_words
from siggpde.selection.trial import Prepared, best_kinds, ways
from siggpde.series import PathOptions, PathTransform, SeriesBatch

LABELS = torch.arange(40) % 2
PLAIN, ARC, OPEN = PathOptions(), PathOptions(append="arc"), PathOptions(base_point=False)
MIXED = [
    Candidate(PLAIN, 4.0, 1.0, 40),
    Candidate(ARC, 4.0, 1.0, 40),
    Candidate(PLAIN, 8.0, 2.0, 30, degree=2),
    Candidate(OPEN, 4.0, 1.0, 40),
    Candidate(ARC, 12.0, 4.0, 40, degree=1),
    Candidate(PLAIN, 1e60, 1.0, 40),  # its numbers overflow
]


def walks(n: int = 40, length: int = 12, channels: int = 2) -> Tensor:
    random = torch.Generator().manual_seed(0)
    return torch.randn(n, length, channels, generator=random, dtype=torch.float64).cumsum(dim=1)


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[tuple[PathOptions, int]]:
    """The options and number of series of every fit of a transform and of every batch of paths made by one."""
    calls: list[tuple[PathOptions, int]] = []
    fit, paths = PathTransform.fit, PathTransform.paths
    alive: list[Any] = []

    def counted_fit(self: PathTransform, series: Any, **more: Any) -> PathTransform:
        calls.append((self.options, len(series)))
        return fit(self, series, **more)

    def counted_paths(self: PathTransform, batch: SeriesBatch) -> SeriesBatch:
        gc.collect()
        assert not any(each() is not None for each in alive), "the paths of another way are still there"
        calls.append((self.options, len(batch)))
        made = paths(self, batch)
        alive.append(weakref.ref(made))
        return made

    monkeypatch.setattr(PathTransform, "fit", counted_fit)
    monkeypatch.setattr(PathTransform, "paths", counted_paths)
    return calls


def test_paths_are_prepared_once_for_each_way(prepared: list[tuple[PathOptions, int]]):
    siggpde.screen(walks(), LABELS, candidates=MIXED)
    assert prepared == [(way, 40) for way in (PLAIN, ARC, OPEN) for _ in ("fit", "paths")]


def test_a_search_prepares_each_way_once_a_round(prepared: list[tuple[PathOptions, int]]):
    found = siggpde.screen(walks(), LABELS, max_words=40)
    first = {PathOptions(**{name: entry[name] for name in PLAIN.__dict__}) for entry in found.report[:65]}
    second = {PathOptions(**{name: entry[name] for name in PLAIN.__dict__}) for entry in found.report[65:]}
    assert len(first) == 5 and len(found.report) == 81
    assert len(prepared) == 2 * (len(first) + len(second))


def test_each_trial_is_what_it_would_be_alone_and_in_its_place():
    series = walks()
    found = siggpde.screen(series, LABELS, candidates=MIXED)
    assert [(entry["path_length"], entry["append"]) for entry in found.report] == [
        (each.path_length, each.options.append) for each in MIXED
    ]
    by_kind = {one.candidate.kind: one for one in [found, *found.others]}
    assert len(by_kind) == 5 and "failed" in found.report[-1]
    for candidate, entry in zip(MIXED[:-1], found.report, strict=False):
        transform = PathTransform(candidate.options).fit(series)
        paths = transform.paths(SeriesBatch(series))
        theta = channel_scales(paths, candidate)
        words = choose_words(paths, theta, candidate)
        values = signature(paths.values * theta, words=words)
        alone = leave_one_out(values / values.norm(dim=1, keepdim=True), LABELS, 2)
        tried = by_kind[candidate.kind]
        assert torch.equal(tried.theta, theta) and tried.words == words and len(words) == entry["words"]
        assert torch.equal(tried.result.weights, alone.weights)
        assert tried.result.score == alone.score == entry["score"]
        assert tried.transform.state() == transform.state()
    assert len({id(one.transform) for one in by_kind.values()}) == 5, "each record has a transform of its own"


def test_ways_are_in_the_order_of_their_first_candidates():
    assert ways(MIXED) == {PLAIN: [0, 2, 5], ARC: [1, 4], OPEN: [3]}
    assert ways([]) == {}


def test_the_best_of_each_kind_in_order():
    batch = SeriesBatch(walks())
    way = Prepared.of(batch, PLAIN)
    trials = []
    for length, degree in ((4.0, None), (4.0, 2), (8.0, None)):
        candidate = Candidate(path_length=length, degree=degree, words=20)
        seen = way.describe(candidate)
        trials.append(way.trial(candidate, seen, leave_one_out(seen.features, LABELS, 2)))
    a, b, c = trials
    assert best_kinds([c, b, a], 5) == best_kinds([c, b, a]) == [c, b]
    assert best_kinds([a, c, b], 1) == [a]
