"""The operations by Triton (`siggpde.numerics.backend.Operations`). Importing this module imports Triton.

Normalised Gram matrices, whose grids are rescaled on the way, are solved in plain torch on the same device.
"""

from siggpde.numerics.reference.operations import normalized_gram
from siggpde.numerics.reference.logsignature import logsignature
from siggpde.numerics.triton.kernel import diagonal, diagonal_with_gradient, diagonal_with_scale_gradient, gram
from siggpde.numerics.triton.signature import extend, signature

__all__ = [
    "diagonal",
    "diagonal_with_gradient",
    "diagonal_with_scale_gradient",
    "extend",
    "gram",
    "normalized_gram",
    "logsignature",
    "signature",
]
