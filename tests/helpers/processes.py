"""Python in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path


def run(code: str, *arguments: str, **environment: str) -> str:
    """What a new process prints, with more environment variables; it has to end well."""
    source = str(Path(__file__).parents[2] / "src")
    paths = os.pathsep.join([source, *(path for path in sys.path if path)])
    command = [sys.executable, *(["-S"] if sys.flags.no_site else []), "-c", code, *arguments]
    variables = os.environ | {"PYTHONPATH": paths} | environment
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=variables)
    assert done.returncode == 0, done.stderr
    return done.stdout
