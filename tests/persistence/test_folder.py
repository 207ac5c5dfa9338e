"""Model folders: what is written comes back bit for bit, and nothing else is overwritten."""

import hashlib
import json
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from helpers.model_folders import NEW, OLD, data_file, files, holds, same
from helpers.refusals import assert_refused
from siggpde.persistence import ModelFileError, read_folder, write_folder

DTYPES = [torch.float32, torch.float64, torch.int64, torch.bool, torch.uint8]


def test_a_folder_is_json_tensors_and_a_card(saved: Path):
    assert holds(saved, OLD)
    data = data_file(saved)
    digest = hashlib.sha256(data.read_bytes()).hexdigest()
    assert files(saved) == ["README.md", "model.json", f"weights-{digest[:16]}.safetensors"]
    assert (saved / "README.md").read_text() == "# Old"
    content = json.loads((saved / "model.json").read_text())
    assert content["format"] == "siggpde" and content["format_version"] == 2
    assert content["files"] == [{"name": data.name, "bytes": data.stat().st_size, "sha256": digest}]
    assert set(content["versions"]) == {"siggpde", "python", "torch", "numpy"}
    assert content["created"].endswith("+00:00")
    assert safetensors.torch.load_file(data)["words"].tolist() == list(range(9))


numbers = st.one_of(st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False))
plain = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=12,
)


@st.composite
def some_tensors(draw: st.DrawFn) -> dict[str, Tensor]:
    contents = {}
    for name in draw(st.lists(st.text("abc.é", min_size=1), max_size=4, unique=True)):
        shape = draw(st.lists(st.integers(0, 4), max_size=3))
        raw = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 256, (*shape, 8), dtype=np.uint8)
        dtype = draw(st.sampled_from(DTYPES))
        kinds = {torch.float64: "f8", torch.int64: "i8", torch.float32: "f4"}
        value = raw.view(kinds.get(dtype, "u1"))[..., -1:]  # any bits, NaN too; float32 with gaps between them
        value = torch.from_numpy(value)[..., 0]
        contents[name] = value % 2 == 0 if dtype == torch.bool else value
    return contents


@settings(max_examples=60, deadline=None)
@given(some_tensors(), st.dictionaries(st.text(), plain, max_size=4), st.text())
def test_any_tensors_and_metadata_come_back_bit_for_bit(
    tensors: dict[str, Tensor], metadata: dict[str, Any], card: str
):
    with tempfile.TemporaryDirectory() as folder:
        before = {name: tensor.clone() for name, tensor in tensors.items()}
        write_folder(folder, tensors, metadata, card)
        got, got_metadata = read_folder(folder)
        assert same(got_metadata, metadata)
        assert got.keys() == tensors.keys()
        assert all(same(got[name], tensors[name].contiguous()) for name in tensors)
        assert same(tensors, before)


def test_tensors_may_share_memory_be_strided_or_want_gradients(tmp_path: Path):
    whole = torch.arange(12.0).reshape(3, 4)
    given = {
        "whole": whole,
        "again": whole,
        "column": whole[:, 1],
        "turned": whole.T,
        "wide": torch.tensor(3.0).expand(2, 2),
        "learned": torch.nn.Parameter(whole),
        "negated": torch.tensor([1 + 2j]).conj().imag,
        "none": torch.empty(0, 3),
        "nothing": torch.empty(0),
        "number": torch.tensor(2),
    }
    write_folder(tmp_path / "m", given, {}, "")
    got, _ = read_folder(tmp_path / "m")
    assert sorted(got) == sorted(given)
    for name, value in got.items():
        assert torch.equal(value, given[name]) and not value.requires_grad and value.is_contiguous()
    got["whole"].zero_()
    assert got["again"].sum() == 66  # memory of its own
    for file in (tmp_path / "m").iterdir():
        file.write_bytes(b"")
    assert got["turned"].sum() == 66  # which is not that of the file
    assert all(value.data_ptr() % 64 == 0 for value in got.values())


def test_folders_are_made_and_metadata_become_plain(tmp_path: Path):
    metadata = {"t": (1, (2.5,)), "f": np.float32(0.1), "d": np.float64(0.1), "i": np.int64(3), "b": np.bool_(True)}
    write_folder(tmp_path / "m", {}, {**metadata, "label": np.str_("a")}, "")
    expected = {"t": [1, [2.5]], "f": float(np.float32(0.1)), "d": 0.1, "i": 3, "b": True, "label": "a"}
    assert same(read_folder(tmp_path / "m")[1], expected)
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "empty", tmp_path / "a" / "b" / "c"):
        write_folder(folder, *OLD)
        assert holds(folder, OLD)


circle: dict[str, Any] = {}
circle["inside"] = circle


