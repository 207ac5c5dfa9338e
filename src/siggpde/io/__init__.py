"""Reading and writing series: archives' text files, numpy arrays, tables.

`read` goes by the suffix of the file: ``.ts`` and ``.arff`` (UEA and UCR archives), ``.npz`` and ``.npy`` (numpy),
``.csv`` and ``.parquet`` (tables, long or wide). `from_frame` takes a table that is already in memory, of polars or
pandas. All give a `SeriesData`, which `write` writes back. `stream` reads ``.npy`` and ``.parquet`` files larger than
memory, block by block. Nothing is ever unpickled.

The public names are those of `__init__.pyi`, imported when they are first asked for: the command line uses
`siggpde.io.formats` without importing numpy.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
