"""whyword aer: how far a word alignment is from a human one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..reporting import Debug, Json, print_json, reporting, tell

if TYPE_CHECKING:
    from ...alignment.links import LinkFile

__all__ = ["aer"]


@reporting
def aer(
    hypothesis: Annotated[
        Path, typer.Argument(metavar="ALIGNMENT", help="The alignment: talp, pharaoh or naacl.")
    ],
    gold: Annotated[
        Path, typer.Argument(metavar="GOLD", help="The human one, with sure and possible links.")
    ],
    base: Annotated[
        str | None,
        typer.Option(
            "--base",
            metavar="0|1|H,G",
            help="Words count from 0 or 1, in both files or in each: 0,1.",
            show_default="as the files agree best",
        ),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="talp, pharaoh or naacl, of both files or of each: talp,naacl.",
            show_default="found by content",
        ),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--source",
            metavar="FILE",
            help="The source sentences; with --target: links outside them are refused.",
        ),
    ] = None,
    target: Annotated[
        Path | None, typer.Option("--target", metavar="FILE", help="Their translations.")
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Print the alignment error rate in percent, then precision and recall."""
    from ...alignment.aer import compare_bases
    from ...alignment.parallel_files import read_words

    sizes = None
    if source is not None or target is not None:
        sizes = [(len(own), len(other)) for own, other in read_words(source, target)]
    bases, forms = _split(base), _split(form)
    (score, found, known), *others = compare_bases(
        hypothesis, gold, forms, (_read_base(bases[0]), _read_base(bases[1])), sizes
    )
    for file, path in ((found, hypothesis), (known, gold)):
        how = "assumed" if file.assumed else "as given"
        tell(f"{path}: {file.form}, {len(file.sentences)} sentences, words count from {file.base} ({how})")
    if json:
        print_json(
            {
                "aer": score.aer,
                "precision": score.precision,
                "recall": score.recall,
                "links": score.links,
                "sure": score.sure,
                "bases": [found.base, known.base],
                "bases given": [not found.assumed, not known.assumed],
                "other bases": [
                    {"bases": [own.base, other.base], "aer": each.aer} for each, own, other in others
                ],
            }
        )
        return
    for name, share in (("AER", score.aer), ("precision", score.precision), ("recall", score.recall)):
        print(f"{100 * share:5.2f} % {name}")
    if found.assumed or known.assumed:
        print(f"Words count from {_say_base(found, hypothesis)}, from {_say_base(known, gold)}.")
    rivals = [each for each in others if each[0] != score]  # both files counted from 0 are as both from 1
    for other, own, theirs in rivals[:1]:
        option = f"--base {own.base},{theirs.base}"
        print(f"Counted otherwise ({option}) the AER is {100 * other.aer:.2f} %.")


def _say_base(file: "LinkFile", path: Path) -> str:
    """Say what a file counts words from, and how that is known."""
    has_zero = any(0 in link for links in file.sentences for link in links.allowed)
    how = (
        "as given" if not file.assumed else "it has an index 0" if file.base == 0 and has_zero else "inferred"
    )
    return f"{file.base} in {path.name} ({how})"


def _split(option: str | None) -> tuple[str | None, str | None]:
    """Read an option of both files, or of each."""
    if option is None:
        return None, None
    first, _, second = option.partition(",")
    return first.strip(), second.strip() or first.strip()


def _read_base(base: str | None) -> int | None:
    from ...errors import InputError

    if base not in (None, "0", "1"):
        raise InputError(f"--base is {base!r}.", "Give 0 or 1, or one for each file: 0,1.")
    return None if base is None else int(base)
