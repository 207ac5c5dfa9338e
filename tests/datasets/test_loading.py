"""The data set inside the package, and the search for others."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.refusals import assert_refused
from siggpde.datasets import find_dataset, load_pendigits, read_dataset


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Empty folders in the places of SIGGPDE_DATA and of the user's cache."""
    chosen, cache = tmp_path / "chosen", tmp_path / "cache"
    (cache / "siggpde").mkdir(parents=True)
    chosen.mkdir()
    monkeypatch.setenv("SIGGPDE_DATA", str(chosen))
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return chosen, cache / "siggpde"


def write(path: Path, **members: Any) -> Path:
    small: dict[str, Any] = {
        "X_train": np.zeros((3, 2, 4), np.float32),
        "y_train": np.array(["a", "b", "a"]),
        "X_test": np.zeros((2, 2, 5), np.float32),
        "y_test": np.array(["a", "b"]),
    }
    np.savez(path, **(small | members))
    return path


def test_pendigits_is_the_published_split():
    data = load_pendigits()
    assert data.X_train.shape == (7494, 2, 8) and data.X_test.shape == (3498, 2, 8)
    assert data.X_train.dtype == data.X_test.dtype == np.float32 and data.channel_names == ("x", "y")
    assert (data.lengths_train == 8).all() and (data.lengths_test == 8).all()
    for x in (data.X_train, data.X_test):
        assert (x.min(), x.max()) == (0, 100)
        assert np.array_equal(x, x.round())
    assert sorted(set(data.y_train.tolist())) == sorted(set(data.y_test.tolist())) == list("0123456789")
    assert np.count_nonzero(data.y_train == "0") == 780
    assert np.count_nonzero(data.y_test == "9") == 336
    assert repr(data) == "Dataset('PenDigits': 7494 train, 3498 test, 2 channels, length 8)"


def test_chosen_folder_comes_before_the_cache(folders: tuple[Path, Path]):
    chosen, cache = folders
    in_cache = write(cache / "Small.npz")
    assert find_dataset("Small") == in_cache
    in_chosen = write(chosen / "Small.npz")
    assert find_dataset("Small") == in_chosen


def test_cache_is_under_home_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SIGGPDE_DATA", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".cache" / "siggpde"
    folder.mkdir(parents=True)
    path = write(folder / "Small.npz")
    assert find_dataset("Small") == path


def test_error_names_every_place_and_tells_how_to_choose_one(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(FileNotFoundError, match="'Nowhere' not found") as caught:
        find_dataset("Nowhere")
    for folder in folders:
        assert str(folder / "Nowhere.npz") in str(caught.value)
    assert "SIGGPDE_DATA is not set" not in str(caught.value)
    monkeypatch.delenv("SIGGPDE_DATA")
    assert_refused("SIGGPDE_DATA is not set", find_dataset, "Nowhere", error=FileNotFoundError)


@pytest.mark.parametrize("name", ["", "../PenDigits", "data/PenDigits"])
def test_a_name_is_not_a_path(name: str):
    assert_refused("by its name", find_dataset, name)


def test_lengths_and_channel_names_may_be_left_out_and_integers_become_float32(tmp_path: Path):
    x = np.ones((3, 2, 4), np.float32)
    x[1, :, 2:] = np.nan
    x[2, 0, :] = np.nan
    data = read_dataset(write(tmp_path / "Ragged.npz", X_train=x))
    assert data.lengths_train.tolist() == [4, 2, 4] and data.lengths_test.tolist() == [5, 5]
    assert data.channel_names == ("channel 0", "channel 1") and data.name == "Ragged"
    data = read_dataset(write(tmp_path / "Integers.npz", X_train=np.ones((3, 2, 4), np.int16)))
    assert data.X_train.dtype == np.float32


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"X_train": np.zeros((3, 4))}, r"X_train must have shape \(n_cases, n_channels, n_timepoints\); got \(3, 4\)"),
        ({"y_test": np.zeros(5)}, r"y_test must have shape \(2,\)"),
        ({"X_test": np.zeros((2, 1, 5))}, "X_train has 2 channels but X_test has 1"),
        ({"lengths_train": np.zeros(1, np.int32)}, r"lengths_train must be 3 integers"),
    ],
)
def test_malformed_files_are_explained(tmp_path: Path, members: dict[str, np.ndarray], message: str):
    assert_refused(message, read_dataset, write(tmp_path / "Bad.npz", **members))


def test_other_archives_are_refused(tmp_path: Path):
    np.savez(tmp_path / "Other.npz", data=np.zeros(3))
    assert_refused("lacks X_train, y_train, X_test, y_test", read_dataset, tmp_path / "Other.npz")
