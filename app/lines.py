"""Files of lines whose writer may have been killed: the last line may be half."""

import os
from pathlib import Path

_BLOCK_BYTES = 1 << 16


def end_of_last_line(path: Path) -> int:
    """Bytes up to the end of the last complete line; read from the end, as files grow large."""
    with path.open("rb") as file:
        position = file.seek(0, os.SEEK_END)
        tail = b""
        while position > 0 and b"\n" not in tail:
            step = min(position, _BLOCK_BYTES)
            position = file.seek(position - step)
            tail = file.read(step)
        return position + tail.rfind(b"\n") + 1
