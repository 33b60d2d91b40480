"""An OpenAI-compatible server over a tiny model of its own, which is what a test says it is.

With all its traits it behaves as vLLM does, down to what it gets wrong: tests/vllm holds the real
one to the same adapter.
"""

import asyncio
import functools
import hashlib
import itertools
import json
import re
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import numpy as np
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.worker_servers import listening

BOS, EOS = 0, 1
_SPECIALS = [b"<s>", b"</s>"]
_TEXT = """It is The capital Paris Rome Lyon of I do not know a in and France . , ? é
True False ( ) A B word"""
_WORDS = [*_TEXT.split(), "\nQ:", "word "]
_WORDS += [f" {word}" for word in _WORDS if word[0].isalpha()]
START, END = "<think>", "</think>"
# Halves of the tags, and the tags as tokens, which no text is read as unless the server says so.
_HALVES, _TAGS = ["<th", "ink>", "</th"], [START.encode(), END.encode()]
_BYTES = [bytes([i]) for i in range(256)]
VOCABULARY = [*_SPECIALS, *_BYTES, *(word.encode() for word in _WORDS if len(word.encode()) > 1)]
_FIRST_WORD, _FIRST_HALF = len(_SPECIALS) + len(_BYTES), len(VOCABULARY)
VOCABULARY += [*(half.encode() for half in _HALVES), *_TAGS]
_TAG_IDS = {len(VOCABULARY) - 2, len(VOCABULARY) - 1}
_IDS = {piece: i for i, piece in enumerate(VOCABULARY)}


def _reader(pieces):
    longest = b"|".join(re.escape(piece) for piece in sorted(pieces, key=len, reverse=True))
    return re.compile(longest, re.DOTALL)


# What reads texts as tokens: tags in halves, and as tokens.
_IN_HALVES, _AS_TOKENS = _reader(VOCABULARY[:-2]), _reader(VOCABULARY)
_HALF, _OTHER_HALF = VOCABULARY.index(b"\xc3"), VOCABULARY.index(b"\xa9")
_LIKELY = [*range(_FIRST_WORD, _FIRST_HALF), EOS, _HALF]
FIRST_SENTINEL = 2_000_000_000
BUDGET, NUM_THOUGHTS = "thinking_token_budget", 12
TEMPLATE_FAULT = {"error": {"message": "No last item", "type": "BadRequestError", "code": 400}}


