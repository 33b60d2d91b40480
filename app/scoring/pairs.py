"""Scores of pairs for one ask: each computed at most once, over a shared memory."""

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import chain, filterfalse

from app.scoring.ask import Ask
from app.scoring.check import check_pairs
from app.scoring.deployment import UNBOUNDED, AskLimits
from app.scoring.entries import decode_pair, digest, pair_name
from app.scoring.memory import Memory
from app.scoring.observer import Observer
from app.scoring.questions import questions_of
from models.codec import to_json
from models.errors import SimilarityUnavailable
from models.records import Pair
from models.similarity.pairs import PairTable
from models.units.steps import WorkBudget
from workers.protocol import PairScore, SimilarityScorer


@dataclass(eq=False)
class PairScores:
    """Scores of pairs by one similarity scorer, for one ask.

    Attributes:
        info: of the similarity scorer at the start of the ask.
        is_current: every reply came from these weights, so that it may be stored.
        num_tokens: of texts, as far as they are known without counting.
        memory: holds scores of earlier asks; None where none may serve.
        steps: that comparing texts by rules may take.
        token_ends: of the similarity scorer's tokens, where what it reads is charged to the
            caller; None charges nothing.
    """

    similarity_scorer: SimilarityScorer
    ask: Ask
    memory: Memory | None
    observer: Observer
    limits: AskLimits = UNBOUNDED
    steps: WorkBudget = field(default_factory=WorkBudget)
    token_ends: Callable[[Sequence[str]], Awaitable[list[list[int]]]] | None = None

    def __post_init__(self) -> None:
        self.info = self.similarity_scorer.info
        self.is_current = True
        self.num_tokens: dict[str, int] = {}
        if self.info.revision is None:
            self.memory = None  # a function without weights costs less than looking its scores up
        self._values: dict[Pair, tuple[float, ...]] = {}
        self._is_cut = False
        # A text is in many pairs, and hashed once.
        self._digest = cache(digest)

    @cached_property
    def _known(self) -> PairTable:
        """The scores that are known, and the rules that score pairs without them."""
        rules = self.info.rules.for_texts(questions_of(self.ask), self.steps)
        return PairTable(self.info.labels, self._values, rules)

    def read_by(self, work: Callable[[PairTable], object]) -> list[Pair]:
        """The pairs whose scores some work reads, each once; see `PairTable.noting`."""
        table = PairTable.noting(self.info.labels, self._known.rules)
        work(table)
        return list(table.scores)

    async def table(self, pairs: Sequence[Pair]) -> PairTable:
        """Scores of these pairs and of all that were requested before.

        Raises:
            InvalidRequest: there are more than an ask may have.
            SimilarityUnavailable: the model failed on one of these pairs, or was replaced by
                another one in the middle of the ask.
            NotReady: the model has stopped.
        """
        check_pairs(self.ask, len(pairs), self.limits)
        missing = list(filterfalse(self._values.__contains__, dict.fromkeys(pairs)))
        names: dict[Pair, str] = {}
        if missing and self.memory is not None:
            namespace, identity = self.ask.caller.namespace, self.info.identity
            for pair in missing:
                names[pair] = pair_name(namespace, identity, *map(self._digest, pair))
            decode = partial(decode_pair, num_labels=len(self.info.labels))
            stored = await self.memory.get_many(list(names.values()), decode)
            for pair, score in zip(names, stored, strict=True):
                if score is not None:
                    self._keep(pair, score)
            missing = list(filterfalse(self._values.__contains__, missing))
            self.observer.observe_one("pairs", "asked", by=len(names))
            self.observer.observe_one("pairs", "cached", by=len(names) - len(missing))
        if missing:
            reply = await self.similarity_scorer.compare(missing)
            await self._charge(missing)
            if reply.identity != self.info.identity:
                self.is_current = False
                if self._values:  # of other weights: scores of two models must not be mixed
                    message = "the similarity model was replaced; repeat the request"
                    raise SimilarityUnavailable(message)
            elif self.memory is not None:
                scores = reply.scores.items()
                self.memory.put({names[pair]: to_json(score) for pair, score in scores})
            for pair in missing:
                self._keep(pair, reply.scores[pair])
        return replace(self._known, truncated=self._is_cut)

    def _keep(self, pair: Pair, score: PairScore) -> None:
        self._values[pair], was_cut = score
        self._is_cut |= was_cut

    async def _charge(self, pairs: Sequence[Pair]) -> None:
        """Charge the caller the tokens that the similarity scorer has read, if any are charged."""
        if self.token_ends is None:
            return
        texts = dict.fromkeys(chain.from_iterable(pairs))
        uncounted = [text for text in texts if text not in self.num_tokens]
        for text, ends in zip(uncounted, await self.token_ends(uncounted), strict=True):
            self.num_tokens[text] = len(ends)
        most = self.info.max_pair_tokens or math.inf  # longer pairs are cut
        read = [min(most, self.num_tokens[a] + self.num_tokens[b]) for a, b in pairs]
        self.ask.caller.charge(int(sum(read)))
