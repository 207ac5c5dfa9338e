"""The log-signature of piecewise-linear paths: the logarithm of the signature in a basis of the free Lie algebra.

S(X) is the exponential of a Lie series log S(X), and the truncation of one determines that of the other. There are as
many coordinates as Lyndon words, about 1/m of the words of m letters, and no relations between them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from siggpde.numerics import inputs
from siggpde.numerics.backend import backend_for
from siggpde.numerics.lie_basis import Basis, Bracket, check_basis, log_basis
from siggpde.numerics.words import Word


def logsignature(
    x: inputs.Series,
    depth: int,
    *,
    basis: Basis = "lyndon",
    lengths: torch.Tensor | Sequence[int] | None = None,
    n_jobs: int | None = None,
) -> torch.Tensor:
    """The logarithm of the signature of paths up to words of `depth` letters, one column for each coordinate.

    log S = sum over elements e of the basis of c_e e, where log(1 + x) = x - x^2/2 + x^3/3 - .. in the algebra of
    tensors. `basis` says what the coordinates c are:

    - "lyndon": e are the standard brackets of Lyndon words, P_w = [P_u, P_v] for w = uv with v the longest proper
      suffix that is a Lyndon word.
    - "hall": e are the brackets of Hall's basis (`siggpde.numerics.lie_basis.hall_brackets`).
    - "words": the coefficients of the Lyndon words themselves in log S written out as a tensor. These are coordinates
      too, and the cheapest: P_w is w plus larger words, so they follow from those of "lyndon" by a triangular matrix
      of integers, with ones on its diagonal.

    Columns are in the order of `logsignature_basis(channels, depth, basis)`; their number is the sum over m <= depth of
    Witt's (1/m) sum over j dividing m of mu(j) channels^(m/j).

    x, lengths and n_jobs as for `signature`. Returns (n, L) of x's dtype. Gradients flow to x.

    Examples:
        >>> x = torch.tensor([[[0.0, 0.0], [1.0, 0.0], [1.0, 2.0]]])
        >>> logsignature(x, 3)
        tensor([[1.0000, 2.0000, 1.0000, 0.1667, 0.3333]])
        >>> logsignature_basis(2, 3)
        [0, 1, (0, 1), (0, (0, 1)), ((0, 1), 1)]
    """
    threads = inputs.thread_count(n_jobs)
    batch, counts = inputs.as_batch(x, lengths)
    channels = batch.shape[2]
    check_basis(channels, depth, basis)
    backend = backend_for(batch)
    return backend.logsignature(backend.signature(batch, counts, int(depth), threads), channels, depth, basis, threads)


def logsignature_basis(channels: int, depth: int, basis: Basis = "lyndon") -> list[Word] | list[Bracket]:
    """What the columns of `logsignature` stand for: Lyndon words for "words", else brackets as nested pairs of letters.

    Examples:
        >>> logsignature_basis(2, 3, "hall")
        [0, 1, (0, 1), (0, (0, 1)), (1, (0, 1))]
        >>> logsignature_basis(2, 3, "words")
        [(0,), (1,), (0, 1), (0, 0, 1), (0, 1, 1)]
    """
    check_basis(channels, depth, basis)
    return list(log_basis(channels, int(depth), basis).elements)  # pyright: ignore[reportReturnType]
