"""Gaussian processes for time series with the signature kernel."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
from siggpde.training import Exact as Exact
from siggpde.training import History as History
from siggpde.training import NaturalGradients as NaturalGradients
from siggpde.training import PaperSchedule as PaperSchedule
from siggpde.training import fit as fit
from siggpde.words import words as words

if TYPE_CHECKING:
    from siggpde.estimators import SigGPClassifier as SigGPClassifier
    from siggpde.estimators import SigGPRegressor as SigGPRegressor
    from siggpde.estimators.saving import load as load

__version__ = "0.1.0"

# Loaded when asked for: scikit-learn and aeon take longer to import than all the rest.
_LATER = {
    "SigGPClassifier": "siggpde.estimators",
    "SigGPRegressor": "siggpde.estimators",
    "load": "siggpde.estimators.saving",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'siggpde' has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_LATER])
