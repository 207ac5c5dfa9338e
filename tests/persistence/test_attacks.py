"""Models changed with hashes made anew are refused with a reason or predict finite numbers, in time and memory."""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

import siggpde
from helpers.model_folders import data_file, reseal
from helpers.model_mutations import mutated, outcome, replace_data
from helpers.refusals import assert_refused
from helpers.small_estimators import classifier, random_walks, regressor, rising
from siggpde.persistence import ModelFileError

FIXTURES = Path(__file__).parents[1] / "fixtures"
SAVED = [f"model-format-2/{kind}" for kind in ("classifier", "regressor", "weights", "paper", "paper-numbers")]
X, Y = rising(24, noise=3.0)
TIMED = np.concatenate([np.random.default_rng(1).exponential(size=(24, 1, 12)).cumsum(axis=2), X], axis=1)
WORDS = classifier(views=["path"], transforms={"lead_lag": True})
SEVERAL: dict[str, Any] = {"members": 3, "transforms": "auto", "n_features": 30}


@pytest.fixture(scope="module")
def of_facts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with facts, of which the age decides."""
    folder = tmp_path_factory.mktemp("facts") / "model"
    X, y = rising(12, noise=3.0)
    facts = {"age": 50.0 * y + np.arange(12.0), "sex": ["f", "m", None] * 4}
    siggpde.SigGPClassifier(views=["linear"], n_features=10, members=1).fit(X, y, facts=facts).save(folder)
    return folder


@pytest.fixture
def copied(tmp_path: Path, of_facts: Path) -> Callable[[str], Path]:
    def copy(name: str) -> Path:
        shutil.copytree(of_facts if name == "facts" else FIXTURES / f"model-format-2/{name}", tmp_path / "m")
        return tmp_path / "m"

    return copy


def change(folder: Path, path: str, value: Any) -> None:
    """Sets one value of the metadata."""
    facts = json.loads((folder / "model.json").read_text())["facts"]
    *parents, last = [int(key) if key.isdecimal() else key for key in path.split(".")]
    place: Any = facts
    for key in parents:
        place = place[key]
    place[last] = value
    reseal(folder, facts=facts)


def change_tensor(folder: Path, name: str, value: Callable[[torch.Tensor], torch.Tensor]) -> None:
    file = data_file(folder)
    tensors = safetensors.torch.load(file.read_bytes())
    tensors[name] = value(tensors[name]).contiguous()
    file.unlink()
    replace_data(folder, safetensors.torch.save(tensors))


@pytest.mark.parametrize(
    ("model", "path", "value", "said"),
    [
        ("paper", "sharpness", 1e308, r"model\.sharpness must be a number from 0\.001 to 1000, got 1e\+308"),
        ("paper", "sharpness", 10**400, r"got an integer of 1329 bits"),
        ("paper", "classes.dtype", "<U100000000", r"classes\.dtype must be a type"),
        ("paper", "classes.dtype", "<U99999999", r"at most 10000000 characters in all labels"),
        ("paper", "classes.values", ["a", "a", "b"], r"a label is there twice"),
        ("paper", "members.0.transform.spread", None, r"members\[0\]\.transform\.spread must be a list"),
        ("paper", "members.0.model.kernel.channels", 10, r"has a kernel of 10 channels, but paths of 3"),
        ("paper", "members.0.model.likelihood.predict_points", 10**9, r"predict_points must be an integer"),
        ("paper", "members.0.model.likelihood.classes", 4, r"classes has 4 for 3 classes"),
        ("regressor", "committee.recalibration.degrees", 2, r"recalibration\.degrees must be a number from 2\.01"),
        ("paper", "members", [{}, {}], r"averages 2 models of words, which this version does not have; fit it anew"),
        ("paper-numbers", "facts.target_scale_", 0, r"target_scale_ must be a number above 0"),
        ("regressor", "parameters.n_jobs", 0, "n_jobs must be a positive integer, or -1, got 0"),
        ("regressor", "facts.target_shift_", 10**30, r"target_shift_ must be a number from"),
        ("regressor", "facts.target_scale_", 10**30, r"target_scale_ must be a number"),
        ("paper-numbers", "facts.n_series_", True, r"n_series_ must be an integer from 1 .*, got True"),
        ("paper-numbers", "preparation.fill", [0.0], r"preparation has 1 means"),
        ("paper-numbers", "members.0.surprise", 1, r"members\[0\] has the field 'surprise', which is not known here"),
        ("classifier", "committee.kind", "trees", r"committee\.kind must be one of views, weights, or"),
        ("classifier", "committee.members.0.noise", -1.0, r"members\[0\]\.noise must be a number from 0"),
        ("classifier", "committee.members.0.recipe.weights.0.0", "Q", r"member of the kernel 'Q', which none of its"),
        ("classifier", "committee.link.lapse", 1.5, r"committee\.link\.lapse must be a number from 0 to 0\.999"),
        ("classifier", "committee.landmarks.values", None, r"landmarks\.values must be a tensor of float32"),
        ("classifier", "committee.landmarks.values", {"tensor": ["a"]}, r"a tensor of the saved model is given by"),
        ("classifier", "committee.surprise", 1, r"committee has the field 'surprise', which is not known here"),
        ("classifier", "committee.link", None, r"has 3 outputs but no link"),
        ("classifier", "committee.blocks.0.centring", {}, r"but centring of"),
        ("classifier", "committee.blocks.0.state.features.settings.lifts", ["x", "x"], "lifts has a value twice"),
        ("regressor", "parameters.n_jobs", "all", r"parameters\.n_jobs must be an integer"),
        ("regressor", "committee.recalibration.scale", 0, r"recalibration\.scale must be a number"),
        ("weights", "committee.blocks.0.state.view.words", 1000, r"the blocks give a part of 121 features"),
        ("weights", "committee.blocks.1.state.theta", None, r"theta must be a tensor of float64 with 1 axes"),
        ("facts", "facts.facts_", None, r"facts_ must be a list"),
        ("facts", "facts.facts_.0.0", "size", r"has a view of other facts"),
        ("facts", "facts.facts_.1.1", ["f", "f"], r"has a fact, or a level of one, twice"),
        ("facts", "facts.facts_.0.1", [1], r"facts_\[0\]\[1\]\[0\] must be"),
        ("facts", "committee.blocks.0.state.facts.1.1", ["a"], r"scaler\[1\] keeps feature 2 of 2"),
        ("facts", "committee.blocks.0.state.knots", [], r"has 0 knots and 2 scalers of facts"),
        ("facts", "committee.landmarks.gaps", None, r"gaps must be a tensor of int64"),
        ("facts", "committee.landmarks.facts", None, r"facts must be a tensor of float64"),
        ("paper", "weights", lambda w: w * torch.nan, r"weights must have finite numbers from 0 to 1, got nan"),
        ("paper", "weights", torch.zeros_like, r"has weights of members that sum to 0, not to 1"),
        ("paper", "weights", lambda w: 1 - 2 * w, r"weights"),
        ("paper", "weights", torch.neg, r"weights must have finite numbers from 0 to 1"),
        ("paper", "weights", lambda w: w.repeat(2) / 2, r"weights has 2 for 1 members"),
        ("paper-numbers", "member0.kernel.log_amplitude", lambda a: a + 800, r"log_amplitude must .* to 100, got 79"),
        ("classifier", "committee.weights", torch.zeros_like, r"sum to 0, not to 1"),
        ("classifier", "committee.members.0.alpha", lambda a: a[:, :1], r"alpha has 3 for 1 outputs"),
        ("classifier", "committee.standard.spread", torch.zeros_like, r"spread must have finite numbers above 0"),
        ("classifier", "committee.members.0.alpha", lambda a: a.float(), r"alpha must be a tensor of float64 with 2"),
        ("weights", "committee.centres.0", lambda c: c[:-1], r"36 weights for the 35 features of part 0"),
    ],
)  # fmt: skip
def test_values_and_tensors_that_cannot_be_right_are_named(
    model: str, path: str, value: Any, said: str, copied: Callable[[str], Path]
):
    folder = copied(model)
    (change_tensor if callable(value) else change)(folder, path, value)
    assert_refused(said, siggpde.load, folder, error=ModelFileError)


@pytest.mark.parametrize("lengths", [[20_000], list(range(1, 1500))], ids=["one long", "nested"])
def test_words_without_end_are_refused_before_they_are_made(lengths: list[int], copied: Callable[[str], Path]):
    folder = copied("paper")
    change_tensor(folder, "member0.features.words.lengths", lambda _: torch.tensor([0, *lengths]))
    change_tensor(folder, "member0.features.words.letters", lambda _: torch.zeros(sum(lengths), dtype=torch.int64))
    message = r"words\.lengths must have finite numbers from 0 to 1000, got 0 to"
    assert_refused(message, siggpde.load, folder, error=ModelFileError)


def test_too_many_words_are_counted_before_they_are_made(tmp_path: Path):
    """Paths of nine channels (time, and lead and lag of four): of ten letters there are billions of words."""
    WORDS.fit(random_walks(8, 4, 10), np.arange(8) % 2).save(tmp_path / "m")
    change(tmp_path / "m", "committee.blocks.0.state.view.words", 10**12)
    message = "has 3922632451 words of paths, of which 1000000 are the most"
    assert_refused(message, siggpde.load, tmp_path / "m", error=ModelFileError)
    change(tmp_path / "m", "committee.blocks.0.state.view.words", 10)
    assert siggpde.load(tmp_path / "m")


@pytest.mark.parametrize("size", [2**53, 2**63, 10**400])
def test_sizes_out_of_all_proportion_are_refused(size: int, copied: Callable[[str], Path]):
    folder = copied("regressor")
    (entry,) = json.loads((folder / "model.json").read_text())["files"]
    reseal(folder, files=[entry | {"bytes": size}])
    assert_refused(r"gives a size or hash of .* that cannot be right", siggpde.load, folder, error=ModelFileError)
    reseal(folder, files=[entry | {"bytes": 2**52}])
    assert_refused(f"must have {2**52} bytes, but has {entry['bytes']}", siggpde.load, folder, error=ModelFileError)


@pytest.mark.parametrize("name", ["model.json", "weights"])
def test_files_of_gigabytes_are_not_read(name: str, copied: Callable[[str], Path]):
    folder = copied("regressor")
    os.truncate(data_file(folder) if name == "weights" else folder / name, 20 * 2**30)  # sparse: it takes no space
    assert_refused(r"has more than the 67108864 bytes|bytes, but has more", siggpde.load, folder, error=ModelFileError)


@pytest.mark.parametrize("depth", [60, 900])
def test_nesting_without_end_is_refused(depth: int, copied: Callable[[str], Path]):
    folder = copied("regressor")
    text = (folder / "model.json").read_text().replace('"views": "auto"', f'"views": {"[" * depth}{"]" * depth}')
    (folder / "model.json").write_text(text)
    assert_refused("nested too deeply", siggpde.load, folder, error=ModelFileError)


@pytest.mark.parametrize("model", SAVED)
def test_a_few_mutations(model: str, tmp_path: Path):
    """Each is refused or predicts finite numbers."""
    given = np.load(FIXTURES / f"{model}.npz")
    series = [one[:, :length] for one, length in zip(given["X"], given["lengths"], strict=True)]
    came = set()
    for number in range(12):
        what = mutated(FIXTURES / model, tmp_path / str(number), random.Random(number))
        came.add(outcome(tmp_path / str(number), series))
        assert came <= {"refused", "predicts"}, (what, came)
    assert came == {"refused", "predicts"}


KINDS: dict[str, Callable[[], Any]] = {
    "several": lambda: classifier(**SEVERAL).fit(X, Y),
    "softmax": lambda: classifier(method="paper", likelihood="softmax").fit(X, Y),
    "student": lambda: regressor(method="paper", likelihood="student_t").fit(X, X[:, 0, -1]),
    "poisson": lambda: regressor(method="paper", likelihood="poisson").fit(X, Y),
    "paper": lambda: classifier(method="paper").fit(X, Y),
    "paper numbers": lambda: regressor(method="paper").fit(X, X[:, 0, -1]),
    "timed": lambda: classifier(time_channel=0, mask=True, **SEVERAL).fit(TIMED, Y),
    "spectrogram": lambda: classifier(spectrogram={"nfft": 4, "overlap": 2}, **SEVERAL).fit(X, Y),
    "no series": lambda: regressor(keep_series=False, **{**SEVERAL, "n_features": 90}).fit(WAVES, WAVES[:, 0, -1]),
}
WAVES = random_walks(24, 2, 30)


@pytest.mark.slow
@pytest.mark.parametrize("model", [*SAVED, *KINDS])
def test_a_thousand_mutations(model: str, tmp_path: Path):
    """Some eighty of each kind of model, in a process that is ended after ten seconds of one of them."""
    folder, data, count = FIXTURES / model, FIXTURES / f"{model}.npz", 80
    if model in KINDS:
        folder, data = tmp_path / "model", tmp_path / "data.npz"
        KINDS[model]().save(folder)
        series = TIMED if model == "timed" else WAVES if model == "no series" else X
        np.savez(data, X=series[:6], lengths=np.full(6, series.shape[2]))
    helper = Path(__file__).parents[1] / "helpers" / "model_mutations.py"
    command = [sys.executable, *["-S"] * sys.flags.no_site, str(helper), str(folder), str(data), "50000", str(count)]
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": paths}, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, (lines[-1:], done.stderr[-1000:])
    finished = [line for line in lines if len(line) == 3]
    assert len(finished) == count
    assert [line for line in finished if line[2] not in ("refused", "predicts")] == []
    assert len({line[2] for line in finished}) == 2
