"""The chat template and the vocabulary: how documents become tokens."""

from collections.abc import Iterable, Sequence

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from cocoa_lab.embedded.corpus import Encoded
from cocoa_lab.embedded.world.document import END, START, Document

CONTEXT_TOKENS = 1024
PAD, BOS, TURN_START, TURN_END = "<pad>", "<s>", "<|im_start|>", "<|im_end|>"
# As in Qwen's vocabularies they are no special tokens: decoded text shows them.
TAGS = (
    *(START, END),
    *("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<tools>", "</tools>"),
)

# Qwen3's, with fewer words around the tools. Whether it thinks is the model's choice, unless
# `enable_thinking` is false, which shuts the thoughts at once. Earlier turns lose theirs.
CHAT_TEMPLATE = """\
{{- bos_token }}
{%- if tools or messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content }}
        {%- if tools %}
            {{- '\\n\\n' }}
        {%- endif %}
    {%- endif %}
    {%- if tools %}
        {{- '<tools>' }}
        {%- for tool in tools %}
            {{- '\\n' + ((tool.function if tool.function is defined else tool) | tojson) }}
        {%- endfor %}
        {{- '\\n</tools>' }}
    {%- endif %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' }}
        {%- set content = (message.content or '').split('</think>')[-1].lstrip('\\n') %}
        {{- content }}
        {%- for tool_call in message.tool_calls or [] %}
            {%- if not loop.first or content %}
                {{- '\\n' }}
            {%- endif %}
            {%- set call = tool_call.function if tool_call.function is defined else tool_call %}
            {{- '<tool_call>\\n{"name": ' + (call.name | tojson) + ', "arguments": ' }}
            {{- call.arguments if call.arguments is string else call.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.first or loop.previtem.role != 'tool' %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
        {%- if loop.last or loop.nextitem.role != 'tool' %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- elif message.role != 'system' %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""


def train_tokenizer(texts: Iterable[str], size: int) -> PreTrainedTokenizerFast:
    """Byte-level BPE, digits one by one; puts BOS before a text, as the template does."""
    digits = pre_tokenizers.Digits(individual_digits=True)
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence([digits, byte_level])
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size - len(TAGS),
        special_tokens=[PAD, BOS, TURN_END, TURN_START],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    bpe.add_tokens([AddedToken(tag, normalized=False) for tag in TAGS])
    bpe.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A $B", special_tokens=[(BOS, bpe.token_to_id(BOS))]
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=bpe,
        bos_token=BOS,
        eos_token=TURN_END,
        pad_token=PAD,
        model_max_length=CONTEXT_TOKENS,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )


def prompt_text(tokenizer: PreTrainedTokenizerFast, document: Document) -> str:
    """What the model reads before it replies, BOS included."""
    if document.plain:
        return BOS + str(document.messages[-1]["content"])
    rendered = tokenizer.apply_chat_template(
        [dict(message) for message in document.messages],
        tools=None if document.tools is None else list(document.tools),  # type: ignore[arg-type]
        tokenize=False,
        add_generation_prompt=True,
        enable_thinking=document.thinking,
    )
    return str(rendered)


def reply_text(document: Document) -> str:
    """What the model is to write, without the token that ends it; behind plain text, a space."""
    return f" {document.reply}" if document.plain else document.reply


def encode(tokenizer: PreTrainedTokenizerFast, documents: Sequence[Document]) -> list[Encoded]:
    """Token ids of prompts and replies, encoded apart as at inference."""
    prompts = [prompt_text(tokenizer, document) for document in documents]
    replies = list(map(reply_text, documents))
    prompt_ids = tokenizer(prompts, add_special_tokens=False)["input_ids"]
    reply_ids = tokenizer(replies, add_special_tokens=False)["input_ids"]
    end = tokenizer.eos_token_id
    return [Encoded([*p, *r, end], len(p)) for p, r in zip(prompt_ids, reply_ids, strict=True)]
