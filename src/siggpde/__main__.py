"""Makes ``python -m siggpde`` the command line; Ctrl-C before it is imported ends it quietly too."""

import sys


def main() -> None:
    """Runs the command line; `siggpde` and ``python -m siggpde`` call it."""
    try:
        from siggpde.cli import app  # noqa: PLC0415 - so that Ctrl-C during the import is caught
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
    app(prog_name="python -m siggpde" if sys.argv[0].endswith("__main__.py") else "siggpde")


if __name__ == "__main__":
    main()
