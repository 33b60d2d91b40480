"""Label the testbed through a running service, as an application would label its own traffic.

Every prompt or chat is asked in light mode with all of its estimators, and its answer labelled by
`POST /feedback`: so the light part of the embedded models' calibrator is made.
"""

import asyncio
from typing import Annotated, Any

import httpx
import typer
from rich.progress import Progress

from cocoa_lab.datasets import load
from cocoa_lab.examples import Example

_CLIENTS = 16
_TIMEOUT_S = 120


def main(
    url: Annotated[str, typer.Argument(help="Of the service.")] = "http://localhost:8000",
    dataset: Annotated[str, typer.Option(help="With references.")] = "testbed",
) -> None:
    """Ask every prompt, label every answer, and say how many are right."""
    examples = load(dataset, limit=None)
    right = asyncio.run(_label_all(url, examples))
    typer.echo(f"{len(examples)} answers labelled, {right} right")


async def _label_all(url: str, examples: list[Example]) -> int:
    todo = iter(examples)
    async with httpx.AsyncClient(base_url=url, timeout=_TIMEOUT_S) as client:
        known = (await client.get("/estimators")).raise_for_status().json()
        names = [one["name"] for one in known["estimators"] if one["available"]]
        of_mode = [name for name in names if name in known["light"] or name.endswith("_light")]
        asked: dict[str, Any] = {"mode": "light", "estimators": of_mode}
        with Progress() as progress:
            task = progress.add_task("labelling", total=len(examples))

            async def take() -> int:
                right = 0
                for example in todo:
                    right += await _label(client, example, asked)
                    progress.advance(task)
                return right

            return sum(await asyncio.gather(*(take() for _ in range(_CLIENTS))))


async def _label(client: httpx.AsyncClient, example: Example, asked: dict[str, Any]) -> bool:
    body: dict[str, Any] = {
        **asked,
        "max_new_tokens": example.max_new_tokens,
        "stop": list(example.stop),
        "timeout_s": _TIMEOUT_S,
    }
    if example.messages is None:
        body["prompt"] = example.prompt
    else:
        body["messages"] = example.messages
    answer = (await client.post("/generate-with-uncertainty", json=body)).raise_for_status().json()
    is_right = answer["text"].strip() in example.references
    label = {"id": answer["id"], "correct": is_right, "task": example.task}
    (await client.post("/feedback", json=label)).raise_for_status()
    return is_right


if __name__ == "__main__":
    typer.run(main)
