"""Small models of words, as the method of the paper has them, and series for them."""

from typing import Any

import torch
from torch import Tensor

import siggpde
from helpers.small_models import disturb
from siggpde.estimators.paper_method import PaperModel
from siggpde.gp.features import OrthogonalSignatureFeatures, grow_pool
from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.likelihoods import Gaussian, Likelihood, Softmax
from siggpde.gp.model import SignatureGP
from siggpde.numerics.words import Word, words_up_to
from siggpde.series import PathOptions, PathTransform, SeriesBatch
from siggpde.training import Exact, NaturalGradients
from siggpde.views.paths import channel_scales


def batch_of(n: int = 36, length: int = 7, channels: int = 2, seed: int = 0, *, ragged: bool = False) -> SeriesBatch:
    """Random walks; ragged ones have lengths from 4 on and NaN where they have ended."""
    random = torch.Generator().manual_seed(seed)
    values = torch.randn(n, length, channels, generator=random, dtype=torch.float64).cumsum(dim=1)
    if not ragged:
        return SeriesBatch(values)
    lengths = torch.randint(4, length + 1, (n,), generator=random)
    lengths[0] = length
    values[torch.arange(length) >= lengths[:, None]] = torch.nan
    return SeriesBatch(values, lengths)


def ends(batch: SeriesBatch) -> Tensor:
    """The change of channel 0 over every series, (n,)."""
    rows = torch.arange(len(batch))
    return batch.values[rows, batch.counts() - 1, 0] - batch.values[:, 0, 0]


def labels_of(batch: SeriesBatch, classes: int) -> Tensor:
    return ends(batch).argsort().argsort() * classes // len(batch)


def trained_model(batch: SeriesBatch, y: Tensor, words: int = 40) -> PaperModel:
    """A model of classes by natural gradients, of numbers in closed form."""
    transform = PathTransform(PathOptions()).fit(batch)
    paths = transform.paths(batch)
    theta = channel_scales(paths, 1.0, 3.0)
    chosen = grow_pool(SignatureKernel(paths.channels, theta=theta), paths, words)
    numbers = y.is_floating_point()
    amplitude = 1.0 if numbers else 20.0
    kernel = SignatureKernel(paths.channels, theta=theta, amplitude=amplitude, normalized=True, words=chosen)
    features = OrthogonalSignatureFeatures(paths.channels, len(chosen), "lexicographic", chosen=chosen)
    model = SignatureGP(kernel, features, Gaussian() if numbers else Softmax(int(y.max()) + 1), dtype=torch.float64)
    schedule = Exact() if numbers else NaturalGradients(learn=False)
    history = siggpde.fit(model, (paths.values, y), schedule, lengths=paths.lengths, validation=0.0, progress=False)
    return PaperModel(transform, model, {}, history.records[-1].nlpp)


def one_member(
    batch: SeriesBatch,
    likelihood: Likelihood,
    *,
    options: PathOptions | None = None,
    rank: int | None = None,
    dtype: torch.dtype = torch.float64,
    kept_words: list[Word] | None = None,
    **kernel: Any,
) -> PaperModel:
    """A model whose q(u) is somewhere; `own` are its words."""
    transform = PathTransform(options or PathOptions()).fit(batch)
    channels = transform.options.channels(batch.channels)
    kept_words = kept_words or words_up_to(channels, 2)
    features = OrthogonalSignatureFeatures(channels, len(kept_words), "lexicographic", rank, chosen=kept_words)
    model = SignatureGP(SignatureKernel(channels, theta=0.3, **kernel), features, likelihood, dtype=dtype)
    return PaperModel(transform, disturb(model), {}, None)


def latents(committee: PaperModel, batch: SeriesBatch) -> list[Tensor]:
    """Means of the latents of every member, a list of (n, latents)."""
    return list(committee.member_latents(batch)[0])
