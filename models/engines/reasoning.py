"""Tags of models that reason before they answer, and prompts that begin a reasoning."""

from models.engines.chats import ids_of, plain_messages, rendered_chat
from models.pretrained import PreTrainedTokenizerBase
from models.records import GenerationRequest
from models.units.reasoning import Tags, is_opened, recognise


def tags_of(tokenizer: PreTrainedTokenizerBase, setting: str) -> Tags | None:
    """The tags around a model's reasonings; None where it does not reason.

    Args:
        tokenizer: with the chat template and the special tokens that show them.
        setting: "auto", "off", or both tags with a comma between them.
    """
    if setting == "off":
        return None
    if setting != "auto":
        start, _, end = setting.partition(",")
        return Tags(start.strip(), end.strip())
    return recognise(str(tokenizer.chat_template or ""), tokenizer.get_added_vocab())


def empty_reasoning(
    tokenizer: PreTrainedTokenizerBase, request: GenerationRequest, tags: Tags
) -> list[int]:
    """Token ids behind a chat that let the model answer at once; none where its template did so."""
    opened = opens_reasoning(tokenizer, request, tags)
    if not opened and request.prompt is not None:
        return []
    rendered = "" if opened else rendered_chat(tokenizer, request, plain_messages(request))
    if rendered.rstrip().endswith(tags.end):
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
    messages = plain_messages(request)
    whole = rendered_chat(tokenizer, request, messages)
    if not whole.rstrip().endswith(tags.start):
        return False
    try:
        without = rendered_chat(tokenizer, request, messages, add_generation_prompt=False)
    except Exception:  # some templates cannot end without it: then the tag is the template's own
        return True
    return is_opened(whole, without, tags)
