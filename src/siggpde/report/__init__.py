"""Reports: one HTML file with the data, the model, how good it is, what it rests on, and series to look at."""

from siggpde.report.content import Case as Case
from siggpde.report.content import ClassJudgement as ClassJudgement
from siggpde.report.content import Content as Content
from siggpde.report.content import Data as Data
from siggpde.report.content import Drawn as Drawn
from siggpde.report.content import Fitted as Fitted
from siggpde.report.content import Member as Member
from siggpde.report.content import Newness as Newness
from siggpde.report.content import NumberJudgement as NumberJudgement
from siggpde.report.page import GENERATOR as GENERATOR
from siggpde.report.page import page as page
