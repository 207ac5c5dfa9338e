"""Reading and writing series: archives' text files, numpy arrays, tables.

`read` goes by the suffix of the file: ``.ts`` and ``.arff`` (UEA and UCR archives), ``.npz`` and ``.npy`` (numpy),
``.csv`` and ``.parquet`` (tables, long or wide). `from_frame` takes a table that is already in memory, of polars or
pandas. All give a `SeriesData`, which `write` writes back. `stream` reads ``.npy`` and ``.parquet`` files larger than
memory, block by block. Nothing is ever unpickled.
"""

from siggpde.io.data import NotStreamable as NotStreamable
from siggpde.io.data import SeriesData as SeriesData
from siggpde.io.reading import from_frame as from_frame
from siggpde.io.reading import read as read
from siggpde.io.streams import SeriesStream as SeriesStream
from siggpde.io.streams import stream as stream
from siggpde.io.writing import write as write
