"""The command: what it prints where, its exit codes, its two-line errors."""

import ast
import importlib.util
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from typer.main import get_command
from typer.testing import CliRunner

import whyword
from whyword.ask.document_question import ask_documents
from whyword.attribute import Erasure, erase
from whyword.attribute.methods import COMPARED
from whyword.cli import application
from whyword.cli.interruption import keeping_interrupts
from whyword.cli.prompt_files import read_documents
from whyword.cli.remedies import list_options, word_for_command
from whyword.ledger import Target
from whyword.results.answer_support import AnswerSupport

import toy_tokenizers
from families import build
from weights import fetch_folder

PROMPT = "A report about the Impressionists"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny model in a folder."""
    path = tmp_path_factory.mktemp("models") / "tiny"
    tokenizer = toy_tokenizers.make("sentencepiece-bos")
    build("llama", torch.float32, vocab_size=len(tokenizer)).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return str(path)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny model without a tokenizer."""
    path = tmp_path_factory.mktemp("models") / "bare"
    build("gpt2", torch.float32).save_pretrained(path)
    return str(path)


def run(*arguments: str, code: int = 0) -> tuple[str, str]:
    """Run the command in this process; give stdout and stderr."""
    result = CliRunner().invoke(application, list(arguments))
    assert result.exit_code == code, result.output + repr(result.exception)
    return result.stdout, result.stderr


def refused(*arguments: str) -> tuple[str, str]:
    """Run a command that must fail with exit code 2 and two lines; give them."""
    shown, said = run(*arguments, code=2)
    assert shown == ""
    wrong, remedy = said.strip().split("\n")
    assert wrong.startswith("error: ")
    return wrong.removeprefix("error: "), remedy


def process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "whyword", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})


def test_an_explanation_in_the_terminal(folder: str) -> None:
    shown, said = run("explain", PROMPT, "--target", "has", "--foil", "have", "-m", folder)
    assert said == ""
    lines = shown.splitlines()
    assert lines[0] == "Why “has” and not “have”?"
    assert lines[1].startswith("P(has) = ")
    assert any(line.startswith("Impressionists ") for line in lines)
    assert "= model, error" in shown
    assert lines[-2].startswith("More: --by depth|head|token, --routes 9, -o e.html")
    shown, _ = run(
        "explain", PROMPT, "-t", "has", "-f", "have", "-m", folder, "--method", "alti-logit", "--by", "block"
    )
    lines = shown.splitlines()
    assert [line.split()[0] for line in lines if line[:3].strip().isdecimal()] == ["3", "2", "1"]


@pytest.mark.real
def test_the_default_model_as_a_newcomer_runs_it() -> None:
    cache = fetch_folder().parents[1]
    done = process("explain", PROMPT, "-t", "has", "-f", "have", WHYWORD_CACHE=str(cache), COLUMNS="80")
    assert done.returncode == 0, done.stderr
    assert "difference +5.10" in done.stdout
    assert "“report” speaks for “has”: +1.66 of +5.10, “A” +1.17." in done.stdout.replace("\n", " ")
    assert "embedding +0.006, attention +2.684, MLPs +2.411 = +5.101 = model, error" in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert done.stderr == ""


def test_json_and_nothing_else(folder: str) -> None:
    shown, said = run("explain", PROMPT, "-t", "has", "-f", "have", "-m", folder, "--json")
    assert said == ""
    model = whyword.load(folder)
    expected = whyword.explain(model, PROMPT, target="has", foil="have").to_dict()
    found = json.loads(shown)
    assert found["model"] == "tiny"
    assert found["scores"] == pytest.approx(expected["scores"], rel=1e-4, abs=1e-6)
    assert found["target"]["text"] == expected["target"]["text"]
    both, _ = run("explain", PROMPT, "-m", folder, "--method", "logit", "--method", "alti-logit", "--json")
    assert [document["method"] for document in json.loads(both)] == ["logit", "alti-logit"]


def test_the_runner_up_as_foil_and_no_foil(folder: str) -> None:
    shown, _ = run("explain", PROMPT, "-m", folder, "--foil", "runner-up", "--json")
    choices, _ = run("predict", PROMPT, "-m", folder, "--top", "2", "--json")
    first, second = json.loads(choices)["choices"]
    document = json.loads(shown)
    assert document["target"]["id"] == first["id"]
    assert [foil["id"] for foil in document["foils"]] == [second["id"]]
    shown, _ = run("explain", PROMPT, "-m", folder, "--json", "--no-foil")
    assert json.loads(shown)["foils"] == []


