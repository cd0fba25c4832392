"""Views: one document in a terminal, in LaTeX, as a picture and as a table."""

import csv
import io
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.cells import cell_len
from rich.console import Console

import whyword
from whyword.view.colour import is_dark, seismic
from whyword.view.grid import lay_out
from whyword.view.head_matrix import render_matrix, sum_heads
from whyword.view.latex import render_latex
from whyword.view.terminal import print_document
from whyword.view.wording import label, proof, signed

NASTY = "<b>& \x1b[31m $x_1 % # {}\\ ~^ 😀 שלום مرحبا 漢字\n\t'End' [bold] \"x\" | -- `"


@pytest.fixture(scope="module")
def model(byte_level: whyword.Model) -> whyword.Model:
    return byte_level


@pytest.fixture(scope="module")
def document(model: whyword.Model) -> dict[str, Any]:
    return whyword.explain(
        model, "A report about painters", target="has", foil="have", method="alti-logit"
    ).to_dict()


@pytest.fixture(scope="module")
def nasty(model: whyword.Model) -> dict[str, Any]:
    return whyword.explain(model, NASTY, foil="auto", method="alti-logit").to_dict()


@pytest.fixture(scope="module")
def continuation(model: whyword.Model) -> whyword.Continuation:
    return whyword.explain_continuation(
        model, "A report about", " the painters has", foil="auto", method="alti-logit"
    )


def draw(document: dict[str, Any], width: int, colour: str | None = None, **options: Any) -> str:
    file = io.StringIO()
    console = Console(width=width, file=file, color_system=colour, force_terminal=colour is not None)  # type: ignore[arg-type]
    print_document(document, console, **options)
    return file.getvalue()


def test_a_grid_by_block_is_the_first_table_of_the_paper(document: dict[str, Any]) -> None:
    grid = lay_out(document)
    assert [row.label for row in grid.rows] == ["3", "2", "1"]
    assert grid.rows[0].values == tuple(document["by_block"][2])
    assert grid.sum.values == tuple(document["scores"])
    assert grid.largest == max(abs(value) for row in document["by_block"] for value in row)


def test_a_grid_by_head_ranks_all_heads(document: dict[str, Any]) -> None:
    grid = lay_out(document, "head")
    assert len(grid.rows) == 3 * 4
    sums = [abs(row.total) for row in grid.rows]
    assert sums == sorted(sums, reverse=True)
    assert sum(row.total for row in grid.rows) == pytest.approx(
        sum(document["ledger"]["attention"]), abs=1e-5
    )
    strongest = lay_out(document, "head", top=2)
    raising = [row for row in grid.rows if row.total > 0][:2]
    lowering = [row for row in grid.rows if row.total < 0][:2]
    assert strongest.rows == (*raising, *lowering)
    assert strongest.sum.values == grid.sum.values  # of all heads
    block, head = map(int, grid.rows[0].label.split("."))
    assert grid.rows[0].values == tuple(document["by_head"][block - 1][head - 1])


def test_a_grid_by_word_adds_up_tokens(model: whyword.Model) -> None:
    e = whyword.explain(
        model, "A report about the Impressionists", target="has", foil="have", method="alti-logit"
    )
    grid = lay_out(e.to_dict(), "word")
    assert list(zip(grid.columns, grid.sum.values, strict=True)) == [
        (word, pytest.approx(score, abs=1e-6)) for word, score in e.words()
    ]
    assert len(lay_out(e.to_dict(), "token", top=3).columns) == 3


@pytest.mark.parametrize("by", ["token", "block", "head"])
def test_the_sum_is_of_all_rows_and_says_how_many_are_not_shown(model: whyword.Model, by: str) -> None:
    e = whyword.explain(
        model, "A report about the Impressionists", target="has", foil="have", method="alti-logit"
    )
    whole, cut = lay_out(e.to_dict(), by), lay_out(e.to_dict(), by, top=1)
    count = len(whole.columns) if by in ("token", "word") else len(whole.rows)
    hidden = count - (2 if by == "head" else 1)  # the head that raises most, and the one that lowers most
    assert cut.hidden == hidden
    assert whole.hidden == 0
    assert cut.sum.total == pytest.approx(float(e.by_head.sum()), abs=1e-5)
    shown = draw(e.to_dict(), 80, by=by, top=1)
    assert f"{cut.sum.total:+.2f}" in shown
    assert f"… {hidden} more {by}s are not shown; sums are of all." in shown
    assert "not shown" not in draw(e.to_dict(), 80, by=by)


