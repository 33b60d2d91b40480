"""Pure: the texts that are scored, and the questions to workers about them.

`Plan.request` goes first. A `Subject` is made of its reply, and all further questions are about
that: which pairs of its texts are compared follows from what is made of them (`derive`).
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from app.scoring.ask import Ask
from app.scoring.plan import Plan, generation_request
from app.scoring.selection import Strategy, mbr, most_probable, most_probable_normalized
from models.engines.texts import parted
from models.errors import EngineError, InvalidRequest
from models.records import Array, Generation, GenerationRequest, GivenAnswer, SamplingParams
from models.records import Sequence as TokenSequence

_COMPARED = attrgetter("compared_text")
TRUE = ("True", " True", "(A)", " (A)", "A", " A")
FALSE = ("False", " False", "(B)", " (B)", "B", " B")
# Nats a token, within which rounding tells the same tokens apart.
_ROUNDING = 0.05
_LEAST_MASS = 1e-5  # of two replies together; below it the share of one is noise


@dataclass(frozen=True, slots=True)
class Subject:
    """The answer that is scored, and its samples."""

    answer: TokenSequence  # y*; before a sample is chosen the answer beside these
    answer_sample: int | None  # its index among the samples; None where it is none of them
    samples: tuple[TokenSequence, ...]  # all M
    # Further ones that were drawn and left out, as the server withheld their end.
    withheld: tuple[TokenSequence, ...] = ()

    @property
    def lacks_samples(self) -> bool:
        return bool(self.withheld) and not self.samples

    @property
    def is_reasoned(self) -> bool:
        return any(text.reasoning is not None for text in (self.answer, *self.samples))

    @property
    def texts(self) -> list[str]:
        return list(map(_COMPARED, self.samples))

    @property
    def others(self) -> tuple[TokenSequence, ...]:
        """The samples that are not y* itself."""
        if self.answer_sample is None:
            return self.samples
        return self.samples[: self.answer_sample] + self.samples[self.answer_sample + 1 :]

    @property
    def other_texts(self) -> list[str]:
        return list(map(_COMPARED, self.others))


def subject_of(ask: Ask, generation: Generation | None) -> Subject:
    """The generated texts, those that the ask gives in their place; no sample is chosen yet."""
    samples: tuple[TokenSequence, ...] = ()
    if generation is not None:
        answer, samples = generation.answer, generation.samples
    elif ask.answer is not None:
        answer = given_sequence(ask.answer.text)
    else:
        answer = given_sequence("")
    if ask.answer is not None and ask.answer_token_logprobs is not None:
        answer = given_sequence(ask.answer.text, ask.answer_token_logprobs)
        answer = replace(answer, num_tokens=len(ask.answer_token_logprobs))
    if ask.samples is not None:
        given = [given_sequence(sample.text, sample.token_logprobs) for sample in ask.samples]
        samples = tuple(given)
    kept: list[TokenSequence] = []
    withheld: list[TokenSequence] = []
    for sample in samples:
        (withheld if sample.is_withheld else kept).append(sample)
    return Subject(answer, None, evened(kept), tuple(withheld))


def evened(samples: Sequence[TokenSequence]) -> tuple[TokenSequence, ...]:
    """The samples in their order, those of the same tokens with the log-probs of the likeliest.

    What decodes beside a row rounds it, by up to .12 nats a token in bfloat16 and less in the mean;
    but a row of tokens counts once in the probability of its text. Where token ids are not known,
    samples of one text and one number of tokens are the same tokens, unless rounding cannot explain
    how far apart they are. Behind a reasoning log-probs are conditional on it, and stay.
    """
    alike: defaultdict[object, list[tuple[float, int]]] = defaultdict(list)
    for index, sample in enumerate(samples):
        logprobs = sample.token_logprobs
        if logprobs is not None and len(logprobs) and sample.reasoning is None:
            name = sample.token_ids or (sample.text, len(logprobs))
            alike[name].append((-float(logprobs.mean()), index))
    found = list(samples)
    for group in alike.values():
        group.sort()
        before, likeliest = group[0]
        for surprise, index in group[1:]:
            if surprise - before > _ROUNDING:
                likeliest = index
            logprobs = samples[likeliest].token_logprobs
            found[index] = replace(samples[index], token_logprobs=logprobs)
            before = surprise
    return tuple(found)


def given_sequence(text: str, token_logprobs: Sequence[float] | None = None) -> TokenSequence:
    """A text that no model here has written; T is 0, as its tokens are not known."""
    sequence = parted(TokenSequence(text, text.strip(), 0, "given"))
    if token_logprobs is None:
        return sequence
    return replace(sequence, token_logprobs=np.array(token_logprobs))


def choose(strategy: Strategy, subject: Subject, matrix: Array | None = None) -> Subject:
    """The subject with y* chosen among its samples; no sample is y* where all were left out.

    matrix: of similarity, which "mbr" chooses by.

    Raises:
        InvalidRequest: the strategy weighs by probability what came behind a reasoning.
        EngineError: it does, and the probability of a sample is not known.
    """
    if subject.lacks_samples:
        return replace(subject, answer=subject.withheld[0])
    if strategy in ("most_probable", "most_probable_normalized") and subject.is_reasoned:
        message = f"{strategy} weighs answers by probability, which is not known behind a reasoning"
        raise InvalidRequest(message, field="strategy")
    if strategy == "mbr" and matrix is not None:
        index = mbr(matrix)
    else:
        logprobs = []
        for sample in subject.samples:
            if sample.token_logprobs is None:
                raise EngineError(f"the model's server told no log-probs for {strategy} to weigh")
            logprobs.append(sample.token_logprobs)
        by_probability = most_probable
        if strategy == "most_probable_normalized":
            by_probability = most_probable_normalized
        index = by_probability(logprobs)
    return replace(subject, answer=subject.samples[index], answer_sample=index)


def read_by_token(plan: Plan, subject: Subject) -> list[TokenSequence]:
    """Sequences whose tokens' relevance is wanted: the answer, then the samples."""
    sequences = []
    if "token_relevance" in plan.statistics:
        sequences.append(subject.answer)
    if "sample_token_relevance" in plan.statistics:
        sequences += subject.samples
    return sequences


