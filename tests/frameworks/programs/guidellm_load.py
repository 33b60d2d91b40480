# /// script
# dependencies = ["guidellm==0.8.1"]
# ///
"""GuideLLM's own command, in its own environment: the arguments are its."""

from guidellm.__main__ import cli

if __name__ == "__main__":  # its workers are processes that import this file
    cli()
