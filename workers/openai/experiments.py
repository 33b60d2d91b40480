"""Small requests that show what a server really does, whatever it says of itself."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import httpx

from models.records import GenerationRequest
from workers.calls import Calls, Failed
from workers.client import Refused, Unreachable
from workers.openai.capabilities import Capabilities, Fingerprint, RawLogprobs, Scoring
from workers.openai.columns import read_columns
from workers.openai.formats import no_grammar, no_lark
from workers.openai.images import no_images
from workers.openai.limiting import no_reasoning_limit, sum_answer
from workers.openai.prompts import render, token_ids
from workers.openai.replies import Choice, read_choices
from workers.openai.requests import EXTRAS, Prompt, completion
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
# How many likeliest tokens to ask for, as servers have limits of their own.
_TOPS: Sequence[int] = (100, 20, 10, 5, 4, 2, 1, 0)
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

    def __init__(self, client: httpx.AsyncClient, can: Capabilities) -> None:
        self.calls = Calls(client, can.model_id, is_trial=True)
        self.can = can
        self.prompt = Prompt()
        self._greedy: list[Choice] = []
        self._hot: list[Choice] = []

    async def set_first_prompt(self) -> None:
        await self.set_prompt(_PROMPTS[0])

    async def set_prompt(self, text: str) -> None:
        self.prompt = await render(self.calls, self.can, GenerationRequest(text))

    async def fingerprint(self) -> Fingerprint:
        texts, means, prompts = [], [], []
        for text in _PROMPTS:
            await self.set_prompt(text)
            prompts.append(self.prompt)
        for choice in await self._greedy_answers(prompts, _FINGERPRINT_TOKENS):
            texts.append(choice.text)
            mean = None
            if choice.logprobs is not None and len(choice.logprobs):
                mean = float(choice.logprobs.mean())
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
        completes = _is_answer(await self._complete())
        self.prompt = Prompt(messages=(message,))
        chats = _is_answer(await self._complete())
        if not completes and not chats:
            raise Refused("it neither completes prompts nor chats")
        self.can = replace(self.can, completes=completes, chats=chats)

    async def logprobs(self) -> None:
        """Which further parameters it takes, and how many likeliest tokens it tells."""
        known: dict[str, Any] = dict(EXTRAS)
        tops = _TOPS
        if self.can.tokenizes:
            del known["repeat_penalty"]  # vLLM complains of it in its log
            tops = _TOPS[1:]  # what more would tell is asked by ids
        accepted = set(known)
        choice = await self._first_choice(top=tops[0], max_tokens=2, **known)
        if choice is None and await self._complete(**known) is None:
            accepted = {name for name in known if await self._complete(**{name: known[name]})}
        self.can = replace(self.can, extras=frozenset(accepted))
        for top in tops:
            if choice is None:
                choice = await self._first_choice(top=top, max_tokens=2)
            if choice is not None and choice.logprobs is not None:
                told = min(map(len, choice.tops or ()), default=0)
                self.can = replace(self.can, logprobs=min(top, told))
                return
            choice = None

    async def sampling(self) -> None:
        """Whether it draws several samples at once, and what it heeds of how they are drawn."""
        self._greedy = await self._drawn(temperature=0.0)
        self._hot = await self._drawn(**self._narrow, **_HOT, seed=3, n=3)
        several = _texts(self._hot)
        if len(set(several)) > 1:
            heeds_seed = _texts(await self._drawn(**self._narrow, **_HOT, seed=3, n=3)) == several
        else:
            one, again, *others = [_texts(await self._drawn(**_HOT, seed=i)) for i in (3, 3, 4, 5)]
            heeds_seed = bool(one) and one == again and any(other != one for other in others)
        narrowest: list[str] = []
        if "top_k" in self.can.extras:
            narrowest = _texts(await self._drawn(**_HOT, seed=1, n=2, top_k=1))
            if len(narrowest) == 1:
                narrowest += _texts(await self._drawn(**_HOT, seed=2, top_k=1))
        self.can = replace(
            self.can,
            draws_several=len(several) > 1,
            heeds_top_k=narrowest == 2 * _texts(self._greedy),
            heeds_seed=heeds_seed,
        )

    async def raw_logprobs(self) -> None:
        """Whether log-probs are those of the untouched distribution: of answers, of samples.

        The first token's are compared: at temperature 1 without truncation they are so anywhere.
        """
        if self.can.logprobs is None:
            return
        whole = self._narrow | {"temperature": 1.0}
        if "top_k" in whole:
            whole["top_k"] = 0
        reference = await self._first_logprobs(whole)
        hot = _first(self._hot) if self.can.logprobs else {}
        hot = hot or await self._first_logprobs({**self._narrow, **_HOT})
        raw_samples: RawLogprobs = "never"
        if _agree(reference, hot):
            raw_samples = "always"
        elif _agree(reference, await self._first_logprobs(self._narrow | {"temperature": 1.0})):
            raw_samples = "at_temperature_one"
        raw_greedy = _agree(reference, _first(self._greedy))
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
        asked, free = await sum_answer(self.calls, self.can, _END_TOKENS)
        eos_id = await self._eos_id(free)
        can = replace(self.can, scoring=scoring, tells_chosen_ids=tells_chosen_ids, eos_id=eos_id)
        self.can = replace(
            can, no_reasoning_limit=await no_reasoning_limit(self.calls, can, asked, free)
        )
        self.can = replace(self.can, no_grammar=await no_grammar(self.calls, self.can))
        self.can = replace(self.can, no_lark=await no_lark(self.calls, self.can))
        self.can = replace(self.can, no_images=await no_images(self.calls, self.can))
        self.can = replace(self.can, columns=await read_columns(self.calls, self.can, prompt))
        self.prompt = prompt

    async def greedy(self, max_tokens: int) -> Choice:
        """A greedy answer, with log-probs where it tells them."""
        top = None
        if self.can.logprobs is not None:
            top = min(self.can.logprobs, 1)
        body = completion(self.can, self.prompt, max_tokens=max_tokens, top=top)
        return read_choices(await self.calls.post(self.prompt.path, body), 1)[0]

    async def _greedy_answers(self, prompts: list[Prompt], max_tokens: int) -> list[Choice]:
        """Greedy answers to several prompts: by one call where the server takes token ids."""
        if self.can.tokenizes:
            self.prompt = prompts[0]
            top = None if self.can.logprobs is None else min(self.can.logprobs, 1)
            body = completion(self.can, self.prompt, max_tokens=max_tokens, top=top)
            body["prompt"] = [list(prompt.ids or ()) for prompt in prompts]
            return read_choices(await self.calls.post(self.prompt.path, body), len(prompts))
        answers = []
        for self.prompt in prompts:
            answers.append(await self.greedy(max_tokens))
        return answers

    async def _tells_of_ids(self, ids: tuple[int, ...]) -> tuple[bool, bool]:
        """Whether it tells log-probs of a prompt, and of ids that a request names."""
        wanted = sorted(set(ids))[-2:]
        reply = await self._complete(top=1, prompt_logprobs=0, logprob_token_ids=wanted)
        if not _is_answer(reply):
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
                self.prompt = replace(prompt, ids=(*(prompt.ids or ()), *closed))
                choice = await self.greedy(_END_TOKENS)
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

    async def _drawn(self, max_tokens: int = 8, **law: Any) -> list[Choice]:
        """What it answers under a law, with likeliest tokens; none where it takes no such body."""
        top = None if self.can.logprobs is None else min(self.can.logprobs, 5)
        reply = await self._complete(max_tokens=max_tokens, top=top, **law)
        return read_choices(reply, len(reply["choices"])) if _is_answer(reply) else []

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
        return await self._post(self.prompt.path, body | more)

    async def _token_ids(self, body: Mapping[str, Any]) -> tuple[int, ...]:
        """Ids of a prompt; none where it does not tokenize."""
        reply = await self._post("/tokenize", body)
        try:
            return token_ids(reply)
        except Unreachable:
            return ()

    async def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        """What a POST answers; None where the server does not take such a body, or fails on it."""
        try:
            return await self.calls.try_post(path, body)
        except Failed:
            return None


def _first(choices: list[Choice]) -> dict[str, float]:
    """Log-probs of first tokens by their names."""
    found: dict[str, float] = {}
    for choice in choices:
        found |= (choice.tops or ({},))[0]
        if choice.tokens and choice.logprobs is not None:
            found[choice.tokens[0]] = float(choice.logprobs[0])
    return found


def _texts(choices: list[Choice]) -> list[str]:
    return [choice.text for choice in choices]


def _agree(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    """Whether the log-probs that both know are the same; where they share none, they are not."""
    shared = one.keys() & other.keys()
    return bool(shared) and all(math.isclose(one[n], other[n], abs_tol=_NOISE) for n in shared)


def _is_answer(reply: Any) -> bool:
    return isinstance(reply, Mapping) and bool(reply.get("choices"))
