"""Write the bytecode of what serving imports, the same in every build, since containers write none.

    PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=FOLDER python bytecode.py

Of all that an image has it would be 200 MB more.
"""

import os
import subprocess
import sys
from importlib.util import find_spec, source_from_cache
from pathlib import Path

from rich.cells import cell_len

import app.cache.redis
import app.http.running
import app.plugins.keys.access
import app.plugins.traces.tracing
import app.worker  # noqa: F401
import cocoa_serve  # noqa: F401
from app.cli import app as cocoa
from app.main import create_app
from app.settings import Settings

cell_len("…")  # rich reads its table of widths only for characters such as this
create_app(Settings())  # imports what plugins bring
command = ["serve", "--help"]
if find_spec("torch"):
    command = ["ask", "Hello", "--seed=1"]
if cocoa(command, standalone_mode=False):
    sys.exit("the embedded models do not answer")
# Python has written what it imported, with times, and with sets in an order of this process. Once
# more, good for as long as the source is the same: another may be mounted over it.
written = Path(str(sys.pycache_prefix)).rglob("*.pyc")
sources = "\n".join(sorted(source_from_cache(path) for path in written))
compileall = [sys.executable, "-m", "compileall", "--invalidation-mode=checked-hash", "-qfi", "-"]
settled = os.environ | {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
subprocess.run(compileall, input=sources, text=True, check=True, env=settled)  # noqa: S603