@dataclass
class Traits:
    """What the server is, and what a test sees of it; may change while it runs.

    Attributes:
        weights: other ones are another model.
        probes: sha256 of those that its plugin reads; None without the plugin.
        max_logprobs: None tells no log-probs.
        budget: what becomes of the bound of a reasoning: it is "heeded", "refused" or "ignored";
            None is a model that does not reason.
        num_thoughts: words between the tags.
        tags: "halves" of which each is two tokens, "tokens" of their own, or "special" ones, which
            no text shows.
        parser: how chats tell a reasoning: in the text, by a field of this name, or "counted" in
            `usage` alone, with log-probs of the answer only.
        calls: how its template writes tool calls; "" for one that takes no tools.
        drops: roles of messages that its template leaves out in silence.
        efforts: that it knows, and its template shows; none where it reads no `reasoning_effort`.
            With "none" a model that reasons answers a chat at once.
        formats: what becomes of a `response_format`: it is "heeded", as far as its schema names all
            valid values, "refused" or "ignored".
        masks: whether it tells log-probs among the tokens that a schema allows, or of all.
        larks: whether it takes grammars of llguidance; it heeds those that are no more than one
            such schema.
        images: what becomes of them: they are "heeded", "refused" or "ignored".
        refuses_ids: whether a prompt of token ids is refused, as routers do.
        refuses: parameters that it refuses by their names.
        takes: the only parameters of a body that it takes; None for any.
        error_form: how it says which one it does not: by "param" or a "path" to it, in a list of
            "detail" as FastAPI does, beside all that was sent ("repeated"), in its "message", as
            "text" that is no JSON, or "unnamed".
        most_samples, many_status: of one call; what more are refused with.
        least_tokens: what fewer are refused, as its reasoning takes them all.
        owner: of its model, in its list; None tells none.
        looks: what it answers elsewhere, by path.
        prefix: of its paths.
        key_header: that carries the key.
        lists: whether it lists its models.
        completion_logprobs: whether completions tell log-probs, too; None refuses them.
        denies_logprobs: whether they are 403.
        streams_logprobs_of_tools: whether a stream may have both.
        tool_form: how chats tell calls: not at all, "joined" to the log-probs of their tokens, or
            "apart" without any.
        statuses: of the next replies to a POST; 0 is a reply as it should be.
        tokenizing_status: of every reply of `/tokenize`, where it is an error.
        tokenizes_otherwise: whether `/tokenize` answers in another form.
        tells_end: whether a whole text has a `finish_reason`.
        draws: where samples without a heeded seed come from, the same in each run of a test.
        replies: come instead of the next answers of completions and chats.
        alter: changes each choice of a reply, or each piece of one, with the body that it answers.
        greedy_where: true of the bodies whose draws are none.
        sharpness: of its model, which is surer the more of it there is.
        counts: the `completion_tokens` of `usage`, of a body and the number that was written.
        delay_s: before each answer, and between the events of a stream.
    """

    weights: int = 0
    model: str = "tiny"
    context: int = 512
    tokenizes: bool = True
    completes: bool = True
    chats: bool = True
    max_logprobs: int | None = 20
    scales: bool = False
    draws_several: bool = True
    shows_end: bool = True
    heeds_top_k: bool = True
    heeds_seed: bool = True
    heeds_stop: bool = True
    probes: tuple[str, ...] | None = None
    budget: str | None = None
    num_thoughts: int = NUM_THOUGHTS
    tags: str = "halves"
    parser: str | None = None
    calls: str = ""
    drops: tuple[str, ...] = ()
    efforts: tuple[str, ...] = ()
    formats: str = "heeded"
    masks: bool = True
    larks: bool = True
    images: str = "refused"
    refuses_ids: bool = False
    refuses: tuple[str, ...] = ()
    takes: frozenset | None = None
    error_form: str = "param"
    most_samples: int = 0
    least_tokens: int = 0
    many_status: int = 400
    owner: str | None = None
    looks: dict = field(default_factory=dict)
    prefix: str = "/v1"
    key_header: str = "authorization"
    lists: bool = True
    completion_logprobs: bool | None = True
    denies_logprobs: bool = False
    streams_logprobs_of_tools: bool = True
    tool_form: str = ""
    statuses: list = field(default_factory=list)
    tokenizing_status: int = 0
    tokenizes_otherwise: bool = False
    tells_end: bool = True
    num_refused: int = 0
    draws: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    replies: list = field(default_factory=list)
    alter: Callable | None = None
    counts: Callable | None = None
    greedy_where: Callable | None = None
    sharpness: float = 1.0
    delay_s: float = 0.0
    bodies: list = field(default_factory=list)
    heads: list = field(default_factory=list)
    queries: list = field(default_factory=list)
    keys: set = field(default_factory=set)
    sessions: set = field(default_factory=set)
    connections: set = field(default_factory=set)
    num_running: int = 0
    num_left: int = 0
    url: str = ""

    def sent(self, path):
        return [body for where, body in self.bodies if where == path]


def encode(text, *, special=True, tags="halves"):
    """Token ids, BOS first; a special token that is spelt out is one, as with vLLM."""
    pieces = _IN_HALVES if tags == "halves" else _AS_TOKENS
    return [BOS] * special + [_IDS[piece] for piece in pieces.findall(text.encode())]


def decode(ids, *, special=False, tags="halves"):
    hidden = set() if special else {*range(len(_SPECIALS))}
    if tags == "special" and not special:
        hidden |= _TAG_IDS
    return b"".join(VOCABULARY[i] for i in ids if i not in hidden).decode(errors="replace")


def log_softmax(logits):
    shifted = logits - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


def next_logprobs(ids, weights):
    """Raw log-probs (V,) of what follows; a function of the last tokens and of the length."""
    return _logprobs_behind(tuple(ids[-2:]), len(ids) % 5, weights)


