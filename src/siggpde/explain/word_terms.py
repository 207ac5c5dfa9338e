"""The terms of the latent mean, one for each word: what explanations are made of.

With a feature s_a(X) for each word a, and the mean m_c of q(u) rotated back to words, w_c = Q m_c, the latent function
of class c has the mean

    f_c(X) = sum over words a of s_a(X) w_ca,

so that s_a(X) w_ca is the exact contribution of the word a.
"""

from __future__ import annotations

from torch import Tensor

from siggpde.explain.logits import Logits, logits_of_likelihood
from siggpde.gp.model import SignatureGP
from siggpde.numerics.signature import signature
from siggpde.series import SeriesBatch


def word_features(model: SignatureGP, paths: SeriesBatch) -> Tensor:
    """s_a(X) of every path and word, (n, M), float64, before any rotation; differentiable in paths.values."""
    kernel, words = model.kernel, model.features.words
    values = signature(paths.values * kernel.theta.detach(), words=words, lengths=paths.lengths)
    if kernel.normalized:
        if kernel.words == words:
            squared = values.square().sum(dim=1)
        else:
            squared = kernel.squared_norm(paths.values, lengths=paths.lengths)
        values = values / squared.sqrt()[:, None]
    return values * kernel.amplitude.detach().sqrt()


def word_weights(model: SignatureGP) -> Tensor:
    """w_ca of the logits (`explain.logits`), (classes, M) or for a regression (1, M), float64."""
    weights = model.variational.mean.detach().double()
    if model.features.basis is not None:
        weights = weights @ model.features.basis.T
    return model_logits(model).mixing @ weights


def model_logits(model: SignatureGP) -> Logits:
    return logits_of_likelihood(model.likelihood, model.device)


def explained_weights(model: SignatureGP, pairs: Tensor | None) -> Tensor:
    """Weights of the latent to explain: of class pairs[:, 0] minus class pairs[:, 1], (n, M); of a number, (1, M)."""
    weights = word_weights(model)
    return weights if pairs is None else weights[pairs[:, 0]] - weights[pairs[:, 1]]
