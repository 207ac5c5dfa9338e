"""Tables of predictions, one row a series, also block by block for more series than fit into memory."""

from __future__ import annotations

import hashlib
import io
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
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from siggpde.committee.novelty import NoveltyWarning, SeriesNovelty, unlike_line
from siggpde.estimators.loading import Predictor, load_predictor
from siggpde.estimators.regressor import SeriesRegressor
from siggpde.io import SeriesData, SeriesStream, stream
from siggpde.io.data import errors_by_id, named
from siggpde.utils.files import PART_SUFFIX, atomic_write, check_replaceable, digest, write_bytes
from siggpde.utils.progress import Progress

OnError = Literal["fail", "skip"]

Frame = TypeVar("Frame", pl.DataFrame, pl.LazyFrame)

_BAD_SERIES = (ValueError, ArithmeticError)
_UNLIKE = "unlike"
_NUMBERS = ("prediction", "std", "lower", "upper")  # of a regression
log = logging.getLogger(__name__)
_CHUNK = 1024  # blocks are multiples of what is predicted together, so that results are the same to the last bit
_LOG_EVERY = 30.0  # seconds
_OURS = re.compile(rf"(block-\d{{6,}}(-[0-9a-f]{{64}})?\.parquet|facts\.json)({PART_SUFFIX})?")


def prediction_table(
    estimator: Predictor, data: SeriesData, level: float = 0.9, on_error: OnError = "fail", reasons: bool = False
) -> pl.DataFrame:
    """Predictions with one row a series: id, prediction, a probability a class, or std, lower and upper at `level`; the
    p-value `novelty` where known; with `reasons` a column `unlike`. With on_error="skip" a series that cannot be
    predicted has empty cells and the reason in a last column `error`."""
    if on_error not in get_args(OnError):
        raise ValueError(f"on_error must be 'fail' or 'skip'; got {on_error!r}")
    ids = (np.arange(len(data)) if data.ids is None else data.ids).tolist()
    if on_error == "fail":
        with errors_by_id(ids):
            table = _predicted(estimator, data, level)
    else:
        table = _predicted_or_skipped(estimator, data, level, ids)
    table = table.select(pl.Series("id", ids), pl.all())
    return table if reasons else without_reasons(table)


def unlike_in(table: pl.DataFrame | pl.LazyFrame) -> str | None:
    """Returns a line about the series of a table with `reasons` that are unlike all training series, or None."""
    rows = table.lazy()
    if _UNLIKE not in rows.collect_schema():
        return None
    unlike = rows.filter(pl.col(_UNLIKE).is_not_null())
    counts = dict(unlike.group_by(_UNLIKE).len().collect().iter_rows())
    if not counts:
        return None
    total, first = rows.select(pl.len()).collect().item(), unlike.select(pl.first("id")).collect().item()
    return unlike_line(total, first, counts)


def without_reasons(table: Frame) -> Frame:
    """Returns the table without the column of `reasons`."""
    return table.drop(_UNLIKE, strict=False)


def _predicted(estimator: Predictor, data: SeriesData, level: float) -> pl.DataFrame:
    if isinstance(estimator, SeriesRegressor):
        mean, std, interval, new = estimator.predict_with_novelty(data, level)
        return _table(estimator, np.column_stack([mean, std, interval]), new)
    return _table(estimator, *estimator.predict_with_novelty(data))


def _table(estimator: Predictor, values: NDArray[np.float64], new: SeriesNovelty | None) -> pl.DataFrame:
    """Returns the table of n series, of (n, C) probabilities of classes or of (n, 4) numbers and their intervals."""
    if isinstance(estimator, SeriesRegressor):
        columns, names = {}, list(_NUMBERS)
    else:
        labels = pl.Series("prediction", estimator.classes_.tolist())
        columns = {"prediction": labels.gather(values.argmax(axis=1))}
        names = [f"p({label})" for label in labels.to_list()]
    columns |= {name: np.ascontiguousarray(column) for name, column in zip(names, values.T, strict=True)}
    if new is not None:
        columns |= {"novelty": new.p, _UNLIKE: pl.Series(new.unlike, dtype=pl.String)}
    return pl.DataFrame(columns)


def _predicted_or_skipped(estimator: Predictor, data: SeriesData, level: float, ids: list[Any]) -> pl.DataFrame:
    """Returns predictions with a column `error`, the reason for an empty row."""
    rows = range(len(data))
    errors: dict[int, str] = {}
    try:
        table, good = _predicted(estimator, data, level), np.arange(len(data))
    except _BAD_SERIES:
        for row in rows:  # those that cannot be prepared on their own; no series is predicted yet
            try:
                estimator.preparation_([np.asarray(data.X[row], dtype=np.float64)])
            except _BAD_SERIES as error:
                errors[row] = str(error)
        good = np.array([row for row in rows if row not in errors], dtype=np.int64)
        pieces = list(_pieces(estimator, data, good, level, errors))
        good = np.concatenate([numbers for numbers, _ in pieces]) if pieces else good[:0]
        columns = len(_NUMBERS) if isinstance(estimator, SeriesRegressor) else len(estimator.classes_)
        new = None if estimator.committee_.novelty is None else SeriesNovelty(np.empty(0), [])
        none = _table(estimator, np.empty((0, columns)), new)  # the columns and their types
        table = pl.concat([piece for _, piece in pieces]) if pieces else none
    reasons = [named(errors[row], [ids[row]]) if row in errors else None for row in rows]
    all_rows = pl.DataFrame({"row": np.arange(len(data)), "error": pl.Series(reasons, dtype=pl.String)})
    joined = all_rows.join(table.with_columns(row=pl.Series(good)), on="row", how="left", maintain_order="left")
    return joined.select(*table.columns, "error")


