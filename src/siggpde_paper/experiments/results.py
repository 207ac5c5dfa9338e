"""Results of an experiment in one JSON file, written after every record, so that an interrupted run goes on."""

from __future__ import annotations

import json
import logging
import subprocess
from collections.abc import Callable, Collection
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from siggpde.files import atomic_write
from siggpde.installation import installation

log = logging.getLogger(__name__)

Record = dict[str, Any]
_GIT = ("git", "-C", str(Path(__file__).parent))


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
    """Records by key, kept in `results.json` of a folder together with the settings and the machine they came from.

    A folder made with other settings is refused, for its results are not comparable. With `only`, `compute` leaves out
    the tasks that have none of these names among the parts of their key: "fit/gpsig-it/50/0" is computed for "fit",
    "gpsig-it", "50" and "0".
    """

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
    def installation(self) -> dict[str, Any]:
        return self._data["installation"]

    @property
    def commits(self) -> list[str]:
        """The commits that the records were made with, where they are known."""
        return list(dict.fromkeys(self._data.get("commits", {}).values()))

    def get(self, key: str) -> Record | None:
        return self._data["records"].get(key)

    def records(self, prefix: str = "") -> dict[str, Record]:
        """The records whose keys begin with `prefix`, in the order of their making."""
        return {key: record for key, record in self._data["records"].items() if key.startswith(prefix)}

    def put(self, key: str, record: Record) -> Record:
        """Stores a record and writes the file, whole or not at all."""
        self._data["records"][key] = json.loads(json.dumps(record))
        if self._commit is not None:
            self._data.setdefault("commits", {})[key] = self._commit
        self.folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(self.file) as file:
            file.write((json.dumps(self._data, indent=1) + "\n").encode())
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
        """Computes and stores the missing records, in `jobs` processes of one thread each; one job is this process.

        With `apart` a single job has a process of its own too. Tasks of other processes have to be functions of
        modules, or `functools.partial` of such.
        """
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