def test_every_row_of_a_continuation_adds_up_all_tokens(continuation: whyword.Continuation) -> None:
    whole, cut = lay_out(continuation.to_dict()), lay_out(continuation.to_dict(), top=2)
    assert len(cut.columns) == 2
    for one, other in zip(whole.every_row, cut.every_row, strict=True):
        assert other.total == pytest.approx(one.total)


def test_what_is_not_shown_where_nothing_adds_up(model: whyword.Model) -> None:
    compared = whyword.compare(model, "A report about", target="has", methods=["erasure", "attention"])
    assert "… 2 more tokens are not shown." in draw(compared.to_dict(), 80, by="token", top=1)
    assert "… 2 more tokens are not shown." in draw(compared["erasure"].to_dict(), 80, by="token", top=1)


def test_a_grid_of_a_continuation_is_a_triangle(continuation: whyword.Continuation) -> None:
    grid = lay_out(continuation.to_dict())
    seen = [sum(value is not None for value in row.values) for row in grid.rows]
    assert seen == list(range(seen[0], seen[0] + len(seen)))
    assert grid.rows[-1].total == pytest.approx(float(continuation[-1].scores.sum()), abs=1e-5)


def test_what_cannot_be_laid_out(document: dict[str, Any]) -> None:
    with pytest.raises(whyword.InputError, match=r"by is 'layer'\.\nWhat can be shown: by block, head"):
        lay_out(document, "layer")
    with pytest.raises(whyword.InputError, match="top is 0"):
        lay_out(document, top=0)


@pytest.fixture(scope="module")
def various(model: whyword.Model) -> list[dict[str, Any]]:
    prompts = ["A", "A report about the painters. " * 7, NASTY, "日本語 text " * 6]
    return [whyword.explain(model, prompt, foil="auto", method="alti-logit").to_dict() for prompt in prompts]


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize("by", ["block", "head", "token", "word"])
@pytest.mark.parametrize("colour", [None, "truecolor"])
def test_the_terminal_keeps_to_its_width(
    various: list[dict[str, Any]], width: int, by: str, colour: str | None
) -> None:
    for document in various:
        plain = draw_plain(draw(document, width, colour, by=by))
        assert all(cell_len(line) <= width for line in plain.splitlines()), document["text"]


def draw_plain(shown: str) -> str:
    from rich.text import Text

    return Text.from_ansi(shown).plain


def test_the_terminal_without_colour_has_signs_and_numbers(document: dict[str, Any]) -> None:
    shown = draw(document, 80)
    assert "\x1b" not in shown
    lines = shown.splitlines()
    assert lines[0] == "Why “has” and not “have”?"
    assert f"difference {document['ledger']['logit']:+.3f}" in lines[1]
    first = next(line for line in lines if line.split()[:1] == ["3"])
    assert first.split()[1:-1] == [signed(value).strip() for value in document["by_block"][2]]
    total = next(line for line in lines if line.startswith("sum"))
    assert total.split()[1:-1] == [signed(value).strip() for value in document["scores"]]
    assert "error" in lines[-3]
    assert lines[-2].startswith("exact: ")


def test_the_terminal_with_colour_puts_tokens_on_red_and_blue(document: dict[str, Any]) -> None:
    from rich.text import Text

    shown = Text.from_ansi(draw(document, 100, "truecolor"))
    grounds = {}
    for span in shown.spans:
        style = span.style
        assert not isinstance(style, str)
        if style.bgcolor is not None and style.bgcolor.triplet is not None:
            grounds[shown.plain[span.start : span.end].strip(), span.start] = style.bgcolor.triplet
    last = shown.plain.splitlines()
    row = next(line for line in last if line.startswith("sum"))
    start = shown.plain.index("\n" + row) + 1
    for column, value in zip(lay_out(document).columns, document["scores"], strict=True):
        found = [
            c for (text, place), c in grounds.items() if text == column and start <= place < start + len(row)
        ]
        if abs(value) > 0.1 * max(map(abs, document["scores"])):
            assert found
            assert (found[0].red > found[0].blue) == (value > 0), column


def test_a_long_prompt_shows_its_strongest_tokens_and_its_whole_text(model: whyword.Model) -> None:
    e = whyword.explain(model, "A report about the painters. " * 7, foil="auto", method="alti-logit")
    shown = draw(e.to_dict(), 80)
    strongest = int(e.by_block.abs().amax(0).argmax())
    assert f"{e.scores[strongest]:+.2f}" in next(
        line for line in shown.splitlines() if line.startswith("sum")
    )
    assert "… " in shown
    assert shown.count("report") >= 7


