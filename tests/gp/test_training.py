"""Around a fit: signatures, history, split, time limit, what is refused, and checkpoints that go on bitwise."""

import copy
import json
import os
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.interruptions import Interruption, interrupt
from helpers.processes import run
from helpers.random_paths import generator
from helpers.refusals import assert_refused
from helpers.small_models import QUIET, labels, same_state, series, small_gp, targets
from siggpde.gp.cache import SignatureCache
from siggpde.gp.checkpoint import write_whole
from siggpde.gp.likelihoods import Gaussian, Softmax
from siggpde.gp.phases import LearnHyperparameters, NadamPhase, SettleQ
from siggpde.gp.trainer import Minibatches, Trainer, split_rows
from siggpde.gp.training import _warn_if_diverged
from siggpde.series import SeriesBatch
from siggpde.training import Exact, History, NaturalGradients, PaperSchedule, Record, fit

NATURAL = NaturalGradients(max_iter=4, settle=1e-12, inner=2)
PAPER = PaperSchedule(iterations=5, batch=8, evaluate_every=2)
schedules = pytest.mark.parametrize("schedule", [NATURAL, PAPER], ids=["natural", "paper"])
X = series(60)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_cache_in_a_file_is_the_one_in_memory(dtype: torch.dtype):
    models = [small_gp(Gaussian(0.2), 7, order="energy", dtype=dtype) for _ in range(2)]
    for model, budget in zip(models, (2**31, 100), strict=True):
        fit(model, (X, targets(X)), NATURAL, memory_budget=budget, **QUIET)
    assert same_state(*models)
    cache = SignatureCache(SeriesBatch(X), models[0].features.words, models[0].kernel.log_theta, dtype=dtype, budget=0)
    folder = Path(cache._folder.name)
    assert (folder / "signatures").stat().st_size == 60 * 7 * dtype.itemsize
    del cache
    assert not folder.exists()


@pytest.mark.parametrize("case", ["infinite", "finite", "all words", "normalized"])
def test_a_cache_sees_what_the_model_sees_when_the_scales_have_moved(case: str):
    kernel = {"finite": {"depth": 4}, "all words": {"depth": 2}, "normalized": {"normalized": True}}
    model = small_gp(count=7, theta=[0.6, 0.9], amplitude=1.4, tol=1e-12, **kernel.get(case, {}))
    pool = model.kernel.words if case == "finite" else [*model.features.words, (1, 1, 0), (0, 1, 0)]
    lengths = torch.randint(1, 7, (60,), generator=generator(0))
    cache = SignatureCache(SeriesBatch(X, lengths), pool, model.kernel.log_theta)
    with torch.no_grad():
        model.kernel.log_theta.add_(torch.tensor([0.3, -0.2]))
    for rows in (torch.arange(60), torch.tensor([5, 0, 33])):
        got, wanted = cache.project(model, rows), model.project(X[rows], lengths=lengths[rows])
        for name in ("features", "variance", "tail"):
            assert torch.allclose(getattr(got, name), getattr(wanted, name), rtol=1e-10, atol=1e-10)
        sums = [s.features.sum() + 3 * s.tail.sum() + s.variance.sum() for s in (got, wanted)]
        slopes = [torch.autograd.grad(total, list(model.kernel.parameters())) for total in sums]
        assert all(torch.allclose(a, b, rtol=1e-8, atol=1e-8) for a, b in zip(*slopes, strict=True))
    with torch.no_grad():
        tail = cache.project(model, torch.arange(60)).tail
        assert torch.allclose(tail, model.project(X, lengths=lengths).tail, atol=1e-10)


def test_the_history_says_what_happened(tmp_path: Path):
    model, y = small_gp(Softmax(3), 7, theta=0.6, order="energy"), labels(X, 3)
    history = fit(model, (X, y), NaturalGradients(max_iter=6), seed=5, **QUIET)
    assert (history.seed, history.schedule, history.rounded_tails) == (5, "NaturalGradients", 0)
    assert list(history.phase_seconds) == ["set-up", "q", "hyperparameters", "all"]
    assert history.stopped.keys() == {"q", "hyperparameters", "all"}
    assert set(history.stopped.values()) <= {"settled", "6 iterations", "no more improvement"}
    for phase in ("q", "all"):
        joint = [r.elbo for r in history.of(phase) if r.elbo is not None][phase == "q" :]  # q begins with a batch step
        assert all(later >= earlier - 1e-10 for earlier, later in pairwise(joint))
    assert all(len(r.theta or []) == 2 and (r.amplitude or 0) > 0 for r in history.records)
    assert len({tuple(r.theta) for r in history.of("hyperparameters")}) == len(history.of("hyperparameters"))
    seconds = [r.seconds for r in history.records]
    assert seconds == sorted(seconds) and seconds[-1] <= history.seconds + 0.05
    validated = [r for r in history.records if r.nlpp is not None]
    assert all(r.accuracy is not None and 0 <= r.accuracy <= 1 for r in validated) and len(validated) >= 2
    assert history.elbo == pytest.approx(model.elbo(X, y).item() / 60, rel=1e-9)
    history.save(tmp_path / "history.json")
    again = History.from_dict(json.loads((tmp_path / "history.json").read_text()))
    assert again == history and str(again) == str(history) and "NaturalGradients: set-up" in str(history)


