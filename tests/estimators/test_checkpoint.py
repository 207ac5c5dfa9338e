"""A fit that was interrupted anywhere goes on from its checkpoint to bitwise the same estimator."""

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.processes import run
from helpers.small_estimators import classifier, estimator, outputs, rising
from siggpde.committee import all_series, fit_checkpoint, fitting, sizes
from siggpde.committee.fit_checkpoint import FitCheckpoint

KINDS = ("classifier", "regressor")
X, Y = rising(24, noise=4.0)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """States are kept as often as they can be."""
    monkeypatch.setattr(fit_checkpoint, "EVERY", 0.0)


def interrupted(monkeypatch: pytest.MonkeyPatch, mine: Any, name: str, call: int) -> None:
    """Fits, with the `call`-th call of a method of the checkpoint interrupted at its end."""
    real, calls = getattr(FitCheckpoint, name), []

    def cut(*arguments: Any, **more: Any) -> Any:
        result = real(*arguments, **more)
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return result

    with monkeypatch.context() as patch:
        patch.setattr(FitCheckpoint, name, cut)
        with pytest.raises(KeyboardInterrupt):
            mine.fit(X, Y)
    assert not hasattr(mine, "committee_")


def predicted(fitted: Any) -> np.ndarray:
    return fitted.log_likelihood(X, Y)


