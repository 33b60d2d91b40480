"""The `cocoa` command, which also knows the fake models: `python -m tests.fakes.cocoa`."""

from app.cli import main
from tests.fakes import register

if __name__ == "__main__":
    register()
    main()
