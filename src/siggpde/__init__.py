"""Gaussian processes for time series with the signature kernel.

The public names are those of `__init__.pyi`. Each is imported when it is first asked for: torch, scikit-learn and aeon
take seconds to import, and `siggpde --help` needs none of them.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
