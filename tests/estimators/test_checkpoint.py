"""`checkpoint` and `resume`: the method of the paper goes on from them, and views say that they keep nothing."""

import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.processes import run
from helpers.small_estimators import classifier, estimator, outputs, rising

KINDS = ("classifier", "regressor")
X, Y = rising(24, noise=4.0)


@pytest.mark.parametrize("kind", KINDS)
def test_views_keep_nothing_and_fit_anew(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    folder = tmp_path / "kept"
    found = outputs(estimator(kind, checkpoint=folder, resume=True).fit(X, Y), X)
    assert np.array_equal(found, outputs(estimator(kind).fit(X, Y), X))
    assert sum("there is nothing to go on from" in message for message in caplog.messages) == 1
    assert not folder.exists()


def test_nothing_to_go_on_from_is_a_new_fit(tmp_path: Path):
    mine = classifier(method="paper", checkpoint=tmp_path / "new", resume=True).fit(X, Y)
    assert np.array_equal(outputs(mine, X), outputs(classifier(method="paper").fit(X, Y), X))


@pytest.mark.parametrize("kind", KINDS)
def test_other_data_are_refused(kind: str, tmp_path: Path):
    estimator(kind, method="paper", checkpoint=tmp_path).fit(X, Y)
    for series, targets in ((X + 1e-9, Y), (X, 1 - Y), (X[:20], Y[:20]), (X[:, :, 1:], Y)):
        with pytest.raises(ValueError, match=r"other series, targets or settings; .* or start without resume"):
            estimator(kind, method="paper", checkpoint=tmp_path, resume=True).fit(series, targets)


@pytest.mark.parametrize(
    "change",
    [
        {"n_features": 19}, {"max_iter": 7}, {"random_state": 1}, {"likelihood": "softmax"}, {"class_weight": {1: 2.0}},
        {"mask": True}, {"max_points": 3}, {"transforms": {"lead_lag": True}},
    ],
    ids=str,
)  # fmt: skip
def test_other_settings_are_refused(change: dict[str, Any], tmp_path: Path):
    classifier(method="paper", checkpoint=tmp_path).fit(X, Y)
    with pytest.raises(ValueError, match=r"member-1.pt was made with other series, targets or settings; give the same"):
        classifier(method="paper", checkpoint=tmp_path, resume=True, **change).fit(X, Y)


def test_other_weights_are_refused(tmp_path: Path):
    classifier(method="paper", checkpoint=tmp_path).fit(X, Y, sample_weight=1 + np.arange(24) % 2)
    with pytest.raises(ValueError, match=r"other series, targets or settings; .* or start without resume"):
        classifier(method="paper", checkpoint=tmp_path, resume=True).fit(X, Y)


def test_a_damaged_file_is_refused_and_a_new_fit_replaces_it(tmp_path: Path):
    classifier(method="paper", checkpoint=tmp_path).fit(X, Y)
    (tmp_path / "member-1.pt").write_bytes(b"hello")
    with pytest.raises(ValueError, match=r"member-1.pt is not a readable checkpoint .*; delete it .* without resume"):
        classifier(method="paper", checkpoint=tmp_path, resume=True).fit(X, Y)
    again = classifier(method="paper", checkpoint=tmp_path).fit(X, Y)
    assert np.array_equal(outputs(again, X), outputs(classifier(method="paper").fit(X, Y), X))


FULL = """
import resource, sys
sys.path.insert(0, "tests")
import numpy as np
from helpers.processes import run
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
    said = run(FULL, str(tmp_path), what)
    file = "model/(model.json|weights-.*.safetensors)" if what == "save" else "member-1.pt"
    assert re.search(rf"File too large: {tmp_path}/{file} needs [0-9.]+ MB, and its disk has .* MB left; make", said)
    assert not list(tmp_path.rglob("*.part"))
