"""Tags of models that reason before they answer, and prompts that begin a reasoning."""

from dataclasses import replace

from models.engines.chats import ids_of, rendered_chat
from models.engines.shown_messages import REASONINGS
from models.engines.tags import HARMONY, Tags, recognise, tags_around
from models.engines.template_variables import variables_of
from models.pretrained import PreTrainedTokenizerBase
from models.records import GenerationRequest

# Stand for thoughts and an answer, and occur in no template.
_THOUGHTS, _ANSWER = "7c1e93f0ab", "e58d20b6c4"


def tags_of(tokenizer: PreTrainedTokenizerBase, setting: str) -> Tags | None:
    """The tags around a model's reasonings; None where it does not reason.

    The setting is "auto", "off", or both tags with a comma between them.
    """
    if setting == "off":
        return None
    if setting != "auto":
        start, _, end = setting.partition(",")
        return Tags(start.strip(), end.strip())
    template = str(tokenizer.chat_template or "")
    known = recognise(template, tokenizer.get_added_vocab())
    if known is HARMONY or not template:
        return known
    return _shown_tags(tokenizer, template) or known


def _shown_tags(tokenizer: PreTrainedTokenizerBase, template: str) -> Tags | None:
    """The tags around a reasoning that the template renders, if need be by one of its variables."""
    question, answer = {"role": "user", "content": "a"}, {"role": "assistant", "content": _ANSWER}
    turn = (question, answer | dict.fromkeys(REASONINGS, _THOUGHTS))
    variables = sorted(variables_of(template) or ())
    for options in ({}, *({name: True} for name in variables)):
        request = GenerationRequest(messages=(question,), chat_template_kwargs=options)
        try:
            prompt = rendered_chat(tokenizer, request)
            request = replace(request, messages=turn)
            shown = rendered_chat(tokenizer, request, add_generation_prompt=False)
            request = replace(request, messages=(question, answer))
            plain = rendered_chat(tokenizer, request, add_generation_prompt=False)
        except Exception:  # noqa: S112 - a template is a program, and may fail in any way
            continue
        if tags := tags_around(shown, plain, prompt, _THOUGHTS, _ANSWER):
            return tags
    return None


def empty_reasoning(
    tokenizer: PreTrainedTokenizerBase, request: GenerationRequest, tags: Tags
) -> list[int]:
    """Token ids behind a chat that let the model answer at once; none where its template did so."""
    opened = opens_reasoning(tokenizer, request, tags)
    if not opened and (
        request.prompt is not None or rendered_chat(tokenizer, request).rstrip().endswith(tags.end)
    ):
        return []
    return ids_of(tokenizer, tags.empty(opened=opened))


def opens_reasoning(
    tokenizer: PreTrainedTokenizerBase, request: GenerationRequest, tags: Tags
) -> bool:
    """True where the prompt ends in the tag that begins a reasoning.

    Of a chat, whether its template puts the tag there: one that ends a message is text.
    """
    if request.prompt is not None:
        return request.prompt.rstrip().endswith(tags.start)
    whole = rendered_chat(tokenizer, request).rstrip()
    if not whole.endswith(tags.start):
        return False
    try:
        without = rendered_chat(tokenizer, request, add_generation_prompt=False).rstrip()
    except Exception:  # some templates cannot end without it: then the tag is the template's own
        return True
    if without == whole:  # either it writes a generation prompt unasked, or none at all
        return not whole.endswith(str((request.messages or ())[-1]["content"]).rstrip())
    return not without.startswith(whole)
