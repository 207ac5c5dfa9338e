"""Reading and writing series: text files of the archives, numpy arrays, tables; nothing is ever unpickled."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
