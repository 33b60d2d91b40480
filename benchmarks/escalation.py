"""A cheap model answers what it knows, a second one the rest: accuracy against share escalated.

The service runs with the first embedded language model and its calibrator; the second one stands
behind an OpenAI-compatible server in this process. Testbed prompts are sent with a `target_error`
and `on_reject: "escalate"`. The calibrator was fitted on this testbed, so its thresholds are at
home here; the curve needs none: it escalates the most uncertain answers first.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import httpx
import matplotlib as mpl
import numpy as np
import torch
import typer
import uvicorn
from matplotlib.figure import Figure
from service import connect, free_port, post, running_service
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from transformers import AutoModelForCausalLM, AutoTokenizer

from cocoa_lab.datasets import load
from cocoa_lab.embedded import as_question
from cocoa_lab.examples import Example
from cocoa_lab.plots import FAINT, INK, MUTED, STYLE
from models.embedded import SECOND_LANGUAGE_MODEL_DIR

TARGETS = (0.05, 0.1, 0.2)
_MAX_TOKENS = 64


def main(
    limit: Annotated[int, typer.Option(min=30, help="Testbed prompts.")] = 600,
    plot: Annotated[Path, typer.Option(help="Where the figure goes.")] = Path("escalation.png"),
) -> None:
    """Print the accuracy of both models and of the two together, and draw the curve."""
    examples = load("testbed", limit=limit, seed=0)
    with second_server() as url:
        second = np.array([_is_right(_ask(url, one.prompt), one) for one in examples])
        settings = {"ESCALATION__URL": url, "ESCALATION__MODEL": "embedded-second"}
        with running_service("embedded", "embedded", **settings) as service:
            uncertainty, first, together = _through(service, examples)
    shares, accuracies = _curve(uncertainty, first, second)
    typer.echo(f"first model alone: {first.mean():.1%} right; second: {second.mean():.1%}")
    for target, (share, right) in together.items():
        typer.echo(f"target error {target:.0%}: {share:.0%} escalated, {right:.1%} right")
    best = int(accuracies.argmax())
    typer.echo(f"best of the curve: {shares[best]:.0%} escalated, {accuracies[best]:.1%} right")
    _draw(shares, accuracies, together).savefig(plot)


@contextmanager
def second_server() -> Iterator[str]:
    """URL of a server whose chat completions are the second model's greedy answers."""
    torch.set_num_threads(1)
    tokenizer: Any = AutoTokenizer.from_pretrained(SECOND_LANGUAGE_MODEL_DIR)
    model: Any = AutoModelForCausalLM.from_pretrained(SECOND_LANGUAGE_MODEL_DIR).eval()

    def answer(prompt: str) -> str:
        inputs = tokenizer(as_question(prompt), return_tensors="pt")
        ids = model.generate(**inputs, do_sample=False, max_new_tokens=_MAX_TOKENS)
        return str(
            tokenizer.decode(ids[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        )

    async def chat(request: Request) -> JSONResponse:
        body = await request.json()
        text = await run_in_threadpool(answer, body["messages"][-1]["content"])
        return JSONResponse({"choices": [{"message": {"role": "assistant", "content": text}}]})

    app = Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


def _through(
    service: str, examples: list[Example]
) -> tuple[np.ndarray, np.ndarray, dict[float, tuple[float, float]]]:
    """Uncertainties (n,), first answers right (n,), and by target shares escalated and right."""
    together: dict[float, tuple[float, float]] = {}
    uncertainty, first = np.empty(len(examples)), np.empty(len(examples))
    with connect(service) as client:
        for target in TARGETS:
            escalated, right = 0, 0.0
            for i, one in enumerate(examples):
                asked = {"prompt": one.prompt, "max_new_tokens": _MAX_TOKENS, "seed": i}
                wanted = {"target_error": target, "on_reject": "escalate"}
                body = post(client, asked | wanted).body
                own = body["text"]
                if "escalation" in body:
                    own = body["escalation"]["first_text"]
                    escalated += 1
                uncertainty[i], first[i] = body["uncertainty"], _is_right(own, one)
                right += _is_right(body["text"], one)
            together[target] = escalated / len(examples), right / len(examples)
    return uncertainty, first, together


def _ask(url: str, prompt: str) -> str:
    body = {"messages": [{"role": "user", "content": prompt}]}
    reply = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60).json()
    return str(reply["choices"][0]["message"]["content"])


def _is_right(text: str, example: Example) -> float:
    return float(text.strip() in example.references)


def _curve(u: np.ndarray, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shares escalated (n + 1,), and accuracy when the most uncertain answers go first."""
    order = np.argsort(-u, kind="stable")
    gain = np.concatenate([[0.0], np.cumsum((second - first)[order])])
    return np.arange(len(u) + 1) / len(u), first.mean() + gain / len(u)


def _draw(
    shares: np.ndarray, accuracies: np.ndarray, together: dict[float, tuple[float, float]]
) -> Figure:
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 4.0), layout="constrained")
        axes = figure.subplots()
        ends = [accuracies[0], accuracies[-1]]
        axes.plot([0, 1], ends, "--", color=FAINT, label="at random")
        axes.plot(shares, accuracies, color=INK, label="the most uncertain first")
        for target, (share, right) in together.items():
            axes.plot([share], [right], "o", color="#b8500f")
            note = f"target {100 * target:g} %"
            axes.annotate(
                note, (share, right), xytext=(6, -12), textcoords="offset points", color=MUTED
            )
        axes.set_xlabel("share of answers escalated")
        axes.set_ylabel("share right")
        axes.grid(axis="y")
        axes.set_title("A second model for what the first is unsure of")
        axes.legend()
        return figure


if __name__ == "__main__":
    typer.run(main)
