"""Reasonings before answers, in whole replies and in streams, whose tokens are told as they come.

A server tells a reasoning in its text, apart from it in a message, or not at all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from models import records
from models.engines.texts import behind, num_stable, tags_in
from models.records import DEFAULT_NEW_TOKENS, GenerationRequest, Token
from models.statistics import Source, fields_of
from models.units.reasoning import KNOWN_TAGS, Reasoning, part
from workers.calling import Listener
from workers.client import Unreachable
from workers.openai.found import TagIds
from workers.openai.replies import (
    ENTROPY_COLUMN,
    TOO_MANY,
    Choice,
    likeliest,
    read_choices,
    reasoning_in,
    sentinel,
)

_ENDS = tuple(tags.end for tags in KNOWN_TAGS)
_LONGEST_END = max(map(len, _ENDS))
_NO_SENSE = "its answer makes no sense"


def merged(events: Sequence[Any]) -> dict[str, Any]:
    """One reply of all events of a stream, as if it had come at once.

    Raises:
        Unreachable: they make no sense.
    """
    choices: dict[int, dict[str, Any]] = {}
    rest: dict[str, Any] = {}
    try:
        for event in events:
            if event.get("usage"):
                rest["usage"] = event["usage"]
            for piece in event.get("choices") or ():
                index = piece.get("index", 0)
                _add(choices.setdefault(index, {"index": index, "logprobs": None}), piece)
    except (AttributeError, TypeError, ValueError):
        raise Unreachable(_NO_SENSE) from None
    return rest | {"choices": list(choices.values())}


def _add(choice: dict[str, Any], piece: Mapping[str, Any]) -> None:
    """Add what one event says of a choice to what is known of it."""
    if "delta" in piece:
        message = choice.setdefault("message", {"content": ""})
        message["content"] += piece["delta"].get("content") or ""
        if calls := piece["delta"].get("tool_calls"):
            _add_calls(message.setdefault("tool_calls", []), calls)
        told = {"refusal": piece["delta"].get("refusal"), "reasoning": reasoning_in(piece["delta"])}
        for name, more in told.items():
            if more:
                message[name] = message.get(name, "") + more
    else:
        choice["text"] = choice.get("text", "") + (piece.get("text") or "")
    if piece.get("token_ids") is not None:
        choice["token_ids"] = [*choice.get("token_ids", ()), *piece["token_ids"]]
    for name, values in (piece.get("logprobs") or {}).items():
        if values:
            known = choice["logprobs"] or {}
            choice["logprobs"] = known | {name: [*known.get(name, ()), *values]}
    for name in ("finish_reason", "stop_reason"):
        if piece.get(name) is not None:
            choice[name] = piece[name]


def _add_calls(calls: list[dict[str, Any]], pieces: Sequence[Mapping[str, Any]]) -> None:
    """Add what one event of a stream says of calls to what is known of them.

    Raises:
        ValueError: a call is skipped; its number may be any.
    """
    for piece in pieces:
        index = piece.get("index", len(calls))
        if not 0 <= index <= len(calls):
            raise ValueError("calls are not told one after another")
        if index == len(calls):
            calls.append({"function": {"name": "", "arguments": ""}})
        for name, value in (piece.get("function") or {}).items():
            calls[index]["function"][name] = calls[index]["function"].get(name, "") + (value or "")


class Teller:
    """Hears the events of a stream, and tells the tokens of one of its choices.

    Args:
        request: says what is wanted of each token.
        index: of the choice.
        listener: told each of its tokens.
        opened: whether the prompt ended in the tag that begins a reasoning.
        tag_ids: of reasonings, as far as the server's tokenizer has tokens for them.
    """

    def __init__(
        self,
        request: GenerationRequest,
        index: int,
        listener: Listener,
        *,
        opened: bool,
        tag_ids: Sequence[TagIds] = (),
    ) -> None:
        self._index = index
        self._listener = listener
        self._opened = opened
        self._tag_ids = tag_ids
        self._has_stop = bool(request.sampling.stop)
        # What was heard while the answer has not begun: its tokens, and what is known of each.
        self._held: list[Token] = []
        self._ids: list[int] = []
        self._shown: list[str] = []
        self._has_begun = False
        # Whether the server tells a reasoning apart from its answer.
        self._is_apart = False
        # Whether all is told at the end, as nobody knows yet which tokens are the answer's.
        self._is_silent = False
        # What the tokens of the reasoning held of the answer's text.
        self._lead = ""
        self._num_left = (request.sampling.max_new_tokens or DEFAULT_NEW_TOKENS) + 1
        source: Source = "samples" if request.streamed else "answer"
        self._num_tops = request.num_tops_of(request.streamed)
        self._wanted = fields_of(request.statistics, source)

    def hear(self, event: Mapping[str, Any]) -> None:
        """Tell the tokens of an event.

        Raises:
            Unreachable: it makes no sense, or brings more tokens than were asked for.
        """
        try:
            for piece in event.get("choices") or ():
                if piece.get("index", 0) == self._index:
                    self._hear_piece(piece)
        except (AttributeError, TypeError):
            raise Unreachable(_NO_SENSE) from None
        if not (self._has_begun or self._is_silent):
            self._look_for_answer()

    def _hear_piece(self, piece: Mapping[str, Any]) -> None:
        whole = {**piece, "finish_reason": piece.get("finish_reason") or "length"}
        if "delta" in piece:
            delta = {**piece["delta"], "tool_calls": None}  # calls are told when they are whole
            whole["message"] = delta
            if thoughts := reasoning_in(delta):
                self._is_apart = True
                self._listener.tell(Token("", reasoning=thoughts))
        [choice] = read_choices({"choices": [whole]}, 1)
        num_tokens = choice.num_tokens
        if num_tokens is None:
            num_tokens = min(len(choice.text), 1)
        self._num_left -= num_tokens
        if self._num_left < 0:
            raise Unreachable(TOO_MANY)
        if not self._has_begun:
            self._ids += choice.token_ids or ()
            if "delta" in piece:
                self._shown += choice.tokens or ()
        logprobs = tops = None
        if not choice.unsound and "token_logprobs" in self._wanted:
            logprobs = choice.logprobs
        if not choice.unsound and self._num_tops:
            tops = likeliest(choice, self._num_tops)
        text = choice.text
        for i in range(num_tokens):
            logprob = None if logprobs is None else float(logprobs[i])
            entropy = None
            if choice.tops is not None and "token_entropies" in self._wanted:
                entropy = choice.tops[i].get(sentinel(ENTROPY_COLUMN))
            if entropy is not None:
                entropy = max(entropy, 0.0)
            # What becomes certain with several tokens at once comes with the first of them.
            self._hear_token(Token(text, logprob, entropy, tops=tops[i] if tops else ()))
            text = ""

    def _hear_token(self, token: Token) -> None:
        """Tell a token of the answer; hold those that may be of a reasoning until its end."""
        if self._has_begun:
            self._listener.tell(replace(token, text=self._lead + token.text))
            self._lead = ""
        elif not self._is_silent:
            self._held.append(token)

    def _look_for_answer(self) -> None:
        """Tell what is held once it is certain what it is."""
        text = "".join(token.text for token in self._held)
        tags = tags_in(text, opened=self._opened)
        found = part([text], tags, opened=self._opened)
        if self._is_apart:
            if (first := self._first()) is not None:
                self._begin(first, text)
        elif found.state == "finished":
            first = self._first()
            self._is_silent = first is None and self._has_stop
            if not self._is_silent:
                self._tell_thoughts(found.text or "")
                self._begin(len(self._held) if first is None else first, found.answer)
        elif found.text is not None:
            if not any(tags.inner):
                self._tell_thoughts(_certain(found.text))
        elif text.strip() and not _may_reason(text.lstrip()):
            self._begin(0, text)

    def _tell_thoughts(self, thoughts: str) -> None:
        """Tell what is new of a reasoning, of which this much is certain."""
        if new := thoughts[self._listener.num_thoughts :]:
            self._listener.tell(Token("", reasoning=new))

    def _begin(self, first: int, text: str) -> None:
        """Tell the tokens held from the answer's first one on, which have its text."""
        self._has_begun = True
        behind = self._held[first:]
        if "".join(token.text for token in behind) != text:
            self._lead, behind = text, [replace(token, text="") for token in behind]
        for token in behind:
            self._hear_token(token)

    def _first(self) -> int | None:
        """Index of the answer's first token; None where it has not come, or nobody knows it."""
        first = first_of_answer(self._ids, self._shown, self._tag_ids, opened=True)
        if first is None and self._is_apart and self._held and not self._shown:
            return 0  # of tokens without texts, such a chat has held the answer's alone
        return first


