"""Random series and models for the benchmarks of training, and plain tables of their results."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

import torch
from _table import _grid
from torch import Tensor

from siggpde.gp.cache import SignatureCache
from siggpde.gp.features import OrthogonalSignatureFeatures, Projection
from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.likelihoods import RobustMax, Softmax
from siggpde.gp.model import SignatureGP
from siggpde.gp.phases import NadamPhase, PaperSchedule
from siggpde.gp.trainer import History, Trainer
from siggpde.series import SeriesBatch

_SERIES = 1000
LIKELIHOODS = {"softmax": Softmax, "robustmax": RobustMax}


@dataclass(frozen=True)
class SetUp:
    """A data set's shape (without the base point, which is added) and the paper's batch for it, for M words."""

    name: str
    batch: int
    length: int
    channels: int
    classes: int
    words: int = 500


@dataclass
class Grid:
    """One table: a title, headings and rows of cells; `figures` holds the numbers for the JSON file."""

    key: str
    title: str
    headings: list[str]
    rows: list[list[str]] = field(default_factory=list)
    figures: list[dict] = field(default_factory=list)

    def add(self, cells: list[str], **figures: object) -> None:
        self.rows.append(cells)
        self.figures.append(figures)
        print("  " + ", ".join(cell for cell in cells if cell), flush=True)

    def lines(self, markdown: bool = False) -> list[str]:
        grid = _grid(self.headings, self.rows, markdown) if self.rows else []
        return ["", f"## {self.title}" if markdown else self.title, *([""] if markdown else []), *grid]

    def as_json(self) -> dict:
        return asdict(self)


def series(count: int, length: int, channels: int) -> tuple[Tensor, torch.Generator]:
    """Random walks (count, length + 1, channels) from zero, about as long as a scaled data set's series."""
    generator = torch.Generator().manual_seed(0)
    steps = torch.randn(count, length, channels, generator=generator, dtype=torch.float64) / length
    return torch.cat([steps.new_zeros(count, 1, channels), steps.cumsum(1)], 1), generator


def model_of(
    setup: SetUp, dtype: torch.dtype = torch.float64, likelihood: str = "softmax", normalized: bool = False
) -> SignatureGP:
    kernel = SignatureKernel(setup.channels, normalized=normalized)
    features = OrthogonalSignatureFeatures(setup.channels, setup.words, "lexicographic")
    return SignatureGP(kernel, features, LIKELIHOODS[likelihood](setup.classes), dtype=dtype)


def phase_of(model: SignatureGP, setup: SetUp, moves: bool) -> tuple[Trainer, NadamPhase]:
    """A phase of the paper's schedule, ready for its first iteration; `moves` says whether the scales do."""
    x, generator = series(_SERIES, setup.length, setup.channels)
    y = torch.randint(setup.classes, (_SERIES,), generator=generator)
    cache = SignatureCache(SeriesBatch(x), model.features.words, model.kernel.log_theta, dtype=model.dtype)
    nothing = torch.empty(0, dtype=torch.int64)
    history = History(seed=0, schedule="PaperSchedule")
    trainer = Trainer(model, cache, y, torch.arange(_SERIES), nothing, history, generator)
    endless = 10**9  # no evaluation falls into the timing
    schedule = PaperSchedule(iterations=endless, batch=setup.batch, evaluate_every=endless)
    phase = NadamPhase("hyperparameters" if moves else "q", "train", moves, schedule)
    phase.begin(trainer)
    phase.prepare(trainer)
    return trainer, phase


def projection(size: int, count: int, dtype: torch.dtype = torch.float64) -> Projection:
    """Random features (count, size) of length about one, with a tail as large as they are."""
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(count, size, generator=generator, dtype=dtype) / size**0.5
    squares = features.double().square().sum(1)
    return Projection(features, 2 * squares, squares, 0)
