r"""Pivoted Cholesky of a kernel matrix of which only the needed columns are ever computed.

After s steps :math:`K \approx \Phi \Phi^T` with :math:`\Phi` (n, s), exact in the rows and columns of the s pivots. The
next pivot is the row with the largest *tail* :math:`K_{ii} - |\Phi_i|^2`, and its column of the remainder, divided by
the root of its pivot, is the next column of :math:`\Phi`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

# Among so many rows of the largest tails the next pivots are looked for, to be solved together; see `_next_pivots`.
# Below as many times _ROWS_EACH rows they are fewer: what the candidates cost is then small beside the columns.
_CANDIDATES = 32
_ROWS_EACH = 16
# A tail of so many roundings of K_ii is zero.
_ROUNDINGS = 64.0


@dataclass(frozen=True, eq=False)
class PivotedCholesky:
    """K ~ features @ features.T.

    - `landmarks`: the pivots in the order they were taken, (m,), int64.
    - `features`: (n, m); its rows at the landmarks are a lower triangular matrix.
    - `pivots`: the squared diagonal of that matrix, (m,): what was left of K_ii when i was taken.
    - `tails`: K_ii - |features_i|², (n,), never negative.
    """

    landmarks: Tensor
    features: Tensor
    pivots: Tensor
    tails: Tensor


def pivoted_cholesky(
    diagonal: Tensor,
    columns: Callable[[Tensor], Tensor],
    among: Callable[[Tensor], Tensor],
    count: int,
    threshold: float = 0.0,
) -> PivotedCholesky:
    """Pivoted Cholesky of K (n, n) with at most `count` pivots, until the largest tail is not above `threshold`.

    `diagonal` (n,) is that of K, `columns(rows)` returns K[:, rows], (n, len(rows)), and `among(rows)` the symmetric
    K[rows][:, rows]. Pivots are exactly those of the rule, one after the other; of equal tails the first row is taken.
    Every column that is asked for is used, but for rounding and ties.

    Examples:
        >>> k = torch.tensor([[4.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 3.0]]).double()
        >>> done = pivoted_cholesky(k.diagonal(), lambda rows: k[:, rows], lambda rows: k[rows][:, rows], 3)
        >>> done.landmarks, done.tails
        (tensor([0, 2]), tensor([0., 0., 0.], dtype=torch.float64))
    """
    n = len(diagonal)
    count = min(count, n)
    rounding = _ROUNDINGS * torch.finfo(diagonal.dtype).eps * diagonal
    features, tails = diagonal.new_zeros(n, count), diagonal.clone()
    taken = torch.zeros_like(diagonal, dtype=torch.bool)
    landmarks: list[int] = []
    pivots: list[Tensor] = []
    # Columns that were solved and are not used yet: what the first so many features had left of them.
    waiting: dict[int, tuple[Tensor, int]] = {}
    while len(landmarks) < count:
        row, size = int(tails.argmax()), len(landmarks)
        if not float(tails[row]) > threshold:
            break
        if row not in waiting:
            wanted = _next_pivots(tails, features[:, :size], among, count - size - len(waiting), threshold)
            wanted = [other for other in wanted if other not in waiting]
            rows = torch.tensor(wanted, device=diagonal.device)
            solved = columns(rows) - features[:, :size] @ features[rows, :size].T
            waiting |= {other: (column, size) for other, column in zip(wanted, solved.unbind(1), strict=True)}
        column, known = waiting.pop(row)
        rest = column - features[:, known:size] @ features[row, known:size]
        if not bool(rest[row] > rounding[row]):  # the matrix has less there than its diagonal says: nothing is left
            tails[row] = 0.0
            continue
        features[:, size] = torch.where(taken, 0.0, rest / rest[row].sqrt())  # exactly triangular
        tails = tails - features[:, size].square()
        tails = torch.where(tails > rounding, tails, 0.0)
        tails[row] = 0.0
        taken[row] = True
        landmarks.append(row)
        pivots.append(rest[row])
    size = len(landmarks)
    return PivotedCholesky(
        torch.tensor(landmarks, dtype=torch.int64, device=diagonal.device),
        features[:, :size].clone() if size < count else features,
        torch.stack(pivots) if pivots else diagonal.new_zeros(0),
        tails,
    )


def _next_pivots(
    tails: Tensor, features: Tensor, among: Callable[[Tensor], Tensor], most: int, threshold: float
) -> list[int]:
    """The next pivots as far as they are certain, at least one.

    A kernel solves several columns for less than one after the other, but which they are depends on the columns before.
    The rule is run on the rows of the largest tails alone, whose small matrix is cheap: as long as the largest tail
    there is above every tail elsewhere, which can only fall, the pivot is the one of all rows.
    """
    first = int(tails.argmax())
    size = min(_CANDIDATES, len(tails) // _ROWS_EACH)
    if most <= 1 or size <= 1:
        return [first]
    largest, rows = tails.sort(descending=True, stable=True)
    elsewhere = max(float(largest[size]), threshold)
    rows = rows[:size].sort().values  # so that of equal tails the first row is taken here too
    left = tails[rows].clone()
    rest = among(rows) - features[rows] @ features[rows].T
    chosen: list[int] = []
    while len(chosen) < most:
        at = int(left.argmax())
        if chosen and not float(left[at]) > elsewhere:
            break
        chosen.append(int(rows[at]))
        if not bool(rest[at, at] > 0):
            break
        step = rest[at] / rest[at, at].sqrt()
        rest = rest - step[:, None] * step
        left = left - step.square()
        left[at] = 0.0
    return chosen
