"""Model folders that were changed, cut or made by someone else: always a ModelFileError, never a wrong value."""

import json
import os
import random
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.model_folders import OLD, data_file, holds, reseal
from helpers.model_mutations import replace_data
from helpers.refusals import assert_refused
from siggpde.persistence import ModelFileError, read_folder, write_folder


@pytest.mark.parametrize("name", ["model.json", "weights"])
def test_every_changed_byte_cut_and_addition_is_noticed(saved: Path, name: str):
    path = data_file(saved) if name == "weights" else saved / name
    good, choose = path.read_bytes(), random.Random(0)
    noticed = 0
    for position in range(0, len(good), 1 if name == "model.json" else 37):
        bad = bytearray(good)
        bad[position] ^= 1 << choose.randrange(8)
        path.write_bytes(bad)
        assert_refused(str(path), read_folder, saved, error=ModelFileError)
        bad[position] = choose.randrange(256)
        path.write_bytes(bad)
        with suppress(ModelFileError):  # a space for a space changes nothing
            assert holds(saved, OLD)
        noticed += 1
    assert noticed > 100
    path.write_bytes(good)
    assert holds(saved, OLD)
    good, choose = path.read_bytes(), random.Random(1)
    for end in [0, 1, 8, len(good) - 2, *(choose.randrange(len(good) - 2) for _ in range(60))]:
        for bad in (good[:end], good[end + 1 :], good[:end] + b"\x80" + good[end:], good + b"\0" * (end + 1)):
            path.write_bytes(bad)
            assert_refused(str(path), read_folder, saved, error=ModelFileError)


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 400))
def test_rubbish_in_the_data_is_noticed_even_with_the_right_hashes(rubbish: bytes, position: int):
    with tempfile.TemporaryDirectory() as where:
        saved = Path(where)
        write_folder(saved, *OLD)
        good = data_file(saved).read_bytes()
        data_file(saved).unlink()
        bad = good[:position] + rubbish + good[position + len(rubbish) + 1 :]
        replace_data(saved, bad)
        with pytest.raises(ModelFileError, match=r"is not a safetensors file|siggpde never writes"):
            read_folder(saved)  # one byte less than the header says, at best


def test_spaces_in_the_manifest_may_change_but_nothing_else(saved: Path):
    content = json.loads((saved / "model.json").read_text())
    (saved / "model.json").write_text(json.dumps(content, indent=7, sort_keys=True).replace("\n", "\r\n"))
    assert read_folder(saved)[1]["which"] == "old"
    for text in ("", "[]", "3", "null", "{}", "\ufeff{}", "not json"):
        (saved / "model.json").write_text(text)
        assert_refused(r"model\.json is not", read_folder, saved, error=ModelFileError)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"old"', '"odd"', "the hash of its content differs, so it was edited or damaged; copy the whole folder again"),
        ('"old"', "NaN", r"model.json is not readable JSON \(NaN is not a number\)"),
        ('"old"', "1e999", "holds numbers that are not finite"),
        ('"old"', "9" * 5000, "is not readable JSON"),
        ('"old"', "[" * 100000, "is nested too deeply|is not readable JSON"),
        ('"which": "old"', '"which": "old", "which": "old"', "a key comes twice"),
        ('"format": "siggpde"', '"format": "other"', "is not the manifest of a siggpde model; give the folder of a"),
        ('"format_version": 2', '"format_version": 3', r"a newer siggpde \(format 3; .* format 2\): upgrade"),
        ('"format_version": 2', '"format_version": 1', r"first release \(format 1; .*\): fit the model again"),
        ('"format_version": 2', '"format_version": 0', "has no valid format_version, but 0"),
        ('"format_version": 2', '"format_version": "1"', "has no valid format_version, but '1'"),
        ('"format_version": 2', '"format_version": true', "has no valid format_version, but True"),
    ],
)
def test_edited_manifests_say_what_is_wrong(saved: Path, old: str, new: str, message: str):
    text = (saved / "model.json").read_text()
    assert old in text
    (saved / "model.json").write_text(text.replace(old, new))
    assert_refused(message, read_folder, saved, error=ModelFileError)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"facts": [1]}, "lacks its facts"),
        ({"created": 3}, "lacks its facts, versions or creation time"),
        ({"files": []}, "must list exactly one data file"),
        ({"files": {"a": 1}}, "must list exactly one data file"),
        ({"files": [3]}, "describes a data file by 3"),
        ({"files": [{"name": "a"}]}, "not by name, bytes and sha256"),
        ({"files": [{"name": "../../etc/passwd", "bytes": 1, "sha256": ""}]}, "names the data file '../../etc/passwd'"),
        ({"files": [{"name": "/etc/passwd", "bytes": 1, "sha256": ""}]}, "which siggpde never writes"),
        ({"files": [{"name": 3, "bytes": 1, "sha256": ""}]}, "names the data file 3"),
        ({"files": [{"name": f"weights-{'0' * 16}.safetensors", "bytes": 1, "sha256": "1" * 64}]}, "cannot be right"),
        ({"files": [{"name": f"weights-{'0' * 16}.safetensors", "bytes": -1, "sha256": "0" * 64}]}, "cannot be right"),
        ({"files": [{"name": f"weights-{'0' * 16}.safetensors", "bytes": 9, "sha256": "0" * 64}]}, "is missing; copy"),
    ],
)
def test_manifests_of_the_wrong_structure_are_refused(saved: Path, changes: dict[str, Any], message: str):
    reseal(saved, **changes)
    assert_refused(message, read_folder, saved, error=ModelFileError)


def test_missing_and_unreadable_files(tmp_path: Path, saved: Path):
    assert_refused(r"there is no model folder .*nowhere", read_folder, tmp_path / "nowhere", error=FileNotFoundError)
    message = r"is a file, not a model folder; give the folder that holds model\.json"
    assert_refused(message, read_folder, saved / "model.json", error=ModelFileError)
    assert_refused(r"is not a saved model: it has no model\.json", read_folder, tmp_path, error=ModelFileError)
    data = data_file(saved)
    content = data.read_bytes()
    data.unlink()
    assert_refused(f"{data.name} is missing; copy the whole folder again", read_folder, saved, error=ModelFileError)
    os.mkfifo(data)  # opening it would wait for ever
    assert_refused(rf"{data.name} cannot be read \(not a regular file\)", read_folder, saved, error=ModelFileError)
    data.unlink()
    (tmp_path / "elsewhere").write_bytes(content)
    data.symlink_to(tmp_path / "elsewhere")  # as caches of downloads do
    assert holds(saved, OLD)
    (saved / "model.json").unlink()
    (saved / "model.json").mkdir()
    assert_refused(r"model\.json cannot be read", read_folder, saved, error=ModelFileError)


def test_tensors_of_foreign_kinds_are_not_read(saved: Path):
    data_file(saved).unlink()
    replace_data(saved, safetensors.torch.save({"a": torch.zeros(2, dtype=torch.bfloat16)}))
    with pytest.raises(ModelFileError, match=r"holds 'a' as torch\.bfloat16, which siggpde never writes"):
        read_folder(saved)
