"""From series to paths: reading them in any shape, filling gaps, and what is added before signatures are taken."""

from siggpde.paths.transform import PathOptions as PathOptions
from siggpde.paths.transform import PathTransform as PathTransform
