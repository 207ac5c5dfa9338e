"""Views: ways of looking at a series, each fitted to landmark series and then a block of the kernel of a member."""

from siggpde.views.base import Block as Block
from siggpde.views.base import Part as Part
from siggpde.views.base import Rows as Rows
from siggpde.views.base import View as View
from siggpde.views.kernels import KernelView as KernelView
from siggpde.views.paths import PathView as PathView
from siggpde.views.transformers import TransformerView as TransformerView
from siggpde.views.window_features import WindowBlock as WindowBlock
from siggpde.views.window_features import WindowFeatures as WindowFeatures
from siggpde.views.window_features import WindowScaler as WindowScaler
from siggpde.views.window_features import WindowSettings as WindowSettings
from siggpde.views.windows import WindowsView as WindowsView
