"""One, two and three processes find the same: models, estimators, and fits that others began."""

import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import HashStore

from helpers import rank_jobs
from helpers.rank_jobs import BROKEN, BY_TWO, FITS
from helpers.refusals import assert_refused
from siggpde.distributed.ranks import ALONE, RankLost, Ranks, connect
from siggpde.distributed.shard import Shard
from siggpde.series import SeriesBatch
from siggpde.series.batch import fingerprint


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def three(folder: Path) -> list[dict[str, Any]]:
    """What `rank_jobs.everything` gives on three ranks."""
    actual = rank_jobs.run(3, "everything", folder)
    for rank, facts in enumerate(actual):
        assert isinstance(facts, dict), f"rank {rank}: {facts}"
    return actual


@pytest.fixture(scope="module")
def alone() -> dict[str, dict[str, Any]]:
    return {name: run_fit(ALONE) for name, run_fit in FITS.items()}


def numbers(facts: Any) -> list[Tensor]:
    """All numbers of nested lists and dictionaries, as vectors."""
    if isinstance(facts, Tensor):
        return [facts.detach().double().flatten()]
    if isinstance(facts, dict):
        return [actual for key in sorted(facts) for actual in numbers(facts[key])]
    if isinstance(facts, list | tuple):
        return [actual for item in facts for actual in numbers(item)]
    return [torch.tensor([math.nan if facts is None else facts], dtype=torch.float64)]


