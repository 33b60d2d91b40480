"""Command line: `python -m cocoa_lab.embedded all --out models/embedded`."""

import json
import os
import subprocess
import sysconfig
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich import print_json
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from cocoa_lab.embedded.answers import Answered, answer_prompts
from cocoa_lab.embedded.cross_encoder import train_cross_encoder
from cocoa_lab.embedded.evaluation import cross_encoder_quality, task_quality
from cocoa_lab.embedded.hard_training import teach_judge, teach_nli
from cocoa_lab.embedded.language_model import (
    FIRST_RECIPE,
    RECIPES,
    SECOND_RECIPE,
    Recipe,
    train_language_model,
)
from cocoa_lab.embedded.nli import teach_texts, train_nli
from cocoa_lab.embedded.nli_evaluation import nli_quality
from cocoa_lab.embedded.reasoner import SCHEDULE as REASONER_SCHEDULE
from cocoa_lab.embedded.reasoner import sum_quality, train_reasoner, train_tokenizer
from cocoa_lab.embedded.testbed import HeldOut, read_testbed, write_probe_prompts, write_testbed
from cocoa_lab.embedded.tokenizer import (
    train_cross_encoder_tokenizer,
    train_language_model_tokenizer,
)
from cocoa_lab.embedded.training import Schedule
from cocoa_lab.embedded.weights import (
    CARD,
    load_cross_encoder,
    load_language_model,
    readable,
    save,
    write_card,
)
from models.embedded import CROSS_ENCODER_DIR, NLI_DIR, PROBES_DIR, TESTBED_DIR

CROSS_ENCODER_SCHEDULE = Schedule(steps=2000, muon_lr=3e-3, adam_lr=1.5e-3)
NLI_SCHEDULE = Schedule(steps=1500, muon_lr=2e-3, adam_lr=1e-3)
NLI_TEXTS_SCHEDULE = Schedule(steps=3000, muon_lr=3e-3, adam_lr=1e-3)
HARD_PAIRS_SCHEDULE = Schedule(steps=2200, muon_lr=4e-3, adam_lr=1.5e-3)
NLI_HARD_PAIRS_SCHEDULE = Schedule(steps=1700, muon_lr=4e-3, adam_lr=1.5e-3)
# Of a card, what tells of an earlier training that the weights went through.
_HOW_TRAINED = ("steps", "seconds", "final_loss_nats")

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)

Out = Annotated[Path, typer.Option(help="Where the folders go, and checkpoints to resume from.")]
Seed = Annotated[int, typer.Option()]
Steps = Annotated[int | None, typer.Option(help="Training steps; default: as the shipped model.")]
Threads = Annotated[int, typer.Option(help="Threads of torch.")]
Device = Annotated[str, typer.Option(help="Where it trains: more than a day on two cores.")]
Workers = Annotated[int, typer.Option(help="Processes that make the pairs.")]


@app.command()
def tokenizer(out: Out, seed: Seed = 0) -> None:
    """Learns the vocabularies of language models and cross-encoder and writes their tokenizers."""
    for recipe in RECIPES:
        learnt = train_language_model_tokenizer(
            recipe.vocabulary, seed + recipe.seed_offset, recipe.course
        )
        learnt.save_pretrained(out / recipe.folder)
    train_cross_encoder_tokenizer(seed=seed).save_pretrained(out / CROSS_ENCODER_DIR.name)


def _tokenizer(out: Path, folder: str, seed: int) -> PreTrainedTokenizerFast:
    if not (out / folder / "tokenizer.json").exists():
        tokenizer(out, seed)
    loaded: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(out / folder)
    return loaded


@app.command()
def language_model(out: Out, steps: Steps = None, seed: Seed = 0, threads: Threads = 2) -> None:
    """Trains the language model; about half an hour on two cores."""
    _language_model(FIRST_RECIPE, out, steps, seed, threads)


@app.command()
def second_language_model(
    out: Out, steps: Steps = None, seed: Seed = 0, threads: Threads = 2
) -> None:
    """Trains the second language model; about half an hour on one core."""
    _language_model(SECOND_RECIPE, out, steps, seed, threads)


def _language_model(recipe: Recipe, out: Path, steps: int | None, seed: int, threads: int) -> None:
    torch.set_num_threads(threads)
    loaded = _tokenizer(out, recipe.folder, seed)
    own_seed = seed + recipe.seed_offset
    checkpoint = out / f"{recipe.folder}.checkpoint.pt"
    model, losses, seconds = train_language_model(
        loaded,
        _schedule(recipe.schedule, steps),
        shape=recipe.shape,
        course=recipe.course,
        seed=own_seed,
        checkpoint=checkpoint,
    )
    _ship(model, loaded, out / recipe.folder, losses, seconds, own_seed)
    checkpoint.unlink(missing_ok=True)


