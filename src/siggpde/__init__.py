"""Gaussian processes for time series with the signature kernel."""

from siggpde import likelihoods as likelihoods
from siggpde import paths as paths
from siggpde.goursat import signature_kernel as signature_kernel
from siggpde.goursat import signature_kernel_diag as signature_kernel_diag
from siggpde.goursat import signature_kernel_diag_scales as signature_kernel_diag_scales
from siggpde.inducing import OrthogonalSignatureFeatures as OrthogonalSignatureFeatures
from siggpde.kernel import SignatureKernel as SignatureKernel
from siggpde.model import SignatureGP as SignatureGP
from siggpde.screening import screen as screen
from siggpde.signature import extend as extend
from siggpde.signature import signature as signature
from siggpde.training import History as History
from siggpde.training import NaturalGradients as NaturalGradients
from siggpde.training import PaperSchedule as PaperSchedule
from siggpde.training import fit as fit
from siggpde.words import words as words

__version__ = "0.1.0"
