"""Training of Gaussian processes: `fit`, its schedules and the history it returns; their code is in `siggpde.gp`."""

from siggpde.gp.exact import Exact
from siggpde.gp.phases import NaturalGradients, PaperSchedule
from siggpde.gp.trainer import History, Record
from siggpde.gp.training import fit

__all__ = ["Exact", "History", "NaturalGradients", "PaperSchedule", "Record", "fit"]
