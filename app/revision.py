"""Which sources run."""

import subprocess
from pathlib import Path


def git_revision(told: str) -> str | None:
    """The git revision of the sources: as an image was told, else as git says of a checkout.

    None where neither knows it. Blocks while git runs.
    """
    if told not in ("", "unknown"):  # as the Dockerfiles have it where nobody tells them
        return told
    root = Path(__file__).resolve().parents[1]
    if not (root / ".git").exists():
        return None
    try:
        command = ["git", "rev-parse", "--short=12", "HEAD"]
        found = subprocess.run(  # noqa: S603 - a fixed command
            command, cwd=root, capture_output=True, text=True, timeout=2.0
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None
