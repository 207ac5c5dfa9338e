"""GPSig-IT and GPSig-IS (Toth and Oberhauser, 2020), the baselines of the paper: truncated signature kernels with
inducing tensors (IT) or sequences (IS)."""

from siggpde_paper.gpsig.kernel import TruncatedKernel as TruncatedKernel
from siggpde_paper.gpsig.models import InducingSequences as InducingSequences
from siggpde_paper.gpsig.models import InducingTensors as InducingTensors
from siggpde_paper.gpsig.models import gpsig as gpsig
