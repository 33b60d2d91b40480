"""A tiny model that reasons: it adds two numbers in steps, between `<think>` tags.

It lives in the tests, where it stands for models such as Qwen3; `python -m cocoa_lab.embedded
reasoner` makes it in two minutes on one core.
"""

import random
import re
import time
from collections.abc import Iterator

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from cocoa_lab.embedded.corpus import Encoded, micro_batches
from cocoa_lab.embedded.language_model import LanguageModelShape, answer_loss, new_language_model
from cocoa_lab.embedded.training import Schedule, train

PAD, BOS, EOS = "<pad>", "<s>", "</s>"
USER, ASSISTANT = "<|user|>", "<|assistant|>"
START, END = "<think>", "</think>"

SHAPE = LanguageModelShape(hidden=96, layers=2, heads=4, feed_forward=256)
SCHEDULE = Schedule(steps=500, muon_lr=8e-3, adam_lr=4e-3, warmup_steps=50)
BATCH_SIZE = 96
VOCABULARY = 340
SHARE_WITHOUT_THINKING = 0.1

# As Qwen3's: earlier turns lose their reasoning, and `enable_thinking=false` shuts it at once.
CHAT_TEMPLATE = """\
{{- bos_token }}
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {{- '<|assistant|>' + message.content.split('</think>')[-1].lstrip('\\n') + eos_token }}
    {%- else %}
        {{- '<|user|>' + message.content }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|assistant|>' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""
QUESTIONS = ("What is {a} + {b}?", "{a} + {b} =", "Add {a} and {b}.", "How much is {a} plus {b}?")
OPENINGS = ("", "First, ", "Let me see: ", "Well, ", "I add in steps. ")
SECOND_STEPS = ("", "Then ", "Next, ", "And ")
LAST_STEPS = ("", "So ", "Together, ", "In all, ")


def question(a: int, b: int, rng: random.Random) -> str:
    return rng.choice(QUESTIONS).format(a=a, b=b)


def reasoning(a: int, b: int, rng: random.Random) -> str:
    """The steps of a sum: ones and tens in either order, then both, in varied words."""
    tens = (a // 10 * 10, b // 10 * 10)
    ones = (a % 10, b % 10)
    first, second = rng.sample([ones, tens], 2)
    parts = (sum(first), sum(second))
    steps = []
    for words, pair in ((OPENINGS, first), (SECOND_STEPS, second), (LAST_STEPS, parts)):
        left, right = rng.sample(pair, 2)
        steps.append(f"{rng.choice(words)}{left} + {right} = {left + right}.")
    return " ".join(steps)


def reply(a: int, b: int, thoughts: str) -> str:
    return f"{START}\n{thoughts}\n{END}\n\n{a + b}"


def is_held_out(a: int, b: int) -> bool:
    """Whether training never shows this sum, in either order: one in eight."""
    low, high = sorted((a, b))
    return (low * 37 + high * 101) % 8 == 0


def pairs(rng: random.Random, *, held_out: bool) -> Iterator[tuple[int, int]]:
    while True:
        a, b = rng.randrange(100), rng.randrange(100)
        if is_held_out(a, b) == held_out:
            yield a, b


def train_tokenizer(seed: int = 0) -> PreTrainedTokenizerFast:
    """Bytes, single digits and the few words of the examples; the tags are tokens of their own.

    As in Qwen3's they are no special tokens: decoded text shows them.
    """
    rng = random.Random(seed)  # noqa: S311, a corpus is no secret
    texts = []
    for i in range(2000):
        a, b = i % 100, i % 97
        texts.append(f"{question(a, b, rng)}\n{reasoning(a, b, rng)}")
    bpe = Tokenizer(models.BPE())
    digits = pre_tokenizers.Digits(individual_digits=True)
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.pre_tokenizer = pre_tokenizers.Sequence([digits, byte_level])
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[PAD, BOS, EOS, USER, ASSISTANT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    bpe.add_tokens([AddedToken(tag, normalized=False) for tag in (START, END)])
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=bpe,
        bos_token=BOS,
        eos_token=EOS,
        pad_token=PAD,
        model_max_length=512,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )


def prompt_form(tokenizer: PreTrainedTokenizerFast, *, thinking: bool = True) -> str:
    """What the chat template makes of one message, with `{}` in the message's place."""
    message = [{"role": "user", "content": "{}"}]
    return str(
        tokenizer.apply_chat_template(
            message, tokenize=False, add_generation_prompt=True, enable_thinking=thinking
        )
    )


def training_examples(
    tokenizer: PreTrainedTokenizerFast, count: int, rng: random.Random
) -> list[Encoded]:
    with_thoughts, without = (prompt_form(tokenizer, thinking=one) for one in (True, False))
    prompts, replies = [], []
    for (a, b), _ in zip(pairs(rng, held_out=False), range(count), strict=False):
        asked = question(a, b, rng)
        if rng.random() < SHARE_WITHOUT_THINKING:
            prompts.append(without.format(asked))
            replies.append(str(a + b))
        else:
            prompts.append(with_thoughts.format(asked))
            replies.append(reply(a, b, reasoning(a, b, rng)))
    prompt_ids, reply_ids = tokenizer(prompts)["input_ids"], tokenizer(replies)["input_ids"]
    eos = tokenizer.eos_token_id
    return [Encoded([*p, *r, eos], len(p)) for p, r in zip(prompt_ids, reply_ids, strict=True)]


def train_reasoner(
    tokenizer: PreTrainedTokenizerFast, schedule: Schedule = SCHEDULE, seed: int = 0
) -> tuple[LlamaForCausalLM, list[float], float]:
    """The trained model, the loss of every step (nats per token), and the seconds that it took."""
    rng = random.Random(seed)  # noqa: S311, a course is no secret
    model = new_language_model(tokenizer, SHAPE, seed)
    started = time.monotonic()

    def losses_of(step: int) -> Iterator[Tensor]:
        batch = training_examples(tokenizer, BATCH_SIZE, rng)
        num_counted = sum(len(example.ids) - example.answer_start for example in batch)
        for part in micro_batches(batch, 2):
            yield answer_loss(model, part, tokenizer.pad_token_id) / num_counted

    losses = train(model, losses_of, schedule)
    return model, losses, time.monotonic() - started


def sum_quality(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, *, num_prompts: int = 200
) -> dict[str, float]:
    """Shares, on sums that training never showed, of greedy answers and of samples at 1."""
    rng = random.Random(1)  # noqa: S311, no secret
    sums = [pair for pair, _ in zip(pairs(rng, held_out=True), range(num_prompts), strict=False)]
    prompts = [prompt_form(tokenizer).format(question(a, b, rng)) for a, b in sums]
    batch = tokenizer(prompts, return_tensors="pt", padding=True, return_token_type_ids=False)
    torch.manual_seed(0)
    shares: dict[str, float] = {}
    for name, sampled in (("greedy", False), ("sampled", True)):
        ids = model.generate(  # type: ignore[misc]
            **batch, do_sample=sampled, top_k=50, temperature=1.0, max_new_tokens=120
        )
        replies = tokenizer.batch_decode(ids[:, batch["input_ids"].shape[1] :])
        right = finished = 0
        for (a, b), text in zip(sums, replies, strict=True):
            answers = re.findall(rf"^{START}.*?{END}\n\n(\d+){EOS}", text, re.DOTALL)
            finished += len(answers)
            right += answers == [str(a + b)]
        shares |= {f"{name}_finished": finished / len(sums), f"{name}_right": right / len(sums)}
    return shares
