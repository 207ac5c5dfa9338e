"""Downloads of the UEA and UCR archives: from a zip file on the server to one ``.npz`` file in the cache, whose SHA-256
is recorded in `checksums.json` at its first use and checked at every later one."""

from __future__ import annotations

import hashlib
import http.client
import json
import logging
import os
import re
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np

from siggpde.io.data import SeriesData, pad
from siggpde.io.ts import parse_ts
from siggpde.utils.files import atomic_write, locked, write_bytes

log = logging.getLogger(__name__)
SERVER = "https://www.timeseriesclassification.com/aeon-toolkit"
_TIMEOUT = 30.0  # seconds without an answer
_LOG_EVERY = 10.0  # seconds
_MAX_BYTES = 4 * 2**30
_MAX_BYTES_UNPACKED = 16 * 2**30
_CHUNK = 2**20


def sha256(path: Path) -> str:
    """Returns the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify(path: Path) -> None:
    """Checks a file of the cache against its recorded SHA-256, or records it if there is none."""
    digest = sha256(path)
    recorded = _recorded(path.parent).get(path.name)
    if recorded is None:
        try:
            record(path, digest)
        except PermissionError:
            log.info("%s cannot be written to, so the SHA-256 of %s is not recorded", path.parent, path.name)
    elif recorded != digest:
        raise ValueError(
            f"{path} has changed: its SHA-256 is {digest}, but {recorded} is recorded in {_file(path.parent)}. It may "
            "be damaged: delete it and load the data set again. If you changed it yourself, remove its line there"
        )


def record(path: Path, digest: str) -> None:
    """Adds the SHA-256 of a file of the cache to `checksums.json`; processes may do so at the same time."""
    with locked(path.with_name(".checksums.lock")):
        known = _recorded(path.parent) | {path.name: digest}
        write_bytes(_file(path.parent), json.dumps(known, indent=1, sort_keys=True).encode())


def _file(folder: Path) -> Path:
    return folder / "checksums.json"


def _recorded(folder: Path) -> dict[str, str]:
    try:
        known = json.loads(_file(folder).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        known = error
    if not isinstance(known, dict) or not all(isinstance(value, str) for value in known.values()):
        raise ValueError(f"{_file(folder)} is damaged; delete it, and it is made anew from the files as they are now")
    return known


# pooch could do the transfer, but not the limits of size, the error messages and the conversion to .npz; nor does the
# archive publish hashes that it could check.


class DownloadError(FileNotFoundError, ConnectionError):
    """A data set that is in no folder and could not be downloaded."""


def address(name: str) -> str:
    """Returns the address of a data set: ``<SIGGPDE_ARCHIVE>/<name>.zip``."""
    base = os.environ.get("SIGGPDE_ARCHIVE") or SERVER
    if not base.startswith(("http://", "https://")):
        raise ValueError(f"SIGGPDE_ARCHIVE must be an address that starts with http:// or https://; got {base!r}")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise ValueError(f"data sets of the archive have names of letters, digits, - and _; got {name!r}")
    return f"{base.rstrip('/')}/{name}.zip"


def download(name: str, cache: Path) -> Path:
    """Downloads a data set into the cache, once for all processes; DownloadError where it cannot be had."""
    url = address(name)
    cache.mkdir(parents=True, exist_ok=True)
    path = cache / f"{name}.npz"
    with locked(cache / f".{name}.lock"):
        if path.is_file():
            return path
        with tempfile.NamedTemporaryFile(dir=cache, prefix=f".{name}.", suffix=".part") as part:
            _fetch(url, part)
            try:
                train, test = read_zip(Path(part.name), name, url)
            except (zipfile.BadZipFile, zlib.error, EOFError) as error:
                raise DownloadError(f"{url} is not a zip file ({error}); there may be no such data set") from error
        with atomic_write(path) as file:
            np.savez_compressed(file, **_members(train, test, url))
            file.flush()
            # Before the file has its name, so that no process finds the file without its checksum.
            record(path, sha256(Path(file.name)))
    log.info("%s is now in %s", name, path)
    return path


def read_zip(path: Path, name: str, source: str) -> tuple[SeriesData, SeriesData]:
    """Returns train and test series of a zip file, whose members are read in place, never unpacked to files."""
    splits = []
    with zipfile.ZipFile(path) as archive:
        for part in ("TRAIN", "TEST"):
            wanted = f"{name}_{part}.ts"
            entries = [entry for entry in archive.infolist() if _matches(entry.filename, wanted)]
            if not entries:
                listed = ", ".join(archive.namelist()[:10]) or "nothing"
                raise ValueError(f"{source} does not hold {wanted}; it holds {listed}")
            entry = entries[0]
            if entry.file_size > _MAX_BYTES_UNPACKED:
                raise ValueError(f"{source}: {wanted} has {entry.file_size} bytes, more than {_MAX_BYTES_UNPACKED}")
            if entry.flag_bits & 1:
                raise ValueError(f"{source}: {wanted} is encrypted")
            with archive.open(entry) as file:
                splits.append(parse_ts(file, f"{source}, {wanted}", name))
    return splits[0], splits[1]


def _fetch(url: str, part: IO[bytes]) -> None:
    """Writes the content of an address to a file; DownloadError if it is too large or not complete."""
    log.info("downloading %s", url)
    request = urllib.request.Request(url, headers={"User-Agent": "siggpde"})
    received, logged = 0, time.monotonic()
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:
            length = response.headers.get("Content-Length")
            size = int(length) if length and length.isdigit() else None
            if (size or 0) > _MAX_BYTES:
                raise DownloadError(f"{url} has {size} bytes, more than {_MAX_BYTES}")
            while chunk := response.read(_CHUNK):
                received += len(chunk)
                if received > _MAX_BYTES:
                    raise DownloadError(f"{url} has more than {_MAX_BYTES} bytes")
                part.write(chunk)
                if time.monotonic() - logged > _LOG_EVERY:
                    logged = time.monotonic()
                    log.info("%.1f MB%s of %s", received / 1e6, f" of {size / 1e6:.1f}" if size else "", url)
    except urllib.error.HTTPError as error:
        raise DownloadError(f"{url}: the server answers {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        raise DownloadError(f"{url}: no connection ({error.reason})") from error
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, DownloadError):
            raise
        raise DownloadError(f"{url}: the connection was lost after {received} bytes ({error!r})") from error
    if size is not None and received < size:
        raise DownloadError(f"{url}: the connection was lost after {received} of {size} bytes; try again")
    part.flush()
    log.info("downloaded %s, %.1f MB", url, received / 1e6)


def _matches(entry: str, wanted: str) -> bool:
    inside = PurePosixPath(entry)
    return inside.name.lower() == wanted.lower() and ".." not in inside.parts and not inside.is_absolute()


def _members(train: SeriesData, test: SeriesData, source: str) -> dict[str, Any]:
    if train.time_channel is not None or test.time_channel is not None:
        raise ValueError(f"{source} has time stamps; unpack it and read its .ts files with siggpde.io.read")
    if train.n_channels != test.n_channels:
        raise ValueError(f"{source}: train has {train.n_channels} channels but test has {test.n_channels}")
    members: dict[str, Any] = {}
    for key, data in (("train", train), ("test", test)):
        if data.y is None:
            raise ValueError(f"{source}: the {key} series have no labels")
        x, lengths = pad(data.X)
        members[f"X_{key}"] = x.astype(np.float32)
        members[f"y_{key}"] = data.y
        members[f"lengths_{key}"] = lengths.astype(np.int32)
    return members
