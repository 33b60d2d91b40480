"""`cocoa run-batch`: a file of requests, and a file of their answers."""

from pathlib import Path
from typing import Annotated

import typer

from app.cli.environment import ApiKey, Url


def run_batch(
    input_file: Annotated[
        Path,
        typer.Option(
            "--input-file",
            "-i",
            exists=True,
            dir_okay=False,
            help="Requests, a JSON object a line.",
        ),
    ],
    output_file: Annotated[
        Path,
        typer.Option("--output-file", "-o", dir_okay=False, help="Answers; a run goes on with it."),
    ],
    url: Url = None,
    key: ApiKey = None,
    concurrency: Annotated[
        int, typer.Option(min=1, max=256, help="Requests under way at once.")
    ] = 8,
    patience_s: Annotated[
        float,
        typer.Option(
            min=0, help="Seconds without an answer after which a service that refuses is given up."
        ),
    ] = 300,
) -> None:
    """Answer a file of requests, in OpenAI's format, and write each answer as it comes.

    A run that was stopped goes on where it was: give the same two files.
    """
    from app.cli.batching import run_and_tell

    run_and_tell(input_file, output_file, url, key, concurrency, patience_s)
