"""Data sets from an archive's server, which here is one on this machine, and the cache they go to."""

import hashlib
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from helpers.archive_server import HEAD, TEST, TRAIN, Archive, zipped
from helpers.refusals import assert_refused
from siggpde.datasets import archive as archive_module
from siggpde.datasets import load_dataset
from siggpde.datasets.archive import address, record, sha256

ROOT = Path(__file__).parents[2]


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch) -> Iterator[Archive]:
    server = Archive()
    server.files["/Small.zip"] = zipped()
    monkeypatch.setenv("SIGGPDE_ARCHIVE", server.url + "/")
    for proxy in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
    yield server
    server.close()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of the cache; the folder is not there yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SIGGPDE_DATA", str(tmp_path / "mine"))
    return tmp_path / "home" / "siggpde"


def small(path: Path):
    x = np.zeros((1, 1, 2), np.float32)
    np.savez(path, X_train=x, y_train=["a"], X_test=x, y_test=["a"])


def files(folder: Path) -> list[str]:
    """What is in a folder, but for locks, which are empty."""
    return sorted(file.name for file in folder.iterdir() if file.suffix != ".lock")


def test_download(archive: Archive, cache: Path, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO, logger="siggpde"):
        data = load_dataset("Small")
    assert repr(data) == "Dataset('Small': 2 train, 1 test, 2 channels, length 3)"
    assert data.lengths_train.tolist() == [3, 2] and data.lengths_test.tolist() == [1]
    nan = np.nan
    np.testing.assert_array_equal(data.X_train, [[[1, 2, 3], [4, 5, 6]], [[7, nan, nan], [9, 0.5, nan]]])
    assert data.X_train.dtype == np.float32
    assert data.y_train.tolist() == ["Up", "Down"] and data.y_test.tolist() == ["Down"]
    assert archive.asked == ["/Small.zip"]
    assert f"downloading {archive.url}/Small.zip" in caplog.text
    assert files(cache) == ["Small.npz", "checksums.json"]
    digest = hashlib.sha256((cache / "Small.npz").read_bytes()).hexdigest()
    assert json.loads((cache / "checksums.json").read_text()) == {"Small.npz": digest}


def test_second_load_needs_no_server(archive: Archive):
    first = load_dataset("Small")
    archive.close()
    for name in ("Small", "small", "SMALL"):
        again = load_dataset(name)
        np.testing.assert_array_equal(again.X_train, first.X_train)
        assert again.name == "Small"
    assert archive.asked == ["/Small.zip"]


def test_regression_and_equal_lengths(archive: Archive):
    text = "@targetLabel true\n@data\n1,2:0.5\n3,4:-1\n"
    archive.files["/Small.zip"] = zipped(text, text)
    data = load_dataset("Small")
    assert data.y_train.dtype == np.float64 and data.y_train.tolist() == [0.5, -1]
    assert data.X_train.shape == (2, 1, 2)


@pytest.mark.parametrize("folder", ["", "Small/", "./"])
def test_members_may_be_in_a_folder(archive: Archive, folder: str):
    archive.files["/Small.zip"] = zipped(folder=folder, **{"README.txt": "hello"})
    assert len(load_dataset("Small").X_train) == 2


def test_the_chosen_folder_comes_first(archive: Archive, tmp_path: Path, cache: Path):
    load_dataset("Small")
    (tmp_path / "mine").mkdir()
    small(tmp_path / "mine" / "sMALL.npz")
    assert load_dataset("Small").X_train.shape == (1, 1, 2)
    assert list(json.loads((cache / "checksums.json").read_text())) == ["Small.npz"]  # that folder is the user's own


def test_names_that_differ_in_capitals_only(tmp_path: Path):
    (tmp_path / "mine").mkdir()
    for name in ("Small", "SMALL"):
        small(tmp_path / "mine" / f"{name}.npz")
    if len(list((tmp_path / "mine").iterdir())) < 2:
        pytest.skip("this file system does not tell capitals apart")
    assert load_dataset("SMALL", download=False).name == "SMALL"
    assert_refused(r"any of SMALL\.npz, Small\.npz in .*; give .*capitals", load_dataset, "small", download=False)