def _pieces(
    estimator: Predictor, data: SeriesData, numbers: NDArray[np.int64], level: float, errors: dict[int, str]
) -> Iterator[tuple[NDArray[np.int64], pl.DataFrame]]:
    """Returns predictions of series, together if that works, else of halves; failures of one go to `errors`."""
    if not len(numbers):
        return
    try:
        yield numbers, _predicted(estimator, data[numbers], level)
    except _BAD_SERIES as error:
        if len(numbers) == 1:
            errors[int(numbers[0])] = str(error)
            return
        for half in np.array_split(numbers, [len(numbers) // 2]):
            yield from _pieces(estimator, data, half, level, errors)


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
    """Predicts the series of a file, block by block, and writes a ``.parquet`` file with one row a series.

    Memory does not grow with the file, and predictions equal those for all series at once. A `NoveltyWarning` at the
    end says how many series are unlike all training series.

    Parameters
    ----------
    model : fitted estimator or path
        A path is the folder of a saved model.
    source : path or SeriesStream
        A ``.npy`` or ``.parquet`` file, or the result of `siggpde.io.stream`, which takes options.
    output : path
        The file to write, with the columns of `siggpde.io.predictions.prediction_table`.
    level : float
        Of the interval (lower, upper) of a regression.
    on_error : {"fail", "skip"}
        Stop at a series that cannot be predicted, or leave its row empty with the reason in a column `error`.
    block : int, optional
        Series at a time, a multiple of 1024; by default some 32 MB of them.
    resume : bool
        Go on with the blocks that an interrupted call left in OUTPUT.parts.
    force : bool
        Replace an existing output, or existing blocks.
    progress : bool, optional
        A bar on the terminal, by default where there is one; elsewhere a line is logged now and then.

    Returns
    -------
    int
        The number of series.

    Examples
    --------
    >>> import tempfile, siggpde
    >>> X = np.linspace(0, 1, 6) * np.array([1.0, -1.0] * 5)[:, None, None]
    >>> classifier = siggpde.SigGPClassifier(members=1).fit(X, ["up", "down"] * 5)
    >>> np.save(file := Path(tempfile.mkdtemp()) / "new.npy", X)
    >>> predict_stream(classifier, file, file.with_suffix(".parquet"), progress=False)
    10
    """
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
    settings |= {"blocks": "hashed"} | ({} if on_error == "fail" else {"on_error": on_error})
    blocks = BlockFolder.of(output)
    check_replaceable(output, [series.path])
    if series.path is not None and series.path.resolve().parent == blocks.folder.resolve():
        raise FileExistsError(f"{series.path} is read, but the blocks of {output} are written to its folder; move it")
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
    unlike = blocks.join(output)
    if unlike is not None:
        warnings.warn(unlike, NoveltyWarning, stacklevel=2)
    return len(series)


@dataclass(frozen=True)
class BlockFolder:
    """The folder OUTPUT.parts of an unfinished OUTPUT: a file for each block, and `facts.json` on model and source."""

    folder: Path

    @staticmethod
    def of(output: Path) -> BlockFolder:
        return BlockFolder(output.with_name(f"{output.name}.parts"))

    def exists(self) -> bool:
        """Returns whether there are blocks to resume from."""
        return bool(self._files())

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
            return next(number for number in range(len(self._files()) + 1) if not self._is_whole(number))
        if self.exists() and not (force or resume):
            raise FileExistsError(
                f"{self.folder} holds predictions that were interrupted; resume=True goes on, force=True starts anew"
            )
        self.remove()
        self.folder.mkdir(exist_ok=True)
        write_bytes(path, (json.dumps(expected, indent=1) + "\n").encode())
        return 0

    def write(self, number: int, table: pl.DataFrame) -> None:
        content = io.BytesIO()
        table.write_parquet(content)
        name = f"block-{number:06d}-{hashlib.sha256(content.getvalue()).hexdigest()}.parquet"
        write_bytes(self.folder / name, content.getvalue())

    def join(self, output: Path) -> str | None:
        """Writes all blocks into one file, never in memory, and removes them; returns the line of `unlike_in`."""
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

    def _is_whole(self, number: int) -> bool:
        """Returns whether a block is there; ValueError where its content does not have the hash in its name."""
        for path in self.folder.glob(f"block-{number:06d}-*.parquet"):
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            if path.stem.rpartition("-")[2] != content:
                raise ValueError(f"{path} is not as it was written: its SHA-256 differs; delete it to compute it anew")
            return True
        return False

    def _files(self) -> list[Path]:
        return [path for path in self.folder.glob("*") if _OURS.fullmatch(path.name)]


def _digest(estimator: Predictor) -> str:
    """Returns a hash of everything that predictions depend on."""
    from siggpde.persistence import flatten_state  # noqa: PLC0415 - other predictions need none

    estimator._check_fitted()
    scaling = [getattr(estimator, name, None) for name in ("target_shift_", "target_scale_")]
    classes = estimator.classes_.tolist() if not isinstance(estimator, SeriesRegressor) else None
    settings = (estimator.preparation_.state(), scaling, classes)
    plain, tensors = flatten_state(estimator.committee_.state(), "")
    return digest(*tensors.values(), settings=(*settings, plain))