def assert_close(actual: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert actual["words"] == wanted["words"]
    assert actual["stopped"] == wanted["stopped"]
    for key in ("state", "records"):
        pairs = list(zip(numbers(actual[key]), numbers(wanted[key]), strict=True))
        for one, other in pairs:
            assert torch.equal(one.isnan(), other.isnan())
            gap = float((one - other).nan_to_num().abs().max())
            assert gap <= 1e-8 * float(other.nan_to_num().abs().max())


@pytest.mark.parametrize("name", FITS)
def test_three_ranks_find_what_one_does(three: list[dict[str, Any]], alone: dict[str, Any], name: str):
    """Parameters, ELBOs and scores, after 50 steps; parts are unequal, and some minibatches pass a rank by."""
    for facts in three:
        assert_close(facts["fits"][name], alone[name])
        same = zip(numbers(facts["fits"][name]["state"]), numbers(three[0]["fits"][name]["state"]), strict=True)
        assert all(torch.equal(one, other) for one, other in same)  # ranks must not drift apart


@pytest.mark.parametrize("name", BY_TWO)
def test_two_ranks_find_what_one_does(three: list[dict[str, Any]], alone: dict[str, Any], name: str):
    for facts in three[:2]:
        assert_close(facts["pair"][name], alone[name])


def test_minibatches_pass_a_rank_by():
    rows = torch.randperm(rank_jobs.N, generator=torch.Generator().manual_seed(0))
    start, stop = rank_jobs.CUTS[3][1:3]
    assert any(not ((part >= start) & (part < stop)).any() for part in rows.split(rank_jobs.PAPER.batch))


@pytest.mark.parametrize("name", BROKEN)
def test_what_two_ranks_began_three_or_one_go_on_with(
    three: list[dict[str, Any]], alone: dict[str, Any], folder: Path, name: str
):
    for facts in three:
        assert_close(facts["resumed"][name], alone[name])
    state = folder / f"{name}-by-one"
    shutil.copy(folder / f"{name}-by-two", state)
    assert_close(FITS[name](ALONE, checkpoint=state, resume=True), alone[name])


def test_estimators_of_parts_are_those_of_the_whole(three: list[dict[str, Any]]):
    wanted = rank_jobs.estimated(ALONE)
    for facts in three:
        assert_same_estimators(facts["estimated"], wanted)


def assert_same_estimators(actual: dict[str, Any], wanted: dict[str, Any]) -> None:
    for kind, (predicted, known, classes) in actual.items():
        torch.testing.assert_close(predicted, wanted[kind][0], rtol=1e-8, atol=1e-8)
        assert known == wanted[kind][1]
        assert classes == wanted[kind][2]


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_other_likelihoods_and_covariances_agree_too(folder: Path, count: int):
    wanted = rank_jobs.more(ALONE, folder)
    for facts in rank_jobs.run(count, "more", folder):
        assert isinstance(facts, dict), facts
        for name in rank_jobs.MORE:
            assert_close(facts["fits"][name], wanted["fits"][name])
        assert_same_estimators(facts["estimated"], wanted["estimated"])


def test_relatives_on_other_ranks_are_found(three: list[dict[str, Any]]):
    alone = rank_jobs.relatives(ALONE)
    assert [facts["relatives"] for facts in three] == [alone] * 3
    assert [len(set(family)) for _, family, _ in alone] == [13] * 3


def test_what_ranks_send_each_other_and_say_where_one_fails(three: list[dict[str, Any]]):
    first, second, third = (facts["failing"] for facts in three)
    assert third[0].startswith("ValueError: x is not finite (nan) in series 7")
    for said in (first, second):
        assert said[0].startswith("StoppedElsewhere: rank 2 of 3 stopped: x is not finite (nan) in series 7")
    assert first[1].startswith("ValueError: rank 1 has another model, schedule or kind of data than rank 0")
    assert second[1].startswith("StoppedElsewhere: rank 0 of 3 stopped: rank 1 has another model")
    assert first[2].startswith("ValueError: rank 0 has no series, of 3 in all: use fewer ranks")
    assert first[3].startswith("ValueError: labels are int64 on rank 0 but <U1 on rank 1")
    assert first[4].startswith("KeyError") and "rank 0 of 3 stopped" in third[4]
    for facts in three:
        actual = facts["tools"]
        torch.testing.assert_close(actual["sum"], [torch.tensor([0.3, 3.0]), torch.tensor(3)])
        assert actual["most"].tolist() == [2, 0]
        assert actual["gather"].tolist() == [0, 10, 11, 20, 21, 22]
        assert actual["places"].tolist() == [20, 10, 0]
        assert actual["first"] == {"rank": 0}
        assert actual["same"] == 0.5
        assert actual["all"] == [[0], [1], [2]]
        assert actual["gradient"].tolist() == [2.0, 2.0]
    assert [part.tolist() for part in three[0]["tools"]["to_first"]] == [[0], [10, 11], [20, 21, 22]]
    assert three[1]["tools"]["to_first"] == []


def test_a_process_alone_sends_nothing(monkeypatch: pytest.MonkeyPatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with connect() as ranks:
        assert ranks.alone and ranks.leads
        assert ranks.all_gather(3) == [3] and ranks.all_gather_sizes(4) == [4]
        with pytest.raises(KeyError), ranks.together():
            raise KeyError


def test_leaving_a_group_ends_its_threads():
    """A thread of the group that is there when the interpreter ends can abort the process."""
    tasks = Path("/proc/self/task")
    before = set(tasks.iterdir())
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    ranks = Ranks(dist.group.WORLD, owner=True)
    dist.all_reduce(torch.ones(3))
    new_threads = set(tasks.iterdir()) - before
    ranks.close()
    assert new_threads and not new_threads & set(tasks.iterdir())
    assert not dist.is_initialized()


def test_what_torchrun_sets_is_asked_for_and_ranks_that_never_come_are_not_waited_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert_refused("RANK, MASTER_ADDR, MASTER_PORT is not set: start with torchrun", connect)
    for name, value in {"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "9"}.items():
        monkeypatch.setenv(name, value)
    assert_refused(r"rank 1 of 2 could not meet the others at 127\.0\.0\.1:9", connect, timeout=1.0, error=RankLost)


@pytest.mark.parametrize("cut", [0, 3, 7])
def test_a_fingerprint_knows_its_series_and_their_places(cut: int):
    x, lengths = rank_jobs.series(7), torch.arange(7) % 3 + 4
    shard = Shard(Ranks(), 7)
    mark = fingerprint(shard, SeriesBatch(x, lengths), "a")
    padding = x.clone()
    padding[lengths == 4, 4:] = 9.0
    assert fingerprint(shard, SeriesBatch(padding, lengths), "a") == mark
    assert fingerprint(shard, SeriesBatch(x, lengths), "b") != mark
    swapped = x.roll(1, dims=0)
    assert fingerprint(shard, SeriesBatch(swapped, lengths), "a") != mark
    changed = x.clone()
    changed[cut % 7, 0, 0] += 1e-9
    assert fingerprint(shard, SeriesBatch(changed, lengths), "a") != mark