@functools.lru_cache(8192)
def _logprobs_behind(last, remainder, weights):
    key = hashlib.sha256(repr((list(last), remainder, weights)).encode()).digest()
    noise = np.random.Generator(np.random.Philox(int.from_bytes(key[:8]))).standard_normal(
        len(VOCABULARY)
    )
    logits = noise - 14.0
    logits[_LIKELY] = 2.0 * noise[_LIKELY]
    logits[EOS] += 1.0
    if last[-1] == _HALF:
        logits[_OTHER_HALF] = 40.0
    logprobs = log_softmax(logits)
    logprobs.setflags(write=False)
    return logprobs


@dataclass
class Row:
    """One generated sequence, with what its request may want of each token."""

    prompt: list
    ids: list = field(default_factory=list)
    logprobs: list = field(default_factory=list)
    tops: list = field(default_factory=list)
    text: str = ""
    finish_reason: str = "length"
    stop_reason: str | None = None


def _shown_tags(traits, body):
    """How texts show tags: special tokens as they are, where the body says so."""
    return traits.tags if body.get("skip_special_tokens", True) else "tokens"


def generate(traits, body, prompt, child):
    """The child-th sequence of a request."""
    temperature = body.get("temperature", 1.0)
    if traits.greedy_where and traits.greedy_where(body):
        temperature = 0.0
    seed = body.get("seed") if traits.heeds_seed else None
    rng = traits.draws if seed is None else np.random.default_rng(seed + child)
    row = Row(prompt)
    thoughts = _thoughts(traits, body, prompt)
    texts, num_thoughts = _valid_texts(traits, body), len(thoughts)
    # What does not fit is cut without a word.
    default = traits.context if "messages" in body else 16
    for _ in range(min(body.get("max_tokens", default), traits.context - len(prompt))):
        raw = whole = next_logprobs([*prompt, *row.ids], traits.weights)
        if traits.sharpness != 1.0:
            raw = whole = log_softmax(raw * traits.sharpness)
        if texts and not thoughts:
            raw = _held(raw, texts, row.ids[num_thoughts:])
        law = _law(raw, body, traits) if temperature else raw
        told = law if traits.scales else raw if traits.masks else whole
        token = int(law.argmax()) if not temperature else _drawn(law, rng)
        if forced := thoughts or list(body.get("allowed_token_ids", ())):
            token = forced.pop(0)
        row.ids.append(token)
        row.logprobs.append(float(told[token]))
        row.tops.append(_tops(traits, body, told, raw, token, row))
        row.text = decode(row.ids, tags=_shown_tags(traits, body))
        if token == EOS:
            row.finish_reason = "stop"
            break
        found = [one for one in body.get("stop") or () if one in row.text]
        if found:
            first = min(found, key=row.text.index)
            row.text = row.text[: row.text.index(first)]
            row.finish_reason, row.stop_reason = "stop", first
            break
    return row


def _thoughts(traits, body, prompt):
    """Token ids of what the model writes before its answer, as far as it may."""
    if traits.budget is None or decode(prompt, special=True).rstrip().endswith(END):
        return []
    if "none" in traits.efforts and _effort(body) == "none":
        return []
    num_words = traits.num_thoughts
    if traits.budget == "heeded":
        num_words = min(num_words, body.get(BUDGET, num_words))
    return encode(START + "word " * num_words + END, special=False, tags=traits.tags)


def _valid_texts(traits, body):
    """All that is valid under the schema of a body; nothing without one, or where it is ignored."""
    if traits.tool_form and "tools" in body:
        return [json.dumps(call).encode() for call in _calls(body)]
    if traits.formats == "ignored":
        return []
    if "json_schema" in body:
        schema = body["json_schema"]
    elif "response_format" in body:
        schema = body["response_format"]["json_schema"]["schema"]
    else:
        grammar = body.get("structured_outputs", {}).get("grammar", "")
        if not grammar.startswith("start: %json "):
            return []
        schema = json.loads(grammar.removeprefix("start: %json "))
    if "enum" in schema:
        return [json.dumps(value).encode() for value in schema["enum"]]
    names, fields = zip(*schema["properties"].items(), strict=True)
    values = itertools.product(*(one.get("enum") or [one["const"]] for one in fields))
    return [json.dumps(dict(zip(names, row, strict=True))).encode() for row in values]