def test_a_forced_or_forbidden_bos(folder: str) -> None:
    with_bos, _ = run("explain", PROMPT, "-m", folder, "--json", "--start", "bos")
    without, _ = run("explain", PROMPT, "-m", folder, "--json", "--start", "none")
    default, _ = run("explain", PROMPT, "-m", folder, "--json")
    special = [token["special"] for token in json.loads(with_bos)["tokens"]]
    assert special[0]
    assert not any(special[1:])
    assert not any(token["special"] for token in json.loads(without)["tokens"])
    assert json.loads(default)["tokens"] == json.loads(with_bos)["tokens"]


@pytest.mark.parametrize("by", ["block", "head", "token", "word"])
def test_by_and_top(folder: str, by: str) -> None:
    shown, _ = run("explain", PROMPT, "-m", folder, "--by", by, "--top", "2", "--method", "alti-logit")
    bars = 4 if by == "word" else 1  # after the start, which stands apart
    rows = [line for line in shown.split("\n\n")[bars].splitlines() if line.strip()]
    expected = {"block": 3, "head": 5, "token": 2, "word": 3}  # two heads of each sign; two words, the rest
    assert len(rows) == expected[by], shown


def test_several_models_one_below_the_other(folder: str) -> None:
    shown, _ = run("explain", PROMPT, "-m", folder, "-m", folder, "--by", "word")
    assert shown.count("Why “") == 2


def test_a_continuation(folder: str, tmp_path: Path) -> None:
    saved = tmp_path / "c.json"
    shown, said = run("explain", PROMPT, "-m", folder, "--continue", "3", "-o", str(saved))
    assert said.replace("\n", "") == f"Saved {saved}"
    continuation = whyword.read(saved)
    assert isinstance(continuation, whyword.Continuation)
    assert len(continuation) == 3
    assert "every ledger adds up" in shown
    wrong, _ = refused("explain", PROMPT, "-m", folder, "--continue", "3", "-t", "has")
    assert wrong == "--continue was given with a target or foil."


def test_files(folder: str, tmp_path: Path) -> None:
    endings = ("json", "html", "tex", "csv", "svg", "png")
    options = [part for ending in endings for part in ("-o", str(tmp_path / f"e.{ending}"))]
    run("explain", PROMPT, "-m", folder, "--method", "logit", "--method", "alti-logit", *options)
    names = sorted(path.name for path in tmp_path.iterdir())
    twice = {f"e{number}.{ending}" for ending in endings if ending != "html" for number in ("", "-2")}
    assert set(names) == twice | {"e.html"}