@pytest.mark.parametrize(
    ("tensors", "metadata", "message"),
    [
        ({}, {"a": [1.0, float("nan")]}, r"metadata\['a'\]\[1\] is nan, which JSON cannot hold; leave it out"),
        ({}, {"a": {"b": -np.inf}}, r"metadata\['a'\]\['b'\] is -inf"),
        ({}, {"a": np.float32("nan")}, r"metadata\['a'\] is nan"),
        ({}, {"a": {1: 2}}, r"metadata\['a'\] has the key 1; keys must be strings, write '1'"),
        ({}, {"a": np.zeros(2)}, r"metadata\['a'\] is a ndarray; .* give .tolist\(\)"),
        ({}, {"a": torch.zeros(2)}, r"metadata\['a'\] is a Tensor"),
        ({}, {"a": {1, 2}}, r"metadata\['a'\] is a set"),
        ({}, {"a": b"x"}, r"metadata\['a'\] is a bytes"),
        ({}, {"a": 10**5000}, r"metadata\['a'\] is an integer of 16610 bits"),
        ({}, circle, r"nested deeper than 50 levels; is it inside itself\?"),
        ({}, [1], "metadata must be a mapping, got list"),
        ({"a": torch.zeros(2, dtype=torch.float16)}, {}, "tensor 'a' is torch.float16.*float32, float64, int64, bool"),
        ({"a": torch.zeros(2, dtype=torch.complex64)}, {}, "tensor 'a' is torch.complex64"),
        ({"a": torch.eye(2).to_sparse()}, {}, "torch.sparse_coo; dense tensors"),
        ({"a": np.zeros(2)}, {}, "tensor 'a' is ndarray"),
        ({"__metadata__": torch.zeros(2)}, {}, "cannot be named '__metadata__'"),
        ({"": torch.zeros(2)}, {}, "cannot be named ''"),
        ({3: torch.zeros(2)}, {}, "cannot be named 3"),
    ],
)
def test_metadata_and_tensors_of_other_kinds_are_refused(tmp_path: Path, tensors: Any, metadata: Any, message: str):
    assert_refused(message, write_folder, tmp_path / "m", tensors, metadata, "")
    assert files(tmp_path) == []


def test_a_model_is_replaced_only_by_force(saved: Path):
    (saved / "notes.txt").write_text("mine")
    message = "holds a saved model already; give force=True to replace it"
    assert_refused(message, write_folder, saved, *NEW, error=FileExistsError)
    assert holds(saved, OLD)
    write_folder(saved, *NEW, force=True)
    assert holds(saved, NEW)
    assert files(saved) == ["README.md", "model.json", "notes.txt", data_file(saved).name]
    write_folder(saved, *NEW, force=True)  # the very same files again
    assert holds(saved, NEW)


@pytest.mark.parametrize("content", ["cut", "newer", "edited"])
def test_a_damaged_or_newer_model_can_be_replaced(saved: Path, content: str):
    text = (saved / "model.json").read_text()
    changed = {"cut": text[:90], "newer": text.replace(": 2,", ": 3,", 1), "edited": text.replace("old", "odd")}
    (saved / "model.json").write_text(changed[content])
    with pytest.raises(ModelFileError):
        read_folder(saved)
    write_folder(saved, *NEW, force=True)
    assert holds(saved, NEW) and len(files(saved)) == 3


def test_what_is_no_model_is_left_alone(tmp_path: Path, saved: Path):
    stranger, other, lost = tmp_path / "file", tmp_path / "other", tmp_path / "lost"
    stranger.write_text("mine")
    other.mkdir()
    (other / "thesis.tex").write_text("mine")
    shutil.copytree(saved, lost)
    (lost / "model.json").unlink()
    (lost / "README.md").unlink()
    for folder, message in [
        (stranger, "file is a file, not a model folder; choose another path"),
        (other, "other is not a model folder: it has no model.json but thesis.tex; choose another path"),
        (lost, "it has no model.json but weights-"),
    ]:
        for force in (False, True):
            assert_refused(message, write_folder, folder, *NEW, force=force, error=FileExistsError)
    (other / "model.json").write_text('{"format": "another"}')
    with pytest.raises(FileExistsError, match="is not the manifest of a siggpde model"):
        write_folder(other, *NEW, force=True)
    assert stranger.read_text() == (other / "thesis.tex").read_text() == "mine"
    assert len(files(other)) == 2 and len(files(lost)) == 1


def test_savers_at_once_take_turns_and_readers_always_find_a_model(saved: Path):
    stop = threading.Event()
    troubles: list[Exception] = []

    def save(model: Any) -> None:
        try:
            while not stop.is_set():
                write_folder(saved, *model, force=True)
        except Exception as error:
            troubles.append(error)

    savers = [threading.Thread(target=save, args=(model,)) for model in (OLD, NEW)]
    for saver in savers:
        saver.start()
    end = time.monotonic() + 1
    while time.monotonic() < end:
        tensors, metadata = read_folder(saved)
        assert same(tensors["mean"], (OLD if metadata["which"] == "old" else NEW)[0]["mean"])
    stop.set()
    for saver in savers:
        saver.join()
    assert troubles == [] and len(files(saved)) == 3
