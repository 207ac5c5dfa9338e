"""Training: schedules, signatures computed once, checkpoints."""

from siggpde.training.fitting import fit as fit
from siggpde.training.history import History as History
from siggpde.training.history import Record as Record
from siggpde.training.schedules import Exact as Exact
from siggpde.training.schedules import NaturalGradients as NaturalGradients
from siggpde.training.schedules import PaperSchedule as PaperSchedule
