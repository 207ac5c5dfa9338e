"""The operations by the native core (`siggpde.numerics.backend.Operations`)."""

from siggpde.numerics.native.kernel import diagonal, diagonal_with_gradient, diagonal_with_scale_gradient, gram
from siggpde.numerics.native.signature import extend, signature

__all__ = ["diagonal", "diagonal_with_gradient", "diagonal_with_scale_gradient", "extend", "gram", "signature"]
