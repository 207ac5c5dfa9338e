"""The operations by Triton (`siggpde.numerics.backend.Operations`). Importing this module imports Triton.

Log-signatures, windows and thresholds have no kernels: plain torch computes them.
"""

from siggpde.numerics.reference.logsignature import logsignature
from siggpde.numerics.reference.operations import separating_thresholds
from siggpde.numerics.reference.windows import pool_windows, window_path_lengths, window_signatures
from siggpde.numerics.triton.kernel import diagonal, diagonal_with_gradient, diagonal_with_scale_gradient
from siggpde.numerics.triton.pairs import gram, normalized_gram
from siggpde.numerics.triton.signature import extend, signature

__all__ = [
    "diagonal",
    "diagonal_with_gradient",
    "diagonal_with_scale_gradient",
    "extend",
    "gram",
    "logsignature",
    "normalized_gram",
    "pool_windows",
    "separating_thresholds",
    "signature",
    "window_path_lengths",
    "window_signatures",
]
