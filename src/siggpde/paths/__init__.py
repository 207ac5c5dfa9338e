"""From series to paths: reading them in any shape, filling gaps, and what is added before signatures are taken."""

from siggpde.paths.averaging import pool as pool
from siggpde.paths.batch import SeriesBatch as SeriesBatch
from siggpde.paths.collecting import collect as collect
from siggpde.paths.gaps import fill_gaps as fill_gaps
from siggpde.paths.options import PathOptions as PathOptions
from siggpde.paths.preparation import Preparation as Preparation
from siggpde.paths.spectrogram import Spectrogram as Spectrogram
from siggpde.paths.transform import PathTransform as PathTransform
