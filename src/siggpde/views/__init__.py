"""Views: ways of looking at a series, each fitted to landmark series and then a block of the kernel of a member.

- `base`: what a view and a block are;
- `path`: words of signatures of whole paths, `linear` in the series or not;
- `kernel`: the untruncated signature kernel by its PDE, of the path or of its lift by a static kernel;
- `windows`: statistics of signatures over windows of the series, or of its spectrum;
- `features`: a transformer of the user's own.
"""

from siggpde.views.base import Block as Block
from siggpde.views.base import Part as Part
from siggpde.views.base import Rows as Rows
from siggpde.views.base import View as View
from siggpde.views.features import TransformerView as TransformerView
from siggpde.views.kernel import KernelView as KernelView
from siggpde.views.path import PathView as PathView
from siggpde.views.windows import WindowsView as WindowsView
