"""Label the testbed through a running service, as an application would label its own traffic.

The service collects labels (`COCOA_FEEDBACK__PATH`). Every prompt is asked with all estimators,
light ones among them, and its answer labelled by `POST /feedback`, with its task. What the service
keeps is then read by `cocoa calibrate --feedback`: so the embedded models' calibrator is made.
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
    limit: Annotated[int | None, typer.Option(min=1, help="That many prompts only.")] = None,
) -> None:
    """Ask every prompt, label every answer, and say how many are right."""
    examples = load(dataset, limit=limit, seed=0)
    right = asyncio.run(_label_all(url, examples))
    typer.echo(f"{len(examples)} answers labelled, {right} right")


async def _label_all(url: str, examples: list[Example]) -> int:
    todo = iter(examples)
    async with httpx.AsyncClient(base_url=url, timeout=_TIMEOUT_S) as client:
        known = (await client.get("/estimators")).raise_for_status().json()["estimators"]
        names = [one["name"] for one in known if one["available"]]
        with Progress() as progress:
            task = progress.add_task("labelling", total=len(examples))

            async def take() -> int:
                right = 0
                for example in todo:
                    right += await _label(client, example, names)
                    progress.advance(task)
                return right

            return sum(await asyncio.gather(*(take() for _ in range(_CLIENTS))))


async def _label(client: httpx.AsyncClient, example: Example, names: list[str]) -> bool:
    body: dict[str, Any] = {
        "prompt": example.prompt,
        "max_new_tokens": example.max_new_tokens,
        "stop": list(example.stop),
        "estimators": names,
        "timeout_s": _TIMEOUT_S,
    }
    answer = (await client.post("/generate-with-uncertainty", json=body)).raise_for_status().json()
    is_right = answer["text"].strip() in example.references
    label = {"id": answer["id"], "correct": is_right, "task": example.task}
    (await client.post("/feedback", json=label)).raise_for_status()
    return is_right


if __name__ == "__main__":
    typer.run(main)
