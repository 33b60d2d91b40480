"""Command line: `python -m cocoa_lab.embedded.world train --out FOLDER`."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich import print_json
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from cocoa_lab.embedded.answers import answer_prompts
from cocoa_lab.embedded.evaluation import task_quality
from cocoa_lab.embedded.language_model import new_language_model
from cocoa_lab.embedded.testbed import read_testbed
from cocoa_lab.embedded.weights import save, write_card
from cocoa_lab.embedded.world.chat import CONTEXT_TOKENS
from cocoa_lab.embedded.world.exposures import write_exposures
from cocoa_lab.embedded.world.replies import share_right
from cocoa_lab.embedded.world.testbed import all_lines, write_probe_prompts, write_testbed
from cocoa_lab.embedded.world.training import RECIPES, Recipe, tokenizer_of, train_world_model
from models.embedded import TESTBED_DIR

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)

Out = Annotated[Path, typer.Option(help="Where the model's folder, checkpoint and log go.")]
Which = Annotated[str, typer.Option(help="first or second: one of the two models.")]


@app.command()
def train(
    out: Out,
    which: Which = "first",
    steps: Annotated[int | None, typer.Option(help="Of the whole training.")] = None,
    threads: Annotated[int, typer.Option(help="Of torch.")] = 2,
    bfloat16: Annotated[
        bool, typer.Option(help="Twice as fast, on processors with AVX512-BF16 or AMX.")
    ] = False,
) -> None:
    """Trains a model, about three hours on two cores; goes on where it was cut off."""
    torch.set_num_threads(threads)
    recipe = RECIPES[which]
    if steps is not None:
        recipe = replace(recipe, schedule=replace(recipe.schedule, steps=steps))
    out.mkdir(parents=True, exist_ok=True)
    folder = out / recipe.folder
    if not (folder / "tokenizer.json").exists():
        tokenizer_of(recipe).save_pretrained(folder)
    tokenizer: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(folder)
    train_world_model(recipe, tokenizer, out, in_bfloat16=bfloat16)
    export(out, which)


@app.command()
def export(out: Out, which: Which = "first") -> None:
    """Writes the model as it is at the checkpoint into its folder, ready to be served."""
    recipe = RECIPES[which]
    model, tokenizer, losses = _at_checkpoint(recipe, out)
    folder = out / recipe.folder
    save(model, tokenizer, folder)
    last_losses = losses[-100:]
    card = {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "steps": len(losses),
        "seconds": _seconds(recipe, out),
        "seed": recipe.seed,
        "final_loss_nats": round(sum(last_losses) / len(last_losses), 4),
    }
    write_card(folder, card)


def _seconds(recipe: Recipe, out: Path) -> int:
    """Of the training, its pauses aside, as its log has them."""
    lines = (out / f"{recipe.folder}.log.jsonl").read_text(encoding="utf-8").splitlines()
    seconds: list[float] = [json.loads(line)["seconds"] for line in lines]
    return round(sum(seconds))


def _at_checkpoint(
    recipe: Recipe, out: Path
) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast, list[float]]:
    """The model, its tokenizer and the losses of the steps so far."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(out / recipe.folder)
    model = new_language_model(tokenizer, recipe.shape, recipe.seed, CONTEXT_TOKENS)
    state = torch.load(out / f"{recipe.folder}.checkpoint.pt", weights_only=True)
    model.load_state_dict(state["model"])
    return model, tokenizer, state["losses"]


@app.command()
def exposures(
    out: Out,
    steps: Annotated[int, typer.Option(help="The first ones of the training.")],
    which: Which = "first",
) -> None:
    """Writes how often training tells each fact, truly and falsely, into a table."""
    recipe = RECIPES[which]
    write_exposures(recipe.corpus, steps, out / f"{recipe.folder}.exposures.jsonl")


@app.command(name="testbed")
def prompts(out: Out, which: Which = "first") -> None:
    """Writes the prompts with what their answers are compared with; those of the first one ship."""
    write_testbed(RECIPES[which].corpus.knowledge, out)


@app.command(name="probe-prompts")
def prompts_of_probe(out: Out, which: Which = "first") -> None:
    """Writes the prompts that a probe of sentences is trained on; the testbed has none of them."""
    write_probe_prompts(RECIPES[which].corpus.knowledge, out / "long_probe_prompts.jsonl")


@app.command()
def evaluate(
    out: Out,
    which: Which = "first",
    count: Annotated[int, typer.Option(help="Prompts of each task.")] = 720,
    threads: Annotated[int, typer.Option(help="Of torch.")] = 2,
) -> None:
    """Labels the checkpoint's greedy answers to this testbed and to that of the short tasks.

    The model's card keeps how many have which label.
    """
    torch.set_num_threads(threads)
    recipe = RECIPES[which]
    model, tokenizer, _ = _at_checkpoint(recipe, out)
    knowledge = recipe.corpus.knowledge
    figures: dict[str, Any] = {}
    for task, lines in all_lines(knowledge, count).items():
        figures[task] = share_right(model, tokenizer, knowledge.world, lines)
    for task, short in read_testbed(TESTBED_DIR).items():
        asked = [recipe.course.prompt_form(line.prompt) for line in short[:count]]
        figures[task] = task_quality(short[:count], answer_prompts(model, tokenizer, asked))
    write_card(out / recipe.folder, {"testbed": figures})
    print_json(json.dumps(figures))


if __name__ == "__main__":
    app()
