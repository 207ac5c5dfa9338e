"""Data sets by name: one in the package, files in your folders, and the UEA and UCR archives."""

from siggpde.datasets.loading import Dataset as Dataset
from siggpde.datasets.loading import data_folders as data_folders
from siggpde.datasets.loading import find_dataset as find_dataset
from siggpde.datasets.loading import load_dataset as load_dataset
from siggpde.datasets.loading import load_pendigits as load_pendigits
from siggpde.datasets.loading import read_dataset as read_dataset
