"""A fit that was interrupted anywhere goes on from its checkpoint to bitwise the same estimator."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.small_estimators import classifier, estimator, outputs, rising
from siggpde.estimators import fitting

training = sys.modules["siggpde.training.run"]
KINDS = ("classifier", "regressor")
X, Y = rising(24)


def interrupted(monkeypatch: pytest.MonkeyPatch, mine: Any, place: Any, name: str, call: int) -> None:
    """Fits, with the `call`-th call of place.name interrupted at its end."""
    real, calls = getattr(place, name), []

    def cut(*arguments: Any, **more: Any) -> Any:
        result = real(*arguments, **more)
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return result

    with monkeypatch.context() as patch:
        patch.setattr(place, name, cut)
        with pytest.raises(KeyboardInterrupt):
            mine.fit(X, Y)
    assert not hasattr(mine, "committee_")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("likelihood", "place", "name", "call"),
    [
        ("auto", fitting, "write_screening", 1),
        ("auto", fitting, "fit", 1),
        ("auto", fitting, "fit", 2),
        ("auto", training, "save_checkpoint", 1),
        ("auto", training, "save_checkpoint", 4),
        ("other", training, "save_checkpoint", 2),
        ("other", training, "save_checkpoint", 3),
    ],
)
def test_going_on(
    kind: str, likelihood: str, place: Any, name: str, call: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    used = likelihood if likelihood == "auto" else {"classifier": "softmax", "regressor": "student_t"}[kind]
    settings: dict[str, Any] = {"likelihood": used, "members": 2 if used == "auto" else 1}
    whole = estimator(kind, **settings).fit(X, Y)
    mine = estimator(kind, checkpoint=tmp_path / "kept", **settings)
    interrupted(monkeypatch, mine, place, name, call)
    assert (tmp_path / "kept" / "screening.pt").exists()
    calls = []
    monkeypatch.setattr(fitting, "screen", lambda *_, **__: calls.append(1))
    mine.set_params(resume=True).fit(X, Y)
    assert calls == []
    assert np.array_equal(outputs(mine, X), outputs(whole, X))


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
    with pytest.raises(
        ValueError, match=r"screening.pt was made with other series, targets or settings; give the same"
    ):
        classifier(checkpoint=tmp_path, resume=True, **change).fit(X, uneven)


@pytest.mark.parametrize("kind", KINDS)
def test_other_data_are_refused(kind: str, tmp_path: Path):
    estimator(kind, checkpoint=tmp_path).fit(X, Y)
    for series, targets in ((X + 1e-9, Y), (X, 1 - Y), (X[:20], Y[:20]), (X[:, :, 1:], Y)):
        with pytest.raises(ValueError, match=r"other series, targets or settings; .* or start without resume"):
            estimator(kind, checkpoint=tmp_path, resume=True).fit(series, targets)


@pytest.mark.parametrize("name", ["screening.pt", "member-1.pt"])
@pytest.mark.parametrize("damage", ["cut", "empty", "text", "zeros"])
def test_damaged_files_are_refused(name: str, damage: str, tmp_path: Path):
    classifier(checkpoint=tmp_path).fit(X, Y)
    good = (tmp_path / name).read_bytes()
    bad = {"cut": good[: len(good) // 2], "empty": b"", "text": b"hello", "zeros": bytes(len(good))}[damage]
    (tmp_path / name).write_bytes(bad)
    with pytest.raises(ValueError, match=rf"{name} is not a readable checkpoint .*; start without resume"):
        classifier(checkpoint=tmp_path, resume=True).fit(X, Y)
    assert classifier(checkpoint=tmp_path).fit(X, Y).score(X, Y) > 0.8


def test_what_an_earlier_fit_left_is_not_gone_on_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Its later members would otherwise stand in the way of resuming the new fit."""
    classifier(checkpoint=tmp_path, members=2, n_features=9).fit(X[:12], Y[:12])
    mine = classifier(checkpoint=tmp_path, members=2)
    interrupted(monkeypatch, mine, fitting, "fit", 1)
    assert not (tmp_path / "member-2.pt").exists()
    assert np.array_equal(
        outputs(mine.set_params(resume=True).fit(X, Y), X), outputs(classifier(members=2).fit(X, Y), X)
    )
