"""q(u) = N(m, Sigma) of the inducing variables, its priors, and products with triangular matrices by blocks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

Covariance = Literal["full", "shared", "diagonal"]


class NaturalParameters(NamedTuple):
    """Sigma^-1 (upper triangle, shaped as the root of q(u)) and Sigma^-1 m (latents, M), in float64."""

    precision: Tensor
    shift: Tensor


class VariationalGaussian(nn.Module):
    """q(u_c) = N(m_c, R_c R_c^T) for each latent c, the variational posterior of the paper; the prior is N(0, I).

    Parameters
    ----------
    latents, size : int
        The numbers of latents and of inducing variables M.
    covariance : {"full", "shared", "diagonal"}, default "full"
        One R for each latent; one for all, exact where their likelihoods have the same curvature; or diagonal ones.
    dtype, device : optional
        Those of the parameters.

    Attributes
    ----------
    mean : Parameter (latents, M)
        m, at first 0.
    root : Parameter
        R, at first I: lower triangular (latents, M, M), (1, M, M) if shared, or standard deviations (latents, M).

    Examples
    --------
    >>> q = VariationalGaussian(latents=2, size=3)
    >>> float(q.kl().detach())
    0.0
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
        """KL[q(u) || N(0, I)] of the paper's ELBO: sum over latents of (tr Sigma + |m|² - M - log det Sigma) / 2."""
        root = self.root.tril() if self.full else self.root
        diagonal = root.diagonal(dim1=1, dim2=2) if self.full else root
        copies = self.latents / len(root)
        squares = copies * root.square().sum() + self.mean.square().sum() - self.mean.numel()
        return 0.5 * squares - copies * diagonal.abs().log().sum()

    def covariance_is_prior(self) -> bool:
        return bool((self.root == (_identity(self.root) if self.full else 1)).all())

    @torch.no_grad()
    def natural_parameters(self) -> NaturalParameters:
        root = self.root.double()
        if not self.full:
            precision = root.square().reciprocal()
            return NaturalParameters(precision, precision * self.mean.double())
        inverse = torch.linalg.solve_triangular(root, _identity(root).expand_as(root), upper=False)
        precision = inverse.mT @ inverse
        return NaturalParameters(precision, _times_rows(precision, self.mean.double()))

    @torch.no_grad()
    def set_natural_parameters(self, natural: NaturalParameters) -> bool:
        """Sets Sigma^-1 and Sigma^-1 m; returns False, changing nothing, if Sigma^-1 is not positive definite.

        With J the reversal of rows and J Sigma^-1 J = G G^T the lower triangular root of Sigma is (J G J)^-T.
        """
        precision, shift = natural
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

    @torch.no_grad()
    def carried_over(self, overlap: Tensor) -> VariationalGaussian:
        """q of u' = Q'^T u, where these are Q^T u and A = `overlap` (M', M) is Q'^T Q: N(A m, I + A (Sigma - I) A^T).

        What both have in common is kept, what is dropped is integrated out and what is new is at its prior.
        """
        other = VariationalGaussian(self.latents, len(overlap), self.covariance, self.mean.dtype, self.mean.device)
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
    return torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)


def _times_rows(matrices: Tensor, rows: Tensor) -> Tensor:
    """Each matrix (latents, M, M) times its row (latents, M); one (1, M, M) for all is never copied."""
    if len(matrices) == 1:
        return rows @ matrices[0].T
    return (matrices @ rows[..., None])[..., 0]


_NARROWEST_BLOCK, _STEP = 112, 16