def _calls(body):
    """Calls of the tools of a body, one with each value of an enum."""
    allowed = body.get("tool_choice")
    for tool in body["tools"]:
        function = tool["function"]
        if isinstance(allowed, dict) and allowed["function"]["name"] != function["name"]:
            continue
        [(name, schema)] = function["parameters"]["properties"].items()
        for value in schema["enum"]:
            yield {"name": function["name"], "arguments": {name: value}}


def _held(raw, texts, ids):
    """The law (V,) among the tokens that lead to one of these texts."""
    allowed = _allowed(tuple(texts), b"".join(VOCABULARY[i] for i in ids))
    held = np.full(len(raw), -9999.0)
    held[allowed] = raw[allowed]
    return log_softmax(held)


@functools.lru_cache(8192)
def _allowed(texts, written):
    """Ids of the tokens that may follow what is written of one of these texts."""
    rests = [text.removeprefix(written) for text in texts if text.startswith(written)]
    first = len(_SPECIALS)
    allowed = []
    for i, piece in enumerate(VOCABULARY[first:], start=first):
        if any(rest.startswith(piece) for rest in rests):
            allowed.append(i)
    return [*allowed, EOS] if b"" in rests else allowed


def _parted(traits, ids):
    """Thoughts and answer of a chat's tokens as its server tells them; no thoughts for none."""
    text = decode(ids, tags=traits.tags)
    whole = decode([one for one in ids if one not in (BOS, EOS)], special=True)
    if traits.parser is None or not whole.startswith(START):
        return "", text
    thoughts, _, answer = whole.removeprefix(START).partition(END)
    return thoughts, answer


def _message(traits, thoughts, answer, body=None):
    if traits.tool_form and "tools" in (body or ()):
        try:
            call = json.loads(answer)
        except ValueError:
            return {"content": ""}
        call["arguments"] = json.dumps(call["arguments"])
        return {"content": None, "tool_calls": [{"index": 0, "id": "1", "function": call}]}
    if traits.parser in (None, "counted"):
        return {"content": answer}
    return {"content": answer or None, traits.parser: thoughts or None}


def _num_thoughts(row):
    """Tokens of the reasoning, tags included."""
    for end in range(len(row.ids)):
        text = decode(row.ids[:end], special=True)
        if END in text or not START.startswith(text[: len(START)]):
            return end if END in text else 0
    return len(row.ids)


def _law(raw, body, traits):
    logits = raw / body.get("temperature", 1.0)
    top_k = body.get("top_k", 0) if traits.heeds_top_k else 0
    if top_k > 0:
        logits = np.where(logits >= np.sort(logits)[-top_k], logits, -np.inf)
    law = log_softmax(logits)
    if (top_p := body.get("top_p", 1.0)) < 1.0:
        order = np.argsort(-law)
        beyond = np.cumsum(np.exp(law[order])) - np.exp(law[order]) >= top_p
        law[order[beyond]] = -np.inf
        law = log_softmax(law)
    return law


def _drawn(law, rng):
    masses = np.cumsum(np.exp(law))
    return int(np.searchsorted(masses, rng.random() * masses[-1]))


def _tops(traits, body, told, raw, token, row):
    """Token id to log-prob of the chosen one, the plugin's columns, and the likeliest ones."""
    num = body.get("logprobs")
    if "messages" in body:
        num = body.get("top_logprobs", 0) if num else None
    if num is None:
        return {}
    tops = {token: float(told[token])}
    if wanted := body.get("logprob_token_ids"):
        return tops | {i: float(told[i]) for i in wanted}
    columns = _columns(traits, body, raw, row)
    tops |= {FIRST_SENTINEL + i: value for i, value in enumerate(columns)}
    for i in np.argsort(-told)[: num - len(columns)].tolist():
        tops[i] = float(max(told[i], -9999.0))
    return tops


def mark(traits):
    told = repr((traits.weights, traits.probes)).encode()
    return int.from_bytes(hashlib.sha256(told).digest()[:3])


