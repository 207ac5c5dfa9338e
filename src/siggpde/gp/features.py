"""Orthogonal signature features: inducing variables u_m = <f, S_theta^m>, with E[u_m f(X)] = S_theta^m(X), E[u u^T] =
I, or combinations Q^T u of them with orthonormal columns Q, and the choice of their words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from siggpde.gp.kernel import PathKernel, SignatureKernel
from siggpde.numerics import inputs
from siggpde.numerics.signature import signature
from siggpde.numerics.signature_kernel import Lengths
from siggpde.numerics.words import Word, check_words, letter_counts, words
from siggpde.series import SeriesBatch

Order = Literal["energy", "lexicographic"]

# A tail between -_ROUNDINGS * max(eps, tol) * k and _ZERO * eps * k is rounding. Sums over thousands of words round a
# few times more often than one operation does; a defect of the solver is orders of magnitude larger. A positive tail
# above rounding is kept, however far below `tol`: where words are many, little is left out.
_ROUNDINGS, _ZERO = 64.0, 16.0


@dataclass(frozen=True, eq=False)
class Projection:
    """n series projected on the inducing variables.

    - `features`: C_fu of the paper, (n, M): covariances of f(X) with whitened inducing variables.
    - `variance`: the diagonal of the paper's C_ff, k(X, X), (n,), float64.
    - `tail`: k(X, X) - |features|², (n,), float64: the variance that no inducing variable explains.
    - `rounded`: how many tails were negative within rounding and were set to zero.
    """

    features: Tensor
    variance: Tensor
    tail: Tensor
    rounded: int

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, rows: Tensor | slice) -> Projection:
        """The projection of the series at `rows`; `rounded` is 0, for those of all have been counted."""
        return Projection(self.features[rows], self.variance[rows], self.tail[rows], 0)

    def to_dtype(self, dtype: torch.dtype) -> Projection:
        """Returns the same projection with features of another dtype; variance and tail stay float64."""
        return replace(self, features=self.features.to(dtype))


class InducingFeatures(nn.Module):
    """Inducing variables u; features are whitened covariances L^-1 C_uf(X) with L L^T = C_uu = E[u u^T].

    Their parameters, where they have some, are variational: they change q, not the prior.

    Attributes
    ----------
    channels : int
        Channels of the paths.
    size : int
        The number of inducing variables.
    """

    channels: int

    @property
    def size(self) -> int:
        """The number of inducing variables."""
        raise NotImplementedError

    def inducing_covariance(self) -> Tensor:
        """E[u u^T], (M, M)."""
        raise NotImplementedError

    def forward(self, kernel: Any, x: inputs.Series, *, lengths: Lengths = None) -> Projection:
        """The projection of x (n, length, channels)."""
        raise NotImplementedError

    def signatures(self, kernel: Any, paths: SeriesBatch) -> Tensor | None:
        """What `project_signatures` needs of the series, (n, ...), computed once for a fit; None if that is nothing."""
        return None

    def project_signatures(self, kernel: Any, plain: Tensor, reference: Tensor) -> Projection:
        """The projection from what `signatures` gave when log theta was `reference`."""
        raise NotImplementedError

    def check(self, kernel: PathKernel) -> None:
        """Raises a ValueError if the kernel cannot have these inducing variables."""
        if kernel.channels != self.channels:
            raise ValueError(f"the kernel has {kernel.channels} channels and the features {self.channels}")


class OrthogonalSignatureFeatures(InducingFeatures):
    """`count` words as inducing variables of a `SignatureKernel`; with `rank`, as many combinations of them.

    Parameters
    ----------
    channels : int
        Channels of the paths.
    count : int
        The number of words.
    order : {"energy", "lexicographic"}, default "energy"
        "lexicographic" takes the first words, by length and then alphabet, as the paper does. "energy" takes those with
        the largest mean of S_theta(X)² over the training set, once a fit has seen it; before that the first ones.
    rank : int, optional
        Keep so many orthonormal directions of the words, set by `rotate`.
    chosen : list of words, optional
        These words instead of the first `count`.

    Examples
    --------
    >>> OrthogonalSignatureFeatures(2, 4).words
    [(), (0,), (1,), (0, 0)]
    """

    letters: Tensor
    basis: Tensor | None

    def __init__(
        self,
        channels: int,
        count: int,
        order: Order = "energy",
        rank: int | None = None,
        *,
        chosen: Iterable[Sequence[int]] | None = None,
    ) -> None:
        super().__init__()
        if order not in ("energy", "lexicographic"):
            raise ValueError(f"order must be 'energy' or 'lexicographic', got {order!r}")
        if rank is not None and not 1 <= rank <= count:
            raise ValueError(f"rank must be from 1 to the number of words, {count}, got {rank}")
        self.channels, self.rank = channels, rank
        self.order: Order = order
        self.register_buffer("letters", torch.empty(0, channels, dtype=torch.float64), persistent=False)
        self.register_buffer("basis", None)
        self.choose(words(channels, count) if chosen is None else chosen)

    @property
    def size(self) -> int:
        """The number of inducing variables."""
        return len(self.words) if self.basis is None else self.basis.shape[1]

    def check(self, kernel: PathKernel) -> None:
        super().check(kernel)
        if not isinstance(kernel, SignatureKernel):
            raise ValueError(f"words are inducing variables of a SignatureKernel, not of a {type(kernel).__name__}")
        if kernel.static != "linear":
            raise ValueError(f"words are no inducing variables of a kernel lifted by {kernel.static!r}: take landmarks")
        if kernel.words is not None and not set(self.words) <= set(kernel.words):
            raise ValueError("the features use words that the kernel leaves out; give the kernel a larger depth")

    def inducing_covariance(self) -> Tensor:
        """C_uu = E[u u^T], the identity: the paper's ELBO needs no matrix inversion."""
        return torch.eye(self.size, dtype=torch.float64, device=self.letters.device)

    def choose(self, chosen: Iterable[Sequence[int]]) -> None:
        """Use these words. A basis over the old words is reset: the directions are the first `rank` words."""
        self.words: list[Word] = check_words(chosen, self.channels)
        self.letters = letter_counts(self.words, self.channels).to(self.letters)
        self.basis = None if self.rank is None else torch.eye(len(self.words), self.rank).to(self.letters)

    def rotate(self, basis: Tensor | None) -> None:
        """Use the orthonormal combinations of words in the columns of `basis` (words, directions); None: the words."""
        if basis is not None:
            if basis.ndim != 2 or basis.shape[0] != len(self.words) or basis.shape[1] > len(self.words):
                raise ValueError(f"basis must have shape ({len(self.words)}, directions), got {tuple(basis.shape)}")
            basis = basis.detach().to(self.letters)
            off = (basis.T @ basis - torch.eye(basis.shape[1]).to(basis)).abs().max().item()
            if off > 1e-8:
                raise ValueError(f"the columns of basis must be orthonormal; they are off by {off:.1e}")
        self.basis = basis

    def forward(self, kernel: SignatureKernel, x: inputs.Series, *, lengths: Lengths = None) -> Projection:
        """The paper's S_M(X), rows of C_fu, of x (n, length, channels); gradients flow to the kernel's parameters."""
        paths = kernel.as_paths(x, lengths)
        fixed = kernel.log_theta.detach()
        plain = signature(paths.values * fixed.exp(), words=self.words, lengths=paths.lengths)
        scaled = plain * self.scaling(kernel.log_theta, fixed)
        if kernel.words == self.words:
            return self.project(kernel, scaled, scaled.square().sum(dim=1))
        return self.project(kernel, scaled, kernel.squared_norm(paths.values, lengths=paths.lengths))

    def scaling(self, log_theta: Tensor, reference: Tensor) -> Tensor:
        """Factors (M,) that turn the paper's S(X), at reference scales, into S_theta(X), one for each word."""
        return (self.letters @ (log_theta - reference)).exp()

    def project(
        self, kernel: SignatureKernel, scaled: Tensor, squared_norm: Tensor, rows: Tensor | None = None
    ) -> Projection:
        """The projection, from S_theta (n, M) on the words and k(theta X, theta X) (n,); errors name `rows`."""
        wrong = ~torch.isfinite(squared_norm.detach())
        if bool(wrong.any()):
            first = int(wrong.nonzero()[0])
            raise OverflowError(
                f"series {first if rows is None else int(rows[first])}: k(X,X) is too large for {squared_norm.dtype}, "
                "for its values are far from those of other series; is it in other units? Scale it down or leave it out"
            )
        values = scaled
        if kernel.normalized:
            values = values / squared_norm.sqrt()[:, None].to(values)
        if self.basis is not None:
            values = values @ self.basis.to(values)
        values = values * kernel.amplitude.sqrt().to(values)
        variance = kernel.amplitude * (torch.ones_like(squared_norm) if kernel.normalized else squared_norm)
        if self.basis is None and kernel.words == self.words:
            tail, rounded = torch.zeros_like(variance), 0
        else:
            tail, rounded = positive_tail(variance, values, kernel.tol, rows)
        return Projection(values, variance, tail, rounded)

    def extra_repr(self) -> str:
        turned = "" if self.basis is None else f", {self.basis.shape[1]} directions"
        return f"{len(self.words)} words over {self.channels} channels, order={self.order!r}{turned}"


