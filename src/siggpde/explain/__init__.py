"""What predictions rest on: words, channels and moments of the series."""

from siggpde.explain.importance import Importance as Importance
from siggpde.explain.importance import Importances as Importances
from siggpde.explain.importance import global_importance as global_importance
from siggpde.explain.moments import TimeAttribution as TimeAttribution
from siggpde.explain.moments import time_attribution as time_attribution
from siggpde.explain.series import Contribution as Contribution
from siggpde.explain.series import SeriesExplanation as SeriesExplanation
from siggpde.explain.series import explain_series as explain_series
