"""q(u) = N(m, Sigma) of the inducing variables, independently for every latent function."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from siggpde.gp.triangular import times_lower

Covariance = Literal["full", "shared", "diagonal"]


class NaturalParameters(NamedTuple):
    """Sigma^-1, shaped as the root of q(u), and Sigma^-1 m (latents, M), in float64.

    Of matrices the upper triangle counts; below the diagonal there may be anything.
    """

    precision: Tensor
    shift: Tensor


class VariationalGaussian(nn.Module):
    """q(u_c) = N(m_c, R_c R_c^T) for each latent c, where the prior is N(0, I).

    This is the variational posterior of the paper's sparse Gaussian process.

    `mean` (latents, M). `root` is R: lower triangular (latents, M, M) for `covariance="full"`; one lower triangle
    (1, M, M) that all latents have in common for `"shared"`, which is exact where their likelihoods have the same
    curvature; or the standard deviations (latents, M) for `"diagonal"`. It starts at the prior.
    `full` says whether covariances are matrices, each latent's own or one for all (`shared`).
    """

    mean: nn.Parameter
    root: nn.Parameter

    def __init__(
        self,
        latents: int,
        size: int,
        covariance: Covariance = "full",
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        if covariance not in ("full", "shared", "diagonal"):
            raise ValueError(f"covariance must be 'full', 'shared' or 'diagonal', got {covariance!r}")
        if latents < 1 or size < 1:
            raise ValueError(f"there must be at least one latent and one inducing variable, got {latents} and {size}")
        self.covariance: Covariance = covariance
        self.full = covariance != "diagonal"
        self.shared = covariance == "shared"
        self.latents, self.size = latents, size
        self.mean = nn.Parameter(torch.zeros(latents, size, dtype=dtype, device=device))
        roots = 1 if covariance == "shared" else latents
        root = _identity(self.mean).expand(roots, -1, -1) if self.full else torch.ones_like(self.mean)
        self.root = nn.Parameter(root.detach().clone())

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Mean s^T m and variance s^T Sigma s of every latent at features s (n, M): two (n, latents)."""
        mean = features @ self.mean.T
        if not self.full:
            return mean, features.square() @ self.root.square().T
        if torch.is_grad_enabled() and (self.root.requires_grad or features.requires_grad):
            spread = torch.matmul(features, self.root.tril()).square().sum(dim=-1)
            return mean, spread.expand(self.latents, -1).T
        spread, buffer = features.new_empty(len(self.root), len(features)), torch.empty_like(features)
        for latent, root in enumerate(self.root):
            torch.sum(times_lower(features, root, buffer).square_(), dim=1, out=spread[latent])
        return mean, spread.expand(self.latents, -1).T

    def covariances(self, features: Tensor) -> Tensor:
        """s_i^T Sigma s_j of all pairs of rows, (latents, n, n)."""
        spread = torch.matmul(features, self.root.tril()) if self.full else features * self.root[:, None, :]
        return (spread @ spread.mT).expand(self.latents, -1, -1)

    def kl(self) -> Tensor:
        """KL[q(u) || N(0, I)] = sum over latents of (tr Sigma + |m|² - M - log det Sigma) / 2.

        The term of the paper's ELBO that keeps q(u) near the prior.
        """
        root = self.root.tril() if self.full else self.root
        diagonal = root.diagonal(dim1=1, dim2=2) if self.full else root
        copies = self.latents / len(root)
        squares = copies * root.square().sum() + self.mean.square().sum() - self.mean.numel()
        return 0.5 * squares - copies * diagonal.abs().log().sum()

    def covariance_is_prior(self) -> bool:
        """Whether Sigma is still the identity, as before any training."""
        with torch.no_grad():
            if not self.full:
                return bool((self.root == 1).all())
            return bool((self.root == _identity(self.root)).all())

    def natural_parameters(self) -> NaturalParameters:
        """Sigma^-1, both triangles of it, and Sigma^-1 m."""
        with torch.no_grad():
            if not self.full:
                precision = self.root.double().square().reciprocal()
                return NaturalParameters(precision, precision * self.mean.double())
            root = self.root.double()
            inverse = torch.linalg.solve_triangular(root, _identity(root).expand_as(root), upper=False)
            precision = inverse.mT @ inverse
            return NaturalParameters(precision, _times_rows(precision, self.mean.double()))

    def set_natural_parameters(self, natural: NaturalParameters) -> bool:
        """Sets Sigma^-1 and Sigma^-1 m; returns False, changing nothing, if Sigma^-1 is not positive definite.

        With J the reversal of rows, J precision J = G G^T gives precision = U U^T with U = J G J upper triangular,
        hence Sigma = U^-T U^-1 and the lower triangular root U^-T: one factorisation, one triangular inverse.
        """
        precision, shift = natural
        with torch.no_grad():
            if not self.full:
                if not bool((precision > 0).all()):
                    return False
                self.root.copy_(precision.rsqrt())
                self.mean.copy_(shift / precision)
                return True
            factors, info = torch.linalg.cholesky_ex(precision.flip(1, 2))
            if bool((info != 0).any()):
                return False
            inverse = torch.linalg.solve_triangular(factors, _identity(factors).expand_as(factors), upper=False)
            root = inverse.flip(1, 2).mT
            self.root.copy_(root)
            self.mean.copy_(_times_rows(root, _times_rows(root.mT, shift)))
            return True

    def carried_over(self, overlap: Tensor) -> VariationalGaussian:
        """q of other inducing variables u' = Q'^T u, where these are Q^T u and `overlap` (M', M) is Q'^T Q.

        Its mean is overlap m and its covariance I + overlap (Sigma - I) overlap^T: what both have in common is kept,
        what is dropped is integrated out and what is new is at its prior.
        """
        other = VariationalGaussian(self.latents, len(overlap), self.covariance, self.mean.dtype, self.mean.device)
        with torch.no_grad():
            turn = overlap.double()  # in float32 the difference below may lose a small covariance to rounding
            other.mean.copy_(self.mean.double() @ turn.T)
            if self.full:
                spread = turn @ self.root.double()
                change = spread @ spread.mT - turn @ turn.T
                other.root.copy_(torch.linalg.cholesky(change + _identity(change)))
            else:
                other.root.copy_((1 + (self.root.double().square() - 1) @ turn.square().T).sqrt())
        return other

    def extra_repr(self) -> str:
        return f"{self.latents} latents, {self.size} inducing variables, covariance={self.covariance!r}"


def _identity(like: Tensor) -> Tensor:
    """The identity (M, M) of tensors (.., M): their dtype and device."""
    return torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)


def _times_rows(matrices: Tensor, rows: Tensor) -> Tensor:
    """Each matrix (latents, M, M) times its row (latents, M); one (1, M, M) for all is never copied."""
    if len(matrices) == 1:
        return rows @ matrices[0].T
    return (matrices @ rows[..., None])[..., 0]
