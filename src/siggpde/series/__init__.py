"""From series to paths: reading them in any shape, filling gaps, and what is added before signatures are taken."""

from siggpde.series.batch import SeriesBatch as SeriesBatch
from siggpde.series.batch import collect as collect
from siggpde.series.batch import pool as pool
from siggpde.series.preparation import Preparation as Preparation
from siggpde.series.preparation import fill_gaps as fill_gaps
from siggpde.series.spectrogram import Spectrogram as Spectrogram
from siggpde.series.transform import PathOptions as PathOptions
from siggpde.series.transform import PathTransform as PathTransform