def positive_tail(variance: Tensor, features: Tensor, tol: float, rows: Tensor | None) -> tuple[Tensor, int]:
    """k(X, X) - |features|² in float64, set to zero within rounding, and how many were; raises if one is lower."""
    tail = variance - features.double().square().sum(dim=1)
    values, size, eps = tail.detach(), variance.detach(), torch.finfo(features.dtype).eps
    rounding = ~(values > _ZERO * eps * size)  # NaN too
    if not bool(rounding.any()):
        return tail, 0
    bad = (values < -_ROUNDINGS * max(eps, tol) * size) | torch.isnan(values)
    if bool(bad.any()):
        first = int(bad.nonzero()[0])
        relative = float(values[first] / size[first])
        raise ArithmeticError(
            f"series {first if rows is None else int(rows[first])}: its features are longer than the kernel allows "
            f"(k(X,X) - |S|² is {relative:.1e} k(X,X)); the kernel was not solved accurately enough: "
            "lower the kernel's tol, or scale the series down"
        )
    return torch.where(rounding, torch.zeros_like(tail), tail), int((values < 0).sum())


_SMALLEST_SHARE = 1e-10
_MOST_LETTERS = 16


def principal_directions(rows: Tensor, count: int) -> Tensor:
    """At most `count` orthonormal directions (M, r) with the largest shares of the sum of squares of rows (n, M)."""
    matrix = rows.to(torch.float64)
    n, columns = matrix.shape
    if n == 0 or count < 1:
        raise ValueError(f"there must be at least one row and one direction, got {n} rows and {count} directions")
    if columns <= n:
        share, directions = torch.linalg.eigh(matrix.T @ matrix)
    else:
        share, left = torch.linalg.eigh(matrix @ matrix.T)
        directions = matrix.T @ left
    keep = [i for i in reversed(range(len(share))) if share[i] > _SMALLEST_SHARE * share[-1]][:count]
    if not keep:
        raise ValueError("all rows are zero: there are no principal directions")
    chosen = directions[:, torch.tensor(keep)]
    return torch.linalg.qr(chosen)[0] if columns > n else chosen


