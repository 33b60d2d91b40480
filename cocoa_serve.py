"""The command `cocoa`; says in words where another project's packages hide those of this one."""

import sys
from importlib.util import find_spec
from pathlib import Path

_PACKAGES = ("app", "models", "workers")


def main() -> None:
    """Run the command line, if the packages that Python finds are ours."""
    here = Path(__file__).resolve().parent
    for name in _PACKAGES:
        spec = find_spec(name)
        if spec is None or spec.origin is None or Path(spec.origin).resolve().parents[1] != here:
            where = "none at all"
            if spec is not None:
                where = spec.origin or ", ".join(spec.submodule_search_locations or ())
            sys.exit(
                f"cocoa: Python finds another package of the name {name}: {where}, "
                f"where that of cocoa-serve is in {here}. Unset PYTHONPATH, leave that folder, or "
                "install cocoa-serve into an environment of its own."
            )
    from app.cli import main as run

    run()