@app.command()
def cross_encoder(out: Out, steps: Steps = None, seed: Seed = 0, threads: Threads = 2) -> None:
    """Trains the cross-encoder; about a quarter of an hour on two cores."""
    torch.set_num_threads(threads)
    schedule = _schedule(CROSS_ENCODER_SCHEDULE, steps)
    loaded = _tokenizer(out, CROSS_ENCODER_DIR.name, seed)
    checkpoint = out / "cross_encoder.checkpoint.pt"
    model, losses, seconds = train_cross_encoder(loaded, schedule, seed=seed, checkpoint=checkpoint)
    _ship(model, loaded, out / CROSS_ENCODER_DIR.name, losses, seconds, seed)
    checkpoint.unlink(missing_ok=True)


@app.command()
def nli(out: Out, steps: Steps = None, seed: Seed = 0, threads: Threads = 2) -> None:
    """Trains the NLI model from the trained cross-encoder; about ten minutes on two cores."""
    torch.set_num_threads(threads)
    schedule = _schedule(NLI_SCHEDULE, steps)
    judge, loaded = load_cross_encoder(out / CROSS_ENCODER_DIR.name)
    checkpoint = out / "nli.checkpoint.pt"
    model, losses, seconds = train_nli(judge, loaded, schedule, seed=seed, checkpoint=checkpoint)
    _ship(model, loaded, out / NLI_DIR.name, losses, seconds, seed)
    checkpoint.unlink(missing_ok=True)


@app.command()
def nli_texts(out: Out, steps: Steps = None, seed: Seed = 0, threads: Threads = 2) -> None:
    """Teaches the trained NLI model to judge sentences by paragraphs; 40 minutes on one core."""
    torch.set_num_threads(threads)
    schedule = _schedule(NLI_TEXTS_SCHEDULE, steps)
    model, loaded = load_cross_encoder(out / NLI_DIR.name)
    checkpoint = out / "nli_texts.checkpoint.pt"
    losses, seconds = teach_texts(model, loaded, schedule, seed=seed, checkpoint=checkpoint)
    before = json.loads((out / NLI_DIR.name / CARD).read_text(encoding="utf-8"))
    _ship(model, loaded, out / NLI_DIR.name, losses, seconds, seed)
    write_card(out / NLI_DIR.name, {"on_answers": {name: before[name] for name in _HOW_TRAINED}})
    checkpoint.unlink(missing_ok=True)


@app.command()
def hard_pairs(
    out: Out, steps: Steps = None, seed: Seed = 0, device: Device = "cuda", workers: Workers = 7
) -> None:
    """Teaches the trained cross-encoder pairs of nearly equal words; six minutes on an H200."""
    schedule = _schedule(HARD_PAIRS_SCHEDULE, steps)
    _teach_hard_pairs(teach_judge, out / CROSS_ENCODER_DIR.name, schedule, seed, device, workers)


@app.command()
def nli_hard_pairs(
    out: Out, steps: Steps = None, seed: Seed = 0, device: Device = "cuda", workers: Workers = 7
) -> None:
    """Teaches the trained NLI model pairs of nearly equal words; six minutes on an H200."""
    schedule = _schedule(NLI_HARD_PAIRS_SCHEDULE, steps)
    _teach_hard_pairs(teach_nli, out / NLI_DIR.name, schedule, seed, device, workers)


def _teach_hard_pairs(
    teach: Callable[..., tuple[list[float], float]],
    directory: Path,
    schedule: Schedule,
    seed: int,
    device: str,
    workers: int,
) -> None:
    # The workers are forks, in which threads of the tokenizer do not run.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_float32_matmul_precision("high")
    model, loaded = load_cross_encoder(directory)
    checkpoint = directory.with_name(f"{directory.name}_hard_pairs.checkpoint.pt")
    model.to(device)  # type: ignore[arg-type]
    losses, seconds = teach(
        model, loaded, schedule, seed=seed, checkpoint=checkpoint, workers=workers
    )
    model.to("cpu")  # type: ignore[arg-type]
    before = json.loads((directory / CARD).read_text(encoding="utf-8"))
    _ship(model, loaded, directory, losses, seconds, seed)
    earlier = {name: before[name] for name in (*_HOW_TRAINED, "on_answers") if name in before}
    trained_on = torch.cuda.get_device_name() if device == "cuda" else device
    write_card(directory, {"device": trained_on, "before_hard_pairs": earlier})
    checkpoint.unlink(missing_ok=True)


def _schedule(schedule: Schedule, steps: int | None) -> Schedule:
    return schedule if steps is None else replace(schedule, steps=steps)