def test_control_characters_do_not_reach_the_terminal(nasty: dict[str, Any]) -> None:
    assert "\x1b" not in draw(nasty, 80)
    assert label("\x1b[31m") == "\\u001b[31m"
    assert label(" has") == "has"
    assert label("  ") == "␣␣"
    assert label("\n\t") == "⏎⇥"
    assert label("") == "∅"
    assert label("a\u2028b\x00") == "a\\u2028b\\u0000"


def test_the_proof_in_one_line(document: dict[str, Any]) -> None:
    assert proof(document).startswith("embedding ")
    own = f"{document['ledger']['logit']:+.3f}"
    assert f"= {own} = model, error " in proof(document)
    wrong = {**document, "ledger": {**document["ledger"], "logit": document["ledger"]["logit"] + 1}}
    assert f"= {own} = model {wrong['ledger']['logit']:+.3f}, error" in proof(wrong)


def test_colours() -> None:
    pytest.importorskip("matplotlib")
    from matplotlib import colormaps

    for step in range(-10, 11):
        assert seismic(step / 10) == pytest.approx(colormaps["seismic"](0.5 + step / 20)[:3], abs=0.02)
    assert seismic(9.0) == seismic(1.0)
    assert [is_dark(seismic(share)) for share in (-1.0, 0.0, 1.0)] == [True, False, True]


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles_on_its_own(
    document: dict[str, Any], nasty: dict[str, Any], continuation: whyword.Continuation, tmp_path: Path
) -> None:
    for name, each in {"plain": document, "nasty": nasty, "long": continuation.to_dict()}.items():
        (tmp_path / f"{name}.tex").write_text(render_latex(each), encoding="utf-8")
        command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", f"{name}.tex"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
        assert done.returncode == 0, done.stdout[-2000:]
        assert (tmp_path / f"{name}.pdf").stat().st_size > 5000


def test_latex_has_the_boxes_of_the_paper(document: dict[str, Any]) -> None:
    text = render_latex(document)
    assert text.count(r"\whyrow{") == 3 + 1
    assert text.count(r"\whytoken{") == (3 + 1) * len(document["tokens"])
    rgb = ",".join(
        f"{channel:.3f}" for channel in seismic(document["by_block"][2][0] / lay_out(document).largest)
    )
    assert rf"\whytoken{{{rgb}}}" in text.split(r"\whyrow{")[1]


