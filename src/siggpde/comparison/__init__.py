"""Other methods on the same splits with the same measures. aeon's are there where it is installed."""

from siggpde.comparison.methods import METHODS as METHODS
from siggpde.comparison.methods import Method as Method
from siggpde.comparison.methods import Run as Run
from siggpde.comparison.methods import choose_methods as choose_methods
from siggpde.comparison.methods import ours as ours
from siggpde.comparison.scoring import judge as judge
from siggpde.comparison.scoring import spread as spread
from siggpde.comparison.scoring import warm_up as warm_up
from siggpde.comparison.splits import Split as Split
from siggpde.comparison.splits import cross_validation as cross_validation
from siggpde.comparison.splits import resample as resample
