"""Results of an experiment in one JSON file, written after every record, so that an interrupted run goes on."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from siggpde.files import atomic_write
from siggpde.installation import installation

log = logging.getLogger(__name__)

Record = dict[str, Any]


class Results:
    """Records by key, kept in `results.json` of a folder together with the settings and the machine they came from.

    A folder made with other settings is refused, for its results are not comparable.
    """

    def __init__(self, folder: str | Path, config: dict[str, Any]) -> None:
        self.folder = Path(folder)
        self.file = self.folder / "results.json"
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

    def get(self, key: str) -> Record | None:
        return self._data["records"].get(key)

    def records(self, prefix: str = "") -> dict[str, Record]:
        """The records whose keys begin with `prefix`, in the order of their making."""
        return {key: record for key, record in self._data["records"].items() if key.startswith(prefix)}

    def put(self, key: str, record: Record) -> Record:
        """Stores a record and writes the file, whole or not at all."""
        self._data["records"][key] = json.loads(json.dumps(record))
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
        missing = {key: task for key, task in tasks.items() if self.get(key) is None}
        if jobs <= 1 and not apart:
            for key, task in tasks.items():
                self.once(key, task)
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
