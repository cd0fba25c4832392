"""Links, their files, and the alignment error rate."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from whyword import InputError
from whyword.alignment.aer import compare_files, score_links
from whyword.alignment.links import FORMATS, Links, parse_links, require_inside, write_links
from whyword.alignment.symmetry import LINK_SYMMETRISATIONS, symmetrise
from whyword.cli import application

LINK = st.tuples(st.integers(0, 9), st.integers(0, 9))
LINKS = st.builds(Links, st.frozensets(LINK, max_size=8), st.frozensets(LINK, max_size=4))


def test_the_rate_by_hand() -> None:
    gold = Links(frozenset({(0, 0), (1, 1)}), frozenset({(2, 1)}))
    score = score_links([({(0, 0), (2, 1), (2, 2)}, gold)])
    assert (score.links, score.sure, score.found_sure, score.found_allowed) == (3, 2, 1, 2)
    assert score.aer == pytest.approx(1 - 3 / 5)
    assert (score.precision, score.recall) == (pytest.approx(2 / 3), pytest.approx(1 / 2))


def test_nothing_against_nothing_is_no_error() -> None:
    score = score_links([(set(), Links())])
    assert (score.aer, score.precision, score.recall) == (0.0, 1.0, 1.0)


@given(st.lists(LINKS, max_size=5))
def test_gold_against_itself_is_perfect_and_counts_add_up(golds: list[Links]) -> None:
    assert score_links((gold.sure, gold) for gold in golds).aer == 0
    assert score_links((gold.allowed, gold) for gold in golds).precision == 1
    apart = [score_links([(gold.possible, gold)]) for gold in golds]
    assert score_links((gold.possible, gold) for gold in golds) == sum(apart, start=score_links([]))


@given(st.lists(LINKS, min_size=1, max_size=5), st.sampled_from(FORMATS), st.sampled_from([None, 0, 1]))
def test_what_was_written_is_read(golds: list[Links], form: str, base: int | None) -> None:
    start = (0 if form == "pharaoh" else 1) if base is None else base
    read = parse_links(write_links(golds, form, base), "file", form, start).sentences
    for own, gold in zip(read, golds, strict=False):
        assert own.sure == gold.sure
        assert own.allowed == (gold.sure if form == "pharaoh" else gold.allowed)
    if form == "naacl":  # which says nothing of a last sentence without links
        assert not any(gold.allowed for gold in golds[len(read) :])
    else:
        assert len(read) == len(golds)


def test_the_base_is_found_by_an_index_0_anywhere() -> None:
    from_one = parse_links("1-1 2p3\n\n2-2\n", "file")
    assert (from_one.base, from_one.assumed, from_one.form) == (1, True, "talp")
    assert from_one.sentences == (
        Links(frozenset({(0, 0)}), frozenset({(1, 2)})),
        Links(),
        Links(frozenset({(1, 1)})),
    )
    from_zero = parse_links("1-1 2-3\n3-0\n", "file")
    assert (from_zero.base, from_zero.form) == (0, "pharaoh")
    assert from_zero.sentences[0].sure == {(1, 1), (2, 3)}
    assert parse_links("1-1\n", "file", base=0).sentences[0].sure == {(1, 1)}
    with pytest.raises(InputError, match="has an index 0"):
        parse_links("0-1\n", "file", base=1)


def test_naacl_has_a_line_per_link() -> None:
    file = parse_links("1 1 1 S\n1 2 2 P\n3 1 1\n3 2 1 S 0.5\n", "file")
    assert file.form == "naacl"
    assert file.sentences[0] == Links(frozenset({(0, 0)}), frozenset({(1, 1)}))
    assert file.sentences[1:] == (Links(), Links(frozenset({(0, 0), (1, 0)})))
    assert file.lines == (1, 0, 3)


@pytest.mark.parametrize(
    ("text", "form", "message"),
    [
        ("1-1\n2+3\n", None, r"file, line 2: '2\+3' is not a link of a pharaoh file"),
        ("1p1\n", "pharaoh", "line 1: '1p1' is not a link of a pharaoh file"),
        ("1 1 1 S\n1-2\n", "naacl", "line 2: '1-2' is not a link of a naacl file"),
        ("1-1\n", "giza", "no alignment format 'giza'"),
    ],
)
def test_what_is_no_link_is_refused(text: str, form: str | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_links(text, "file", form)


def test_links_outside_a_sentence_are_named_by_line() -> None:
    file = parse_links("1-1\n1-3\n", "gold")
    require_inside(file, [(1, 1), (1, 3)], "gold")
    with pytest.raises(
        InputError, match="gold, line 2: the link 1-3 is outside the sentence, which has 1 sou"
    ):
        require_inside(file, [(1, 1), (1, 2)], "gold")
    with pytest.raises(InputError, match="gold has 2 sentences, but the other files have 3"):
        require_inside(file, [(1, 1)] * 3, "gold")


def test_growing_from_both_directions_by_hand() -> None:
    forward, backward = {(0, 0), (1, 1), (3, 2), (5, 5)}, {(0, 0), (1, 1), (2, 2), (4, 5)}
    assert symmetrise(forward, backward, "intersection") == {(0, 0), (1, 1)}
    assert symmetrise(forward, backward, "union") == forward | backward
    # (2, 2) is next to (1, 1), (3, 2) next to that; (5, 5) stands alone, and then (4, 5) has a free source.
    assert symmetrise(forward, backward, "grow-diag") == {(0, 0), (1, 1), (2, 2), (3, 2)}
    assert symmetrise(forward, backward, "grow-diag-final") == {
        (0, 0),
        (1, 1),
        (2, 2),
        (3, 2),
        (4, 5),
        (5, 5),
    }
    # Both words of (0, 1) have links, so that it is not taken, though it is next to two.
    assert symmetrise({(0, 0), (1, 1), (0, 1)}, {(0, 0), (1, 1)}, "grow-diag-final") == {(0, 0), (1, 1)}
    with pytest.raises(InputError, match="no symmetrisation 'both'"):
        symmetrise(forward, backward, "both")


@given(st.frozensets(LINK, max_size=12), st.frozensets(LINK, max_size=12))
def test_growing_stays_between_intersection_and_union(
    forward: frozenset[tuple[int, int]], backward: frozenset[tuple[int, int]]
) -> None:
    grown = symmetrise(forward, backward, "grow-diag-final")
    assert forward & backward <= grown <= forward | backward
    for side in (0, 1):  # no word that either direction linked is left alone
        assert {link[side] for link in grown} == {link[side] for link in forward | backward}
    assert set(LINK_SYMMETRISATIONS) == {"intersection", "union", "grow-diag", "grow-diag-final"}


@pytest.mark.parametrize(("name", "published"), [("fastalign", 28.5), ("mgiza", 20.9)])
def test_published_rates(shared: Path, name: str, published: float) -> None:
    german = shared / "data" / "alignment" / "de-en"
    files = german / f"{name}.talp", german / "alignment.talp"
    score, found, known = compare_files(*files)
    assert 100 * score.aer == pytest.approx(published, abs=0.07)  # 28.46 and 20.96
    assert (found.base, known.base) == (0, 1)
    done = CliRunner().invoke(application, ["aer", *map(str, files)])
    first = done.stdout.splitlines()[0]
    assert first == f"{100 * score.aer:.2f} % AER"
    assert "words count from 0 (assumed)" in done.stderr
    assert "words count from 1 (assumed)" in done.stderr


def test_the_command_takes_bases_and_sentences(tmp_path: Path) -> None:
    for name, text in {"h": "1-1\n", "g": "1-1 2p2\n", "s": "a b\n", "t": "c\n"}.items():
        (tmp_path / name).write_text(text)
    run, files = CliRunner().invoke, [str(tmp_path / "h"), str(tmp_path / "g")]
    assert run(application, ["aer", *files]).stdout == (
        " 0.00 % AER\n100.00 % precision\n100.00 % recall\n"
        "Words count from 1 in h (inferred), from 1 in g (inferred).\n"
        "Counted otherwise (--base 0,1) the AER is 50.00 %.\n"
    )
    other = run(application, ["aer", *files, "--base", "0,1"])
    assert other.stdout.startswith("50.00 % AER\n")
    assert "words count from 0 (as given)" in other.stderr
    sentences = ["--source", str(tmp_path / "s"), "--target", str(tmp_path / "t")]
    outside = run(application, ["aer", *files, *sentences])
    assert outside.exit_code == 2
    assert "line 1: the link 2-2 is outside the sentence" in outside.stderr.replace("\n", " ")
    wrong = run(application, ["aer", *files, "--base", "2"])
    assert "Give 0 or 1" in wrong.stderr


@pytest.mark.parametrize(("shift", "base"), [(0, 1), (1, 0)])
def test_a_file_without_an_index_0_is_read_as_both_files_agree(shift: int, base: int, tmp_path: Path) -> None:
    """Links of words 2 to 4: counted from 0 their indices are 1 to 3, and no index 0 tells."""
    gold = [Links(frozenset({(1, 1), (2, 3)})), Links(frozenset({(3, 2)}))]
    (tmp_path / "h").write_text(write_links(gold, "talp", base))
    (tmp_path / "g").write_text(write_links(gold, "talp", 1))
    score, found, known = compare_files(tmp_path / "h", tmp_path / "g")
    assert score.aer == 0
    assert found.base - known.base == base - 1
    given = compare_files(tmp_path / "h", tmp_path / "g", bases=(1, 1))[0].aer
    assert given == shift
    done = CliRunner().invoke(application, ["aer", str(tmp_path / "h"), str(tmp_path / "g"), "--json"])
    document = json.loads(done.stdout)
    assert document["bases"] == [found.base, known.base]
    assert document["bases given"] == [False, False]
    assert len(document["other bases"]) == 3
    sizes = [(4, 4), (4, 3)]  # counted from 0 the gold would be outside its sentences
    assert compare_files(tmp_path / "h", tmp_path / "g", sizes=sizes)[2].base == 1


@pytest.mark.parametrize(
    "text",
    [
        "1000000000 1 2 S",
        "1 1000000000 2",
        f"1 {'9' * 5000} 2 S",
        f"{'9' * 5000} 1 1",
        "1-1000000000",
        f"{'9' * 5000}p1",
    ],
)
def test_numbers_that_no_file_can_have(text: str) -> None:
    with pytest.raises(
        InputError, match=r"^file, line 2: the number \d+…? is too large\.\nWords and sentences"
    ):
        parse_links(f"{'1 1 1' if ' ' in text else '1-1'}\n{text}\n", "file")


def test_a_naacl_file_with_gaps_is_read() -> None:
    file = parse_links("900000 1 2 S\n", "file")
    assert len(file.sentences) == 900_000
    assert file.sentences[-1].sure == {(0, 1)}