def _columns(traits, body, raw, row):
    mode = (body.get("vllm_xargs") or {}).get("cocoa")
    if traits.probes is None or mode is None:
        return []
    if mode == "identity":
        columns = [mark(traits), 2, 0 if traits.probes else 1, len(traits.probes)]
        for digits in (hashlib.sha256(b"%d" % traits.weights).hexdigest(), *traits.probes):
            columns += [int(digits[i : i + 6], 16) for i in (0, 6)]
        return [float(one) for one in columns]
    columns = [float(mark(traits)), float(-(np.exp(raw) * raw).sum())]
    if mode == "light":
        for i in range(len(traits.probes)):
            columns += [((len(row.ids) + i) % 10) / 10, 10.0 * (i + 1)]
    return columns


def _name(token, by_id):
    return (
        f"token_id:{token}"
        if by_id
        else decode([token], special=True)
        if token < FIRST_SENTINEL
        else ""
    )


def _logprobs(traits, body, row, start, end):
    """The part of a completion's log-probs that covers these tokens."""
    if body.get("logprobs") is None or traits.max_logprobs is None:
        return None
    if "prompt" in body and not traits.completion_logprobs:
        return None
    if "tools" in body and traits.tool_form == "apart":
        return None
    by_id = bool(body.get("return_tokens_as_token_ids"))
    if "messages" in body and traits.parser == "counted":
        start = max(start, _num_thoughts(row))
    shown = [i for i in range(start, end) if traits.shows_end or row.ids[i] != EOS]
    names = [_name(row.ids[i], by_id) for i in shown]
    if not by_id:  # the bytes of a code point count with its last token
        before = [decode(row.ids[:i], special=True).rstrip("\ufffd") for i in shown]
        after = [decode(row.ids[: i + 1], special=True).rstrip("\ufffd") for i in shown]
        names = [two[len(one) :] for one, two in zip(before, after, strict=True)]
    tops = [{_name(i, by_id): value for i, value in row.tops[j].items()} for j in shown]
    if "messages" in body:
        content = []
        for j, name in zip(shown, names, strict=True):
            likeliest = [{"token": _name(i, False), "logprob": v} for i, v in row.tops[j].items()]
            top_logprobs = likeliest[: body.get("top_logprobs", 0)]
            content.append(
                {"token": name, "logprob": row.logprobs[j], "top_logprobs": top_logprobs}
            )
        return {"content": content}
    return {
        "text_offset": [0] * len(names),
        "token_logprobs": [row.logprobs[j] for j in shown],
        "tokens": names,
        "top_logprobs": tops if body["logprobs"] or traits.tokenizes else None,
    }


def _choice(traits, body, row, index):
    choice = {"index": index, "finish_reason": row.finish_reason if traits.tells_end else None}
    choice["logprobs"] = _logprobs(traits, body, row, 0, len(row.ids))
    if traits.tokenizes:
        choice["stop_reason"] = row.stop_reason
    if body.get("return_token_ids") and traits.tokenizes:
        choice |= {"token_ids": row.ids, "prompt_token_ids": row.prompt}
    if body.get("prompt_logprobs") is not None and traits.tokenizes:
        choice["prompt_logprobs"] = _prompt_logprobs(traits, row.prompt)
    if "messages" in body:
        thoughts, answer = _parted(traits, row.ids)
        if row.stop_reason and row.stop_reason in answer:
            answer = answer[: answer.index(row.stop_reason)]
        message = {"role": "assistant", **_message(traits, thoughts, answer, body)}
        return choice | {"message": message}
    return choice | {"text": row.text}


def _prompt_logprobs(traits, prompt):
    told = [None]
    for i, token in enumerate(prompt[1:], 1):
        logprob = float(next_logprobs(prompt[:i], traits.weights)[token])
        text = (
            ""
            if token == _HALF
            else decode(prompt[i - (prompt[i - 1] == _HALF) : i + 1], special=True)
        )
        told.append({str(token): {"logprob": logprob, "rank": 1, "decoded_token": text}})
    return told


def _error(status, message, code=None, param=None):
    error = {"message": message, "type": "Error", "code": code, "param": param}
    return JSONResponse({"error": error}, status)


_RENAMED = {"max_completion_tokens": "max_tokens", "random_seed": "seed"}