def _ship(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    directory: Path,
    losses: list[float],
    seconds: float,
    seed: int,
) -> None:
    save(model, tokenizer, directory)
    last_losses = losses[-100:]
    card = {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "steps": len(losses),
        "seconds": round(seconds),
        "threads": torch.get_num_threads(),
        "seed": seed,
        "final_loss_nats": round(sum(last_losses) / len(last_losses), 4),
    }
    write_card(directory, card)


@app.command()
def reasoner(
    out: Annotated[Path, typer.Option(help="Its folder.")] = Path("tests/data/reasoning_model"),
    steps: Steps = None,
    seed: Seed = 0,
) -> None:
    """Trains the tiny model of the tests that reasons; two minutes on one core."""
    torch.set_num_threads(1)
    learnt = train_tokenizer(seed)
    model, losses, seconds = train_reasoner(learnt, _schedule(REASONER_SCHEDULE, steps), seed)
    _ship(model, learnt, out, losses, seconds, seed)
    write_card(out, {"sums": sum_quality(model, learnt)})


@app.command(name="testbed")
def held_out_prompts(out: Out, seed: Seed = 0) -> None:
    """Writes the held-out prompts with their references."""
    write_testbed(out / TESTBED_DIR.name, seed=seed)


@app.command()
def probes(out: Out, seed: Seed = 0) -> None:
    """Samples answers to prompts kept for probes and trains both; ten minutes on two cores."""
    prompts, collection = out / "embedded_probe_prompts.jsonl", out / "probe_collection"
    write_probe_prompts(prompts, seed=seed)
    # `cocoa probe` computes the features exactly as the service does, in a process whose
    # environment names the new models.
    program = Path(sysconfig.get_path("scripts")) / "cocoa"
    models = {
        "COCOA_GENERATION__MODEL": str(out / FIRST_RECIPE.folder),
        "COCOA_SIMILARITY__MODEL": str(out / CROSS_ENCODER_DIR.name),
        "COCOA_NLI__MODEL": str(out / NLI_DIR.name),
    }
    environment = os.environ | models

    def cocoa_probe(*arguments: object) -> None:
        command = [str(program), "probe", *map(str, arguments)]
        subprocess.run(command, env=environment, check=True)  # noqa: S603, our own program

    cocoa_probe("collect", "--prompts", prompts, "--out", collection, "--seed", seed)
    for target in ("consistency", "semantic_entropy"):
        folder = out / PROBES_DIR.name / target
        cocoa_probe("train", collection, "--out", folder, "--target", target, "--seed", seed)
        readable(folder)


@app.command()
def evaluate(out: Out, seed: Seed = 0, threads: Threads = 2) -> None:
    """Measures all models on the testbed and on held-out pairs; writes the figures to the cards."""
    torch.set_num_threads(threads)
    figures: dict[str, Any] = {}
    answered = {recipe.folder: _answered(recipe, out, seed) for recipe in RECIPES}
    for folder, by_task in answered.items():
        figures[folder] = {task: task_quality(*answers) for task, answers in by_task.items()}
        write_card(out / folder, {"testbed": figures[folder]})
    own_answers = answered[FIRST_RECIPE.folder]
    judge, judge_tokenizer = load_cross_encoder(out / CROSS_ENCODER_DIR.name)
    figures["cross_encoder"] = cross_encoder_quality(judge, judge_tokenizer, own_answers)
    write_card(out / CROSS_ENCODER_DIR.name, {"quality": figures["cross_encoder"]})
    figures["nli"] = nli_quality(*load_cross_encoder(out / NLI_DIR.name), own_answers)
    write_card(out / NLI_DIR.name, {"quality": figures["nli"]})
    print_json(json.dumps(figures, ensure_ascii=False))


def _answered(
    recipe: Recipe, out: Path, seed: int
) -> dict[str, tuple[list[HeldOut], list[Answered]]]:
    """Lines of the testbed and a language model's answers to them, by task."""
    model, model_tokenizer = load_language_model(out / recipe.folder)
    answered: dict[str, tuple[list[HeldOut], list[Answered]]] = {}
    for task, lines in read_testbed(out / TESTBED_DIR.name).items():
        prompts = [recipe.course.prompt_form(line.prompt) for line in lines]
        answers = answer_prompts(model, model_tokenizer, prompts, num_samples=10, seed=seed)
        answered[task] = (lines, answers)
    return answered


@app.command(name="all")
def everything(out: Out, steps: Steps = None, seed: Seed = 0, threads: Threads = 2) -> None:
    """Runs what made the shipped models, in order."""
    tokenizer(out, seed)
    language_model(out, steps, seed, threads)
    second_language_model(out, steps, seed, threads)
    cross_encoder(out, steps, seed, threads)
    nli(out, steps, seed, threads)
    nli_texts(out, steps, seed, threads)
    held_out_prompts(out, seed)
    probes(out, seed)
    evaluate(out, seed, threads)


if __name__ == "__main__":
    app()
