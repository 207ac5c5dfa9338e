"""Signatures of a training set, computed once.

With channel scales theta, S_theta = S * exp(counts @ log(theta / reference)): when theta moves, the stored signatures
of the paths at the reference scales are rescaled word by word, never computed again. k(X, X) is computed again only
while theta moves.

In a folder that is kept, signatures are found again by the next fit of the same paths: the file is named after a hash
of the paths, the words, the reference scales and the number type.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from siggpde.distributed.ranks import ALONE, Ranks
from siggpde.gp.inducing import Projection
from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.model import AnyGP
from siggpde.gp.word_choice import most_energetic
from siggpde.numerics.signature import signature
from siggpde.numerics.words import Word, letter_counts
from siggpde.series import SeriesBatch
from siggpde.training.path_cache import joined
from siggpde.training.row_file import RowFile
from siggpde.utils.files import digest
from siggpde.utils.progress import Progress

log = logging.getLogger(__name__)

_CHUNK = 4096
_BLOCK_BYTES = 2**26
_MADE = 1  # to be raised when signatures come out otherwise than before: files of older versions are then left alone


class SignatureCache:
    """Signatures (n, pool) of n paths on a pool of words, in memory or in a file.

    Above `budget` bytes they live in a memory-mapped temporary file, which goes when the cache does. With a `folder`
    they live in a file there, whatever their size, which stays and is used again by the next cache of the same
    signatures; see `siggpde.training.row_file` for what becomes of it in a crash.
    """

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
        self.paths, self.pool = paths, list(pool)
        self.reference = log_theta.detach().clone()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.device = self.reference.device
        self._letters = letter_counts(self.pool, paths.channels).to(self.reference)
        self._index = {word: index for index, word in enumerate(self.pool)}
        self._known: list[tuple[list[Word], Tensor | None]] = []
        self._norms: tuple[tuple[float, ...], Tensor] | None = None
        width = len(self.pool) * dtype.itemsize
        block = _CHUNK * max(1, _BLOCK_BYTES // (_CHUNK * width))
        with Progress(progress) as bar:
            bar.start("signatures", -(-len(paths) // block))
            if folder is None:
                self.values = self._allocate(len(paths), len(self.pool), dtype, budget)
                for start in range(0, len(paths), block):
                    self._compute(slice(start, start + block), self.values[start : start + block])
                    bar.step()
            else:
                self.values = self._stored(folder, dtype, block, bar)

    @property
    def on_disk(self) -> bool:
        """Whether the signatures are in a temporary file."""
        return self._folder is not None

    def project(self, model: AnyGP, rows: Tensor | None = None) -> Projection:
        """The projection of the series at `rows` (all by default); differentiable in the kernel's parameters."""
        kernel, features = model.kernel, model.features
        if rows is None and not torch.is_grad_enabled() and len(self.paths) > _CHUNK:
            return joined([self.project(model, part) for part in torch.arange(len(self.paths)).split(_CHUNK)])
        stored = (self.values if rows is None else self.values[rows]).to(self.device)
        columns = self._columns(features.words)
        chosen = stored if columns is None else stored[:, columns]
        scaled = chosen * features.scaling(kernel.log_theta, self.reference).to(stored)
        if kernel.words is None:
            norms = self._squared_norms(model, rows)
        elif kernel.words == features.words:
            norms = scaled.double().square().sum(dim=1)
        elif self._holds(kernel.words):
            columns = self._columns(kernel.words)
            letters = self._letters if columns is None else self._letters[columns]
            factors = (2 * letters @ (kernel.log_theta - self.reference)).exp()
            norms = (stored if columns is None else stored[:, columns]).double().square() @ factors
        else:
            paths = self._paths_at(rows)
            norms = kernel.squared_norm(paths.values, lengths=paths.lengths)
        return features.project(kernel, scaled, norms, rows).to_dtype(model.dtype)

    def choose_words(self, model: AnyGP, count: int, ranks: Ranks = ALONE) -> list[Word]:
        """The `count` words of the pool with the largest mean S_theta(X)², or share of k(X, X) when normalised."""
        with torch.no_grad():
            factors = (2 * self._letters @ (model.kernel.log_theta - self.reference)).exp()
            norms = None
            if model.kernel.normalized:
                norms = self._squared_norms(model, None) if model.kernel.words is None else None
            energy = torch.zeros(len(self.pool), dtype=torch.float64, device=self.device)
            for rows in torch.arange(len(self.paths)).split(_CHUNK):
                squares = self.values[rows].to(self.device, torch.float64).square() * factors
                if model.kernel.normalized:
                    squares = squares / (squares.sum(dim=1) if norms is None else norms[rows])[:, None]
                energy += squares.sum(dim=0)
        return most_energetic(ranks.all_reduce_sum(energy)[0], self.pool, count)

    def _holds(self, words: list[Word]) -> bool:
        return any(words is known for known, _ in self._known) or all(word in self._index for word in words)

    def _columns(self, words: list[Word]) -> Tensor | None:
        """Where these words are in the pool; None where they are the pool. The last few lists asked for are known."""
        for known, columns in self._known:
            if words is known:
                return columns
        columns = None if words == self.pool else torch.tensor([self._index[word] for word in words])
        self._known = [(words, columns), *self._known[:3]]
        return columns

    def _squared_norms(self, model: AnyGP, rows: Tensor | None) -> Tensor:
        kernel = model.kernel
        if torch.is_grad_enabled() and kernel.log_theta.requires_grad:
            paths = self._paths_at(rows)
            return kernel.squared_norm(paths.values, lengths=paths.lengths)
        key = tuple(kernel.log_theta.tolist())
        if self._norms is None or self._norms[0] != key:
            self._norms = key, self._all_squared_norms(kernel)
        return self._norms[1] if rows is None else self._norms[1][rows]

    def _all_squared_norms(self, kernel: SignatureKernel) -> Tensor:
        """k(theta X, theta X) of all the series: all at once, or copied to another device in parts."""
        size = len(self.paths) if self.paths.values.device == self.device else _CHUNK
        pieces = self.paths.split(max(1, size))
        return torch.cat([kernel.squared_norm(piece.values, lengths=piece.lengths).detach() for piece in pieces])

    def _paths_at(self, rows: Tensor | None) -> SeriesBatch:
        return self.paths if rows is None else self.paths[rows]

    def _compute(self, rows: slice, into: Tensor) -> Tensor:
        """The signatures of the series at `rows`, written to `into` (n, pool), a few thousand at a time."""
        scale = self.reference.exp()
        for piece in self.paths[rows].split(_CHUNK):
            start = piece.first - self.paths.first - rows.start
            paths = piece.to(self.device)
            values = signature(paths.values * scale, words=self.pool, lengths=paths.lengths)
            into[start : start + len(piece)] = values
        return into

    def _stored(self, folder: Path, dtype: torch.dtype, block: int, bar: Progress) -> Tensor:
        """The signatures from a file in `folder`, in which those that are missing are computed."""
        started = time.perf_counter()
        key = digest(self.paths.values, self.paths.lengths, self.reference, settings=(_MADE, self.pool, str(dtype)))
        file = RowFile(folder, key, len(self.paths), len(self.pool), dtype, block)

        def compute(rows: slice) -> Tensor:
            return self._compute(rows, torch.empty(rows.stop - rows.start, len(self.pool), dtype=dtype))

        values, read, computed = file.filled(compute, bar.step)
        seconds = time.perf_counter() - started
        log.info("signatures in %s: %d read, %d computed, in %.1f s", file.rows, read, computed, seconds)
        return values

    def _allocate(self, n: int, count: int, dtype: torch.dtype, budget: int) -> Tensor:
        size = n * count * dtype.itemsize
        if size <= budget:
            return torch.empty(n, count, dtype=dtype, device=self.device)
        self._folder = tempfile.TemporaryDirectory(prefix="siggpde-")
        path = Path(self._folder.name) / "signatures"
        return torch.from_file(str(path), shared=True, size=n * count, dtype=dtype).view(n, count)