def _named_refusal(traits, name, body):
    if traits.error_form == "param":
        message = f"Unsupported parameter: '{name}' is not supported with this model."
        return _error(400, message, code="unsupported_parameter", param=name)
    if traits.error_form == "path":
        return _error(400, "Extra inputs are not permitted", param=f"body.{name}")
    if traits.error_form == "text":
        return PlainTextResponse(f"unknown field `{name}`", 400)
    if traits.error_form == "repeated":
        fault = {"type": "extra_forbidden", "loc": ["body", name], "input": body}
        return JSONResponse({"object": "error", "message": {"detail": [fault]}}, 422)
    if traits.error_form == "detail":
        return JSONResponse({"detail": [{"type": "extra_forbidden", "loc": ["body", name]}]}, 422)
    if traits.error_form == "message":
        return _error(400, f"Unrecognized request argument supplied: {name}")
    return _error(400, "Invalid request")


def _refusal(traits, body, sent):
    """Why the server does not take a body; None where it does."""
    for message in body.get("messages") or ():
        sent = sent | (message.keys() - {"role", "content", "tool_calls"})
    unknown = set() if traits.takes is None else sent - traits.takes
    if refused := sorted(unknown | set(traits.refuses) & sent):
        return _named_refusal(traits, refused[0], body)
    if body.get("max_tokens", traits.least_tokens) < traits.least_tokens:
        return _error(400, "max_tokens or model output limit was reached. Please try again.")
    if traits.most_samples and body.get("n", 1) > traits.most_samples:
        message = f"Field 'n': Value must be between 1 <= value <= {traits.most_samples}"
        return _error(traits.many_status, message)
    if traits.completion_logprobs is None and "messages" not in body and "logprobs" in body:
        return _named_refusal(traits, "logprobs", body)
    if not traits.streams_logprobs_of_tools and body.keys() >= {"tools", "stream", "logprobs"}:
        return _error(400, "logprobs is not supported with tools + stream")
    if traits.denies_logprobs and "logprobs" in body:
        return _error(403, "You are not allowed to request logprobs from this model")
    if "response_format" in body and traits.formats == "refused":
        return _error(400, "response_format is not supported")
    if "structured_outputs" in body and not traits.larks:
        return _error(400, "grammar is not supported")
    if (images := _images(body)) and traits.images == "refused":
        return _error(400, "At most 0 image(s) may be provided in one prompt.")
    if traits.images == "heeded" and not all(one.endswith("CC") for one in images):
        return _error(400, "cannot identify image file")
    if traits.efforts and _effort(body) not in (None, *traits.efforts):
        return _error(400, "reasoning_effort is none of those")
    if BUDGET in body and traits.budget == "refused":
        return _error(400, f"{BUDGET} is set but reasoning_config is not configured")
    if traits.refuses_ids and not isinstance(body.get("prompt", ""), str):
        return _error(400, "prompt must be a string")
    if body.get("model") != traits.model:
        return _error(404, "no such model")
    wanted = body.get("top_logprobs" if "messages" in body else "logprobs") or 0
    if wanted > (traits.max_logprobs or 0) and traits.max_logprobs is not None:
        return _error(400, f"{wanted} is greater than max allowed: {traits.max_logprobs}")
    if any(one["role"] == "tool" for one in body.get("messages") or ()):
        return JSONResponse(TEMPLATE_FAULT, 400)
    if body.get("max_tokens", 1) > traits.context and traits.tokenizes:
        return _error(400, "max_tokens cannot be greater than max_model_len", code=400)
    return None


def _prompts(traits, body):
    if "messages" in body:
        shown = [one for one in body["messages"] if one["role"] not in traits.drops]
        text = "".join(f"[{one['role']}]{_said(traits, one)}" for one in shown)
        if traits.calls:
            text = "".join(json.dumps(tool) for tool in body.get("tools", ())) + text
            for message in body["messages"]:
                for call in message.get("tool_calls", ()):
                    function = call["function"]
                    arguments = json.loads(function["arguments"])
                    called = json.dumps({"name": function["name"], "arguments": arguments})
                    text += traits.calls.replace("{}", called)
            text += "[assistant]" * body.get("add_generation_prompt", True)
        if traits.efforts and (effort := _effort(body)) is not None:
            text += f"[{effort}]"
        return [encode(text)]
    prompt = body["prompt"]
    if isinstance(prompt, str):
        return [encode(prompt)]
    return prompt if prompt and isinstance(prompt[0], list) else [prompt]


