"""What a first fit of a process costs besides its own work."""

import subprocess
import sys

FIT = """
import sys
import numpy as np
import siggpde
X = np.random.default_rng(0).standard_normal((24, 2, 8)).cumsum(axis=2)
siggpde.SigGPClassifier(n_features=10, members=1, random_state=0, n_jobs=1).fit(X, np.arange(24) % 3)
print("torch._dynamo" in sys.modules)
"""


def test_a_closed_form_fit_does_not_import_the_compiler_of_torch():
    """`torch._dynamo` takes seconds to import; the optimisers of `torch.optim` import it at their first step."""
    flags = ["-S"] if sys.flags.no_site else []
    done = subprocess.run([sys.executable, *flags, "-c", FIT], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