def test_pictures(model: whyword.Model, nasty: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    e = whyword.explain(
        model, "A $report$ about the painters", target="has", foil="have", method="alti-logit"
    )
    e.save(tmp_path / "e.png")
    e.save(tmp_path / "e.svg")
    assert (tmp_path / "e.png").read_bytes().startswith(b"\x89PNG")
    drawn = (tmp_path / "e.svg").read_text()
    assert ">block<" in drawn
    assert f">{float(e.scores[0]):+.2f}<" in drawn
    e.save(tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_text() == drawn
    from whyword.view.plots import render_plot

    assert render_plot(nasty, "png").startswith(b"\x89PNG")


def test_a_picture_of_a_long_prompt_shows_its_strongest_tokens(model: whyword.Model) -> None:
    pytest.importorskip("matplotlib")
    from whyword.view.plots import render_plot

    e = whyword.explain(model, "A report about the painters. " * 12, foil="auto", method="logit")
    assert len(e.tokens) > 60
    drawn = render_plot(e.to_dict(), "png")
    width = int.from_bytes(drawn[16:20], "big")
    assert 3000 < width <= 4000
    text = render_plot(e.to_dict(), "svg").decode()
    assert f"{len(e.tokens) - 36} weaker columns are not shown" in text
    assert f">{float(e.scores[int(e.scores.abs().argmax())]):+.2f}<" in text
    assert ">… " in text


def test_characters_without_a_glyph_are_named_with_a_package(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("matplotlib")
    from whyword.view.plot_fonts import warn_of_boxes

    assert warn_of_boxes(["漢", "字"]).startswith("No font has 漢 字: boxes are drawn.")
    assert "apt install fonts-noto-cjk)" in warn_of_boxes(["漢", "ひ", "한"])
    assert "apt install fonts-noto-core)" in warn_of_boxes(["ঋ"])
    from matplotlib.figure import Figure

    from whyword.view.plot_fonts import write_figure

    figure = Figure()
    figure.text(0.5, 0.5, "\U0001fbff")  # no font has it
    write_figure(figure, "png")
    assert "boxes are drawn" in caplog.text


def test_tables(model: whyword.Model, continuation: whyword.Continuation, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    e = whyword.explain(model, "A report, about", target="has", foil="have", method="alti-logit")
    e.save(tmp_path / "e.csv")
    with open(tmp_path / "e.csv", newline="") as file:
        records = list(csv.DictReader(file))
    assert [record["text"] for record in records] == [token.text for token in e.tokens]
    assert [float(record["score"]) for record in records] == pytest.approx(e.scores.tolist())
    frame = e.to_dataframe(wide=True)
    assert frame["block_3"].tolist() == pytest.approx(e.by_block[2].tolist())
    assert frame.filter(like="block_").sum(axis=1).tolist() == pytest.approx(e.scores.tolist(), abs=1e-5)
    assert len(continuation.to_dataframe(wide=True)) == sum(len(each.tokens) for each in continuation)
    tidy = e.to_dataframe()
    assert {"token", "word", "block", "score"} <= set(tidy.columns)
    assert len(tidy) == 3 * len(e.tokens)
    assert tidy.groupby("position")["score"].sum().tolist() == pytest.approx(e.scores.tolist(), abs=1e-5)
    assert set(continuation.to_dataframe().columns) == {"step", "target", *tidy.columns}
    flowing = whyword.explain(model, "A report, about", target="has", foil="have", method="flow")
    by_depth = flowing.to_dataframe()
    assert {"token", "word", "depth", "score"} <= set(by_depth.columns)
    assert by_depth.groupby("depth")["score"].sum().tolist() == pytest.approx(
        [flowing.ledger.logit] * len(flowing.flow), abs=1e-4
    )
    with pytest.raises(whyword.InputError, match="There is no wide data frame of this"):
        whyword.predict(model, "A").to_dataframe(wide=True)


def test_a_continuation_is_saved_and_read(continuation: whyword.Continuation, tmp_path: Path) -> None:
    for ending in ("json", "html", "tex", "csv"):
        continuation.save(tmp_path / f"c.{ending}")
    again = whyword.read(tmp_path / "c.json")
    assert isinstance(again, whyword.Continuation)
    assert again.text == continuation.text
    torch.testing.assert_close(again[-1].scores, continuation[-1].scores)


def test_files_that_cannot_be_written(model: whyword.Model, tmp_path: Path) -> None:
    e = whyword.explain(model, "A report", method="alti-logit")
    with pytest.raises(whyword.InputError, match=r"There is no folder .*/nowhere\.\nMake it first"):
        e.save(tmp_path / "nowhere" / "e.json")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(whyword.InputError, match=r"folder\.json cannot be written: Is a directory"):
        e.save(tmp_path / "folder.json")
    if Path("/dev/full").exists():
        (tmp_path / "full.json").symlink_to("/dev/full")
        with pytest.raises(whyword.InputError, match=r"full\.json cannot be written: No space left"):
            e.save(tmp_path / "full.json")
    assert sorted(path.name for path in tmp_path.iterdir()) in (["folder.json"], ["folder.json", "full.json"])


def test_numbers_that_are_next_to_nothing_have_no_sign() -> None:
    assert [signed(value) for value in (0.004, -0.004, 0.0, 0.006, -1.0)] == [" 0.00"] * 3 + [
        "+0.01",
        "-1.00",
    ]


def test_heads_are_shown_before_any_method(document: dict[str, Any]) -> None:
    by_head, by_block = draw(document, 80, by="head"), draw(document, 80)
    assert "updates before mixing" in by_head
    assert "alti-logit" not in by_head
    assert "position = token" in by_head
    assert "alti-logit" in by_block
    assert "tracing back" in by_block


def test_a_cut_table_says_so(document: dict[str, Any]) -> None:
    assert any(line.startswith("all ") for line in draw(document, 80, top=2).splitlines())
    assert not any(line.startswith("sum ") for line in draw(document, 80, top=2).splitlines())
    assert f"of {len(document['tokens'])} tokens fit" in draw(document, 30).replace("\n", " ")
    assert "tokens fit" not in draw(document, 140)


def test_what_was_forced_is_named(model: whyword.Model) -> None:
    e = whyword.explain(model, "A report", target="has been", foil="has gone", method="alti-logit")
    assert e.forced > 0
    forced = "".join(token.text for token in e.tokens.records[-e.forced :]).strip()
    assert f"after “{forced}”, with which they all begin" in draw(e.to_dict(), 80)


def test_pictures_without_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from whyword.view import plots, saving

    monkeypatch.setattr(plots, "find_spec", lambda name: None)
    with pytest.raises(
        whyword.InputError, match=r"Pictures need matplotlib.*\nInstall it: pip install matplotlib"
    ):
        saving.require_format(tmp_path / "e.png")


def test_show_prints(model: whyword.Model, capsys: pytest.CaptureFixture[str]) -> None:
    whyword.explain(model, "A report", target="has", foil="have").show("word")
    assert "Why “has” and not “have”?" in capsys.readouterr().out


def test_heads_are_a_heat_map(document: dict[str, Any]) -> None:
    sums = sum_heads(document)
    assert [len(row) for row in sums] == [4, 4, 4]
    assert sum(map(sum, sums)) == pytest.approx(sum(document["ledger"]["attention"]), abs=1e-5)
    wide = [line.plain for line in render_matrix(sums, 80, numbers=True)]
    assert wide[0].split() == ["block", "1", "2", "3", "4", "head"]
    assert [line.split()[0] for line in wide[1:]] == ["3", "2", "1"]
    assert [float(cell.replace("·", "0")) for cell in wide[1].split()[1:]] == pytest.approx(
        sums[2], abs=0.006
    )
    narrow = [line.plain for line in render_matrix(sums, 20, numbers=True)]
    signs = [cell for line in narrow[1:] for cell in line.split()[1:]]
    flat = [value for row in sums[::-1] for value in row]
    largest = max(map(abs, flat))
    assert signs == ["·" if abs(value) < 0.1 * largest else "+" if value > 0 else "−" for value in flat]
    coloured = render_matrix(sums, 20, numbers=False)
    assert any(str(span.style).startswith("raises.") for line in coloured for span in line.spans)


def test_pictures_of_heads_and_neurons(model: whyword.Model, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    e = whyword.explain(model, "A report about", target="has", foil="have", method="alti-logit")
    e.save(tmp_path / "blocks.svg")
    e.save(tmp_path / "heads.svg", by="head")
    heads = (tmp_path / "heads.svg").read_text()
    assert "what every head adds" in heads
    assert "what every head adds" not in (tmp_path / "blocks.svg").read_text()
    found = whyword.neurons(model, "A report about", target="has", foil="have")
    found.save(tmp_path / "neurons.svg")
    strongest = found.named[0].name
    picture = (tmp_path / "neurons.svg").read_text()
    assert f"neuron of block {strongest.block + 1}" in picture
    assert f">{strongest.neuron}<" in picture
    found.save(tmp_path / "neurons.png")
    assert (tmp_path / "neurons.png").read_bytes().startswith(b"\x89PNG")


def test_fonts_that_were_installed_later_are_found(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """matplotlib keeps its list of fonts in a file: here one from before a font was installed."""
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure
    from matplotlib.font_manager import findSystemFonts, fontManager
    from matplotlib.ft2font import FT2Font

    from whyword.view import plot_fonts

    own = {font.fname for font in fontManager.ttflist if "mpl-data" in font.fname}
    plain = next(path for path in own if path.endswith("DejaVuSans.ttf"))
    drawn = set(FT2Font(plain).get_charmap())
    installed = [path for path in findSystemFonts() if path.endswith((".ttf", ".otf")) and path not in own]
    having = {path: set(FT2Font(path).get_charmap()) - drawn for path in installed}
    path, more = max(having.items(), key=lambda item: len(item[1]), default=("", set()))
    letters = [code for code in sorted(more) if chr(code).isalpha()]
    if not letters:
        pytest.skip("no font is installed that has letters matplotlib's own lacks")
    monkeypatch.setattr(fontManager, "ttflist", [font for font in fontManager.ttflist if font.fname in own])
    monkeypatch.setattr(plot_fonts, "_FONTS", (FT2Font(path).family_name,))
    monkeypatch.setattr(plot_fonts, "_LOOKED_AT", set())
    fontManager._findfont_cached.cache_clear()  # type: ignore[attr-defined]
    with plot_fonts.drawing():
        figure = Figure()
        figure.text(0.5, 0.5, chr(letters[0]))
        plot_fonts.write_figure(figure, "png")
    assert "boxes are drawn" not in caplog.text
    assert not plot_fonts.find_new_fonts()
    fontManager._findfont_cached.cache_clear()  # type: ignore[attr-defined]
