"""The LaTeX view: the paper's boxes, in a document that compiles on its own with any engine.

Characters that pdfLaTeX has no glyph for are declared as small boxes with their code point: text in any
script compiles, and LuaLaTeX or XeLaTeX show it where a font has it.
"""

from collections.abc import Sequence

from ..document.kinds import Document, is_continuation, is_translation
from .colour import is_dark, seismic
from .grid import Grid, Row, lay_out
from .translation_grid import lay_out_translation
from .wording import after, contrast, headline, prediction, proof, share_legend, small_print

__all__ = ["escape_latex", "render_depth_latex", "render_latex", "write_latex"]

_ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "-": r"{-}",
    "−": r"\ensuremath{-}",
    "·": r"\textperiodcentered{}",
    "…": r"\ldots{}",
    "“": r"\textquotedblleft{}",
    "”": r"\textquotedblright{}",
    "␣": r"\textvisiblespace{}",
    "⏎": r"\ensuremath{\hookleftarrow}",
    "⇥": r"\ensuremath{\mapsto}",
    "∅": r"\ensuremath{\emptyset}",
    "→": r"\ensuremath{\rightarrow}",
    "◂": r"\ensuremath{\triangleleft}",
    "⚑": r"\textbf{!}",
    "×": r"\ensuremath{\times}",
    "⁻": r"\textsuperscript{{-}}",
    **{"⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]: rf"\textsuperscript{{{digit}}}" for digit in range(10)},
}
_PREAMBLE = r"""\documentclass{article}
\usepackage{iftex}
\ifPDFTeX
  \usepackage[T1]{fontenc}
  \usepackage[utf8]{inputenc}
  \usepackage{textcomp}
%(declarations)s\else
  \usepackage{fontspec}
\fi
\usepackage[margin=1.5cm]{geometry}
\usepackage{xcolor}
\pagestyle{empty}
\setlength{\fboxsep}{1.5pt}
\setlength{\parindent}{0pt}
\newcommand{\whytoken}[3]{\colorbox[rgb]{#1}{\textcolor[gray]{#2}{\strut #3}}\hspace{1pt plus 1pt}\allowbreak}
\newcommand{\whyrow}[3]{\noindent\makebox[%(label)s][r]{\small #1}\hspace{0.8em}%%
  \begin{minipage}[t]{%(width)s\linewidth}\raggedright #2\end{minipage}\hfill{\small #3}\par\vspace{1pt}}
\begin{document}
"""


def render_latex(document: Document) -> str:
    """Render a document as LaTeX: one line of boxes per block, from last to first, then the sum.

    Of a continuation or translation: one line per token or word.
    """
    grid = lay_out_translation(document) if is_translation(document) else lay_out(document)
    return _render(document, grid)


def render_depth_latex(document: Document) -> str:
    """Render flow as LaTeX: one line of boxes per depth, from last to first."""
    return _render(document, lay_out(document, "depth"), "depth")


def _render(document: Document, grid: Grid, by: str = "block") -> str:
    translated = is_translation(document)
    if is_continuation(document):
        head, foot = [headline(document), after(document)], [proof(document)]
    elif translated:
        head = [each for each in (headline(document), contrast(document), after(document)) if each]
        foot = [each for each in (share_legend(document), proof(document)) if each]
    else:
        head, foot = [headline(document), prediction(document), after(document)], [proof(document)]
    head += small_print(document, grid.unit, by)
    body = [
        *(_row(row, grid) for row in grid.rows),
        *([r"\medskip\hrule\medskip"] if grid.rows and grid.sum else []),
        *([_row(grid.sum, grid)] if grid.sum else []),
    ]
    if grid.by == "depth":
        sizes = ("2.2em", "0.76")
    else:
        sizes = ("6em", "0.68") if translated else ("2.2em", "0.8") if grid.sum else ("9.5em", "0.58")
    return write_latex(head, body, foot, sizes)


def write_latex(
    head: Sequence[str],
    body: Sequence[str],
    foot: Sequence[str],
    sizes: tuple[str, str] = ("2.2em", "0.8"),
) -> str:
    """Write a document: lines of text above and below a body of LaTeX; `sizes` of the parts of its rows."""
    lines = [
        rf"\textbf{{{escape_latex(head[0])}}}\par",
        *(rf"{{\small {escape_latex(line)}}}\par" for line in head[1:]),
        r"\bigskip",
        *body,
        r"\bigskip",
        *(rf"{{\small {escape_latex(line)}}}\par" for line in foot),
        r"\end{document}",
        "",
    ]
    text = "\n".join(lines)
    return _PREAMBLE % {"declarations": _declare(text), "label": sizes[0], "width": sizes[1]} + text


def _row(row: Row, grid: Grid) -> str:
    largest = grid.scale_of(row)
    boxes = [
        (r"\ \vrule\ " if index == grid.split else "") + _box(column, value / (largest or 1.0))
        for index, (column, value) in enumerate(zip(grid.columns, row.values, strict=True))
        if value is not None
    ]
    end = row.end if row.unit is not None else f"{row.total:+.2f} {row.note}".rstrip()
    return rf"\whyrow{{{escape_latex(row.label)}}}{{{''.join(boxes)}}}{{{escape_latex(end)}}}"


def _box(text: str, share: float) -> str:
    colour = seismic(share)
    channels = ",".join(f"{channel:.3f}" for channel in colour)
    return rf"\whytoken{{{channels}}}{{{1 if is_dark(colour) else 0}}}{{{escape_latex(text)}}}"


def escape_latex(text: str) -> str:
    """Write text so that LaTeX sets it as it is."""
    return "".join(_ESCAPES.get(character, character) for character in text)


def _declare(text: str) -> str:
    """Declare what is in the text and beyond Latin letters, for pdfLaTeX."""
    beyond = sorted({character for character in text if ord(character) > 0x17F})
    return "".join(
        rf"  \DeclareUnicodeCharacter{{{ord(character):04X}}}"
        rf"{{{{\fboxsep=0.5pt\fbox{{\tiny {ord(character):04X}}}}}\allowbreak}}" + "\n"
        for character in beyond
    )
