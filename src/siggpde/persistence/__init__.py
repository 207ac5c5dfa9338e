"""Models on disk: a folder of plain JSON, tensors and a card to read; nothing in it is ever executed."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
