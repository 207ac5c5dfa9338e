"""Predictions for more series than fit into memory: read, predicted and written block by block.

Every block is written atomically to a file of its own in the folder OUTPUT.parts. When all are there they are joined to
OUTPUT and the folder is removed. After an interruption the same call with `resume=True` goes on.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from siggpde.estimators.regressing import RegressorMethods
from siggpde.estimators.restoring import Predictor, load_predictor
from siggpde.estimators.trusting import NoveltyWarning
from siggpde.files import PART_SUFFIX, atomic_write
from siggpde.hashing import digest
from siggpde.io import SeriesStream, stream
from siggpde.prediction_tables import OnError, prediction_table, unlike_in, without_reasons
from siggpde.progress import Progress

log = logging.getLogger(__name__)

_CHUNK = 1024  # blocks are multiples of what is predicted together, so that results are the same to the last bit
_LOG_EVERY = 30.0  # seconds
_OURS = re.compile(rf"(block-\d{{6,}}\.parquet|facts\.json)({PART_SUFFIX})?")


def predict_stream(
    model: Predictor | str | os.PathLike[str],
    source: SeriesStream | str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    level: float = 0.9,
    on_error: OnError = "fail",
    block: int | None = None,
    resume: bool = False,
    force: bool = False,
    progress: bool | None = None,
) -> int:
    """Predicts the series of a file and writes one row a series to `output`, a ``.parquet`` file; returns their number.

    Memory does not grow with the file. Rows are those of `prediction_table`, and equal to what the model predicts for
    all series at once.

    - `model`: a fitted estimator, or the folder of a saved one.
    - `source`: a ``.npy`` or ``.parquet`` file, or what `siggpde.io.streams` makes of one with its options.
    - `level`: regressions: how often the interval holds the number.
    - `on_error`: "fail" stops at a series that cannot be predicted; "skip" leaves its row empty and gives the reason in
      a column `error`.
    - `block`: series at a time, a multiple of 1024; by default some 32 MB of them.
    - `resume`: go on with the blocks that an interrupted call left in OUTPUT.parts.
    - `force`: replace an output, or blocks, that are there.
    - `progress`: a bar on the terminal; by default where there is one. Elsewhere a line is logged now and then.

    One warning at the end says how many series are unlike all training series.
    """
    count, unlike = predict_blocks(
        model,
        source,
        output,
        level=level,
        on_error=on_error,
        block=block,
        resume=resume,
        force=force,
        progress=progress,
    )
    if unlike is not None:
        warnings.warn(unlike, NoveltyWarning, stacklevel=2)
    return count


def predict_blocks(
    model: Predictor | str | os.PathLike[str],
    source: SeriesStream | str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    level: float = 0.9,
    on_error: OnError = "fail",
    block: int | None = None,
    resume: bool = False,
    force: bool = False,
    progress: bool | None = None,
) -> tuple[int, str | None]:
    """As `predict_stream`; the second value is its warning, None without one."""
    output = Path(output)
    if output.suffix.lower() != ".parquet":
        raise ValueError(f"output must be a .parquet file, got {output}")
    if output.exists() and not force:
        raise FileExistsError(f"{output} exists already; choose another name, or force=True to replace it")
    if block is not None and (block < _CHUNK or block % _CHUNK):
        raise ValueError(f"block must be a multiple of {_CHUNK}, got {block}")
    estimator = model if isinstance(model, Predictor) else load_predictor(model)
    series = source if isinstance(source, SeriesStream) else stream(source)
    size = series.block_size() if block is None else block
    settings = {"model": _digest(estimator), "source": series.identity, "level": level, "block": size}
    settings |= {} if on_error == "fail" else {"on_error": on_error}
    blocks = BlockFolder.of(output)
    done = blocks.begin(settings, resume=resume, force=force)
    started = logged = time.perf_counter()
    with Progress(progress) as bar:
        bar.start("predicting", len(series))
        first = min(len(series), done * size)
        bar.step(by=first)
        for number in range(done, -(-len(series) // size)):
            data = series.block(number * size, (number + 1) * size)
            blocks.write(number, prediction_table(estimator, data, level, on_error, True))
            bar.step(by=len(data))
            now, predicted = time.perf_counter(), number * size + len(data)
            if not bar.shown and now - logged > _LOG_EVERY:
                left = (now - started) * (len(series) - predicted) / (predicted - first)
                log.info("%d of %d series predicted, about %.0f s left", predicted, len(series), left)
                logged = now
    return len(series), blocks.join(output)


@dataclass(frozen=True)
class BlockFolder:
    """The folder OUTPUT.parts: predictions in files of one block each, while OUTPUT is not finished.

    `facts.json` in it tells which model, source and options the blocks belong to.
    """

    folder: Path

    @staticmethod
    def of(output: Path) -> BlockFolder:
        return BlockFolder(output.with_name(f"{output.name}.parts"))

    def exists(self) -> bool:
        """Whether there are blocks to resume from."""
        return any(self._files())

    def begin(self, settings: dict[str, Any], *, resume: bool, force: bool) -> int:
        """Returns how many blocks can be kept. Without `resume` it is 0, and the folder holds `facts.json` only."""
        path, expected = self.folder / "facts.json", json.loads(json.dumps(settings))
        if resume and path.exists():
            try:
                saved = json.loads(path.read_text())
            except ValueError:
                saved = None
            if saved != expected:
                raise ValueError(
                    f"{self.folder} was made with another model, file or settings; give the same ones, or force=True "
                    "without resume to start anew"
                )
            return next(number for number in range(len(list(self._files())) + 1) if not self._path(number).exists())
        if self.exists() and not (force or resume):
            raise FileExistsError(
                f"{self.folder} holds predictions that were interrupted; resume=True goes on, force=True starts anew"
            )
        self.remove()
        self.folder.mkdir(exist_ok=True)
        with atomic_write(path) as file:
            file.write((json.dumps(expected, indent=1) + "\n").encode())
        return 0

    def write(self, number: int, table: pl.DataFrame) -> None:
        with atomic_write(self._path(number)) as file:
            table.write_parquet(file)

    def join(self, output: Path) -> str | None:
        """Writes all blocks into one file without reading them into memory, then removes them.

        Returns a line about series that are unlike all training series: the blocks, but not the file, hold the reasons.
        """
        blocks = pl.scan_parquet(sorted(path for path in self._files() if path.suffix == ".parquet"))
        unlike = unlike_in(blocks)
        with atomic_write(output) as file:
            without_reasons(blocks).sink_parquet(Path(file.name))
        self.remove()
        return unlike

    def remove(self) -> None:
        """Removes the files of the blocks and no others, `facts.json` last, and the folder if it is then empty."""
        for path in sorted(self._files(), key=lambda path: path.suffix == ".json"):
            path.unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()

    def _path(self, number: int) -> Path:
        return self.folder / f"block-{number:06d}.parquet"

    def _files(self) -> Iterator[Path]:
        if self.folder.is_dir():
            yield from (path for path in self.folder.iterdir() if _OURS.fullmatch(path.name))


def _digest(estimator: Predictor) -> str:
    """A hash of everything that predictions depend on."""
    from siggpde.committee.committee import Committee  # noqa: PLC0415 - other predictions need none
    from siggpde.persistence import flatten_state, view_committee_state  # noqa: PLC0415

    estimator._check_fitted()
    committee = estimator.committee_
    scaling = [getattr(estimator, name, None) for name in ("target_shift_", "target_scale_")]
    classes = estimator.classes_.tolist() if not isinstance(estimator, RegressorMethods) else None
    settings = (estimator.preparation_.state(), scaling, classes)
    if not isinstance(committee, Committee):
        plain, tensors = flatten_state(view_committee_state(committee), "")
        return digest(*tensors.values(), settings=(*settings, plain))
    tensors = [tensor for member in committee.members for tensor in member.model.state_dict().values()]
    transforms = [member.transform.state() for member in committee.members]
    words = [member.model.features.words for member in committee.members]
    own = (transforms, words, committee.recalibration, committee.sharpness)
    if committee.novelty is not None:
        plain, more = flatten_state(committee.novelty.state(), "")
        return digest(committee.weights, *tensors, *more.values(), settings=(*settings, own, plain))
    return digest(committee.weights, *tensors, settings=(*settings, own))
