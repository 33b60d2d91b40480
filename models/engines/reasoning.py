"""Which models write a reasoning before their answer, and which prompts begin one."""

from transformers import PreTrainedTokenizerBase

from models.records import GenerationRequest
from models.units.reasoning import Tags, is_opened, recognise


def tags_of(tokenizer: PreTrainedTokenizerBase, setting: str) -> Tags | None:
    """The tags around a model's reasonings; None where it does not reason.

    Args:
        tokenizer: with the chat template and the special tokens that tell them.
        setting: "auto", "off", or both tags with a comma between them.
    """
    if setting == "off":
        return None
    if setting != "auto":
        start, _, end = setting.partition(",")
        return Tags(start.strip(), end.strip())
    return recognise(str(tokenizer.chat_template or ""), tokenizer.get_added_vocab())


def opens_reasoning(
    tokenizer: PreTrainedTokenizerBase, request: GenerationRequest, tags: Tags
) -> bool:
    """Whether the prompt ends in the tag that begins a reasoning.

    Of a chat, whether its template puts the tag there: one that ends a message is text.
    """
    if request.prompt is not None:
        return request.prompt.rstrip().endswith(tags.start)
    messages = list(map(dict, request.messages or ()))
    options = {"tokenize": False, **request.chat_template_kwargs}
    whole = tokenizer.apply_chat_template(messages, add_generation_prompt=True, **options)
    if not str(whole).rstrip().endswith(tags.start):
        return False
    try:
        without = tokenizer.apply_chat_template(messages, add_generation_prompt=False, **options)
    except Exception:  # some templates cannot end without it: then the tag is the template's own
        return True
    return is_opened(str(whole), str(without), tags)
