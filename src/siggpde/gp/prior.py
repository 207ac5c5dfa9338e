"""Gaussian priors of the inducing variables: what an update of q(u) adds to the data, and what it diverges from."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from siggpde.gp.variational import VariationalGaussian


class Prior(Protocol):
    """p(u) = N(m_0, Sigma_0), independently for every latent function."""

    def add_natural_parameters(self, precision: Tensor, shift: Tensor) -> None:
        """Adds Sigma_0^-1 to `precision`, shaped as the root of q(u), and Sigma_0^-1 m_0 to `shift` (latents, M).

        Of matrices the upper triangle counts; what is added below the diagonal is undefined.
        """
        ...

    def kl(self, q: VariationalGaussian) -> float:
        """KL[q(u) || p(u)], summed over the latents."""
        ...


class StandardNormal:
    """N(0, I): the prior of orthogonal features, whose covariance C_uu is the identity."""

    def add_natural_parameters(self, precision: Tensor, shift: Tensor) -> None:
        (precision.diagonal(dim1=1, dim2=2) if precision.ndim == 3 else precision).add_(1.0)

    def kl(self, q: VariationalGaussian) -> float:
        return float(q.kl().detach())


class EarlierPosterior:
    """A copy of q(u) = N(m_0, R_0 R_0^T) as the prior of data that come later, in float64."""

    def __init__(self, q: VariationalGaussian) -> None:
        self.precision, self.shift = q.natural_parameters()
        self.mean = q.mean.detach().double().clone()
        root = q.root.detach().double()
        identity = torch.eye(q.size, dtype=torch.float64, device=root.device)
        self.inverse_root = torch.linalg.solve_triangular(root, identity, upper=False) if q.full else 1 / root

    def add_natural_parameters(self, precision: Tensor, shift: Tensor) -> None:
        precision.add_(self.precision)
        shift.add_(self.shift)

    @torch.no_grad()
    def kl(self, q: VariationalGaussian) -> float:
        """That of u' = R_0^-1 (u - m_0), whose prior is N(0, I)."""
        whitened = VariationalGaussian(q.latents, q.size, q.covariance, device=q.root.device)
        root, difference = q.root.double(), q.mean.double() - self.mean
        if q.full:
            whitened.root.copy_(self.inverse_root @ root)
            whitened.mean.copy_((self.inverse_root @ difference[..., None])[..., 0])
        else:
            whitened.root.copy_(self.inverse_root * root)
            whitened.mean.copy_(self.inverse_root * difference)
        return float(whitened.kl())
