"""Estimators with the conventions of scikit-learn and, where it is installed, of aeon; imported when asked for."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