def _said(traits, message):
    """The text of a message; an image is what its digest says."""
    if isinstance(message["content"], str):
        return message["content"]
    said = [part["text"] for part in message["content"] if part["type"] == "text"]
    if traits.images == "heeded":
        said += [hashlib.sha256(one.encode()).hexdigest() for one in _images([message])]
    return "".join(said)


def _images(body):
    """The URLs of all images of a body, or of messages."""
    urls = []
    for message in body if isinstance(body, list) else body.get("messages", ()):
        for part in message["content"] if isinstance(message["content"], list) else ():
            if part["type"] == "image_url":
                urls.append(part["image_url"]["url"])
    return urls


def _effort(body):
    """How long to reason, as a chat says it, and as a rendering does."""
    return body.get("chat_template_kwargs", body).get("reasoning_effort")


def openai_app(traits):
    """The server's application."""

    async def models(request):
        traits.keys.add(request.headers.get(traits.key_header))
        entry = {"id": traits.model, "object": "model"}
        if traits.owner:
            entry["owned_by"] = traits.owner
        if traits.tokenizes:
            entry |= {"root": "/models/tiny", "max_model_len": traits.context}
        else:
            entry |= {"meta": {"n_ctx": traits.context, "n_vocab": len(VOCABULARY)}}
        return JSONResponse({"data": [entry]})

    async def tokenize(request):
        body = await request.json()
        if not traits.tokenizes:
            return _error(404, "Not Found")
        if traits.tokenizing_status:
            return _error(traits.tokenizing_status, "-")
        if traits.tokenizes_otherwise:
            return JSONResponse({"tokens": "none"})
        if "messages" in body:
            if any(one["role"] == "tool" for one in body["messages"]):
                return JSONResponse(TEMPLATE_FAULT, 400)
            if traits.efforts and _effort(body) not in (None, *traits.efforts):
                return JSONResponse(TEMPLATE_FAULT, 400)
            ids = _prompts(traits, body)[0]
        else:
            special = body.get("add_special_tokens", True)
            ids = encode(body["prompt"], special=special, tags=traits.tags)
        reply = {"count": len(ids), "max_model_len": traits.context, "tokens": ids}
        if body.get("return_token_strs"):
            reply["token_strs"] = [VOCABULARY[i].decode(errors="replace") for i in ids]
        return JSONResponse(reply)

    async def detokenize(request):
        body = await request.json()
        return JSONResponse({"prompt": decode(body["tokens"], special=True)})

    async def answer(request):
        body = await request.json()
        traits.bodies.append((request.url.path, body))
        sent = frozenset(body)
        if renamed := next((one for one in _RENAMED if one in body), None):
            body = {**body, _RENAMED[renamed]: body[renamed]}
        traits.heads.append(request.headers)
        traits.queries.append(request.query_params)
        traits.sessions.add(request.headers.get("x-session-id"))
        traits.connections.add(request.client)
        traits.keys.add(request.headers.get(traits.key_header))
        traits.num_running += 1
        try:
            await _delay(request, traits)
            return _answered(traits, body, sent)
        finally:
            traits.num_running -= 1

    async def look(request):
        return JSONResponse(traits.looks[request.url.path])

    routes = [
        Route("/tokenize", tokenize, methods=["POST"]),
        Route("/detokenize", detokenize, methods=["POST"]),
        *(Route(path, look) for path in traits.looks),
    ]
    prefix = traits.prefix
    if traits.lists:
        routes.append(Route(f"{prefix}/models", models))
    if traits.completes:
        routes.append(Route(f"{prefix}/completions", answer, methods=["POST"]))
    if traits.chats:
        routes.append(Route(f"{prefix}/chat/completions", answer, methods=["POST"]))
    answering = Starlette(routes=routes)

    async def app(scope, receive, send):
        status = 0
        if scope.get("method") == "POST" and traits.statuses:
            status = traits.statuses.pop(0)
        reply = _error(status, "-") if status else answering
        await reply(scope, receive, send)

    return app