def test_a_prompt_from_stdin_and_ids_and_chat(folder: str, bare: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(application, ["predict", "-", "-m", folder, "--json"], input=PROMPT + "\n")
    assert result.exit_code == 0, result.output
    files = [str(tmp_path / "p.json"), str(tmp_path / "p.csv")]
    saving = [part for file in files for part in ("-o", file)]
    expected, said = run("predict", PROMPT, "-m", folder, "--json", *saving)
    assert result.stdout == expected
    assert said == "".join(f"Saved {file}\n" for file in files)
    assert json.loads(Path(files[0]).read_text()) == json.loads(expected)
    shown, _ = run("explain", "15 3 88", "-t", "7", "-f", "12", "--ids", "-m", bare, "--json")
    document = json.loads(shown)
    assert [token["id"] for token in document["tokens"]] == [15, 3, 88]
    assert (document["target"]["id"], document["foils"][0]["id"]) == (7, 12)
    shown, _ = run("explain", "Hello", "--chat", "-m", folder, "--json")
    assert any(token["text"] == "<|turn|>" for token in json.loads(shown)["tokens"])


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """Documents and turns in files."""
    (tmp_path / "a.txt").write_text("A report about the painters.\n")
    (tmp_path / "b.txt").write_text("\ufeffShe has seen the reports. They have not.", encoding="utf-8")
    turns = [("user", "A report"), ("assistant", "has been"), ("user", "She has seen it")]
    messages = [{"role": role, "content": content} for role, content in turns]
    (tmp_path / "turns.json").write_text(json.dumps(messages))
    (tmp_path / "wrapped.json").write_text(json.dumps({"messages": messages}))
    return tmp_path


def test_documents_and_an_answer(folder: str, sources: Path) -> None:
    files = ["--documents", str(sources / "a.txt"), str(sources / "b.txt"), "--question", "Who has?"]
    shown, said = run("explain", *files, "--answer", "She has. They have not.", "-m", folder, "--json")
    support = AnswerSupport.from_dict(json.loads(shown))
    assert said == ""
    names = [column.name for column in support.columns]
    assert {"documents[a.txt]", "documents[b.txt]", "question", "template"} <= set(names)
    assert [row.text for row in support.rows] == ["She has.", "They have not."]
    assert "Context:\nA report about the painters.\n\nShe has seen" in support.prompt
    for row in support.rows:
        assert sum(row.scores) + (row.bias or 0.0) == pytest.approx(row.logit, abs=1e-3)
    out = [sources / f"support{ending}" for ending in (".html", ".csv", ".png", ".tex")]
    options = [word for path in out for word in ("-o", str(path))]
    shown, said = run("explain", *files, "--answer", "She has. They have not.", "-m", folder, *options)
    assert "documents[b.txt]" in shown
    assert all(path.stat().st_size > 100 for path in out)


def test_documents_by_part_and_the_models_own_answer(folder: str, sources: Path) -> None:
    files = ["--documents", str(sources / "a.txt"), str(sources / "b.txt"), "--question", "Who has?"]
    shown, _ = run(
        "explain", *files, "-t", "has", "-f", "have", "-m", folder, "--method", "erasure", "--json"
    )
    parts = json.loads(shown)
    assert (parts["schema"], parts["by"]) == ("whyword.parts/1", "part")
    _, said = run("explain", *files, "-m", folder, "--top", "2")
    assert said.startswith("The model's own answer is explained")
    template = "Read {documents}, then say {question}"
    shown, _ = run("explain", template, *files, "-t", "has", "-m", folder, "--json")
    assert json.loads(shown)["text"].startswith("Read A report about")


def test_methods_by_document(folder: str, sources: Path) -> None:
    files = ["--documents", str(sources / "a.txt"), str(sources / "b.txt"), "--question", "Who has?"]
    asked = [*files, "-t", "has", "-f", "have", "-m", folder]
    out = [sources / f"compared{ending}" for ending in (".html", ".csv", ".png", ".tex", ".json")]
    shown, _ = run("compare", *asked, *(word for path in out for word in ("-o", str(path))))
    assert "Grad × input" in shown
    assert "comprehensiveness" in shown
    assert all(path.stat().st_size > 100 for path in out)
    compared = whyword.read(out[-1])
    assert [each.method for each in compared.methods] == ["flow", "logit", "erasure", "gradient-x-input"]
    model = whyword.load(folder)
    prompt = ask_documents(model, read_documents([sources / "a.txt", sources / "b.txt"]), "Who has?")
    asked_for = {"target": "has", "foil": "have", "method": "erasure", "parts": "part"}
    erased = whyword.explain(model, prompt, **asked_for)
    assert compared["erasure", "documents[b.txt]"] == pytest.approx(
        erased.by("part")["documents[b.txt]"], abs=1e-6
    )
    # Erasing one of two sources, or keeping it alone, is hiding one document or the other.
    tokens, target = erased.tokens, Target(erased.target.id, (erased.foil.id,))
    hidden = {
        name: [place for place, token in enumerate(tokens) if token.part == name]
        for name in ("documents[a.txt]", "documents[b.txt]")
    }
    (found,) = erase(model, [Erasure(tokens.ids, target, [[], *hidden.values()])])
    whole, *without = found.preference.tolist()
    lost = {name: whole - left for name, left in zip(hidden, without, strict=True)}
    for each in compared.methods:
        best = each.faithfulness.strongest
        (other,) = set(lost) - {best}
        assert each.faithfulness.comprehensiveness == pytest.approx(lost[best], abs=1e-5)
        assert each.faithfulness.sufficiency == pytest.approx(lost[other], abs=1e-5)


def test_prompts_from_files(folder: str, sources: Path) -> None:
    typed, _ = run("explain", "A report about the painters.", "-t", "has", "-m", folder, "--json")
    read, _ = run("explain", "--prompt-file", str(sources / "a.txt"), "-t", "has", "-m", folder, "--json")
    assert read == typed
    shown, _ = run("explain", "--prompt-file", str(sources / "b.txt"), "--by", "sentence", "-m", folder)
    assert "sentence 2" in shown
    assert "They have not." in shown
    for name in ("turns.json", "wrapped.json"):
        shown, _ = run("explain", "--chat", str(sources / name), "-m", folder, "--by", "turn", "--json")
        names = [part["name"] for part in json.loads(shown)["parts"]]
        assert [name for name in names if name.startswith("turn")] == [
            "turn 1 (user)",
            "turn 2 (assistant)",
            "turn 3 (user)",
        ]


def test_prompts_that_cannot_be_read(folder: str, bare: str, sources: Path) -> None:
    def fails(*arguments: str, model: str = folder) -> str:
        return " / ".join(refused("explain", *arguments, "-m", model))

    one, two = str(sources / "a.txt"), str(sources / "b.txt")
    (sources / "empty.txt").write_text(" \n")
    (sources / "latin.txt").write_bytes(b"caf\xe9")
    for name, text in (
        ("no.json", "{"),
        ("text.json", '["a"]'),
        ("role.json", '[{"content": "x"}]'),
        ("none.json", "[]"),
    ):
        (sources / name).write_text(text)
    chat = lambda name: fails("--chat", str(sources / name))  # noqa: E731
    assert "There is no prompt. / Give PROMPT, --prompt-file FILE" in fails()
    assert "both given" in fails("A", "--prompt-file", one)
    assert "There is no file" in fails("--prompt-file", str(sources / "c.txt"))
    assert "is empty. / Give a file with text" in fails("--prompt-file", str(sources / "empty.txt"))
    assert "byte 4 is 0xe9" in fails("--prompt-file", str(sources / "latin.txt"))
    assert "without --question" in fails("--documents", one, two)
    assert "without --documents" in fails("A", "--question", "Who?")
    assert "a.txt twice" in fails("--documents", one, one, "--question", "Who?")
    assert "a field 'x' that nothing fills. / A prompt with --documents" in fails(
        "{documents} {x}", "--documents", one
    )
    assert "no field 'question'" in fails("{documents}", "--documents", one, "--question", "Who?")
    assert "with the turns in" in fails("--chat", str(sources / "turns.json"), "--documents", one)
    assert "is not JSON" in chat("no.json")
    assert "Message 1 of" in chat("text.json")
    assert "Message 1 has no role" in chat("role.json")
    assert "holds no list of turns" in chat("none.json")
    assert "There is no file" in chat("missing.json")
    assert "given with --continue" in fails("A", "--answer", "B", "--continue", "3")
    assert "--answer was given with a target" in fails("A", "--answer", "B", "-t", "C")
    assert "no chat turns. / Give a file of turns" in fails("A report", "--by", "turn")
    assert "no named parts. / Give --documents" in fails("A report", "--by", "part")
    assert "was loaded without a tokenizer" in fails("--chat", str(sources / "turns.json"), model=bare)


def test_predictions(folder: str) -> None:
    shown, _ = run("predict", PROMPT, "-m", folder, "--top", "4")
    assert len([line for line in shown.splitlines() if line[:2].strip().isdecimal()]) == 4


def test_models() -> None:
    shown, _ = run("models")
    assert "smollm2-135m-instruct, the default" in shown
    assert "llama" in shown
    document = json.loads(run("models", "--json")[0])
    assert [model["name"] for model in document["models"] if model["default"]] == ["smollm2-135m-instruct"]
    wrong, remedy = refused("models", "--fetch", "gpt-9")
    assert "gpt-9" in wrong
    assert "smollm2-135m-instruct" in remedy


def test_bad_input_in_two_lines(folder: str, bare: str, tmp_path: Path) -> None:
    assert refused("explain", "", "-m", "nothing is loaded for this")[0] == "The prompt is empty."
    assert refused("explain", "A" * 500, "-m", folder)[0].startswith("The prompt has ")
    assert "are the same tokens" in refused("explain", "A", "-t", "has", "-f", "has", "-m", folder)[0]
    assert "is not in the local cache" in refused("explain", "A", "-m", "no/model")[0]
    assert "There is no folder" in refused("explain", "A", "-m", str(tmp_path / "nowhere"))[0]
    assert "without a tokenizer" in refused("explain", "A", "-m", bare)[0]
    assert refused("explain", "1 x", "--ids", "-m", bare)[0] == "'x' is not a token id."
    assert refused("explain", "1", "-t", "x", "--ids", "-m", bare)[0] == "'x' is not a token id."
    assert "There is no token 9999" in refused("explain", "9999", "--ids", "-m", bare)[0]
    assert refused("explain", "A", "-m", folder, "--dtype", "int3")[0] == "--dtype is 'int3'."
    assert refused("explain", "A", "-m", folder, "--allow", "all")[0] == "--allow names 'all'."
    wrong, remedy = refused("explain", "A", "-m", folder, "-o", str(tmp_path / "x.pdf"))
    assert (wrong, remedy) == (
        "'x.pdf' does not end in a known format.",
        "Known endings: .json, .html, .tex, .png, .svg, .csv.",
    )
    assert refused("explain", "A", "-m", folder, "-o", str(tmp_path / "no" / "x.html"))[0].startswith(
        "There is no"
    )


def test_what_typer_refuses() -> None:
    for arguments in (
        ["explain"],
        ["explain", "A", "--by", "layer"],
        ["explain", "A", "--top", "0"],
        ["explode"],
    ):
        assert run(*arguments, code=2)[1]


def test_a_full_disk(folder: str, tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    (tmp_path / "full.html").symlink_to("/dev/full")
    _, said = run("explain", "A", "-m", folder, "--by", "word", "-o", str(tmp_path / "full.html"), code=2)
    assert "cannot be written: No space left on device." in said.replace("\n", " ")


def test_a_traceback_only_when_asked_for(folder: str) -> None:
    result = CliRunner().invoke(
        application, ["explain", "A", "-t", "has", "-f", "has", "-m", folder, "--debug"]
    )
    assert isinstance(result.exception, whyword.InputError)


def test_markup_and_escapes_are_text(folder: str) -> None:
    shown, _ = run("explain", "[bold]A[/] \x1b[31mreport", "-m", folder)
    assert "\x1b" not in shown
    wrong, _ = refused("explain", "A", "-m", "[red]/\x1b[31m")
    assert "\x1b" not in wrong
    assert "[red]/" in wrong


def test_help_is_light() -> None:
    program = (
        "import sys\nfrom whyword.cli import main\nsys.argv = ['whyword', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'transformers', 'numpy', 'matplotlib', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "explain" in done.stdout


def test_the_version() -> None:
    assert process("--version").stdout == f"whyword {whyword.__version__}\n"


def test_a_reader_that_leaves_does_not_lose_the_file(folder: str, tmp_path: Path) -> None:
    command = f'{sys.executable} -m whyword explain "{PROMPT}" -m {folder} --json -o {tmp_path}/e.json | true'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert isinstance(whyword.read(tmp_path / "e.json"), whyword.Explanation)


def test_an_encoding_without_some_characters() -> None:
    done = process("datasets", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert r"\u2026" in done.stdout


def test_a_reader_that_leaves(folder: str) -> None:
    command = f'{sys.executable} -m whyword explain "{PROMPT}" -m {folder} --json | head -c 10'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stdout == '{"schema":'
    assert "Traceback" not in done.stderr


def test_a_comparison(folder: str, tmp_path: Path) -> None:
    options = ["-t", "has", "-f", "have", "-m", folder]
    files = [str(tmp_path / "c.json"), str(tmp_path / "all.csv")]
    shown, said = run("compare", PROMPT, *options, "--by", "word", "-o", files[0], "-o", files[1])
    assert said == "".join(f"Saved {file}\n" for file in files)
    assert all(Path(file).stat().st_size > 100 for file in files)
    firsts = [line.split()[0] for line in shown.splitlines() if line.strip()]
    assert [first for first in firsts if first in COMPARED] == list(COMPARED)
    assert "= model, error" in shown
    again = whyword.read(tmp_path / "c.json")
    printed, _ = run("compare", PROMPT, *options, "--json")
    assert json.loads(printed) == again.to_dict()
    some, _ = run("compare", PROMPT, *options, "--method", "erasure-logits", "--method", "logit", "--json")
    assert [each["method"] for each in json.loads(some)["methods"]] == ["erasure-logits", "logit"]
    for ending in ("html", "tex", "csv"):
        run("compare", PROMPT, *options, "--method", "attention", "-o", str(tmp_path / f"c.{ending}"))
        assert (tmp_path / f"c.{ending}").stat().st_size > 100


def test_a_baseline_in_the_terminal(folder: str) -> None:
    shown, _ = run("explain", PROMPT, "-t", "has", "-f", "have", "-m", folder, "--method", "gradient-norm")
    assert "score: size of the gradient of the logit (difference)" in shown
    assert "scores do not add up to it" in shown


def test_what_cannot_be_compared(folder: str) -> None:
    wrong, remedy = refused("compare", "3 x", "--ids", "-m", folder)
    assert (wrong, remedy) == ("'x' is not a token id.", "With --ids, give ids with spaces between them.")
    _, said = run("compare", PROMPT, "-m", folder, "--method", "shap", code=2)
    assert "'shap' is not one of" in said


def test_neurons_of_a_prompt(folder: str, tmp_path: Path) -> None:
    asked = ["neurons", PROMPT, "-t", "has", "-f", "have", "-m", folder, "--top", "3"]
    shown, _ = run(*asked)
    lines = shown.splitlines()
    assert lines[0] == "Why “has” and not “have”?"
    assert "144 MLP neurons at" in lines[2]
    assert len([line for line in lines if line.strip()[:2] in ("1.", "2.", "3.")]) == 6
    assert "= MLPs in the ledger, error" in shown
    printed, said = run(*asked, "--json", "-o", str(tmp_path / "n.html"), "-o", str(tmp_path / "n.csv"))
    document = json.loads(printed)
    assert document["schema"] == "whyword.neurons/1"
    assert said.count("Saved") == 2
    rows = (tmp_path / "n.csv").read_text().splitlines()
    assert rows[0] == "block,expert,neuron,gate,activation,update"
    assert len(rows) == 1 + 144
    assert refused(*asked, "-o", str(tmp_path / "n.tex"))[0] == "'n.tex': there is no .tex of this (neurons)."


def test_neurons_over_a_dataset(folder: str, tmp_path: Path) -> None:
    asked = ["survey", "builtin-ana", "-m", folder, "--limit", "6"]
    out = tmp_path / "run"
    shown, said = run(*asked, "--out", str(out), "--split", "number")
    assert shown.splitlines()[0] == "Which neurons decide? builtin-ana"
    assert "ranked by how much groups differ" in shown
    assert f"Saved {out}" in said.replace("\n", "")
    written = {path.name for path in out.iterdir()}
    assert {"neurons.safetensors", "neurons.json", "neurons.csv"} <= written
    if importlib.util.find_spec("matplotlib") is not None:
        assert {"neurons.png", "block-01.png", "block-03.png"} <= written
    again, _ = run(*asked, "--out", str(out), "--split", "number")
    assert again == shown
    heads, _ = run(*asked, "--heads", "--top", "2", "-o", str(tmp_path / "heads.csv"))
    assert "block     1     2     3     4  head" in heads
    assert (tmp_path / "heads.csv").read_text().startswith("block,head,all\n")
    answers, _ = run(*asked, "--neuron", "2.7", "--top", "1")
    assert answers.splitlines()[0] == "Which inputs does neuron 2.7 answer to?"
    assert refused(*asked, "--neuron", "2.7", "-o", str(tmp_path / "a.html"))[1] == "Known endings: .json."


def test_neurons_at_their_mean(folder: str) -> None:
    asked = ["ablate", "builtin-ana", "-m", folder, "--limit", "8", "--neuron", "2.7", "--split", "number"]
    shown, _ = run(*asked)
    assert shown.startswith("What if neuron 2.7 stayed at its mean, ")
    assert json.loads(run(*asked, "--json")[0])["schema"] == "whyword.ablation/1"
    both = json.loads(run(*asked, "--neuron", "1.3", "--json")[0])
    assert [each["label"] for each in both] == ["2.7", "1.3"]


def test_datasets_are_names_and_data_is_a_folder(folder: str, tmp_path: Path) -> None:
    for command in (["survey"], ["ablate", "--neuron", "2.7"]):
        wrong, _ = refused(*command, "aga", "--data", str(tmp_path), "-m", folder)
        assert str(tmp_path) in wrong
        wrong, _ = refused(*command, "agaa", "-m", folder)
        assert wrong == "There is no dataset 'agaa'."
    together, _ = run("survey", "builtin-aga,builtin-ana", "-m", folder, "--limit", "3", "--json")
    assert [name for name, _ in json.loads(together)["data"]] == ["builtin-aga", "builtin-ana"]


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        (
            ["neurons", "--data", "ioi"],
            "Over datasets: whyword survey ioi. At their mean: whyword ablate ioi.",
        ),
        (["neurons", "--folder", "here"], "Over datasets: whyword survey DATASETS --data here"),
        (["neurons", "A", "--heads"], "Over datasets: whyword survey DATASETS --heads …"),
        (["neurons", "--out", "run"], "Over datasets: whyword survey DATASETS --out …"),
        (["neurons", "--ablate"], "Set neurons to their mean: whyword ablate DATASETS --neuron NAME"),
        (["evaluate", "--gold", "g"], "Word alignments: whyword evaluate alignment --gold …"),
        (
            ["evaluate", "--out", "run", "alignment"],
            "Put it first: whyword evaluate alignment --source FILE --target FILE --gold FILE --out RUN.",
        ),
        (
            ["evaluate", "alignment", "--languages", "zh,en"],
            "Give --source-language zh --target-language en.",
        ),
    ],
)
def test_what_is_now_another_command_says_which(options: list[str], remedy: str) -> None:
    assert refused(*options)[1] == remedy


def test_options_that_are_gone_are_not_suggested() -> None:
    result = CliRunner().invoke(application, ["neurons", "--dataset", "ioi"])
    assert result.exit_code == 2
    assert "--target" in result.stderr
    assert "--data," not in result.stderr


def test_one_neuron_needs_no_folder() -> None:
    wrong, _ = refused("survey", "builtin-ioi", "--neuron", "1.2", "--heads")
    assert wrong == "--neuron was given with --out, --heads or --split."


@pytest.mark.parametrize("name", sorted(get_command(application).commands))
def test_help_is_plain(name: str) -> None:
    shown, _ = run(*name.split(), "--help")
    assert f"Usage: whyword {name} " in shown or f"Usage: root {name} " in shown
    assert not re.search(r"<(bool|str|int|float|path|list|.*\|)", shown), shown
    options = list_options(get_command(application).commands[name].callback)
    listed = set(re.findall(r"^│[ *]+(--[\w-]+)", shown, flags=re.MULTILINE))
    assert listed - {"--help"} <= options


def test_a_command_of_two_words_has_its_own_options() -> None:
    one, other = (run("evaluate", *words, "--help")[0] for words in ([], ["alignment"]))
    assert "--gold" in other
    assert "--conventions" not in other
    assert "--gold" not in one
    assert "--conventions" in one


def test_the_sum_is_of_all_tokens_whatever_is_shown(folder: str) -> None:
    asked = ["explain", PROMPT, "-t", "has", "-f", "have", "-m", folder, "--by", "word"]
    whole, cut = (run(*asked, *more)[0] for more in ([], ["--top", "2"]))
    sums = [next(line for line in shown.splitlines() if line.startswith("diff")) for shown in (whole, cut)]
    assert sums[0].split() == sums[1].split()
    assert "3 more words" in cut  # of five; the start stands apart


def test_a_pickle_is_allowed_as_it_is_typed(bare: str, tmp_path: Path) -> None:
    folder = tmp_path / "pickled"
    shutil.copytree(bare, folder)
    network = build("gpt2", torch.float32)
    (folder / "model.safetensors").unlink()
    torch.save(network.state_dict(), folder / "pytorch_model.bin")
    for command in ("explain", "compare", "neurons", "predict"):
        _, remedy = refused(command, "15 3", "--ids", "-m", str(folder))
        assert remedy == "If you trust it, pass --allow pickle; better, save it as safetensors."
    run("predict", "15 3", "--ids", "-m", str(folder), "--allow", "pickle")


def test_remedies_are_worded_as_they_are_typed(folder: str, bare: str) -> None:
    wrong, remedy = refused("explain", PROMPT, "-m", folder, "--max-memory", "16MB")
    assert wrong.endswith("is allowed by --max-memory.")
    assert remedy.startswith("What would fit: --max-memory ")
    assert refused("explain", PROMPT, "-m", folder, "--max-memory", "much")[0] == "--max-memory is 'much'."
    _, remedy = refused("explain", PROMPT, "-m", bare)
    assert remedy == "Give token ids (--ids), or a folder that holds a tokenizer too."


def test_what_the_command_words_anew_is_still_said_by_the_library() -> None:
    from whyword.cli import remedies

    modules = [path for path in Path(whyword.__file__).parent.rglob("*.py") if "cli" not in path.parts]
    said = re.sub(r'"\s*\n\s*f?"', "", "\n".join(path.read_text(encoding="utf-8") for path in modules))
    for phrase in [*(python for python, _ in remedies.PHRASES), remedies._TOKENIZER]:
        assert phrase in said, phrase


PYTHON = re.compile(r"whyword\.\w+\(|\w+\(\.\.\.|\b[a-z_]+=(['\"]|True|False|\.\.\.)")
"""What Python code looks like in a line of an error."""
IN_PYTHON_ONLY = ("description", "Describe where", "Load it first", "heads with explain(...).show")
"""Lines about descriptions of architectures, and about mistakes that only a caller in Python can make."""


def lines_of_errors() -> list[str]:
    """List what the library may say in an error, as it is written in the source."""
    found = []
    for path in sorted(Path(whyword.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Error"):
                found += [spell(argument) for argument in node.args[:2]]
    return found


def spell(node: ast.AST) -> str:
    """Write a string of the source with some value in every gap."""
    match node:
        case ast.Constant(value=value):
            return str(value)
        case ast.JoinedStr(values=values):
            return "".join(map(spell, values))
        case ast.FormattedValue(conversion=114):
            return "'x'"
        case ast.BinOp(left=left, right=right):
            return spell(left) + spell(right)
    return "x"


def test_no_error_tells_the_user_of_the_command_to_write_python() -> None:
    commands = get_command(application).commands
    options = list_options(commands["explain"].callback) | list_options(commands["run"].callback)
    options |= {"--step", "--target-language"}
    python = [line for line in lines_of_errors() if PYTHON.search(line)]
    assert len(python) > 15
    for line in python:
        worded = word_for_command(line, options)
        known = re.search(r"in Python (pass |with )?whyword\.", worded) or any(
            words in line for words in IN_PYTHON_ONLY
        )
        assert known or not PYTHON.search(worded), worded


def interrupt(arguments: list[str], ready: Callable[[int], bool]) -> tuple[int, str]:
    """Run a command, press Ctrl-C when its process is ready for it, and give exit code and stderr."""
    if sys.platform == "win32":
        pytest.skip("Windows sends Ctrl-C to all processes of a console, the tests among them")
    command = [sys.executable, "-m", "whyword", *arguments]
    began = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        patience = time.monotonic() + 240
        while not ready(began.pid):
            assert began.poll() is None, began.communicate()
            assert time.monotonic() < patience
            time.sleep(0.02)
        began.send_signal(signal.SIGINT)
        _, said = began.communicate(timeout=60)
    finally:
        began.kill()
    return began.returncode, said


def test_an_interrupted_run_says_how_to_go_on(folder: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    asked = ["evaluate", "builtin", "-m", folder, "--methods", "logit,erasure", "--out", str(out)]
    kept = out / "examples.jsonl"
    code, said = interrupt(asked, lambda _: kept.exists() and kept.stat().st_size > 0)
    assert code == 130
    (line,) = [line for line in said.splitlines() if line.startswith("Stopped")]
    count = kept.read_bytes().count(b"\n")
    assert line == f"Stopped: {out} keeps {count:,} examples. Go on with: whyword {shlex.join(asked)}"
    assert "Traceback" not in said


def test_an_interrupted_survey_keeps_whole_windows_only(folder: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    asked = ["survey", "builtin", "-m", folder]
    code, said = interrupt([*asked, "--out", str(out)], lambda _: (out / "neurons.safetensors").exists())
    assert code == 130
    assert re.search(rf"Stopped: {out} keeps [\d,]+ examples\. Go on with: whyword survey builtin", said)
    assert "Traceback" not in said


def break_off() -> None:
    """Tidy up after an interrupt, and fail."""
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        raise OSError("broken off")


def test_an_interrupt_stays_one_whatever_it_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raised inside another library it may come out as an error of that library, or not at all."""

    class Finalised:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), keeping_interrupts():
        break_off()
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    with pytest.raises(KeyboardInterrupt), keeping_interrupts():
        Finalised()
    with pytest.raises(OSError, match="its own"), keeping_interrupts():
        raise OSError("its own")
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="sees what a process has loaded on Linux")
def test_an_interrupt_before_anything_is_kept(folder: str) -> None:
    def has_torch(process: int) -> bool:
        return "libtorch" in Path(f"/proc/{process}/maps").read_text()

    code, said = interrupt(["survey", "builtin", "-m", folder], has_torch)
    assert code == 130, said
    assert said.startswith("Stopped: nothing was kept.")
    assert said.count("\n") == 1


def test_the_full_account(folder: str) -> None:
    asked = ["explain", PROMPT, "-t", "has", "-f", "have", "-m", folder, "--account"]
    shown, _ = run(*asked, "--by", "word")
    assert "The full account: every logit but biases on a token" in shown
    document = json.loads(run(*asked, "--json")[0])
    account = document["account"]
    assert sum(account["scores"]) + account["biases"] == pytest.approx(document["ledger"]["logit"], abs=1e-4)
    assert (
        refused(*asked, "--method", "logit")[0]
        == "--account was given with --continue, --answer or parts, or with a method that keeps no mixing."
    )


def test_choices_of_options_are_those_of_the_library() -> None:
    """They are written twice where --help must not import what they name."""
    from whyword.alignment.line_formats import LINE_FORMATS
    from whyword.alignment.linking import CHOICES
    from whyword.alignment.method_choice import ALIGNMENT_METHODS
    from whyword.alignment.symmetry import SYMMETRISATIONS
    from whyword.alignment.token_scores import STEPS
    from whyword.alignment.words import WORDS
    from whyword.cli.alignment_options import AlignmentMethod, Choice, LineFormat, Step, Way, Words
    from whyword.cli.commands.evaluate import ConventionsName, EvidenceKind
    from whyword.cli.commands.explain import By
    from whyword.cli.commands.translate import TranslationBy
    from whyword.data import EVIDENCE_KINDS
    from whyword.evaluation.conventions import CONVENTIONS
    from whyword.results.token_groups import UNITS
    from whyword.view.grid import VIEWS
    from whyword.view.translation_grid import TRANSLATION_VIEWS

    for options, table in {
        AlignmentMethod: ALIGNMENT_METHODS,
        Choice: CHOICES,
        LineFormat: LINE_FORMATS,
        Words: WORDS,
        Step: STEPS,
        Way: SYMMETRISATIONS,
        ConventionsName: CONVENTIONS,
        EvidenceKind: EVIDENCE_KINDS,
        By: {*VIEWS, *UNITS},
        TranslationBy: TRANSLATION_VIEWS,
    }.items():
        assert {each.value for each in options} == set(table), options