def _may_reason(text: str) -> bool:
    """Whether a text that has no start tag yet may begin with one."""
    return any(one.start.startswith(text) for one in KNOWN_TAGS)


def _certain(thoughts: str) -> str:
    """The thoughts that no later token can change: their end may be the beginning of an end tag."""
    end = thoughts[-_LONGEST_END:]
    return thoughts[: len(thoughts) - len(end) + num_stable(end, _ENDS)].rstrip()


def behind_reasoning(
    sequence: records.Sequence,
    choice: Choice,
    texts: tuple[str, ...] | None,
    *,
    opened: bool,
    tag_ids: Sequence[TagIds] = (),
) -> records.Sequence:
    """The answer of a choice, with the reasoning before it apart.

    Args:
        sequence: record of the choice, with the statistics of all its tokens.
        choice: as the server tells it; one that parts the two itself tells log-probs of both.
        texts: (T,) of its tokens; None where they are not known.
        opened: whether the prompt ended in the tag that begins a reasoning.
        tag_ids: by which the tokens of a reasoning are known without their texts.
    """
    choice = _with_thoughts(choice, opened=opened)
    found = _parted(choice, opened=opened)
    num_tokens, first = choice.num_tokens, choice.num_tokens
    is_finished = bool(choice.text) or choice.finish_reason == "stop"
    thoughts, answer = choice.reasoning, choice.text
    if thoughts is not None:
        texts, opened = choice.tokens, True
    elif found.text is not None:
        thoughts, answer, is_finished = found.text, found.answer, found.state == "finished"
    elif choice.num_hidden:  # log-probs are the answer's own where their tokens are its text
        first = 0 if texts else None
    else:
        return replace(sequence, token_texts=texts)
    if is_finished and thoughts is not None:
        first = first_of_answer(choice.token_ids or (), texts or (), tag_ids, opened=opened)
    if first is not None and num_tokens is not None:
        is_finished = first < num_tokens
    num_thoughts = first or choice.num_hidden
    reasoning = records.Reasoning((thoughts or "").strip(), num_thoughts, is_finished)
    if num_tokens is None:
        sequence = replace(sequence, num_tokens=max(0, sequence.num_tokens - choice.num_hidden))
    sequence = behind(replace(sequence, token_texts=texts), reasoning, answer, first)
    return replace(sequence, token_texts=_without_end(sequence))


