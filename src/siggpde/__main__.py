"""Makes ``python -m siggpde`` the command line; Ctrl-C before it is imported ends it quietly too."""

import os
import sys
from contextlib import suppress


def main() -> None:
    """Runs the command line; `siggpde` and ``python -m siggpde`` call it."""
    try:
        from siggpde.cli import app  # noqa: PLC0415 - so that Ctrl-C during the import is caught
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
    code: object = None
    try:
        app(prog_name="python -m siggpde" if sys.argv[0].endswith("__main__.py") else "siggpde")
    except SystemExit as end:
        code = end.code
    except OSError as error:
        code = _end(error)
    try:
        sys.stdout.flush()
    except OSError as error:  # a full disk, which is noticed only now
        code = code or _end(error)
        with open(os.devnull, "w") as nowhere:  # where the interpreter flushes the rest
            os.dup2(nowhere.fileno(), 1)
    sys.exit(code)  # pyright: ignore[reportArgumentType]


def _end(error: OSError) -> int:
    with suppress(OSError):
        sys.stderr.write(f"Error: the output cannot be written: {error}\n")
    return 1


if __name__ == "__main__":
    main()