def questions_of(ask: Ask) -> list[str]:
    """The prompt, or the last five messages of the user; "" for none."""
    if ask.prompt is not None:
        return [ask.prompt]
    asked = [str(each["content"]) for each in ask.messages or () if each["role"] == "user"]
    return asked[-5:] or [""]


def without_documents(ask: Ask) -> Ask:
    """The ask as it would be without documents; those that its prompt holds are cut out of it."""
    prompt, messages = ask.prompt, list(map(dict, ask.messages or ()))
    holding = list[dict[str, Any]]()
    for message in messages:
        is_result = ask.documents_in == "tools" and message["role"] == "tool"
        if message["content"] and (is_result or ask.documents_in == "prompt"):
            holding.append(message)
    texts = sorted(filter(None, map(itemgetter("text"), ask.documents or ())), key=len)
    for text in reversed(texts):  # one may stand in another
        if ask.documents_in == "prompt":
            prompt = prompt and prompt.replace(text, "\n")
        for message in holding:
            message["content"] = str(message["content"]).replace(text, "\n")
    left = replace(ask, prompt=prompt, prompt_ids=(), documents=None)
    return replace(left, messages=ask.messages and tuple(messages))


def closed_book(plan: Plan, answer: TokenSequence) -> GenerationRequest:
    """The request to read an answer behind its prompt without the documents."""
    ask, read = without_documents(plan.ask), frozenset({"answer_token_logprobs"})
    if ask.answer is None:
        ends = answer.finish_reason == "stop"
        ask = replace(ask, answer=GivenAnswer(answer.text, append_eos=ends), strategy="greedy")
    return replace(generation_request(ask, read), num_tops=0, echo=False)


def closed_book_logprobs(answer: TokenSequence, reply: Generation) -> Array | str:
    """The log-probs (T,) of the answer's tokens in that reply, or why they are not known."""
    name, read = "answer_token_logprobs", reply.answer
    if read.token_logprobs is None:
        return reply.absent.get(name, f"{name} is not available without the documents")
    are_known = read.token_ids is not None and answer.token_ids is not None
    is_other = are_known and read.token_ids != answer.token_ids
    if is_other or read.num_tokens != answer.num_tokens:
        return "the model reads the answer by other tokens than it wrote"
    return read.token_logprobs


def question_about(text: str, ask: Ask) -> GenerationRequest:
    """The question of P(True): is this answer true? Kadavath et al. 2022.

    It is answered by one token without thoughts, in a chat where the ask is one.
    """
    asked = "\n".join(questions_of(ask))
    question = f"Question: {asked}\n Possible answer: {text}\n Is the possible answer:\n"
    question += " (A) True\n (B) False\n The possible answer is:"
    law = SamplingParams(num_samples=0, max_new_tokens=1, max_reasoning_tokens=0)
    request = GenerationRequest(question, sampling=law)
    request = replace(request, chat_template_kwargs=ask.chat_template_kwargs)
    if ask.messages is None:
        return request
    message = {"role": "user", "content": question}
    documents = ask.documents_to_show
    return replace(request, prompt=None, messages=(message,), documents=documents)


def p_true_logprob(true: float | None, false: float | None) -> float | str:
    """log(p_T / (p_T + p_F)), or the reason why there is none. Kadavath et al. 2022.

    Log-probabilities in nats that the model calls an answer true and false, each None where the
    tokenizer does not tell the two apart by one token.
    """
    if true is None or false is None:
        return "the first token of the reply does not tell True from False"
    both = np.logaddexp(true, false)
    if both <= math.log(_LEAST_MASS):
        return "the model replies with neither True nor False"
    return float(true - both)