@lru_cache(maxsize=64)
def blocks(size: int) -> tuple[tuple[int, int], ...]:
    """At most eight blocks (start, stop) of about equal width, from multiples of 16: whole vectors of either dtype."""
    count = max(1, min(8, size // _NARROWEST_BLOCK))
    cuts = [round(size * i / count / _STEP) * _STEP for i in range(count)]
    return tuple(pairwise([*cuts, size]))


def times_lower(rows: Tensor, lower: Tensor, out: Tensor | None = None) -> Tensor:
    """rows (n, M) @ lower (M, M), where `lower` is zero above its diagonal, into `out` (n, M)."""
    result = torch.empty_like(rows) if out is None else out
    for start, stop in blocks(len(lower)):
        torch.mm(rows[:, start:], lower[start:, start:stop], out=result[:, start:stop])
    return result


def add_times_upper(rows: Tensor, lower: Tensor, out: Tensor) -> None:
    """Adds rows (n, M) @ lower^T (M, M) to `out` (n, M)."""
    for start, stop in blocks(len(lower)):
        out[:, start:stop].addmm_(rows[:, :stop], lower[start:stop, :stop].T)


def lower_products(left: Tensor, right: Tensor, buffer: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Yields the lower triangle of left^T (M, n) @ right (n, M) by blocks (first row, (rows, M)), in `buffer`."""
    for start, stop in blocks(len(buffer)):
        rows = buffer[: stop - start]
        torch.mm(left[:, start:stop].T, right[:, :stop], out=rows[:, :stop])
        yield start, rows


def pack_upper(matrices: Tensor) -> Tensor:
    """The upper triangles of (C, M, M), a row after the other, (C, M (M + 1) / 2)."""
    rows, columns = torch.triu_indices(*matrices.shape[1:], device=matrices.device)
    return matrices[:, rows, columns]


def unpack_upper(packed: Tensor, size: int) -> Tensor:
    """The inverse of `pack_upper`, (C, M, M), with zeros below the diagonal."""
    matrices = packed.new_zeros(len(packed), size, size)
    rows, columns = torch.triu_indices(size, size, device=packed.device)
    matrices[:, rows, columns] = packed
    return matrices


def gram_upper(rows: Tensor, weights: Tensor) -> Tensor:
    """rows^T diag(weights) rows (M, M); only blocks on and above the diagonal are computed, the others are zero."""
    result = rows.new_zeros(rows.shape[1], rows.shape[1])
    weighted = rows * weights[:, None]
    for start, stop in blocks(rows.shape[1]):
        torch.mm(rows[:, :stop].T, weighted[:, start:stop], out=result[:stop, start:stop])
    return result


class StandardNormal:
    """p(u) = N(0, I): the prior of orthogonal features, whose covariance C_uu is the identity."""

    def add_natural_parameters(self, precision: Tensor, shift: Tensor) -> None:
        """Adds Sigma_0^-1 to the upper triangle of `precision` and Sigma_0^-1 m_0 to `shift` (latents, M)."""
        (precision.diagonal(dim1=1, dim2=2) if precision.ndim == 3 else precision).add_(1.0)

    def kl(self, q: VariationalGaussian) -> float:
        return float(q.kl().detach())


class EarlierPosterior(StandardNormal):
    """A copy of q(u) = N(m_0, R_0 R_0^T) as the prior of data that come later, in float64."""

    def __init__(self, q: VariationalGaussian) -> None:
        self.precision, self.shift = q.natural_parameters()
        self.mean = q.mean.detach().double().clone()
        root = q.root.detach().double()
        self.inverse_root = torch.linalg.solve_triangular(root, _identity(root), upper=False) if q.full else 1 / root

    def add_natural_parameters(self, precision: Tensor, shift: Tensor) -> None:
        precision.add_(self.precision)
        shift.add_(self.shift)

    @torch.no_grad()
    def kl(self, q: VariationalGaussian) -> float:
        """KL[q || q_0], as that of u' = R_0^-1 (u - m_0), whose prior is N(0, I)."""
        whitened = VariationalGaussian(q.latents, q.size, q.covariance, device=q.root.device)
        root, difference = q.root.double(), q.mean.double() - self.mean
        whitened.root.copy_(self.inverse_root @ root if q.full else self.inverse_root * root)
        moved = (self.inverse_root @ difference[..., None])[..., 0] if q.full else self.inverse_root * difference
        whitened.mean.copy_(moved)
        return float(whitened.kl())
