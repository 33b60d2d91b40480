"""A generator that shows the hidden states behind its answers, whatever is asked of it."""

import uuid
from collections.abc import Sequence
from dataclasses import replace

from app.scoring.scorer import Scorer
from models.records import Generation, GenerationRequest, OnToken, RawPrompt, Tokenized
from workers.protocol import FirstTokenReply, Generator


class ShowingGenerator:
    """A generator with mean hidden states of its answers, or of each of their sentences.

    Its identity is its own, so that what comes with states is never cached.
    """

    def __init__(self, shown: Generator, layers: tuple[int, ...], *, by_sentence: bool) -> None:
        self.info = replace(shown.info, identity=uuid.uuid4().hex)
        self.run, self.warm_up, self.close = shown.run, shown.warm_up, shown.close
        self._shown = shown
        self._layers = layers
        self._by_sentence = by_sentence

    @property
    def busy_since(self) -> float | None:
        return self._shown.busy_since

    @property
    def num_waiting(self) -> int:
        return self._shown.num_waiting

    async def generate(
        self, request: GenerationRequest, on_token: OnToken | None = None
    ) -> Generation:
        """As the generator itself, with the states."""
        asked = replace(request, hidden_layers=self._layers, by_sentence=self._by_sentence)
        return await self._shown.generate(asked, on_token)

    async def first_token_logprobs(
        self, request: GenerationRequest, groups: Sequence[Sequence[str]]
    ) -> FirstTokenReply:
        """As the generator itself."""
        return await self._shown.first_token_logprobs(request, groups)

    async def tokenize(self, prompt: RawPrompt, *, special: bool = True) -> Tokenized:
        """As the generator itself."""
        return await self._shown.tokenize(prompt, special=special)


def showing(scorer: Scorer, layers: tuple[int, ...], *, by_sentence: bool) -> Scorer:
    """The scorer with these blocks' mean hidden states in each generation."""
    generator = ShowingGenerator(scorer.workers.generator, layers, by_sentence=by_sentence)
    return replace(scorer, workers=replace(scorer.workers, generator=generator))
