"""Small requests that show what a server really does, whatever it says of itself."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from models.engines.protocol import NO_REASONING
from models.records import GenerationRequest
from workers.calls import Calls
from workers.client import Client, Refused, Unreachable
from workers.openai.capabilities import (
    LEAST_PROMPTS,
    Capabilities,
    Fingerprint,
    RawLogprobs,
    Scoring,
)
from workers.openai.columns import read_columns
from workers.openai.limiting import reasoning_of, sum_answer
from workers.openai.prompts import render, token_ids
from workers.openai.replies import Choice, is_answer, read_choices
from workers.openai.requests import COMPLETIONS, EXTRAS, Prompt, completion
from workers.openai.soundness import ALL_ZERO
from workers.openai.tags import read_tag_ids

# Fixed texts, asked of every server; none of them is a client's.
_PROMPTS = (
    "What is the capital of France?",
    "The three primary colours are",
    "Translate to German: the old house by the river.",
)
_SHORT = {"role": "user", "content": "Reply with one word: yes or no?"}
_FINGERPRINT_TOKENS = 12
_END_TOKENS = 48
# How many likeliest tokens to ask for, as servers have limits of their own; vLLM's is settable.
_TOPS, _TOPS_OF_VLLM = (20, 5, 1, 0), (20, 10, 5, 1, 0)
# Nats by which log-probs of one distribution may differ between two calls.
_NOISE = 0.05
_HOT: Mapping[str, Any] = {"temperature": 2.0}


class Experiments:
    """One server while it is tried out, by calls that build on what is known of it so far.

    Attributes:
        calls: of it.
        can: as far as that is known; each step adds what it found out.
        prompt: of the next calls.
    """

    def __init__(self, client: Client, can: Capabilities) -> None:
        self.calls = Calls(client, can.model_id, is_trial=True)
        self.can = can
        self.prompt = Prompt()
        self._fixed: list[Prompt] = []
        self._sum: tuple[Prompt, Choice | None] | None = None
        self._greedy: list[Choice] = []
        self._hot: list[Choice] = []

    async def set_prompts(self) -> None:
        """Render the fixed prompts, the first for the next calls."""
        num = len(_PROMPTS) if self.can.tokenizes else LEAST_PROMPTS  # by texts each is a call
        for text in _PROMPTS[:num]:
            self._fixed.append(await render(self.calls, self.can, GenerationRequest(text)))
        self.prompt = self._fixed[0]

    async def fingerprint(self) -> Fingerprint:
        self._greedy = await self._greedy_answers()
        self._look_at_greedy()
        texts, means = [], []
        for choice in self._greedy:
            texts.append(choice.text)
            mean = None
            logprobs = choice.logprobs
            if self.can.logprobs is not None and logprobs is not None and len(logprobs):
                mean = float(logprobs.mean())
            means.append(mean)
        return Fingerprint(tuple(texts), tuple(means))

    async def endpoints(self) -> None:
        ids = await self._token_ids({"prompt": "Hello"})
        message = {"role": "user", "content": "Hello"}
        if ids:
            self.prompt = Prompt(ids=ids, num_tokens=len(ids))
            self.can = replace(self.can, tokenizes=True)
            choice = await self._first_choice(top=0)
            if choice is not None and choice.token_ids is not None:
                prefix = await self._token_ids({"prompt": ""})
                chat = await self._token_ids({"messages": [message], "add_generation_prompt": True})
                self.can = replace(
                    self.can, completes=True, chats=bool(chat), special_prefix=prefix
                )
                return
        self.can = replace(self.can, tokenizes=False)
        self.prompt = Prompt(text="Hello")
        completes = is_answer(await self._complete())
        self.can = replace(self.can, completes=completes, chats=True)
        self._sum = await sum_answer(self.calls, self.can, _END_TOKENS)
        if self._sum[1] is None:
            self._sum, self.can = None, replace(self.can, chats=False)
        if not completes and not self.can.chats:
            raise Refused("it neither completes prompts nor chats")

    async def logprobs(self) -> None:
        """Which further parameters it takes, and how many likeliest tokens it tells."""
        choice, known = None, dict(EXTRAS)
        tops: tuple[int, ...] = _TOPS
        if self.can.tokenizes:
            del known["repeat_penalty"]  # vLLM complains of it in its log
            tops = _TOPS_OF_VLLM
        for top in tops:
            if (choice := await self._first_choice(top=top, max_tokens=2)) is not None:
                break
        if choice is not None and choice.unsound:
            self.can = replace(self.can, unsound=choice.unsound)
        elif choice is not None and choice.logprobs is not None:
            told = min(map(len, choice.tops or ()), default=0)
            self.can = replace(self.can, logprobs=min(top, told))
        # A server that refuses what it does not know has no other values of it by itself.
        for taken in (known, {"top_k": 0}):
            if await self._complete(**taken) is not None:
                self.can = replace(self.can, extras=frozenset(taken))
                return

    async def sampling(self) -> None:
        """Whether it draws several samples at once, and whether it heeds `top_k`."""
        self._hot = await self._drawn(**self._narrow, **_HOT, seed=3, n=3)
        draws_several = len(self._hot) > 1
        narrowest: list[Choice] = []
        if "top_k" in self.can.extras:
            narrowest = await self._drawn(**_HOT, seed=1, n=1 + draws_several, top_k=1)
        heeds_top_k = {one.text for one in narrowest} == {self._greedy[0].text}
        self.can = replace(self.can, draws_several=draws_several, heeds_top_k=heeds_top_k)

    async def raw_logprobs(self) -> None:
        """Whether log-probs are those of the untouched distribution: of answers, of samples.

        The first token's are compared: at temperature 1 without truncation they are so anywhere.
        """
        if self.can.logprobs is None:
            return
        narrow = self._narrow | {"temperature": 1.0}
        whole = dict(narrow)
        if "top_k" in whole:
            whole["top_k"] = 0
        reference = await self._first_logprobs(whole)
        cuts_nothing = bool(reference) and narrow == whole
        hot = _first(self._hot) if self.can.logprobs else {}
        hot = hot or await self._first_logprobs({**self._narrow, **_HOT})
        raw_samples: RawLogprobs = "never"
        if _agree(reference, hot):
            raw_samples = "always"
        elif cuts_nothing or _agree(reference, await self._first_logprobs(narrow)):
            raw_samples = "at_temperature_one"
        raw_greedy = _agree(reference, _first(self._greedy[:1]))
        self.can = replace(self.can, raw_greedy=raw_greedy, raw_samples=raw_samples)

    async def rest(self) -> None:
        """How it scores a given text, tells chosen ids, ends an answer; whether it has a plugin."""
        can, prompt = self.can, self.prompt
        scoring: Scoring = "none"
        tells_prompts = tells_chosen_ids = False
        if can.tells_logprobs and prompt.ids is not None:
            tells_prompts, tells_chosen_ids = await self._tells_of_ids(prompt.ids)
        if tells_prompts:
            scoring = "prompt_logprobs"
        elif can.tells_logprobs and prompt.ids is None and can.completes and await self._echoes():
            scoring = "echo"
        self.can = replace(can, tag_ids=await read_tag_ids(self.calls, can, prompt))
        asked, free = self._sum or await sum_answer(self.calls, self.can, _END_TOKENS)
        eos_id: int | None = None
        no_reasoning_limit: str | None = NO_REASONING
        if free is not None:
            eos_id = await self._eos_id(free)
            if await reasoning_of(self.calls, self.can, asked, free) is not None:
                no_reasoning_limit = None
        self.can = replace(
            self.can,
            scoring=scoring,
            tells_chosen_ids=tells_chosen_ids,
            eos_id=eos_id,
            no_reasoning_limit=no_reasoning_limit,
        )
        self.can = replace(self.can, columns=await read_columns(self.calls, self.can, prompt))

    async def _greedy_answers(self) -> list[Choice]:
        """Greedy answers to the fixed prompts: by one call where the server takes token ids."""
        if not self.can.tokenizes:
            return [await self._answer(prompt, _FINGERPRINT_TOKENS) for prompt in self._fixed]
        body = self._body(self._fixed[0], _FINGERPRINT_TOKENS)
        body["prompt"] = [list(prompt.ids or ()) for prompt in self._fixed]
        return read_choices(await self.calls.post(COMPLETIONS, body), len(self._fixed))

    def _look_at_greedy(self) -> None:
        """Read no log-probs of a server whose greedy answers have none that can be."""
        told = [choice.logprobs for choice in self._greedy if choice.logprobs is not None]
        reasons = [choice.unsound for choice in self._greedy if choice.unsound]
        if told and not any(logprobs.any() for logprobs in told):
            reasons.append(ALL_ZERO)
        if reasons:
            self.can = replace(self.can, logprobs=None, unsound=reasons[0])

    async def _answer(self, prompt: Prompt, max_tokens: int) -> Choice:
        """A greedy answer, with log-probs where it tells them."""
        body = self._body(prompt, max_tokens)
        return read_choices(await self.calls.post(prompt.path, body), 1)[0]

    def _body(self, prompt: Prompt, max_tokens: int) -> dict[str, Any]:
        top = None
        if self.can.logprobs is not None:
            top = min(self.can.logprobs, 1)
        return completion(self.can, prompt, max_tokens=max_tokens, top=top)

    async def _tells_of_ids(self, ids: tuple[int, ...]) -> tuple[bool, bool]:
        """Whether it tells log-probs of a prompt, and of ids that a request names."""
        wanted = sorted(set(ids))[-2:]
        reply = await self._complete(top=1, prompt_logprobs=0, logprob_token_ids=wanted)
        if not is_answer(reply):
            return False, False
        told, tops = reply["choices"][0].get("prompt_logprobs"), read_choices(reply, 1)[0].tops
        names = {f"token_id:{one}" for one in wanted}
        tells_chosen = tops is not None and names <= tops[0].keys()
        return bool(told) and len(told) == len(ids), tells_chosen

    async def _echoes(self) -> bool:
        reply = await self._complete(top=self.can.logprobs, echo=True)
        if reply is None:
            return False
        choice, text = reply["choices"][0], self.prompt.text or ""
        tokens = "".join((choice.get("logprobs") or {}).get("tokens") or ())
        return str(choice.get("text", "")).startswith(text) and len(tokens) >= len(text)

    async def _eos_id(self, free: Choice) -> int | None:
        """The id that ends answers, as this answer, or one of a few, ends in it."""
        if not self.can.tokenizes:
            return None
        if free.ended_by_eos and free.token_ids:
            return free.token_ids[-1]
        requests = list(map(GenerationRequest, _PROMPTS))
        if self.can.chats:  # which most models end soonest
            requests.insert(0, GenerationRequest(messages=(_SHORT,)))
        # A reasoning may take longer than these few tokens, and is closed at once then.
        for closed in ((), *((one.start, *one.end) for one in self.can.tag_ids)):
            for request in requests:
                prompt = await render(self.calls, self.can, request)
                prompt = replace(prompt, ids=(*(prompt.ids or ()), *closed))
                choice = await self._answer(prompt, _END_TOKENS)
                if choice.ended_by_eos and choice.token_ids:
                    return choice.token_ids[-1]
        return None

    async def _first_logprobs(self, law: Mapping[str, Any]) -> dict[str, float]:
        """Log-probs of first tokens by their names, as far as a few draws tell them."""
        seeds = (1,) if self.can.logprobs else (1, 2, 3, 4)  # each draw tells the same likeliest
        drawn = []
        for seed in seeds:
            drawn += await self._drawn(1, **law, seed=seed)
        return _first(drawn)

    async def _drawn(self, max_tokens: int = _FINGERPRINT_TOKENS, **law: Any) -> list[Choice]:
        """What it answers under a law, with likeliest tokens; none where it takes no such body."""
        top = None if self.can.logprobs is None else min(self.can.logprobs, 5)
        reply = await self._complete(max_tokens=max_tokens, top=top, **law)
        return read_choices(reply, len(reply["choices"])) if is_answer(reply) else []

    @property
    def _narrow(self) -> dict[str, Any]:
        """The law under which two tokens may be drawn, where it takes `top_k`."""
        law: dict[str, Any] = {"top_p": 1.0}
        if "top_k" in self.can.extras:
            law["top_k"] = 2
        return law

    async def _first_choice(self, **options: Any) -> Choice | None:
        reply = await self._complete(**options)
        return None if reply is None else read_choices(reply, 1)[0]

    async def _complete(self, *, max_tokens: int = 1, top: int | None = None, **more: Any) -> Any:
        """What it answers to the prompt; None where it does not take such a body."""
        body = completion(self.can, self.prompt, max_tokens=max_tokens, top=top)
        return await self.calls.attempt(self.prompt.path, body | more)

    async def _token_ids(self, body: Mapping[str, Any]) -> tuple[int, ...]:
        """Ids of a prompt; none where it does not tokenize."""
        reply = await self.calls.attempt("/tokenize", body)
        try:
            return token_ids(reply)
        except Unreachable:
            return ()


def _first(choices: list[Choice]) -> dict[str, float]:
    """Log-probs of first tokens by their names."""
    found: dict[str, float] = {}
    for choice in choices:
        found |= (choice.tops or ({},))[0]
        if choice.tokens and choice.logprobs is not None:
            found[choice.tokens[0]] = float(choice.logprobs[0])
    return found


def _agree(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    """Whether the log-probs that both know are the same; where they share none, they are not."""
    shared = one.keys() & other.keys()
    return bool(shared) and all(math.isclose(one[n], other[n], abs_tol=_NOISE) for n in shared)