def needs_texts(choice: Choice, tag_ids: Sequence[TagIds], *, opened: bool) -> bool:
    """Whether only the texts of its tokens tell where the reasoning of a choice ends."""
    is_reasoned = _parted(choice, opened=opened).state == "finished"
    return is_reasoned and first_of_answer(choice.token_ids or (), (), tag_ids) is None


def first_of_answer(
    ids: Sequence[int],
    texts: Sequence[str],
    tag_ids: Sequence[TagIds] = (),
    *,
    opened: bool = False,
) -> int | None:
    """Index of the first token behind a reasoning; None where it has none, or nobody knows it.

    Args:
        ids: of the tokens, as far as they are known.
        texts: of the tokens, likewise.
        tag_ids: as `behind_reasoning` has them.
        opened: likewise.
    """
    for known in tag_ids:
        if (first := known.first_behind(ids)) is not None:
            return first
    found = part(texts, tags_in("".join(texts), opened=opened), opened=opened)
    return found.num_tokens if found.state == "finished" else None


def _parted(choice: Choice, *, opened: bool) -> Reasoning:
    return part([choice.text], tags_in(choice.text, opened=opened), opened=opened)


def _with_thoughts(choice: Choice, *, opened: bool) -> Choice:
    """The choice with the reasoning that only its tokens tell, since the text leaves it out."""
    if choice.reasoning is not None or _parted(choice, opened=opened).text is not None:
        return choice
    tokens = choice.tokens or ()
    tags = tags_in("".join(tokens), opened=True)
    found = part(tokens, tags, opened=True)
    is_begun = part(tokens, tags).text is not None
    if tags.end in choice.text or not (is_begun or found.state == "finished"):
        return choice
    return replace(choice, reasoning=found.text)


def _without_end(sequence: records.Sequence) -> tuple[str, ...] | None:
    """Texts of the answer's tokens, of which the one that ended it adds nothing."""
    texts, text = sequence.token_texts, sequence.text
    if texts and not text.endswith("".join(texts)) and text.endswith("".join(texts[:-1])):
        return (*texts[:-1], "")
    return texts
