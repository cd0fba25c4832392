"""Draw the terminal view as it looks in a terminal: python docs/draw_terminal.py docs/terminal.svg."""

import re
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console

import whyword
from whyword.view.terminal import print_document


def main(path: Path) -> None:
    """Explain the example of the README and save what the terminal shows."""
    explanation = whyword.explain(
        whyword.load(), "A report about the Impressionists", target="has", foil="have"
    )
    console = Console(width=80, record=True, force_terminal=True, color_system="truecolor", file=StringIO())
    print_document(explanation.to_dict(), console, by="word")
    drawn = console.export_svg(
        title='whyword explain "A report about the Impressionists" -t has -f have', unique_id="whyword"
    )
    path.write_text(re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL))  # no fonts from elsewhere


if __name__ == "__main__":
    main(Path(sys.argv[1]))
