"""The baselines of the paper, GPSig-IT and GPSig-IS (Toth and Oberhauser, 2020).

Gaussian processes with truncated signature kernels and inducing tensors (IT) or inducing sequences (IS).
"""

from siggpde_paper.gpsig.kernel import TruncatedKernel as TruncatedKernel
from siggpde_paper.gpsig.models import InducingSequences as InducingSequences
from siggpde_paper.gpsig.models import InducingTensors as InducingTensors
from siggpde_paper.gpsig.models import gpsig as gpsig
