"""Data sets by name: one in the package, files in your folders, and the UEA and UCR archives.

`load_dataset` takes the first ``<name>.npz``, whatever its capitals, in

1. the folder named by the environment variable ``SIGGPDE_DATA``;
2. the user's cache (``$XDG_CACHE_HOME/siggpde``, by default ``~/.cache/siggpde``);
3. the package;

or downloads ``<name>.zip`` from timeseriesclassification.com, or the address in ``SIGGPDE_ARCHIVE``, into the cache.
Downloads are tested with a server on the same machine only; the archive's server was not at hand.

Examples
--------
>>> load_dataset("pendigits", download=False)
Dataset('PenDigits': 7494 train, 3498 test, 2 channels, length 8)
"""

from siggpde.datasets.loading import Dataset as Dataset
from siggpde.datasets.loading import data_folders as data_folders
from siggpde.datasets.loading import find_dataset as find_dataset
from siggpde.datasets.loading import load_dataset as load_dataset
from siggpde.datasets.loading import load_pendigits as load_pendigits
from siggpde.datasets.loading import read_dataset as read_dataset
