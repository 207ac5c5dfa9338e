"""Data sets by name: the one inside the package, files in folders of your own, and the archive's.

A data set is one ``.npz`` file, read without pickle (its members are in `siggpde.io.train_test`). `load_dataset` takes
the first ``<name>.npz``, whatever its capitals, in

1. the folder named by the environment variable ``SIGGPDE_DATA``;
2. the user's cache (``$XDG_CACHE_HOME/siggpde``, by default ``~/.cache/siggpde``);
3. the package;

and if there is none it downloads ``<name>.zip`` of the UEA and UCR archives, at timeseriesclassification.com or at the
address in ``SIGGPDE_ARCHIVE``, and puts it into the cache as one ``.npz`` file. The SHA-256 of every file of the cache
is written to ``checksums.json`` there when it is first used, and checked ever after.

Downloads are tested with a server on the same machine only; the archive's own was not at hand.

Examples:
    >>> load_dataset("pendigits", download=False)
    Dataset('PenDigits': 7494 train, 3498 test, 2 channels, length 8)
"""

from siggpde.datasets.folders import data_folders as data_folders
from siggpde.datasets.folders import find_dataset as find_dataset
from siggpde.datasets.loading import load_dataset as load_dataset
from siggpde.datasets.loading import load_pendigits as load_pendigits
from siggpde.io.train_test import Dataset as Dataset
from siggpde.io.train_test import read_dataset as read_dataset
