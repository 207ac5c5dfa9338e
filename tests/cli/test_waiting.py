"""What a command tells OpenMP before torch is loaded."""

import json
import os
import subprocess
import sys

import pytest

# A finder that is asked for torch before any other sees the environment in which it is loaded.
SEEN = """
import json, os, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            names = ("OMP_WAIT_POLICY", "KMP_BLOCKTIME", "GOMP_SPINCOUNT")
            print(json.dumps({name: os.environ.get(name) for name in names}))
            sys.stdout.flush()
            os._exit(0)
sys.meta_path.insert(0, Finder())
from siggpde.cli import app
app(["predict", "model", "data.csv"])
"""


def seen(**given: str) -> dict[str, str | None]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "KMP_", "GOMP_"))}
    flags = ["-S"] if sys.flags.no_site else []
    done = subprocess.run(
        [sys.executable, *flags, "-c", SEEN], capture_output=True, text=True, env=environment | given, check=True
    )
    return json.loads(done.stdout)


def test_threads_sleep_while_they_wait():
    assert seen() == {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0", "GOMP_SPINCOUNT": None}


@pytest.mark.parametrize("name", ["OMP_WAIT_POLICY", "KMP_BLOCKTIME", "GOMP_SPINCOUNT"])
def test_what_the_user_has_set_stays_as_it_is(name):
    value = "ACTIVE" if name == "OMP_WAIT_POLICY" else "1000"
    assert {key: value for key, value in seen(**{name: value}).items() if value is not None} == {name: value}