def test_pendigits_needs_no_server(archive: Archive, cache: Path):
    assert load_dataset("pendigits").name == "PenDigits"
    assert archive.asked == [] and not cache.exists()


def test_no_such_data_set_and_no_download_unless_wanted(archive: Archive, cache: Path, tmp_path: Path):
    assert_refused("'Small' not found; looked for", load_dataset, "Small", download=False, error=FileNotFoundError)
    assert archive.asked == []
    with pytest.raises(FileNotFoundError, match="'Nowhere' not found") as caught:
        load_dataset("Nowhere")
    message = str(caught.value)
    for part in (cache / "Nowhere.npz", tmp_path / "mine" / "Nowhere.npz", f"{archive.url}/Nowhere.zip", "answers 404"):
        assert str(part) in message
    assert "SIGGPDE_ARCHIVE" in message
    assert files(cache) == []


def test_offline(archive: Archive, cache: Path):
    archive.close()
    with pytest.raises(FileNotFoundError, match=r"Small\.zip: no connection \(.*refused") as caught:
        load_dataset("Small")
    assert isinstance(caught.value, ConnectionError)
    assert "put Small.npz into one of the folders above" in str(caught.value)
    assert files(cache) == []


def test_a_server_that_stalls(archive: Archive, cache: Path, monkeypatch: pytest.MonkeyPatch):
    archive.seconds = 1.0
    monkeypatch.setattr(archive_module, "_TIMEOUT", 0.1)
    assert_refused("timed out", load_dataset, "Small", error=FileNotFoundError)
    assert files(cache) == []


def test_truncated_answers(archive: Archive, cache: Path):
    whole = len(archive.files["/Small.zip"])
    for archive.missing_bytes in (1, whole // 2, whole):
        with pytest.raises(FileNotFoundError, match=f"lost after {whole - archive.missing_bytes} of {whole} bytes"):
            load_dataset("Small")
        assert files(cache) == []
    archive.length, archive.missing_bytes = False, 30
    assert_refused("is not a zip file", load_dataset, "Small", error=FileNotFoundError)
    assert files(cache) == []
    archive.missing_bytes = 0
    assert len(load_dataset("Small").X_train) == 2


def damaged() -> bytes:
    content = bytearray(zipped(TRAIN + "1,1:1,1:Up\n" * 100))
    content[80] ^= 0xFF
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"<html>not here</html>", FileNotFoundError, "is not a zip file .*; there may be no such data set"),
        (damaged(), (FileNotFoundError, ValueError), r"Small\.zip"),
        (zipped(test=None), ValueError, r"does not hold Small_TEST\.ts; it holds Small_TRAIN\.ts"),
        (zipped(name="Other"), ValueError, r"does not hold Small_TRAIN\.ts"),
        (zipped(folder="../"), ValueError, r"does not hold Small_TRAIN\.ts; it holds \.\./Small_TRAIN\.ts"),
        (zipped(folder="/tmp/"), ValueError, r"does not hold Small_TRAIN\.ts"),
        (zipped(TRAIN + "1,2:3"), ValueError, r"Small_TRAIN\.ts, line 8"),
        (zipped(test=TEST.replace("1.5:2.5:", "1.5:")), ValueError, "train has 2 channels but test has 1"),
        (zipped(test="@classLabel false\n@data\n1:2\n"), ValueError, "the test series have no labels"),
        (zipped(HEAD.replace("@data", "@timeStamps true\n@data") + "(1,2):(1,2):Up\n"), ValueError, "has time stamps"),
    ],
    ids=["page", "damaged", "no test", "other", "outside", "absolute", "cut off", "channels", "labels", "stamps"],
)
def test_bad_zip_files(archive: Archive, cache: Path, tmp_path: Path, content: bytes, error, message: str):
    archive.files["/Small.zip"] = content
    assert_refused(message, load_dataset, "Small", error=error)
    assert files(cache) == []
    assert sorted(path.name for path in tmp_path.rglob("*.ts")) == []


