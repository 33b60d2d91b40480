"""A language model as the judge of correctness, over any OpenAI-compatible server.

System and user texts follow the public code of such a metric that is, as far as could be told, the
one of the paper's experiments (Vashurin et al. 2025): one digit, 1 or 0, at temperature 0. Ours: a
reply that is not that digit is NaN, where that code counts 0.
"""

import asyncio
import re
from collections.abc import Sequence
from typing import Any

import httpx
import numpy as np

from cocoa_lab.examples import Example
from cocoa_lab.quality import Measure, Support
from models.records import Array

_TIMEOUT_S = 60
_SYSTEM = "You are a strict evaluator of correctness of the model's response."
_LAST_QUESTION = re.compile(r"Question:\s*(.*?)\nAnswer:", re.DOTALL)


async def judge(
    client: httpx.AsyncClient,
    model: str,
    outputs: Sequence[str],
    examples: Sequence[Example],
    *,
    max_concurrency: int = 8,
) -> Array:
    """Verdicts (n,): 1 correct, 0 wrong, NaN where the reply is neither. Binary, for ROC-AUC.

    client: has the server's address (without /v1), its key and time-out.

    Raises:
        httpx.HTTPError: the server cannot be reached or answers with an error.
    """
    free = asyncio.Semaphore(max_concurrency)

    async def ask(output: str, example: Example) -> float:
        async with free:
            response = await client.post(
                "/v1/chat/completions", json=request(model, output, example)
            )
        return verdict(response.raise_for_status().json())

    tasks = []
    for output, example in zip(outputs, examples, strict=True):
        tasks.append(asyncio.ensure_future(ask(output, example)))
    try:
        return np.array(await asyncio.gather(*tasks), dtype=np.float64)
    finally:
        for task in tasks:
            task.cancel()


def measure(
    url: str,
    model: str,
    api_key: str | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> Measure:
    """The judge as a quality measure; an answer is judged once, however often it is measured.

    Args:
        url: address of the server, without /v1.
        model: name of the judging model there.
        api_key: sent as a bearer token.
        transport: in place of the network, for tests.
    """
    verdicts: dict[tuple[str, str], float] = {}
    headers = {}
    if api_key:
        headers["Authorization"] = f"Bearer {api_key}"

    async def verdicts_of(answers: Sequence[tuple[str, Example]]) -> Array:
        async with httpx.AsyncClient(
            base_url=url, headers=headers, timeout=_TIMEOUT_S, transport=transport
        ) as client:
            outputs, examples = zip(*answers, strict=True)
            return await judge(client, model, outputs, examples)

    async def score(
        outputs: Sequence[str], examples: Sequence[Example], _: Support | None
    ) -> Array:
        new: dict[tuple[str, str], tuple[str, Example]] = {}
        for output, example in zip(outputs, examples, strict=True):
            if (example.id, output) not in verdicts:
                new[example.id, output] = output, example
        if new:
            judged = await verdicts_of(list(new.values()))
            verdicts.update(zip(new, judged.tolist(), strict=True))
        return np.array([verdicts[e.id, o] for o, e in zip(outputs, examples, strict=True)])

    return Measure(score, is_binary=True)


def request(model: str, output: str, example: Example) -> dict[str, Any]:
    """Body of the chat completion that asks for one verdict."""
    messages = [
        {"role": "system", "content": _SYSTEM},
        {"role": "user", "content": judge_prompt(output, example)},
    ]
    return {"model": model, "messages": messages, "temperature": 0, "max_tokens": 1, "n": 1}


def judge_prompt(output: str, example: Example) -> str:
    """The paper's prompt; it has one form for a single reference and another for several."""
    if len(example.references) == 1:
        is_what, by_what, label = "is the correct answer", "based on the target", "Target"
    else:
        is_what, by_what = (
            "is the list of possible correct answers",
            "(matches one of the target responses)",
        )
        label = "Target list"
    return (
        "You are a text evaluator. The model was asked the following question:\n"
        f"{question(example.prompt)}\n"
        f"The 'Generated' text is a model's response. The 'Target' {is_what}.\n"
        f"If the generated answer correctly answers the question {by_what}, return 1.\n"
        "If it is wrong, return 0.\n"
        "Respond ONLY with a single digit: 1 or 0.\n\n"
        f"Generated: {output.strip()}\n"
        f"{label}: {', '.join(example.references).strip()}"
    )


def question(prompt: str) -> str:
    r"""The last question of a prompt with shots or earlier turns.

    The whole prompt where it has no such form.

    >>> question("Question: One and one?\nAnswer:2\nQuestion: Two and two?\nAnswer:")
    'Two and two?'
    """
    found = _LAST_QUESTION.findall(prompt)
    if not found:
        return prompt
    return str(found[-1]).strip()


def verdict(reply: Any) -> float:
    """The digit of a chat completion, NaN for everything else."""
    try:
        text = reply["choices"][0]["message"]["content"].strip()
    except (AttributeError, IndexError, KeyError, TypeError):
        return float("nan")
    return {"0": 0.0, "1": 1.0}.get(text, float("nan"))
