"""Other methods on the same splits with the same measures. aeon's are there where it is installed."""

from siggpde_paper.compare.methods import METHODS as METHODS
from siggpde_paper.compare.methods import Method as Method
from siggpde_paper.compare.methods import Run as Run
from siggpde_paper.compare.methods import choose_methods as choose_methods
from siggpde_paper.compare.methods import judge as judge
from siggpde_paper.compare.methods import judge_on_splits as judge_on_splits
from siggpde_paper.compare.methods import ours as ours
from siggpde_paper.compare.methods import spread as spread
from siggpde_paper.compare.methods import warm_up as warm_up
from siggpde_paper.compare.splits import Split as Split
from siggpde_paper.compare.splits import at_most as at_most
from siggpde_paper.compare.splits import cross_validation as cross_validation
from siggpde_paper.compare.splits import resample as resample