async def _delay(request, traits):
    """Wait, but not for a client that has gone."""
    end = asyncio.get_running_loop().time() + traits.delay_s
    while asyncio.get_running_loop().time() < end:
        if await request.is_disconnected():
            traits.num_left += 1
            return
        await asyncio.sleep(0.01)


def _answered(traits, body, sent):
    if traits.replies:
        reply = traits.replies.pop(0)
        return reply if isinstance(reply, Response) else JSONResponse(reply)
    if (refusal := _refusal(traits, body, sent)) is not None:
        traits.num_refused += 1
        return refusal
    if not traits.heeds_stop:
        body = {**body, "stop": None}
    prompts = _prompts(traits, body)
    longest = max(map(len, prompts)) + (0 if traits.tokenizes else body.get("max_tokens", 16))
    if longest > traits.context - traits.tokenizes:
        return _error(400, "exceeds the context", code="context_length_exceeded")
    num = body.get("n", 1) if traits.draws_several else 1
    rows = [generate(traits, body, prompt, i) for prompt in prompts for i in range(num)]
    usage = {"prompt_tokens": sum(map(len, prompts)), "completion_tokens": 0}
    usage["completion_tokens"] = sum(len(row.ids) for row in rows)
    if traits.counts:
        usage["completion_tokens"] = traits.counts(body, usage["completion_tokens"])
    if traits.budget is not None and traits.parser is not None:
        told = {"reasoning_tokens": sum(map(_num_thoughts, rows))}
        usage["completion_tokens_details"] = told
    head = {"id": "cmpl-1", "model": traits.model}
    if body.get("stream"):
        return StreamingResponse(
            _events(traits, body, rows, head, usage), media_type="text/event-stream"
        )
    choices = [_choice(traits, body, row, i) for i, row in enumerate(rows)]
    for choice in choices if traits.alter else ():
        traits.alter(choice, body)
    return JSONResponse(head | {"choices": choices, "usage": usage})


async def _events(traits, body, rows, head, usage):
    for i in range(max(len(row.ids) for row in rows)):
        await asyncio.sleep(traits.delay_s)
        for index, row in enumerate(rows):
            if i < len(row.ids):
                choice = _piece(traits, body, row, i) | {"index": index}
                if traits.alter:
                    traits.alter(choice, body)
                yield f"data: {json.dumps(head | {'choices': [choice]})}\n\n"
    yield f"data: {json.dumps(head | {'choices': [], 'usage': usage})}\n\n"
    yield "data: [DONE]\n\n"


def _piece(traits, body, row, i):
    """What the i-th event says of a row; text that a stop string may still cut is held back."""
    is_last = i == len(row.ids) - 1
    held = max((len(one) for one in body.get("stop") or ()), default=1) - 1

    def shown(end):
        texts = ["", decode(row.ids[:end], tags=_shown_tags(traits, body))]
        if "messages" in body:
            texts = _parted(traits, row.ids[:end])
        found = [text.rstrip("\ufffd") for text in texts]
        return [text[: max(0, len(text) - held)] if held else text for text in found]

    before, after = shown(i), shown(i + 1)
    if is_last:
        after = ["", row.text]
        if "messages" in body:
            message = _choice(traits, body, row, 0)["message"]
            after = [message.get(traits.parser) or "", message["content"] or ""]
    thoughts, text = (new[len(old) :] for old, new in zip(before, after, strict=True))
    piece = {"finish_reason": row.finish_reason if is_last else None}
    piece["logprobs"] = _logprobs(traits, body, row, i, i + 1)
    if body.get("return_token_ids") and traits.tokenizes:
        piece["token_ids"] = [row.ids[i]]
    if is_last and traits.tokenizes:
        piece["stop_reason"] = row.stop_reason
    if "messages" in body and traits.tool_form and "tools" in body:
        return piece | {"delta": message if is_last else {"content": ""}}
    if "messages" in body:
        return piece | {"delta": _message(traits, thoughts, text)}
    return piece | {"text": text}


@asynccontextmanager
async def openai_server(port=0, **traits):
    """What the server is, while it runs."""
    state = Traits(**traits)
    async with listening(openai_app(state), port=port) as found:
        state.url = f"http://127.0.0.1:{found}"
        yield state
