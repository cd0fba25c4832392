"""The full account in the terminal: token by token, what attention, MLPs and the embedding put on it."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ..document.kinds import Document
from .terminal_colour import paint_ground
from .wording import say_hidden, signed, token_labels

__all__ = ["render_account"]


def render_account(document: Document, *, colour: bool, top: int | None = None) -> Iterator[RenderableType]:
    """Render the account of a document; `top`: only the strongest tokens."""
    account = document["account"]
    yield Text("The full account: every logit but biases on a token", style="bold")
    yield Text("heuristic: MLPs are divided by the mixing of the explained position", style="dim")
    yield Text("")
    table = Table(box=None, pad_edge=False)
    table.add_column("token", no_wrap=True, max_width=24, overflow="ellipsis")
    columns = ("attention", "mlp", "embedding", "scores")
    for heading in ("attention", "MLPs", "embedding", "all"):
        table.add_column(heading, justify="right", no_wrap=True)
    scores = account["scores"]
    largest, names = max(map(abs, scores)), token_labels(document)
    chosen = sorted(sorted(range(len(scores)), key=lambda place: -abs(scores[place]))[:top])
    for place in chosen:
        cells = [Text(signed(account[name][place])) for name in columns]
        cells[-1].stylize((paint_ground(scores[place], largest) if colour else None) or "bold")
        table.add_row(Text(names[place]), *cells)
    sums = [Text(signed(sum(account[name])), style="bold") for name in columns]
    table.add_row()
    table.add_row(Text("sum", style="bold"), *sums)
    yield table
    if hidden := say_hidden(len(scores) - len(chosen), "token", summed=True):
        yield Text(hidden, style="dim")
    yield Text(
        f"all tokens {sum(scores):+.3f}, biases {account['biases']:+.3f} = {account['logit']:+.3f} = model"
    )
    yield Text("")
