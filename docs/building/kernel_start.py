"""What a kernel has before the first cell: commands of whyword run in it, and each model is loaded once."""

import os
import shlex
import sys
from pathlib import Path
from typing import Any

__all__ = ["clean", "find_translation_model", "run_commands", "share_models"]


def share_models() -> None:
    """Load each model once for all pages: commands and cells that name it again get the same one."""
    import whyword
    import whyword.pipeline.loading as loading

    load, loaded = loading.load, {}

    def load_once(source: Any = None, tokenizer: Any = None, **options: Any) -> Any:
        if tokenizer is not None or not isinstance(source, str | None) or (source and Path(source).exists()):
            return load(source, tokenizer, **options)  # a folder may be another one on the next page
        key = (source, *(f"{name}={value}" for name, value in sorted(options.items()) if value))
        if key not in loaded:
            loaded[key] = load(source, **options)
        return loaded[key]

    loading.load = load_once
    whyword.load = load_once


def run_commands(text: str) -> None:
    """Run the commands of a block, one after the other, and print what they print."""
    from typer.testing import CliRunner

    from whyword.cli.application import application

    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        if words[0] != "whyword":
            raise ValueError(f"only commands of whyword are run: {line}")
        done = CliRunner().invoke(application, words[1:], prog_name="whyword")
        if done.exit_code not in (0, 2):  # 2: the page shows what is refused
            raise RuntimeError(f"{line}\nexit code {done.exit_code}\n{done.output}") from done.exception
        sys.stdout.write(done.stdout)
        if done.exit_code == 2:
            sys.stdout.write(done.stderr)


def find_translation_model() -> str | None:
    """Return the folder of a trained translation model, if there is one here."""
    shared = Path(os.environ.get("WHYWORD_SHARED") or Path(__file__).parents[3] / "shared")
    folder = shared / "models" / "opus-mt-zh-en"
    return str(folder) if folder.is_dir() else None


def clean(folder: str, needs: str) -> None:
    """Go to an empty folder, with a translation model in it if the page needs one."""
    os.makedirs(folder)
    os.chdir(folder)
    if needs == "translation":
        os.symlink(str(find_translation_model()), "opus-mt-zh-en")


def quiet_libraries() -> None:
    """Leave out progress bars and notices of other libraries, and the colours of rich: pages show text."""
    import warnings

    import rich.console
    import transformers

    rich.console._is_jupyter = lambda: False
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE"):  # set by the kernel
        os.environ.pop(name, None)

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    warnings.filterwarnings("ignore")


def render_figures_clearly() -> None:
    """Draw figures as SVG, with text as text, on no background of their own."""
    import matplotlib
    from matplotlib_inline.backend_inline import set_matplotlib_formats

    set_matplotlib_formats("svg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "savefig.transparent": True})


def read_docs_table(page: str, head: str) -> dict[str, dict[str, str]]:
    """Return a table of another page, found by a part of its heading: rows by first cell, cells by column."""
    text = (Path(__file__).parents[1] / page).read_text(encoding="utf-8")
    lines = text[text.rindex("\n", 0, text.index(head)) + 1 :].split("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
    columns = rows[0] if rows[0][0] else rows[0][1:]
    return {row[0]: dict(zip(columns, row[1:], strict=False)) for row in rows[2:]}