def resumed(monkeypatch: pytest.MonkeyPatch, mine: Any) -> np.ndarray:
    """What the interrupted estimator predicts in the end; recipes are not looked for once more."""
    calls = []
    with monkeypatch.context() as patch:
        patch.setattr(fitting, "recipes", lambda *_, **__: calls.append(1))
        mine.set_params(resume=True).fit(X, Y)
    assert calls == []
    return predicted(mine)


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("likelihood", "call"), [("auto", 1), *(("other", call) for call in (1, 2, 4, 5, 7))])
def test_going_on(kind: str, likelihood: str, call: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Calls of `write`: what was chosen, then the steps of the first member with learning, without, and the second."""
    used = likelihood if likelihood == "auto" else {"classifier": "softmax", "regressor": "student_t"}[kind]
    settings: dict[str, Any] = {"likelihood": used, "members": 2, "transforms": "auto", "max_iter": 2}
    whole = estimator(kind, **settings).fit(X, Y)
    assert len(whole.committee_.members) == 2
    mine = estimator(kind, checkpoint=tmp_path / "kept", **settings)
    interrupted(monkeypatch, mine, "write", call)
    assert (tmp_path / "kept" / "views.pt").exists()
    assert (tmp_path / "kept" / "member-1.pt").exists() == (call > 1)
    assert np.array_equal(resumed(monkeypatch, mine), predicted(whole))
    assert mine.n_iter_ == whole.n_iter_


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("call", [1, 3])
def test_going_on_with_more_series_than_landmarks(
    kind: str, call: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(all_series, "_CHUNK", 5)
    monkeypatch.setattr(sizes, "landmarks_for", lambda *_: 10)
    whole = estimator(kind, members=3).fit(X, Y)
    assert len(whole.committee_.landmarks) == 10
    mine = estimator(kind, members=3, checkpoint=tmp_path)
    interrupted(monkeypatch, mine, "write_own", call)
    assert (tmp_path / "sums-0.pt").exists()
    seen, real = [], type(whole.committee_.standard).__call__
    monkeypatch.setattr(
        type(whole.committee_.standard), "__call__", lambda self, batch: seen.append(len(batch)) or real(self, batch)
    )
    assert np.array_equal(resumed(monkeypatch, mine), predicted(whole))
    assert sum(count for count in seen if count <= 5) == 24 - 5 * call


@pytest.mark.parametrize("kind", KINDS)
def test_a_finished_fit_is_read_back(kind: str, tmp_path: Path):
    mine = estimator(kind, checkpoint=str(tmp_path), members=2).fit(X, Y)
    again = estimator(kind, checkpoint=tmp_path, members=2, resume=True, verbose=1, n_jobs=None).fit(X, Y)
    assert np.array_equal(outputs(mine, X), outputs(again, X))


def test_nothing_to_go_on_from_is_a_new_fit(tmp_path: Path):
    mine = classifier(checkpoint=tmp_path / "new", resume=True).fit(X, Y)
    assert np.array_equal(outputs(mine, X), outputs(classifier().fit(X, Y), X))


@pytest.mark.parametrize(
    "change",
    [
        {"n_features": 19},
        {"random_state": 1},
        {"likelihood": "softmax"},
        {"class_weight": "balanced"},
        {"class_weight": {1: 2.0}},
        {"mask": True},
        {"max_points": 3},
        {"transforms": {"lead_lag": True}},
        {"time_limit": 60.0},
    ],
    ids=str,
)
def test_other_settings_are_refused(change: dict[str, Any], tmp_path: Path):
    uneven = np.where(np.arange(24) < 9, 1, 0)
    classifier(checkpoint=tmp_path).fit(X, uneven)
    with pytest.raises(ValueError, match=r"views.pt was made with other series, targets or settings; give the same"):
        classifier(checkpoint=tmp_path, resume=True, **change).fit(X, uneven)


@pytest.mark.parametrize("kind", KINDS)
def test_other_data_are_refused(kind: str, tmp_path: Path):
    estimator(kind, checkpoint=tmp_path).fit(X, Y)
    for series, targets in ((X + 1e-9, Y), (X, 1 - Y), (X[:20], Y[:20]), (X[:, :, 1:], Y)):
        with pytest.raises(ValueError, match=r"other series, targets or settings; .* or start without resume"):
            estimator(kind, checkpoint=tmp_path, resume=True).fit(series, targets)


@pytest.mark.parametrize("name", ["views.pt", "member-1.pt"])
@pytest.mark.parametrize("damage", ["cut", "empty", "text", "zeros", "bit", "hash"])
def test_damaged_files_are_refused(name: str, damage: str, tmp_path: Path):
    settings: dict[str, Any] = {"checkpoint": tmp_path, "likelihood": "softmax"}
    classifier(**settings).fit(X, Y)
    good = (tmp_path / name).read_bytes()
    middle = len(good) // 2
    bad = {"cut": good[:middle], "empty": b"", "text": b"hello", "zeros": bytes(len(good))}
    bad |= {"bit": flipped(good, middle), "hash": flipped(good, good.index(b"\n") + 5)}
    (tmp_path / name).write_bytes(bad[damage])
    with pytest.raises(ValueError, match=rf"{name} is not a readable checkpoint .*; delete it .* start without resume"):
        classifier(resume=True, **settings).fit(X, Y)
    assert classifier(**settings).fit(X, Y).score(X, Y) > 0.8


def flipped(data: bytes, position: int, bit: int = 3) -> bytes:
    return data[:position] + bytes([data[position] ^ 1 << bit]) + data[position + 1 :]


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("kept", ["views", "member-1", "member-2", "sums-0"])
def test_no_flipped_bit_gives_another_model(kept: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Each is refused by name, and without the file the fit goes on to the same model."""
    settings: dict[str, Any] = {"members": 2, "transforms": "auto", "max_iter": 2}
    if kept == "sums-0":
        monkeypatch.setattr(all_series, "_CHUNK", 5)
        monkeypatch.setattr(sizes, "landmarks_for", lambda *_: 10)
    else:
        settings["likelihood"] = "softmax"
    whole = classifier(checkpoint=tmp_path, **settings).fit(X, Y)
    path = tmp_path / f"{kept}.pt"
    good, choose = path.read_bytes(), random.Random(kept)
    for _ in range(20):
        path.write_bytes(flipped(good, choose.randrange(len(good)), choose.randrange(8)))
        with pytest.raises(ValueError, match=rf"{kept}.pt is not a readable checkpoint .*; delete it"):
            classifier(checkpoint=tmp_path, resume=True, **settings).fit(X, Y)
    path.unlink()
    again = classifier(checkpoint=tmp_path, resume=True, **settings).fit(X, Y)
    assert np.array_equal(outputs(again, X), outputs(whole, X))


FULL = """
import resource, sys
sys.path.insert(0, "tests")
import numpy as np
from helpers.processes import run
from helpers.small_estimators import classifier, rising
from siggpde.committee import fit_checkpoint
fit_checkpoint.EVERY = 0.0
X, Y = rising(24, noise=4.0)
first = classifier(likelihood="softmax", checkpoint=sys.argv[1]).fit(X, Y)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, -1))
try:
    if sys.argv[2] == "save":
        first.save(sys.argv[1] + "/model")
    else:
        classifier(likelihood="softmax", checkpoint=sys.argv[1]).fit(X, Y)
except OSError as error:
    print(error)
"""


@pytest.mark.parametrize("what", ["checkpoint", "save"])
def test_a_full_disk_is_named_with_the_space_that_is_needed(what: str, tmp_path: Path):
    said = run(FULL, str(tmp_path), what)
    file = "model/model.json" if what == "save" else "(views|member-1).pt"
    assert re.search(rf"File too large: {tmp_path}/{file} needs [0-9.]+ MB, and its disk has .* MB left; make", said)
    assert not list(tmp_path.rglob("*.part"))


def test_what_an_earlier_fit_left_is_not_gone_on_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Its later members would otherwise stand in the way of resuming the new fit."""
    settings: dict[str, Any] = {"likelihood": "softmax", "members": 2, "transforms": "auto"}
    classifier(checkpoint=tmp_path, n_features=9, **settings).fit(X[:12], Y[:12])
    assert (tmp_path / "member-1.pt").exists()
    mine = classifier(checkpoint=tmp_path, **settings)
    interrupted(monkeypatch, mine, "write", 1)
    assert not list(tmp_path.glob("member-*.pt"))
    whole = classifier(**settings).fit(X, Y)
    assert np.array_equal(outputs(mine.set_params(resume=True).fit(X, Y), X), outputs(whole, X))


class LastValue:
    """A transformer that does not say what it is."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def fit(self, X: Any) -> None: ...

    def transform(self, X: Any) -> np.ndarray:
        return self.factor * np.stack([x[:, -1] for x in X])


def test_views_of_the_users_own_go_on_too(tmp_path: Path):
    views = ["linear", ("last", LastValue(2.0))]
    mine = classifier(views=views, checkpoint=tmp_path).fit(X, Y)
    again = classifier(views=["linear", ("last", LastValue(2.0))], checkpoint=tmp_path, resume=True).fit(X, Y)
    assert np.array_equal(outputs(mine, X), outputs(again, X))
    with pytest.raises(ValueError, match="other series, targets or settings"):
        classifier(views=["linear", ("end", LastValue(2.0))], checkpoint=tmp_path, resume=True).fit(X, Y)
