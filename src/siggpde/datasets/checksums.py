"""SHA-256 of the files in the cache: recorded in `checksums.json` at first use and checked at every later one."""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path

from siggpde.files import atomic_write, locked

log = logging.getLogger(__name__)


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify(path: Path) -> None:
    """Check a file of the cache against its recorded SHA-256, or record it if there is none."""
    digest = sha256(path)
    recorded = _recorded(path.parent).get(path.name)
    if recorded is None:
        try:
            record(path, digest)
        except PermissionError:
            log.info("%s cannot be written to, so the SHA-256 of %s is not recorded", path.parent, path.name)
    elif recorded != digest:
        raise ValueError(
            f"{path} is not the file it was: its SHA-256 is {digest}, but {recorded} was recorded in "
            f"{_file(path.parent)}. It may be damaged: delete it and load the data set again. If you changed it "
            "yourself, take its line out of that file"
        )


def record(path: Path, digest: str) -> None:
    """Add the SHA-256 of a file of the cache to `checksums.json`; processes may do so at the same time."""
    with locked(path.with_name(".checksums.lock")):
        known = _recorded(path.parent) | {path.name: digest}
        with atomic_write(_file(path.parent)) as file:
            file.write(json.dumps(known, indent=1, sort_keys=True).encode())


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
        raise ValueError(
            f"{_file(folder)} is damaged; delete it, and it is made anew (the files are then taken as they are)"
        )
    return known
