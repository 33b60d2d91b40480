# /// script
# dependencies = ["aiperf==0.13.0"]
# ///
"""aiperf's own command, in its own environment: the arguments are its."""

from aiperf.cli import app

if __name__ == "__main__":  # its services are processes that import this file
    app()
