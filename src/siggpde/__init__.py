"""Gaussian processes for time series with the signature kernel."""

from siggpde.goursat import signature_kernel as signature_kernel
from siggpde.goursat import signature_kernel_diag as signature_kernel_diag
from siggpde.goursat import signature_kernel_diag_scales as signature_kernel_diag_scales
from siggpde.signature import extend as extend
from siggpde.signature import signature as signature
from siggpde.words import words as words

__version__ = "0.1.0"
