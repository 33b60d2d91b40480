"""`cocoa ask`: one prompt, its answer and scores, for a person or as JSON."""

from typing import Annotated, Literal

import typer

from app.cli.environment import ApiKey, Url


def ask(
    prompt: Annotated[
        str | None, typer.Argument(help="The prompt, continued as it stands.")
    ] = None,
    messages: Annotated[
        str | None,
        typer.Option(help="A chat in place of the prompt: JSON as in the API, or a file of it."),
    ] = None,
    url: Url = None,
    key: ApiKey = None,
    mode: Annotated[
        Literal["full", "light"], typer.Option(help="light draws no samples, and asks a probe.")
    ] = "full",
    estimator: Annotated[
        list[str] | None,
        typer.Option(help="What to score; may be repeated. The first is the uncertainty."),
    ] = None,
    num_samples: Annotated[
        int | None,
        typer.Option(min=1, max=64, help="M, the number of sampled answers; 10 in full mode."),
    ] = None,
    max_new_tokens: Annotated[
        int | None,
        typer.Option(min=1, help="Upper bound of an answer's tokens; 256, or what fits."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Makes the samples repeatable.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the HTTP response's object.")
    ] = False,
) -> None:
    """Answer one prompt and say how sure the model is."""
    from app.cli.asking import ask_and_print, json_of

    body = {
        "prompt": prompt,
        "messages": messages and json_of(messages),
        "mode": mode,
        "estimators": estimator or None,
        "estimator": next(iter(estimator or ()), None),
        "num_samples": num_samples,
        "max_new_tokens": max_new_tokens,
        "seed": seed,
        "return_samples": mode == "full",
        "return_tokens": True,
    }
    ask_and_print(body, url, key, as_json=as_json)
