"""`checkpoint`, `resume` and `cache_dir`: the paper's method goes on from them; views say that they keep nothing."""

import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import processes
from helpers.cli_data import FAST, LONG, long_table, succeed, write
from helpers.refusals import assert_refused
from helpers.small_estimators import classifier, estimator, outputs, rising

KINDS = ("classifier", "regressor")
X, Y = rising(24, noise=4.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["checkpoint"], "checkpoint is not used: method='views' keeps no state of a fit"),
        (["checkpoint", "resume"], "there is nothing to go on from, method='views' keeps no state of a fit: it starts"),
        (["cache_dir"], "cache_dir is not used: method='views' keeps no signatures"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_views_keep_nothing_and_say_so(
    kind: str, settings: list[str], message: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    chosen: dict[str, Any] = {name: name == "resume" or tmp_path / "kept" for name in settings}
    fits = [estimator(kind, **more).fit(X, Y) for more in (chosen, {})]
    assert np.array_equal(*(outputs(fitted, X) for fitted in fits))
    assert sum(text.startswith(message) for text in caplog.messages) == 1
    assert not (tmp_path / "kept").exists()


def test_nothing_to_go_on_from_is_a_new_fit(tmp_path: Path):
    plain = outputs(classifier(method="paper").fit(X, Y), X)
    mine = classifier(method="paper", checkpoint=tmp_path / "new", resume=True).fit(X, Y)
    assert np.array_equal(outputs(mine, X), plain)
    classifier(method="paper", checkpoint=tmp_path).fit(X, Y)
    (tmp_path / "member-1.pt").write_bytes(b"hello")
    going_on = classifier(method="paper", checkpoint=tmp_path, resume=True)
    assert_refused("member-1.pt is not a readable checkpoint .*; delete it .* without resume", going_on.fit, X, Y)
    assert np.array_equal(outputs(classifier(method="paper", checkpoint=tmp_path).fit(X, Y), X), plain)


@pytest.mark.parametrize("kind", KINDS)
def test_other_data_and_settings_are_refused(kind: str, tmp_path: Path):
    estimator(kind, method="paper", checkpoint=tmp_path).fit(X, Y)
    others: list[Any] = [(X + 1e-9, Y), (X, 1 - Y), (X[:20], Y[:20]), (X[:, :, 1:], Y), (X, Y, 1 + np.arange(24) % 2)]
    settings: list[Any] = [{"n_features": 19}, {"max_iter": 7}, {"random_state": 1}, {"mask": True}, {"max_points": 3}]
    settings += [{"transforms": {"lead_lag": True}}]
    settings += [{"likelihood": "softmax"}, {"class_weight": {1: 2.0}}] if kind == "classifier" else []
    message = r"member-1.pt was made with other series, targets or settings; give the same.* or start without resume"
    for (series, y, *weights), change in [*((data, {}) for data in others), *(((X, Y), given) for given in settings)]:
        fresh = estimator(kind, method="paper", checkpoint=tmp_path, resume=True, **change)
        assert_refused(message, fresh.fit, series, y, sample_weight=weights[0] if weights else None)


FULL = """
import resource, sys
sys.path.insert(0, "tests")
from helpers.small_estimators import classifier, rising
X, Y = rising(24, noise=4.0)
first = classifier(method="paper", checkpoint=sys.argv[1]).fit(X, Y)
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, -1))
try:
    if sys.argv[2] == "save":
        first.save(sys.argv[1] + "/model")
    else:
        classifier(method="paper", checkpoint=sys.argv[1]).fit(X, Y)
except OSError as error:
    print(error)
"""


@pytest.mark.parametrize("what", ["checkpoint", "save"])
def test_a_full_disk_is_named_with_the_space_that_is_needed(what: str, tmp_path: Path):
    said = processes.run(FULL, str(tmp_path), what)
    file = "model/(model.json|weights-.*.safetensors)" if what == "save" else "member-1.pt"
    assert re.search(rf"File too large: {tmp_path}/{file} needs [0-9.]+ MB, and its disk has .* MB left; make", said)
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize("kind", KINDS)
def test_the_second_fit_reads_what_the_first_computed(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    X, labels = rising(30)
    y = labels if kind == "classifier" else labels + 0.5 * X[:, 0, -1]
    plain = outputs(estimator(kind, method="paper").fit(X, y), X)
    for expected in ("0 read, 30 computed", "30 read, 0 computed"):
        caplog.clear()
        actual = outputs(estimator(kind, method="paper", cache_dir=tmp_path).fit(X, y), X)
        np.testing.assert_array_equal(actual, plain)
        assert [expected in record.getMessage() for record in caplog.records].count(True) == 1
    others = outputs(estimator(kind, method="paper", cache_dir=tmp_path).fit(X[::-1], y), X)
    np.testing.assert_array_equal(others, outputs(estimator(kind, method="paper").fit(X[::-1], y), X))


def test_the_command_line_keeps_signatures(tmp_path: Path):
    train = write(long_table(20), tmp_path / "train.csv")
    arguments = ("--target", "kind", *LONG, *FAST, "--method", "paper", "--cache-dir", tmp_path / "cache")
    for model, expected in (("first", "0 read, 20 computed"), ("second", "20 read, 0 computed")):
        assert expected in succeed("fit", train, "--output", tmp_path / model, *arguments).stderr
