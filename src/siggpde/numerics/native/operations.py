"""The operations by the native core (`siggpde.numerics.backend.Operations`)."""

from siggpde.numerics.native.diagonal import diagonal, diagonal_with_gradient, diagonal_with_scale_gradient
from siggpde.numerics.native.gram import gram, normalized_gram
from siggpde.numerics.native.logsignature import logsignature
from siggpde.numerics.native.quantiles import separating_thresholds
from siggpde.numerics.native.signature import extend, signature
from siggpde.numerics.native.windows import pool_windows, window_path_lengths, window_signatures

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
