"""Tags of reasonings as a server's tokenizer knows them: found out, and put back into texts."""

from dataclasses import replace

from models.units.reasoning import HARMONY, KNOWN_TAGS, Tags
from workers.calls import Calls
from workers.openai.capabilities import Capabilities, TagIds
from workers.openai.prompts import detokenize, tokenize
from workers.openai.reasoning import hidden_tags
from workers.openai.replies import Choice, read_choices
from workers.openai.requests import COMPLETIONS, Prompt, completion

# Tokens of the end tag, where it is not one.
_END_TOKENS = {HARMONY: 3}


async def read_tag_ids(calls: Calls, can: Capabilities, prompt: Prompt) -> tuple[TagIds, ...]:
    """Those of the known tags that are tokens of their own; none where nobody tokenizes."""
    found = []
    for tags in (*KNOWN_TAGS, HARMONY):
        if prompt.ids is None or len(start := await tokenize(calls, tags.start)) != 1:
            continue
        end = await tokenize(calls, tags.end)
        if len(end) != _END_TOKENS.get(tags, 1) or await detokenize(calls, end) != tags.end:
            continue  # what the vocabulary does not know may be one token, too
        body = completion(can, prompt, max_tokens=1) | {"allowed_token_ids": list(start)}
        reply = await calls.try_post(COMPLETIONS, body)
        if reply is not None:
            are_shown = bool(read_choices(reply, 1)[0].text)
            found.append(TagIds(tags, start[0], end, are_shown))
    return tuple(found)


async def with_tags(calls: Calls, can: Capabilities, choice: Choice, *, opened: bool) -> Choice:
    """The choice with the tags of its reasoning in its text, where the server leaves them out."""
    ids = choice.token_ids or ()
    known = hidden_tags(can.tag_ids, ids, opened=opened)
    if known is None:
        return choice
    first = known.first_behind(ids)
    if first is not None:
        before = await detokenize(calls, ids[:first])
        shown = _without(before, known.tags)
        if choice.text.startswith(shown):
            return replace(choice, text=before + choice.text.removeprefix(shown))
    written = ids[:-1] if choice.ended_by_eos else ids
    return replace(choice, text=await detokenize(calls, written))


def _without(text: str, tags: Tags) -> str:
    """What a server shows of a text that ends in an end tag."""
    hidden = [tags.start, tags.end]
    if tags is HARMONY:
        hidden = ["<|channel|>", "<|message|>", "<|start|>", "<|end|>"]
    for one in hidden:
        text = text.replace(one, "")
    return text
