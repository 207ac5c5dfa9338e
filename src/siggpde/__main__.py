"""Makes ``python -m siggpde`` the command line."""

from siggpde.cli import app

if __name__ == "__main__":
    app(prog_name="python -m siggpde")