def most_energetic(energy: Tensor, pool: Sequence[Word], count: int) -> list[Word]:
    """The `count` words of the pool with the largest energy (P,), in the order of words; () is always among them."""
    if len(energy) != len(pool):
        raise ValueError(f"there are {len(pool)} words but {len(energy)} energies")
    shown = [float(f"{value:.9e}") for value in energy.tolist()]
    ranked = sorted(range(len(pool)), key=lambda i: (pool[i] != (), -shown[i], len(pool[i]), pool[i]))
    return sorted((pool[i] for i in ranked[:count]), key=lambda word: (len(word), word))


def grow_pool(kernel: SignatureKernel, paths: SeriesBatch, limit: int) -> list[Word]:
    """A prefix-closed pool of about `limit` words with the most energy, mean S_theta(X)², grown letter by letter."""
    paths = paths.to(kernel.device)
    values, lengths = paths.values.to(torch.float64), paths.lengths
    pool: list[Word] = [()]
    front: list[Word] = [()]
    increments = torch.where(paths.inside()[:, 1:, None], values.diff(dim=1), 0.0)
    letters = [letter for letter in range(kernel.channels) if bool((increments[:, :, letter] != 0).any())]
    scaled = values * kernel.theta.detach()
    norm = kernel.squared_norm(values, lengths=lengths).detach() if kernel.normalized and kernel.words is None else None
    for _ in range(_MOST_LETTERS):
        missing = limit - len(pool)
        parents = front[: max(1, math.ceil(2 * missing / kernel.channels))]
        children = [(*word, letter) for word in parents for letter in letters]
        if missing <= 0 or not children:
            break
        squares = signature(scaled, words=children, lengths=lengths).square()
        energy = (squares if norm is None else squares / norm[:, None]).mean(dim=0)
        ranked = energy.argsort(descending=True, stable=True).tolist()
        front = [children[i] for i in ranked[:missing]]
        pool.extend(front)
    return sorted(pool, key=lambda word: (len(word), word))
