"""Training series during a fit: signatures computed once (`SignatureCache`), or paths alone (`PathStore`)."""

import json
import logging
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from siggpde.distributed.ranks import ALONE, Ranks
from siggpde.gp.features import Projection, most_energetic
from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.model import AnyGP
from siggpde.numerics.signature import signature
from siggpde.numerics.words import Word, letter_counts
from siggpde.series import SeriesBatch
from siggpde.utils.files import digest, locked, sync_file
from siggpde.utils.progress import Progress

log = logging.getLogger(__name__)

_CHUNK = 4096
_BLOCK_BYTES = 2**26
_MADE = 1  # to be raised when signatures come out otherwise than before: files of older versions are then left alone


class SignatureCache:
    """Signatures (n, pool) on a pool of words, rescaled when theta moves; in memory, above `budget` bytes in a file."""

    def __init__(
        self,
        paths: SeriesBatch,
        pool: Sequence[Word],
        log_theta: Tensor,
        *,
        dtype: torch.dtype = torch.float64,
        budget: int = 2**31,
        folder: Path | None = None,
        progress: bool | None = False,
    ) -> None:
        self.paths, self.pool, self.dtype = paths, list(pool), dtype
        self.reference = log_theta.detach().clone()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.device = self.reference.device
        self._letters = letter_counts(self.pool, paths.channels).to(self.reference)
        self._index = {word: index for index, word in enumerate(self.pool)}
        self._known: list[tuple[list[Word], Tensor | slice]] = []
        self._norms: tuple[tuple[float, ...], Tensor] | None = None
        width = len(self.pool) * dtype.itemsize
        block = _CHUNK * max(1, _BLOCK_BYTES // (_CHUNK * width))
        with Progress(progress) as bar:
            bar.start("signatures", -(-len(paths) // block))
            if folder is None:
                n, count = len(paths), len(self.pool)
                if n * width <= budget:
                    self.values = torch.empty(n, count, dtype=dtype, device=self.device)
                else:
                    self._folder = tempfile.TemporaryDirectory(prefix="siggpde-")
                    file = str(Path(self._folder.name) / "signatures")
                    self.values = torch.from_file(file, shared=True, size=n * count, dtype=dtype).view(n, count)
                for start in range(0, len(paths), block):
                    rows = slice(start, start + block)
                    self.values[rows] = self._signatures(rows)
                    bar.step()
            else:
                started, made = time.perf_counter(), (_MADE, self.pool, str(dtype))
                key = digest(paths.values, paths.lengths, self.reference, settings=made)
                kept = RowFile(folder, key, len(paths), len(self.pool), dtype, block)
                self.values, read, computed = kept.filled(self._signatures, bar.step)
                seconds = time.perf_counter() - started
                log.info("signatures in %s: %d read, %d computed, in %.1f s", kept.rows, read, computed, seconds)

    def project(self, model: AnyGP, rows: Tensor) -> Projection:
        """The projection of the series at `rows`; differentiable in the kernel's parameters."""
        kernel, features = model.kernel, model.features
        stored = self.values[rows].to(self.device)
        scaled = stored[:, self._columns(features.words)]
        scaled = scaled * features.scaling(kernel.log_theta, self.reference).to(stored)
        if kernel.words == features.words:
            norms = scaled.double().square().sum(dim=1)
        elif kernel.words is not None:
            columns = self._columns(kernel.words)
            factors = (2 * self._letters[columns] @ (kernel.log_theta - self.reference)).exp()
            norms = stored[:, columns].double().square() @ factors
        elif torch.is_grad_enabled() and kernel.log_theta.requires_grad:
            paths = self.paths[rows]
            norms = kernel.squared_norm(paths.values, lengths=paths.lengths)
        else:
            norms = self._squared_norms(kernel)[rows]
        return features.project(kernel, scaled, norms, rows).to_dtype(model.dtype)

    def choose_words(self, model: AnyGP, count: int, ranks: Ranks = ALONE) -> list[Word]:
        """The `count` words of the pool with the largest mean S_theta(X)², or share of k(X, X) when normalised."""
        with torch.no_grad():
            factors = (2 * self._letters @ (model.kernel.log_theta - self.reference)).exp()
            infinite = model.kernel.normalized and model.kernel.words is None
            norms = self._squared_norms(model.kernel) if infinite else None
            energy = torch.zeros(len(self.pool), dtype=torch.float64, device=self.device)
            for rows in torch.arange(len(self.paths)).split(_CHUNK):
                squares = self.values[rows].to(self.device, torch.float64).square() * factors
                if model.kernel.normalized:
                    squares = squares / (squares.sum(dim=1) if norms is None else norms[rows])[:, None]
                energy += squares.sum(dim=0)
        return most_energetic(ranks.all_reduce_sum(energy)[0], self.pool, count)

    def _columns(self, words: list[Word]) -> Tensor | slice:
        """Where these words are in the pool; the last few answers are kept."""
        for known, columns in self._known:
            if words is known:
                return columns
        columns = slice(None) if words == self.pool else torch.tensor([self._index[word] for word in words])
        self._known = [(words, columns), *self._known[:3]]
        return columns

    def _squared_norms(self, kernel: SignatureKernel) -> Tensor:
        """k(theta X, theta X) of all series, without a graph, kept while theta stays; in parts on another device."""
        key = tuple(kernel.log_theta.tolist())
        if self._norms is None or self._norms[0] != key:
            size = len(self.paths) if self.paths.values.device == self.device else _CHUNK
            pieces = self.paths.split(max(1, size))
            norms = [kernel.squared_norm(piece.values, lengths=piece.lengths).detach() for piece in pieces]
            self._norms = key, torch.cat(norms)
        return self._norms[1]

    def _signatures(self, rows: slice) -> Tensor:
        """The signatures (n, pool) of the series at `rows`, computed a few thousand at a time."""
        scale, pieces = self.reference.exp(), (piece.to(self.device) for piece in self.paths[rows].split(_CHUNK))
        computed = (signature(part.values * scale, words=self.pool, lengths=part.lengths) for part in pieces)
        return torch.cat([values.to(self.dtype) for values in computed])


_PATH_CHUNK = 512


class PathStore:
    """Paths whose features are computed at every step, because inducing variables are learned; signatures only once."""

    pool: tuple[Word, ...] = ()

    def __init__(self, model: AnyGP, paths: SeriesBatch) -> None:
        self.paths = paths
        self.reference = model.kernel.log_theta.detach().clone()
        with torch.no_grad():
            self.signatures = model.features.signatures(model.kernel, paths)

    def project(self, model: AnyGP, rows: Tensor) -> Projection:
        """The projection of the series at `rows`; differentiable in all that it depends on."""
        if not torch.is_grad_enabled() and len(rows) > _PATH_CHUNK:
            return concatenated([self.project(model, part) for part in rows.split(_PATH_CHUNK)])
        if self.signatures is not None:
            projection = model.features.project_signatures(model.kernel, self.signatures[rows], self.reference)
        else:
            paths = self.paths[rows]
            projection = model.features(model.kernel, paths.values, lengths=paths.lengths)
        return projection.to_dtype(model.dtype)


def concatenated(parts: list[Projection]) -> Projection:
    return Projection(
        torch.cat([part.features for part in parts]),
        torch.cat([part.variance for part in parts]),
        torch.cat([part.tail for part in parts]),
        sum(part.rounded for part in parts),
    )


_FORMAT = 1


class RowFile:
    """A file of (n, count) numbers in blocks, whose checksums are in a journal that is locked while it is filled."""

    def __init__(self, folder: Path, key: str, n: int, count: int, dtype: torch.dtype, block: int) -> None:
        self.rows, self.journal = folder / f"{key}.rows", folder / f"{key}.journal"
        self.n, self.count, self.dtype = n, count, dtype
        head = {"format": _FORMAT, "key": key, "shape": [n, count], "dtype": str(dtype), "block": block}
        self._head = (json.dumps(head) + "\n").encode()
        self._slices = [slice(start, min(n, start + block)) for start in range(0, n, block)]
        self._row_bytes = count * dtype.itemsize

    def filled(
        self, compute: Callable[[slice], Tensor], done: Callable[[], None] = lambda: None
    ) -> tuple[Tensor, int, int]:
        """All the rows, mapped from the file, and how many were read and how many computed, by `compute(rows)`."""
        self.rows.parent.mkdir(parents=True, exist_ok=True)
        waiting = partial(log.info, "another process is writing %s; waiting for it", self.rows)
        with locked(self.journal, on_wait=waiting), self.journal.open("a+b") as journal:
            whole = self._whole_blocks(journal)
            missing = {number: rows for number, rows in enumerate(self._slices) if number not in whole}
            for _ in whole:
                done()
            if missing:
                self._write(journal, missing, compute, done)
        mapped = torch.from_file(str(self.rows), shared=True, size=self.n * self.count, dtype=self.dtype)
        fresh = sum(rows.stop - rows.start for rows in missing.values())
        return mapped.view(self.n, self.count), self.n - fresh, fresh

    def _write(
        self, journal: BinaryIO, missing: dict[int, slice], compute: Callable[[slice], Tensor], done: Callable[[], None]
    ) -> None:
        size = self.n * self._row_bytes
        there = self.rows.stat().st_blocks * 512 if self.rows.exists() else 0
        free = shutil.disk_usage(self.rows.parent).free
        if size - there > free:  # before anything is written
            raise OSError(
                f"the signatures take {size / 1e9:.3g} GB, but {self.rows.parent} has {free / 1e9:.3g} GB free; "
                "make room there, or choose another cache_dir"
            )
        with self.rows.open("r+b" if self.rows.exists() else "w+b") as file:
            file.truncate(size)
            for number, rows in missing.items():
                values = compute(rows).to("cpu", self.dtype).contiguous().numpy()
                file.seek(rows.start * self._row_bytes)
                file.write(values.data)
                file.flush()
                entry = {"block": number, "checksum": zlib.crc32(values.data)}
                journal.write((json.dumps(entry) + "\n").encode())
                journal.flush()
                done()
            sync_file(file)

    def _whole_blocks(self, journal: BinaryIO) -> set[int]:
        """The blocks that are there as they were written. A journal of something else is emptied."""
        journal.seek(0)
        head, *lines = journal.read().splitlines(keepends=True) or [b""]
        if head != self._head or not self.rows.exists():
            if head and head != self._head:
                log.warning("%s is damaged; what it describes is computed again", self.journal)
            journal.truncate(0)
            journal.write(self._head)
            journal.flush()
            return set()
        if lines and not lines[-1].endswith(b"\n"):  # the writer was stopped in the middle of a line
            journal.write(b"\n")
        checksums: dict[int, int] = {}
        for line in lines:
            with suppress(ValueError, KeyError, TypeError):  # a damaged line
                entry = json.loads(line)
                checksums[int(entry["block"])] = int(entry["checksum"])
        whole = set()
        with self.rows.open("rb") as file:
            for number, rows in enumerate(self._slices):
                if number not in checksums:
                    continue
                file.seek(rows.start * self._row_bytes)
                expected = (rows.stop - rows.start) * self._row_bytes
                content = file.read(expected)
                if len(content) == expected and zlib.crc32(content) == checksums[number]:
                    whole.add(number)
                else:
                    log.warning("%s was cut off or changed at block %d, which is computed again", self.rows, number)
        return whole