@pytest.mark.parametrize("limit", ["_MAX_BYTES", "_MAX_BYTES_UNPACKED"])
@pytest.mark.parametrize("length", [True, False])
def test_sizes_are_bounded(archive: Archive, cache: Path, limit: str, length: bool, monkeypatch: pytest.MonkeyPatch):
    archive.length = length
    monkeypatch.setattr(archive_module, limit, 50)
    assert_refused("more than 50", load_dataset, "Small", error=(FileNotFoundError, ValueError))
    assert files(cache) == []


@pytest.mark.parametrize("how", ["cut off", "changed", "replaced"])
def test_a_file_of_the_cache_that_is_not_what_it_was(archive: Archive, cache: Path, how: str):
    load_dataset("Small")
    path = cache / "Small.npz"
    content = bytearray(path.read_bytes())
    before = sha256(path)
    if how == "cut off":
        content = content[:-10]
    elif how == "changed":
        content[100] ^= 1
    else:
        small(path)
        content = path.read_bytes()
    path.write_bytes(content)
    with pytest.raises(ValueError, match="has changed") as caught:
        load_dataset("Small")
    for part in (str(path), before, sha256(path), "delete it and load the data set again", "checksums.json"):
        assert part in str(caught.value)
    path.unlink()
    assert len(load_dataset("Small").X_train) == 2
    assert archive.asked == ["/Small.zip"] * 2


def test_deleted_files_may_come_back_different(archive: Archive, cache: Path):
    load_dataset("Small")
    (cache / "Small.npz").unlink()
    archive.files["/Small.zip"] = zipped(TRAIN + "0:0:Up\n")
    assert len(load_dataset("Small").X_train) == len(load_dataset("Small").X_train) == 3


def test_files_put_into_the_cache_are_recorded_at_first_use(cache: Path):
    cache.mkdir(parents=True)
    small(cache / "Own.npz")
    load_dataset("own")
    assert json.loads((cache / "checksums.json").read_text()) == {"Own.npz": sha256(cache / "Own.npz")}
    (cache / "Own.npz").write_bytes((cache / "Own.npz").read_bytes() + b"\0")
    assert_refused("has changed", load_dataset, "Own")


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"Small.npz": 1}'])
def test_damaged_checksums(archive: Archive, cache: Path, content: str):
    load_dataset("Small")
    (cache / "checksums.json").write_text(content)
    assert_refused(r"checksums\.json is damaged; delete it", load_dataset, "Small")


@pytest.mark.parametrize("name", ["a b", "-x", "ä", "x?y=1", "a#b"])
def test_names_that_the_archive_cannot_have(archive: Archive, name: str):
    assert_refused("names of letters, digits", load_dataset, name)
    assert archive.asked == []


def test_addresses(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SIGGPDE_ARCHIVE", raising=False)
    assert address("GunPoint") == "https://www.timeseriesclassification.com/aeon-toolkit/GunPoint.zip"
    monkeypatch.setenv("SIGGPDE_ARCHIVE", "http://here/there/")
    assert address("GunPoint") == "http://here/there/GunPoint.zip"
    monkeypatch.setenv("SIGGPDE_ARCHIVE", "file:///etc")
    assert_refused("SIGGPDE_ARCHIVE must be an address", address, "GunPoint")


def test_threads_download_once(archive: Archive):
    archive.seconds = 0.2
    loaded = []
    threads = [threading.Thread(target=lambda: loaded.append(load_dataset("Small"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loaded) == 4 and archive.asked == ["/Small.zip"]


def test_two_processes_record_side_by_side(tmp_path: Path):
    code = (
        "import sys; from pathlib import Path; from siggpde.datasets.archive import record\n"
        "for i in range(100): record(Path(sys.argv[1]) / f'{sys.argv[2]}{i}', sys.argv[2] * 3)"
    )
    env = {"PYTHONPATH": ":".join([str(ROOT / "src"), *sys.path])}
    runs = [subprocess.Popen([sys.executable, "-S", "-c", code, str(tmp_path), who], env=env) for who in "ab"]
    record(tmp_path / "c", "ccc")
    assert [run.wait() for run in runs] == [0, 0]
    known = json.loads((tmp_path / "checksums.json").read_text())
    assert known == {"c": "ccc"} | {f"{who}{i}": who * 3 for who in "ab" for i in range(100)}
    assert files(tmp_path) == ["checksums.json"]
