"""A language model as the judge of correctness, over any OpenAI-compatible server.

System and user texts follow the public code of such a metric that is, as far as could be told, the
one of the paper's experiments (Vashurin et al. 2025): one digit, 1 or 0, at temperature 0. Ours: a
reply that is not that digit is NaN, where that code counts 0.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import httpx
import numpy as np

from cocoa_lab.alignment import Support
from cocoa_lab.examples import Example
from cocoa_lab.quality import Measure
from cocoa_lab.running import each
from models.records import Array

_TIMEOUT_S = 60
_MAX_CONCURRENCY = 8
_BUSY = (429, 503)
_PAUSES_S = (1, 5, 25)
_SYSTEM = "You are a strict evaluator of correctness of the model's response."
_LAST_QUESTION = re.compile(r"Question:\s*(.*?)\nAnswer:", re.DOTALL)

Messages = Sequence[Mapping[str, str]]


class Asked(Protocol):
    """Asks a model at temperature 0: the chat completion, a JSON value.

    Raises:
        httpx.HTTPError: the server cannot be reached, or answers with an error.
    """

    async def __call__(self, messages: Messages, **options: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class JudgeModel:
    """A language model that judges.

    Attributes:
        url: address of its OpenAI-compatible server, without /v1.
        name: of the model there.
        api_key: sent as a bearer token.
        transport: in place of the network, for tests.
    """

    url: str
    name: str
    api_key: str | None = None
    transport: httpx.AsyncBaseTransport | None = None

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Asked]:
        """Asks it, eight requests at a time; a server that is busy a few times more."""
        headers = {}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        free = asyncio.Semaphore(_MAX_CONCURRENCY)
        async with httpx.AsyncClient(
            base_url=self.url, headers=headers, timeout=_TIMEOUT_S, transport=self.transport
        ) as client:

            async def asked(messages: Messages, **options: Any) -> Any:
                body = {"model": self.name, "messages": messages, "temperature": 0, **options}
                async with free:
                    response = await client.post("/v1/chat/completions", json=body)
                    for pause_s in _PAUSES_S:
                        if response.status_code not in _BUSY:
                            break
                        await asyncio.sleep(pause_s)
                        response = await client.post("/v1/chat/completions", json=body)
                return response.raise_for_status().json()

            yield asked


def measure(model: JudgeModel) -> Measure:
    """The judge as a quality measure; an answer is judged once, however often it is measured.

    Verdicts are 1 correct, 0 wrong, NaN where the reply is neither.
    """
    verdicts: dict[tuple[str, str], float] = {}

    async def score(
        outputs: Sequence[str], examples: Sequence[Example], _: Support | None
    ) -> Array:
        new: dict[tuple[str, str], Example] = {}
        for output, example in zip(outputs, examples, strict=True):
            if (example.id, output) not in verdicts:
                new[example.id, output] = example
        async with model.connected() as asked:

            async def judge(output: str, example: Example) -> float:
                return verdict(await asked(messages_of(output, example), max_tokens=1, n=1))

            judged = await each(new, lambda key: judge(key[1], new[key]), num_samples=0)
        verdicts.update(zip(new, judged, strict=True))
        return np.array([verdicts[e.id, o] for o, e in zip(outputs, examples, strict=True)])

    return Measure(score, is_binary=True)


def messages_of(output: str, example: Example) -> Messages:
    """What asks for one verdict."""
    return [
        {"role": "system", "content": _SYSTEM},
        {"role": "user", "content": judge_prompt(output, example)},
    ]


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
    return {"0": 0.0, "1": 1.0}.get(content_of(reply).strip(), float("nan"))


def content_of(reply: Any) -> str:
    """The text of a chat completion; "" of another thing."""
    try:
        content = reply["choices"][0]["message"]["content"]
    except (IndexError, KeyError, TypeError):
        return ""
    return str(content or "")
