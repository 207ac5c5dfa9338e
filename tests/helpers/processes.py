"""Python in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path


def run(code: str, *arguments: str) -> str:
    """What a new process prints; it has to end well."""
    source = str(Path(__file__).parents[2] / "src")
    paths = os.pathsep.join([source, *(path for path in sys.path if path)])
    command = [sys.executable, *(["-S"] if sys.flags.no_site else []), "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": paths})
    assert done.returncode == 0, done.stderr
    return done.stdout
