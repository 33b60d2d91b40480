"""The similarity function "llm": the language model itself judges whether two answers say the same.

Each ordered pair is one prefill, and the probability of yes against no is the score.
"""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace

from app.scoring.ask import Ask
from app.scoring.questions import log_share, own_question, questions_of
from models.digests import digest_of
from models.errors import InvalidRequest, PromptTooLong, SimilarityUnavailable
from models.records import Pair
from models.similarity import BY_MODEL
from models.similarity.protocol import ContextAndText
from workers.calling import together
from workers.protocol import ComparerInfo, Generator, PairReply, PairScore, PairScorer

_YES = ("Yes", " Yes", "yes", " yes", "YES")
_NO = ("No", " No", "no", " no", "NO")
# Questions of one ask at the same time: the others of a batch need their turn, too.
_ABREAST = 4
# The last characters of a question, which decide what it asks.
_MAX_CHARACTERS = 2_000
# For the charge: the tokens of such a question are not counted.
_CHARACTERS_A_TOKEN = 4


class ModelComparer:
    """A `PairScorer` of the answers to one ask; its questions are chats where the ask is one.

    Args:
        info: that of `Models`; the identity by which scores are cached covers the question, too.
    """

    def __init__(self, generator: Generator, info: ComparerInfo, ask: Ask) -> None:
        self._generator, self._ask = generator, ask
        self._question = "\n".join(questions_of(ask))[-_MAX_CHARACTERS:]
        self.info = replace(info, identity=self._identity(info.identity))

    async def compare(self, pairs: Sequence[Pair]) -> PairReply:
        """Scores of the distinct pairs, charged to the caller by their characters.

        Raises:
            InvalidRequest: the question and two answers exceed the model's context.
            SimilarityUnavailable: the model says neither yes nor no.
            CocoaError: see `Generator.first_token_logprobs`.
        """
        turns, identities = asyncio.Semaphore(_ABREAST), set[str]()

        async def in_turn(pair: Pair) -> PairScore:
            async with turns:
                return await self._score(pair, identities)

        scores = await together(*map(in_turn, pairs))
        identity = self._identity(*(f"{BY_MODEL} {name}" for name in sorted(identities)))
        return PairReply(dict(zip(pairs, scores, strict=True)), identity)

    async def fit_contexts(self, texts: Sequence[ContextAndText]) -> list[str]:
        """The contexts as they are: `check` refuses what would compare tokens by this function."""
        return [context for context, _ in texts]

    def _identity(self, *identities: str) -> str:
        return digest_of(*identities, self._question, self._ask.messages is None)

    async def _score(self, pair: Pair, identities: set[str]) -> PairScore:
        first, second = pair
        question = (
            f"Question: {self._question}\nFirst answer: {first}\nSecond answer: {second}\n"
            "Do both answers say the same? Reply with yes or no.\nReply:"
        )
        self._ask.caller.charge(len(question) // _CHARACTERS_A_TOKEN)
        request = own_question(self._ask, question, max_tokens=1)
        try:
            reply = await self._generator.first_token_logprobs(request, (_YES, _NO))
        except PromptTooLong:
            message = "is llm, and two answers with their question exceed the model's context"
            raise InvalidRequest(message, field="similarity") from None
        identities.add(reply.identity)
        # A word without a log-prob is none of the likeliest tokens that a server returns.
        yes, no = (-math.inf if logprob is None else logprob for logprob in reply.logprobs)
        if (share := log_share(yes, no)) is None:
            raise SimilarityUnavailable("the language model says neither yes nor no")
        return (math.exp(share),), False


_: type[PairScorer] = ModelComparer  # mypy holds the class to its protocol
