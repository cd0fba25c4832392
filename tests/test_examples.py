"""The scripts in examples/ run as they stand, on a tiny model."""

import csv
import re
import runpy
from pathlib import Path

import pytest

import whyword

from serving import make_toy

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a tiny model and its tokenizer."""
    folder, model = tmp_path_factory.mktemp("toy"), make_toy()
    model.network.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    return str(folder)


def run(monkeypatch: pytest.MonkeyPatch, script: str, *arguments: str) -> None:
    monkeypatch.setattr("sys.argv", [script, *arguments])
    runpy.run_path(str(EXAMPLES / script), run_name="__main__")


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_explain_prediction(
    toy: str, inside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "explain_prediction.py", "The keys to the cabinet", "--target", "are", "--model", toy)
    assert "The strongest word is" in capsys.readouterr().out
    assert "cabinet" in (inside / "report.html").read_text(encoding="utf-8")


def test_compare_methods(
    toy: str, inside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "compare_methods.py", "--model", toy, "--limit", "4")
    shown = capsys.readouterr().out
    assert re.findall(r"^  (\S+) +[01]\.\d\d$", shown, flags=re.MULTILINE) == [
        "flow",
        "alti-logit",
        "logit",
        "erasure",
        "random",
    ]
    assert (inside / "run" / "settings.json").is_file()


def test_batch_to_csv(toy: str, inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = ["The keys to the cabinet", "A report, about “art”"]
    (inside / "prompts.txt").write_text("\n".join(prompts) + "\n", encoding="utf-8")
    run(monkeypatch, "batch_to_csv.py", "prompts.txt", "words.csv", "--model", toy)
    with (inside / "words.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for prompt in prompts:
        expected = whyword.explain(whyword.load(toy), prompt, foil="auto")
        own = [row for row in rows if row["prompt"] == prompt]
        assert [row["word"] for row in own] == [word for word, _ in expected.words()]
        assert [float(row["logits"]) for row in own] == pytest.approx(
            [score for _, score in expected.words()], abs=1e-3
        )


def test_they_are_short_and_listed() -> None:
    listed = re.findall(r"`(\w+\.py)`", (EXAMPLES / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(path.name for path in EXAMPLES.glob("*.py"))
    for name in listed:
        assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) <= 40
