"""Settings of the experiments, and their results in one JSON file, written after every record."""

from __future__ import annotations

import json
import logging
import subprocess
import tomllib
from collections.abc import Callable, Collection
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from siggpde.numerics.backend import installation
from siggpde.utils.files import write_bytes

_FOLDER = Path(__file__).parent / "configs"
log = logging.getLogger(__name__)
Record = dict[str, Any]
_GIT = ("git", "-C", str(Path(__file__).parent))


def load_config(name: str, *, quick: bool = False, path: Path | None = None) -> dict[str, Any]:
    """The settings of an experiment from its TOML file or from `path`; with `quick` its table [quick] replaces some."""
    source = _FOLDER / f"{name}.toml" if path is None else path
    try:
        config = tomllib.loads(source.read_text(encoding="utf-8"))
    except OSError as error:
        there = ", ".join(sorted(file.stem for file in _FOLDER.glob("*.toml")))
        raise FileNotFoundError(
            f"{source} cannot be read ({error.strerror}); the experiments have the settings {there}"
        ) from error
    except ValueError as error:
        raise ValueError(f"{source} is no TOML file: {error}") from error
    changes = config.pop("quick", {})
    if not isinstance(changes, dict):
        raise ValueError(f"{source}: quick must be a table, [quick], got {changes!r}")
    return merged(config, changes) if quick else config


def merged(config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The settings with some changed, table by table."""
    result = dict(config)
    for key, value in changes.items():
        inner = result.get(key)
        result[key] = merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return result


def source_commit() -> str | None:
    """The commit that the source is at, with "+" where files were changed since; None outside a repository."""
    try:
        commit, changes = (
            subprocess.run([*_GIT, *command], capture_output=True, text=True, check=True, timeout=10).stdout.strip()
            for command in (("rev-parse", "--short=9", "HEAD"), ("status", "--porcelain", "--untracked-files=no", "."))
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return commit + ("+" if changes else "")


class Results:
    """Records by key, in `results.json` with the settings; `only` has names in the keys of tasks to be computed."""

    def __init__(self, folder: str | Path, config: dict[str, Any], only: Collection[str] = ()) -> None:
        self.folder = Path(folder)
        self.file = self.folder / "results.json"
        self.only = frozenset(only)
        self.asked: set[str] = set()
        self._commit = source_commit()
        self._data: dict[str, Any] = {"config": config, "installation": installation(), "records": {}}
        if not self.file.exists():
            return
        try:
            stored = json.loads(self.file.read_text(encoding="utf-8"))
            same = stored["config"] == json.loads(json.dumps(config))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{self.file} is not a file of results ({error}); choose another folder") from error
        if not same:
            raise ValueError(f"{self.file} was made with other settings; choose another folder, or remove it")
        self._data = stored

    @property
    def config(self) -> dict[str, Any]:
        """The settings on which the records depend."""
        return self._data["config"]

    @property
    def installation(self) -> dict[str, Any]:
        return self._data["installation"]

    @property
    def commits(self) -> list[str]:
        """The commits that the records were made with, where they are known."""
        return list(dict.fromkeys(self._data.get("commits", {}).values()))

    def get(self, key: str) -> Record | None:
        return self._data["records"].get(key)

    def records(self) -> dict[str, Record]:
        """All records by key, in the order of their making."""
        return dict(self._data["records"])

    def runs(self, prefix: str) -> list[Record]:
        """The records whose keys begin with `prefix`, in the order of their making."""
        return [record for key, record in self._data["records"].items() if key.startswith(prefix)]

    def put(self, key: str, record: Record) -> Record:
        """Stores a record and writes the file, whole or not at all."""
        self._data["records"][key] = json.loads(json.dumps(record))
        if self._commit is not None:
            self._data.setdefault("commits", {})[key] = self._commit
        self.folder.mkdir(parents=True, exist_ok=True)
        write_bytes(self.file, (json.dumps(self._data, indent=1) + "\n").encode())
        return self._data["records"][key]

    def once(self, key: str, compute: Callable[[], Record]) -> Record:
        """The record stored under the key; computed and stored where there is none."""
        record = self.get(key)
        if record is not None:
            log.info("%s: done before", key)
            return record
        log.info("%s ...", key)
        return self.put(key, compute())

    def compute(self, tasks: dict[str, Callable[[], Record]], jobs: int = 1, *, apart: bool = False) -> None:
        """Computes the missing records, in processes if jobs > 1 or `apart`: tasks are then functions of modules."""
        self.asked |= {part for key in tasks for part in key.split("/")}
        if self.only:
            tasks = {key: task for key, task in tasks.items() if self.only & set(key.split("/"))}
        missing = {key: task for key, task in tasks.items() if self.get(key) is None}
        if jobs <= 1 and not apart:
            for key, task in tasks.items():
                self.once(key, task)
            return
        if not missing:
            return
        with ProcessPoolExecutor(jobs, get_context("spawn"), torch.set_num_threads, (1,)) as executor:
            running = {executor.submit(task): key for key, task in missing.items()}
            try:
                for future in as_completed(running):
                    self.put(running[future], future.result())
                    log.info("%s: done", running[future])
            except BaseException:
                executor.shutdown(wait=False, cancel_futures=True)
                raise


def pass_key(key: str, number: int) -> str:
    """The key of pass `number`, counted from 0: "time/siggpde", "time/siggpde/again 1"."""
    return key if number == 0 else f"{key}/again {number}"


def least(results: Results, key: str) -> Record | None:
    """Of every number the least of all passes; None where there was none."""
    records: list[Record] = []
    while (record := results.get(pass_key(key, len(records)))) is not None:
        records.append(record)
    if not records:
        return None
    return {name: min(record[name] for record in records) for name in records[0]}
