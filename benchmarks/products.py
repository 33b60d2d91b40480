"""Products of states with fixed weights: torch's own beside those with packed weights.

    python benchmarks/products.py

For each shape of weights and number of rows the microseconds of `F.linear` and of oneDNN with
weights that were laid out once. `models/products.py` takes the second one from some number of
multiplications on; what lies below is marked.
"""

import statistics
import time
from collections.abc import Callable
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.table import Table
from torch.nn import functional as F

from models import products
from models.products import Product

SHAPES = {
    "embedded pair model": [(128, 128), (128, 384), (384, 128)],
    "embedded language model": [(192, 192), (192, 576), (192, 1024), (512, 192), (192, 3072)],
    "160 M": [(768, 768), (768, 2304), (768, 6144), (3072, 768)],
}
ROWS = (1, 2, 4, 11, 21, 64, 320)
_WARM_UP, _TIMES = 8, 60


def main(
    threads: Annotated[int, typer.Option(min=1, help="Threads that compute.")] = 1,
) -> None:
    """Print the table."""
    torch.set_num_threads(threads)
    table = Table("weights", *[f"{rows} rows" for rows in ROWS], title="µs: torch / packed")
    least, products._LEAST_MULTIPLICATIONS = products._LEAST_MULTIPLICATIONS, 0
    with torch.inference_mode():
        for model, shapes in SHAPES.items():
            for num_in, num_out in shapes:
                weight = torch.randn(num_out, num_in)
                torchs = Product.of(weight, None, packs=False)
                packed = Product.of(weight, None, packs=True)
                cells = []
                for rows in ROWS:
                    states = torch.randn(rows, num_in)
                    cell = (
                        f"{microseconds(torchs, states):.0f} / {microseconds(packed, states):.0f}"
                    )
                    is_small = rows * num_in * num_out < least
                    cells.append(f"({cell})" if is_small else cell)
                table.add_row(f"{model}, {num_in} x {num_out}", *cells)
    Console(width=150).print(table)
    own, other = accuracy()
    print(f"largest difference from float64, 320 rows of 768: torch {own:.1e}, packed {other:.1e}")


def microseconds(product: Callable[[torch.Tensor], torch.Tensor], states: torch.Tensor) -> float:
    """Median of one product."""
    elapsed = []
    for _ in range(_WARM_UP + _TIMES):
        began_at = time.perf_counter()
        product(states)
        elapsed.append(time.perf_counter() - began_at)
    return 1e6 * statistics.median(elapsed[_WARM_UP:])


def accuracy() -> tuple[float, float]:
    """Largest differences of both from the product in float64, for entries of variance 1."""
    torch.manual_seed(0)
    states, weight = torch.randn(320, 768), torch.randn(768, 768) / 768**0.5
    exact = F.linear(states.double(), weight.double())
    found = [Product.of(weight, None, packs=packed)(states) for packed in (False, True)]
    own, packed = [float((one - exact).abs().max()) for one in found]
    return own, packed


if __name__ == "__main__":
    typer.run(main)
