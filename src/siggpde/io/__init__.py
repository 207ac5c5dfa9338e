"""Reading and writing series: text files of the archives, numpy arrays, tables.

`read` goes by the suffix of the file: ``.ts`` and ``.arff`` (UEA and UCR archives), ``.npz`` and ``.npy`` (numpy),
``.csv`` and ``.parquet`` (tables, long or wide). `from_frame` takes a table in memory, of polars or pandas. Both return
`SeriesData`, which `write` writes to a file. `stream` reads ``.npy`` and ``.parquet`` files larger than memory, block
by block. Nothing is ever unpickled.

The public names are those of `__init__.pyi`, imported when they are first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
