"""Series as statistics of signatures over their windows: many views of a series, and features of each view by blocks.

- `WindowSettings`: which views there are (lifts, lengths and dilations of windows, groups of channels);
- `WindowFeatures`: fitted to training series, computes the pooled statistics of every view;
- `WindowScaler`: standardises them, block by block, for kernels that are means over views;
- `numerics.windows` has the mathematics of a single view.
"""

from siggpde.windows.features import Block as Block
from siggpde.windows.features import WindowFeatures as WindowFeatures
from siggpde.windows.scaling import WindowScaler as WindowScaler
from siggpde.windows.settings import WindowSettings as WindowSettings
