"""Gaussian processes for time series with the signature kernel."""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from siggpde import likelihoods as likelihoods
    from siggpde import paths as paths
    from siggpde.estimators import SigGPClassifier as SigGPClassifier
    from siggpde.estimators import SigGPRegressor as SigGPRegressor
    from siggpde.estimators.saving import load as load
    from siggpde.goursat import signature_kernel as signature_kernel
    from siggpde.goursat import signature_kernel_diag as signature_kernel_diag
    from siggpde.goursat import signature_kernel_diag_gradient as signature_kernel_diag_gradient
    from siggpde.goursat import signature_kernel_diag_scales as signature_kernel_diag_scales
    from siggpde.inducing import OrthogonalSignatureFeatures as OrthogonalSignatureFeatures
    from siggpde.kernel import SignatureKernel as SignatureKernel
    from siggpde.model import SignatureGP as SignatureGP
    from siggpde.ranks import connect as connect
    from siggpde.screening import screen as screen
    from siggpde.signature import extend as extend
    from siggpde.signature import signature as signature
    from siggpde.streaming import predict_stream as predict_stream
    from siggpde.training import Exact as Exact
    from siggpde.training import History as History
    from siggpde.training import NaturalGradients as NaturalGradients
    from siggpde.training import PaperSchedule as PaperSchedule
    from siggpde.training import fit as fit
    from siggpde.words import words as words

__version__ = "0.1.0"

# Loaded when asked for: torch, scikit-learn and aeon take seconds to import, and `siggpde --help` needs none of them.
_LATER = {
    "SigGPClassifier": "estimators",
    "SigGPRegressor": "estimators",
    "load": "estimators.saving",
    "signature_kernel": "goursat",
    "signature_kernel_diag": "goursat",
    "signature_kernel_diag_gradient": "goursat",
    "signature_kernel_diag_scales": "goursat",
    "OrthogonalSignatureFeatures": "inducing",
    "SignatureKernel": "kernel",
    "SignatureGP": "model",
    "connect": "ranks",
    "screen": "screening",
    "extend": "signature",
    "signature": "signature",
    "predict_stream": "streaming",
    "Exact": "training",
    "History": "training",
    "NaturalGradients": "training",
    "PaperSchedule": "training",
    "fit": "training",
    "words": "words",
}
_MODULES = ("likelihoods", "paths")


class _Package(ModuleType):
    """Importing the module `siggpde.words` must not hide the function of the same name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _LATER and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"siggpde.{name}")
    if name not in _LATER:
        raise AttributeError(f"module 'siggpde' has no attribute {name!r}")
    found = getattr(import_module(f"siggpde.{_LATER[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, *_MODULES})
