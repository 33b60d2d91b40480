"""`cocoa probe`: collect what samples show, train a probe on it, and see how far to trust it."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.cli.environment import settings_or_exit
from cocoa_lab.commands.command_line import command_line
from cocoa_lab.commands.failing import errors_told
from cocoa_lab.measures import MEASURES

if TYPE_CHECKING:
    from cocoa_lab.examples import Example
    from cocoa_lab.probes.checkpoint import Epoch

probe = typer.Typer(help=__doc__, no_args_is_help=True)

Limit = Annotated[
    int | None, typer.Option(min=1, help="That many prompts only, drawn with the seed.")
]
Force = Annotated[
    bool, typer.Option("--force", help="Overwrite what another or a larger run left there.")
]
Seed = Annotated[
    int,
    typer.Option(
        min=0, max=2**63 - 1, help="Repeats samples, drawn prompts, training and intervals."
    ),
]


@probe.command()
@errors_told()
def collect(
    prompts: Annotated[
        str,
        typer.Option(
            help='A .jsonl file with a `prompt` in each line, "testbed", or a dataset by name.'
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="Folder of the collection; an interrupted one is continued.")
    ],
    layers: Annotated[
        str | None,
        typer.Option(help="Candidate layers with commas between; by default all of a small model."),
    ] = None,
    num_samples: Annotated[
        int, typer.Option(min=2, max=64, help="M, the number of sampled answers.")
    ] = 10,
    units: Annotated[
        Literal["answer", "sentences"],
        typer.Option(help="What is stored: answers, or each sentence of them (an NLI model)."),
    ] = "answer",
    limit: Limit = None,
    seed: Seed = 0,
) -> None:
    """Run the full mode on prompts; store hidden states and what samples showed.

    The prompts need no references.
    """
    from cocoa_lab.probes.collecting import CollectionSpec
    from cocoa_lab.probes.collecting import collect as collect_all

    examples = _prompts(prompts, limit, seed)
    name, of_layers = _name_of(prompts), _layers(layers)
    spec = CollectionSpec(name, examples, out, num_samples, seed, of_layers, units)
    settings = settings_or_exit()
    with _prompts_shown(len(examples)) as on_done:
        asyncio.run(collect_all(spec, settings, on_done))
    typer.echo(f"{len(examples)} prompts: {out}")


@probe.command()
@errors_told()
def train(
    collection: Annotated[Path, typer.Argument(help="Folder that `cocoa probe collect` wrote.")],
    out: Annotated[
        Path, typer.Option(help="Folder of the probe; an interrupted training there is continued.")
    ],
    target: Annotated[
        Literal["inconsistency", "semantic_entropy", "sentence_inconsistency"],
        typer.Option(help="What it predicts."),
    ] = "inconsistency",
    layer: Annotated[
        str, typer.Option(help="One, several with commas between, or auto for all collected.")
    ] = "auto",
    architecture: Annotated[
        Literal["small", "paper"], typer.Option(help="docs/light.md says how they differ.")
    ] = "small",
    seed: Seed = 0,
    force: Force = False,
) -> None:
    """Train a probe, which is kept at its best epoch.

    Of several layers the one with the lowest validation loss is kept.
    """
    # Networks come from extras, without which the other commands work.
    from cocoa_lab.probes.collection import read
    from cocoa_lab.probes.from_collection import (
        TrainingSpec,
        claim,
        save_marked,
        train_probe,
    )
    from cocoa_lab.probes.outputs import show_training

    out.mkdir(parents=True, exist_ok=True)
    collected = read(collection)
    layers = None
    if layer != "auto":
        layers = _layers(layer)
    spec = TrainingSpec(target, architecture, layers, seed)
    own = claim(out, collected, spec, force=force)
    with _epochs_shown(f"training on {collection}") as on_epoch:
        trained, how = train_probe(collected, spec, out / "training.checkpoint.pt", on_epoch)
    save_marked(trained, out, own)
    show_training(trained.card, how)
    typer.echo(f"probe {trained.card.sha256[:12]}: {out}")


@probe.command()
@errors_told()
def evaluate(
    folder: Annotated[Path, typer.Argument(help="Folder of the probe.", metavar="PROBE")],
    out: Annotated[
        Path, typer.Option(help="Folder of the results; an interrupted run there is continued.")
    ],
    dataset: Annotated[
        str,
        typer.Option(
            help="Prompts with references, other than the probe's: "
            '"testbed", a .jsonl file, a dataset.'
        ),
    ] = "testbed",
    collected: Annotated[
        Path | None,
        typer.Option(help="The probe's own collection; with it, each task is also left out once."),
    ] = None,
    quality: Annotated[
        str | None, typer.Option(help=f"Measure of the answers: {', '.join(MEASURES)}.")
    ] = None,
    limit: Limit = None,
    num_resamples: Annotated[
        int, typer.Option(min=1, help="Resamples behind each interval.")
    ] = 1000,
    seed: Seed = 0,
    force: Force = False,
) -> None:
    """Measure a probe against samples.

    Reports errors, ranks, PRR of light against full, and tasks that it never saw.
    """
    if quality is not None and quality not in MEASURES:
        raise typer.BadParameter(
            f"{quality!r} is none of {', '.join(MEASURES)}", param_hint="--quality"
        )
    from cocoa_lab.datasets import load
    from cocoa_lab.overwriting import check_replaceable
    from cocoa_lab.probes.collecting import CollectionSpec, collect_and_measure
    from cocoa_lab.probes.collection import only, read
    from cocoa_lab.probes.evaluation import ProbeEvaluationSpec, evaluate_probe
    from cocoa_lab.probes.outputs import settings_of, write_evaluation
    from cocoa_lab.quality import QUALITY, quality_names
    from models.probes.card import check_model
    from models.probes.probe import TrainedProbe

    trained = TrainedProbe.open(folder)
    if trained.card.target == "sentence_inconsistency":
        raise ValueError("sentences are measured by cocoa evaluate --units sentences")
    training = None
    layers: tuple[int, ...] = (trained.card.layer,)
    if collected is not None:
        training = read(collected)
        layers = training.header.layers
        check_model(trained.card, training.header.model, training.header.revision)
    examples = load(dataset, limit=limit, seed=seed)
    if not force:
        check_replaceable(out, settings_of(trained.card, dataset, seed), len(examples))
    num_samples = trained.card.sampling["num_samples"]
    spec = CollectionSpec(dataset, examples, out / "collection", num_samples, seed, layers)
    names = quality_names(examples, quality)
    measures = {task: QUALITY[name] for task, name in names.items()}
    settings = settings_or_exit()
    with _prompts_shown(len(examples)) as on_done:
        measured = asyncio.run(collect_and_measure(spec, measures, settings, on_done, trained.card))
    answers = only(read(spec.folder), {example.id for example in examples})
    evaluation = ProbeEvaluationSpec(trained, answers, measured, training, num_resamples, seed)
    with _epochs_shown("leaving tasks out") as on_epoch:
        outcome = evaluate_probe(evaluation, out, on_epoch)
    write_evaluation(outcome, out, command_line(sys.argv[1:]), dataset, seed)
    typer.echo((out / "report.md").read_text(encoding="utf-8"))


@contextmanager
def _prompts_shown(num_prompts: int) -> Iterator[Callable[[], None]]:
    from cocoa_lab.commands.progress import progress_of

    with progress_of("prompts") as progress:
        task = progress.add_task("collecting", total=num_prompts)
        yield lambda: progress.advance(task)


@contextmanager
def _epochs_shown(what: str) -> "Iterator[Callable[[Epoch], None]]":
    """How many epochs there will be is not known, since each layer ends when it gets no better."""
    from cocoa_lab.commands.progress import progress_of

    with progress_of("epochs") as progress:
        task = progress.add_task(what, total=None)

        def show(epoch: "Epoch") -> None:
            told = f"{what}: layer {epoch.layer}, validation loss {epoch.validation_loss:.5f}"
            progress.update(task, advance=1, description=told)

        yield show


def _prompts(name: str, limit: int | None, seed: int) -> "list[Example]":
    """Prompts of a file, which may lack references, or of a dataset."""
    from cocoa_lab.datasets import drawn, load
    from cocoa_lab.examples import read_jsonl

    if not name.endswith(".jsonl"):
        return load(name, limit=limit, seed=seed)
    return drawn(read_jsonl(Path(name), labelled=False), limit, seed)


def _name_of(prompts: str) -> str:
    """Without folders, which are nobody else's business."""
    if prompts.endswith(".jsonl"):
        return Path(prompts).name
    return prompts


def _layers(names: str | None) -> tuple[int, ...] | None:
    if names is None:
        return None
    try:
        return tuple(sorted(set(map(int, names.split(",")))))
    except ValueError:
        raise typer.BadParameter(f"{names!r} is no list of layers, such as 2,3,4") from None