@schedules
def test_the_same_seed_gives_bitwise_the_same_and_the_global_generator_is_left_alone(schedule: Any):
    state = torch.get_rng_state()
    models = [small_gp(Softmax(3), 7, order="energy") for _ in range(3)]
    parts = replace(schedule, batch=7)
    y, seeds = labels(X, 3), (4, 4, 5)
    histories = [fit(m, (X, y), parts, seed=seed, **QUIET) for m, seed in zip(models, seeds, strict=True)]
    assert torch.equal(state, torch.get_rng_state())
    assert same_state(models[0], models[1]) and not same_state(models[0], models[2])
    assert [r.elbo for r in histories[0].records] == [r.elbo for r in histories[1].records]


@schedules
def test_phases_of_q_leave_kernel_and_likelihood_bitwise_alone(schedule: Any, monkeypatch: pytest.MonkeyPatch):
    changed = {"q": 0, "hyperparameters": 0, "all": 0}
    for kind in (SettleQ, LearnHyperparameters, NadamPhase):

        def watched(self: Any, trainer: Trainer, iterate: Any = kind.iterate) -> str | None:
            parameters = [*trainer.model.kernel.parameters(), *trainer.model.likelihood.parameters()]
            before = copy.deepcopy(parameters)
            reason = iterate(self, trainer)
            changed[self.name] += sum(not torch.equal(a, b) for a, b in zip(before, parameters, strict=True))
            return reason

        monkeypatch.setattr(kind, "iterate", watched)
    model = small_gp(Gaussian(0.3), 7)
    history = fit(model, (X, targets(X)), schedule, **QUIET)
    iterations = 1 + history.of("hyperparameters")[-1].iteration
    assert changed == {"q": 0, "hyperparameters": 3 * iterations, "all": 0}, "each of three parameters"
    assert list(history.stopped) == list(changed)
    assert all(p.requires_grad for p in model.parameters())


@schedules
def test_every_phase_is_cut_short_by_the_time_limit(schedule: Any):
    model, y = small_gp(Gaussian(0.2), 7, theta=0.6), targets(X)
    history = fit(model, (X, y), schedule, time_limit=1e-9, **QUIET)
    assert history.stopped == dict.fromkeys(("q", "hyperparameters", "all"), "time limit")
    assert torch.isfinite(model.predict_f(X)[0]).all()


@pytest.mark.parametrize(("n", "share"), [(50, 0.2), (333, 0.1), (100, 0.29), (64, 0.5)])
def test_the_split_is_stratified_and_minibatches_take_every_series_once_before_any_again(n: int, share: float):
    y = (torch.rand(n, generator=generator(n)) ** 2 * 4).long()
    train, valid = split_rows(share, y, True, generator(0))
    assert torch.equal(torch.cat([train, valid]).sort().values, torch.arange(n))
    assert torch.equal(train, train.sort().values) and torch.equal(valid, valid.sort().values)
    for label in range(4):
        members = int((y == label).sum())
        assert int((y[valid] == label).sum()) == int(share * members + 1e-9)
    regression = split_rows(share, y.double(), False, generator(0))
    assert len(regression[1]) == int(share * n + 1e-9)
    assert not torch.equal(split_rows(share, y, True, generator(1))[1], valid)
    minibatches = Minibatches(generator(0))
    drawn = [minibatches.next(train, n // 4) for _ in range(2 * len(train))]
    assert all(len(set(batch.tolist())) == n // 4 for batch in drawn)
    assert all(torch.equal(whole.sort().values, train) for whole in torch.cat(drawn).split(len(train)))
    assert torch.equal(minibatches.next(train, 2 * n).sort().values, train)


def test_splits_that_are_given_and_splits_that_are_not_made():
    y = torch.zeros(49)
    for share in (0.0, 0.2, 0):
        train, valid = split_rows(share, y, False, generator(0))
        assert torch.equal(train, torch.arange(49)) and len(valid) == 0
    train, valid = split_rows(([4, 1], [0]), y, False, generator(0))
    assert train.tolist() == [1, 4] and valid.tolist() == [0]
    for wrong in (([], [1]), ([1, 2], [2]), ([1, 49], []), ([-1], [2]), ([1, 1], [])):
        assert_refused("two disjoint lists of row numbers below 49", split_rows, wrong, y, False, generator(0))
    for share in (-0.1, 1.0, float("nan")):
        assert_refused("a share from 0 up to 1", split_rows, share, y, False, generator(0))


def test_fit_says_what_is_wrong_with_the_data():
    model, y, bad = small_gp(Gaussian(0.2), 7, theta=0.6), targets(X), X.clone()
    bad[41, 2, 1] = float("inf")
    assert_refused("60 series but 59 targets", fit, model, (X, y[1:]))
    assert_refused("no series to train on", fit, model, (X[:0], y[:0]))
    assert_refused("in series 41, at time index 2, channel 1", fit, model, (bad, y))
    one = small_gp(Softmax(2), 3)
    fit(one, (X[:1], [1]), **QUIET)
    assert one.predict(X[:1])[0, 1] > 0.5


def test_a_defect_is_named_by_the_number_of_its_series(monkeypatch: pytest.MonkeyPatch):
    model = small_gp(count=7)
    cache = SignatureCache(SeriesBatch(X), model.features.words, model.kernel.log_theta)
    norms = model.kernel.squared_norm(X).detach()
    norms[41] = 0.5
    monkeypatch.setattr(cache, "_squared_norms", lambda _: norms)
    with torch.no_grad():
        assert_refused("series 41: its features", cache.project, model, torch.tensor([3, 41, 7]), error=ArithmeticError)


def test_a_fit_that_is_lost_says_so():
    history = History(records=[Record("all", 0, 1.0, elbo=-1e22)])
    with pytest.warns(RuntimeWarning, match="the fit is lost"):
        _warn_if_diverged(history)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _warn_if_diverged(History(records=[Record("all", 0, 1.0, elbo=-3.0)]))
        _warn_if_diverged(History())


CASES: dict[str, Any] = {
    "plain": lambda: (small_gp(Gaussian(0.2), 7, theta=0.6), targets(X)),
    "energy": lambda: (small_gp(Softmax(3), 7, theta=0.6, order="energy"), labels(X, 3)),
    "rank": lambda: (small_gp(Gaussian(0.2), 15, theta=0.6, order="energy", rank=5), targets(X)),
    "diagonal": lambda: (small_gp(Softmax(3), 7, covariance="diagonal", dtype=torch.float32), labels(X, 3)),
    "more words than series": lambda: (small_gp(Gaussian(0.2), 63, theta=0.6, normalized=True), targets(X)),
}


def without_seconds(history: History) -> History:
    records = [replace(record, seconds=0.0) for record in history.records]
    return replace(history, phase_seconds={}, step_seconds={}, records=records)


EXACT_CASES = {
    "numbers": lambda: (small_gp(Gaussian(), 15, theta=0.7, covariance="shared"), targets(X)),
    "float32": lambda: (small_gp(Gaussian(), 15, theta=0.7, dtype=torch.float32), targets(X)),
    "more words": lambda: (small_gp(Gaussian(), 63, normalized=True, covariance="shared"), targets(X)),
}
INTERRUPTED = [
    *((s, (phase, 1), c) for s in (NATURAL, PAPER) for phase in ("q", "hyperparameters", "all") for c in CASES),
    *((Exact(), ("exact", step), case) for step in range(3) for case in EXACT_CASES),
]


@pytest.mark.parametrize(("schedule", "where", "case"), INTERRUPTED)
def test_a_resumed_fit_ends_bitwise_as_an_uninterrupted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schedule: Any, where: tuple[str, int], case: str
):
    make = (CASES | EXACT_CASES)[case]
    whole, y = make()
    history = fit(whole, (X, y), schedule, seed=3, **QUIET)
    settings = {"seed": 3, "checkpoint": tmp_path / "state", "checkpoint_every": 0.0, **QUIET}
    broken, _ = make()
    with monkeypatch.context() as patch:
        interrupt(patch, *where)
        with pytest.raises(Interruption):
            fit(broken, (X, y), schedule, **settings)
    again, _ = make()
    (tmp_path / "copy").write_bytes((tmp_path / "state").read_bytes())
    for model in (again, broken):  # a new process has a new model; a notebook has the one that was interrupted
        resumed = fit(model, (X, y), schedule, resume=True, **settings)
        assert same_state(model, whole)
        assert model.features.words == whole.features.words
        assert without_seconds(resumed) == without_seconds(history)
        assert resumed.phase_seconds.keys() == history.phase_seconds.keys()
        settings["checkpoint"] = tmp_path / "copy"


def test_a_process_that_is_killed_goes_on(tmp_path: Path):
    code = (
        "import sys; sys.path[:0] = ['tests', 'tests/gp']\n"
        "import test_training as t\n"
        "model, y = t.CASES['energy']()\n"
        "t.fit(model, (t.X, y), t.PaperSchedule(iterations=100000, batch=8), checkpoint=sys.argv[1], "
        "checkpoint_every=0.02, progress=False)\n"
    )
    path = tmp_path / "state"
    command = [sys.executable, *["-S"] * sys.flags.no_site, "-c", code, str(path)]
    child = subprocess.Popen(command, cwd=Path(__file__).parents[2], env=os.environ | {"OMP_NUM_THREADS": "1"})
    deadline = time.monotonic() + 300
    while not path.exists() and time.monotonic() < deadline and child.poll() is None:
        time.sleep(0.05)
    time.sleep(0.2)
    assert path.exists() and child.poll() is None, "it was killed in the middle of a fit"
    child.kill()
    child.wait()
    model, y = CASES["energy"]()
    schedule = PaperSchedule(iterations=100000, batch=8)
    history = fit(model, (X, y), schedule, checkpoint=path, resume=True, time_limit=0.0, **QUIET)
    assert set(history.stopped.values()) == {"time limit"}


@pytest.mark.parametrize("schedule", [NATURAL, PAPER, Exact()], ids=["natural", "paper", "exact"])
def test_a_finished_checkpoint_is_the_result(tmp_path: Path, schedule: Any):
    make = EXACT_CASES["numbers"] if isinstance(schedule, Exact) else CASES["energy"]
    (model, y), x, state = make(), X.clone(), torch.get_rng_state()
    history = fit(model, (X, y), schedule, checkpoint=tmp_path / "a" / "state", **QUIET)
    other, same_y = make()
    assert torch.equal(x, X) and torch.equal(y, same_y) and torch.equal(state, torch.get_rng_state())
    again = fit(other, (X, y), schedule, checkpoint=tmp_path / "a" / "state", resume=True, **QUIET)
    assert same_state(model, other) and without_seconds(again) == without_seconds(history)


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path):
    (model, y), short = CASES["plain"](), NaturalGradients(max_iter=1, learn=False)
    settings = {"checkpoint": tmp_path / "state", **QUIET}
    fit(model, (X, y), short, **settings)
    refused = partial(assert_refused, "made with other series, targets or settings", fit)
    for data, schedule, options in (
        ((X + 0.1, y), short, {}),
        ((X, y + 1), short, {}),
        ((X, y), replace(short, max_iter=2), {}),
        ((X, y), short, {"seed": 1}),
        ((X, y), short, {"validation": 0.3}),
    ):
        refused(CASES["plain"]()[0], data, schedule, resume=True, **settings, **options)
    changes = {"count": 8, "normalized": True, "depth": 3, "tol": 1e-6, "rank": 3, "covariance": "diagonal"}
    for option, value in (changes | {"dtype": torch.float32}).items():
        other = small_gp(Gaussian(0.2), theta=0.6, **{option: value})
        refused(other, (X, y), short, resume=True, **settings)
    fit(CASES["plain"]()[0], (X, y), short, resume=True, **settings)
    assert_refused("give checkpoint=", fit, model, (X, y), resume=True)


def test_a_damaged_checkpoint_is_refused_and_a_crash_while_saving_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path, short = tmp_path / "state", NaturalGradients(max_iter=1, learn=False)
    model, y = CASES["plain"]()
    fit(model, (X, y), short, checkpoint=path, **QUIET)

    def crash(state: Any, file: Any) -> None:
        file.write(b"half of a chec")
        raise OSError("no space left on device")

    def refused(problem: str) -> None:
        message = rf"state.*{problem}.*start without resume"
        assert_refused(message, fit, model, (X, y), short, checkpoint=path, resume=True)

    data = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", crash)
        assert_refused("no space", fit, CASES["plain"]()[0], (X, y), short, checkpoint=path, error=OSError)
    assert path.read_bytes() == data
    middle = len(data) // 2
    flipped = data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]
    for content in (data[:middle], b"", b"not a checkpoint", flipped):
        path.write_bytes(content)
        refused("is not a readable checkpoint")
    torch.save({"format": 3}, path)
    refused("is not a readable checkpoint")
    write_whole(path, {"format": 99})
    refused("format 99 is not the one")


FIT = """
import sys, numpy as np, siggpde
X = np.random.default_rng(0).standard_normal((24, 2, 8)).cumsum(axis=2)
siggpde.SigGPClassifier(n_features=10, members=1, random_state=0, n_jobs=1).fit(X, np.arange(24) % 3)
print("torch._dynamo" in sys.modules)
"""


def test_a_closed_form_fit_does_not_import_the_compiler_of_torch():
    """`torch._dynamo` takes seconds to import; the optimisers of `torch.optim` import it at their first step."""
    assert run(FIT).strip() == "False"
