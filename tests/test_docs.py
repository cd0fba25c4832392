"""The documentation is true: the site builds, its code runs, and it shows what is printed and catalogued."""

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import markdown
import pytest
import yaml
from transformers import LlamaConfig, LlamaForCausalLM

import whyword
from whyword.corpus.row_columns import COLUMNS
from whyword.models.catalogue import CATALOGUE
from whyword.pipeline.loading import load as load_model

import toy_tokenizers
from weights import fetch_folder

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
LOADED: dict[tuple[str | None, ...], whyword.Model] = {}
_NUMBER = re.compile(r"[+-]?\d+\.\d+(?:e[+-]?\d+)?")


def blocks(page: str, language: str) -> list[str]:
    fence = re.compile(rf"^```{language}\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
    return fence.findall((DOCS / page).read_text())


def run_blocks(page: str) -> dict[str, Any]:
    """Run the Python of a page from top to bottom; give the names it leaves."""
    names: dict[str, Any] = {}
    for block in blocks(page, "python"):
        exec(compile(block, page, "exec"), names)
    return names


@pytest.fixture(autouse=True)
def loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages name the same few models again and again: each is loaded once per process."""

    def load(source: Any = None, tokenizer: Any = None, **options: Any) -> whyword.Model:
        if not isinstance(source, str | None) or tokenizer is not None:
            return load_model(source, tokenizer, **options)
        place = source if source is None or not Path(source).exists() else str(Path(source).resolve())
        key = (place, options.get("dtype"), options.get("start"))
        if key not in LOADED:
            LOADED[key] = load_model(place, **options)
        return LOADED[key]

    monkeypatch.setattr(whyword, "load", load)
    monkeypatch.setattr("whyword.pipeline.loading.load", load)


def run(*command: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "WHYWORD_SITE": "cached"},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built from the pages as they are; cells are run by `make docs`."""
    if any(
        importlib.util.find_spec(name) is None for name in ("mkdocs", "material", "mkdocstrings", "nbformat")
    ):
        pytest.skip("mkdocs-material, mkdocstrings or nbformat is not installed (the extra `docs`)")
    folder = tmp_path_factory.mktemp("site")
    done = run("-m", "mkdocs", "build", "--strict", "--site-dir", str(folder))  # --quiet would hide warnings
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_site_has_every_page(site: Path) -> None:
    built = {path.relative_to(site) for path in site.rglob("*.html")}
    assert {page.relative_to(DOCS).with_suffix(".html") for page in PAGES} <= built
    assert {path.with_suffix(".ipynb").name for path in (DOCS / "tutorials").glob("[!i]*.md")} == {
        path.name for path in site.rglob("*.ipynb")
    }
    assert "House rules" in (site / "contributing.html").read_text()
    assert "Unreleased" in (site / "changelog.html").read_text()
    assert not list(site.rglob("*.py"))


def test_the_site_lists_every_error(site: Path) -> None:
    page = (site / "trouble.html").read_text()
    assert page.count("<h4 id=") > 300
    assert "is not causal: with other tokens after position ‹position›" in page


def test_a_pasted_error_finds_its_entry(site: Path, browser: Any) -> None:
    page = browser.new_page()
    page.goto((site / "trouble.html").as_uri())
    page.fill("#find-error", "InputError: max_memory is 'a lot'.")
    shown = [head for head in page.query_selector_all("h4") if head.is_visible()]
    assert [head.inner_text().removesuffix("¶") for head in shown] == ["max_memory is ‹size›."]
    page.close()


def test_the_search_works_from_disk(site: Path) -> None:
    """Without a server there is no worker: the index is a script, and a frame takes the worker's place."""
    assert (site / "search" / "search_index.js").read_text().startswith("var __index = ")
    assert '<script src="assets/iframe-worker.js"></script>' in (site / "index.html").read_text()


def test_the_site_needs_no_network(site: Path) -> None:
    loaded = re.compile(r"<(?:script|img|iframe)[^>]* src=.?https?:|<link[^>]* href=.?https?:|@import")
    for page in site.rglob("*.html"):
        assert not loaded.search(page.read_text()), page.name


def test_the_site_documents_every_public_name(site: Path) -> None:
    page = (site / "api.html").read_text()
    for name in whyword.__all__:
        assert f'id="whyword.{name}"' in page, name
    for name in ("Architecture", "Attention", "Experts", "Mlp", "Norm", "Stack", "ValueLayout"):
        assert f'id="whyword.models.{name}"' in page, name


def test_the_page_of_the_command_is_fresh() -> None:
    pinned = re.search(r"^typer==(\S+)$", (ROOT / "constraints.txt").read_text(), flags=re.MULTILINE)
    if pinned is not None and pinned[1] != version("typer"):
        pytest.skip(f"typer {version('typer')} lays out help in another way than {pinned[1]}")
    done = run("docs/generate_command.py", "--check")
    assert done.returncode == 0, done.stderr


class WriteSchemas:
    """The script that writes the schemas, run in this process: it would import torch for every call."""

    def __init__(
        self, path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        spec = importlib.util.spec_from_file_location("generate_schemas", path)
        assert spec is not None
        assert spec.loader is not None
        self.module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def __call__(self, *arguments: str) -> tuple[int, str]:
        self.monkeypatch.setattr(sys, "argv", ["generate_schemas.py", *arguments])
        return self.module.main(), self.capsys.readouterr().err


def test_the_schemas_are_fresh(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pinned = re.search(r"^pydantic==([^;\s]+)", (ROOT / "constraints.txt").read_text(), flags=re.MULTILINE)
    if pinned is not None and pinned[1] != version("pydantic"):
        pytest.skip(f"pydantic {version('pydantic')} may write schemas in another way than {pinned[1]}")
    assert WriteSchemas(DOCS / "generate_schemas.py", monkeypatch, capsys)("--check") == (0, "")


def test_stale_schemas_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = shutil.copy(DOCS / "generate_schemas.py", tmp_path)
    write = WriteSchemas(Path(script), monkeypatch, capsys)
    code, said = write("--check")
    assert code == 1
    assert "ablation.json is not what is declared: run python docs/generate_schemas.py" in said
    assert write() == (0, "")
    assert write("--check") == (0, "")
    (tmp_path / "schemas" / "forgotten.json").write_text("{}")
    code, said = write("--check")
    assert code == 1
    assert said.startswith("forgotten.json is not")


def test_a_stale_page_of_the_command_is_noticed(tmp_path: Path) -> None:
    script = shutil.copy(DOCS / "generate_command.py", tmp_path)
    (tmp_path / "command.md").write_text("# The command\n")
    done = run(script, "--check")
    assert done.returncode == 1
    assert "run python docs/generate_command.py" in done.stderr
    assert run(script).returncode == 0
    assert run(script, "--check").returncode == 0
    page = (tmp_path / "command.md").read_text()
    assert "\x1b" not in page
    assert max(map(len, re.search(r"```text\n(.*?)```", page, re.DOTALL)[1].splitlines())) <= 80  # type: ignore[index]
    assert [line for line in page.splitlines() if line.startswith("## ")] == [
        "## whyword",
        "## whyword explain",
        "## whyword compare",
        "## whyword neurons",
        "## whyword survey",
        "## whyword ablate",
        "## whyword predict",
        "## whyword translate",
        "## whyword align",
        "## whyword run",
        "## whyword serve",
        "## whyword models",
        "## whyword doctor",
        "## whyword datasets",
        "## whyword evidence",
        "## whyword evaluate",
        "## whyword evaluate alignment",
        "## whyword table",
        "## whyword figures",
        "## whyword aer",
    ]


@pytest.mark.real
def test_the_python_of_the_quickstart_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    fetch_folder()
    monkeypatch.chdir(tmp_path)
    names = run_blocks("asking.md")
    assert {path.name for path in tmp_path.iterdir()} == {
        *(f"e.{ending}" for ending in ("json", "html", "tex", "png", "svg", "csv")),
        "difference.html",
    }
    assert [word for word, _ in names["again"].words()] == [
        "start",
        "A",
        "report",
        "about",
        "the",
        "Impressionists",
    ]
    assert names["c"].text == " Paris, of course."


@pytest.mark.real
def test_the_python_of_the_evaluation_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetch_folder()
    monkeypatch.chdir(tmp_path)
    names = run_blocks("evaluation.md")
    assert [row.name for row in names["report"].rows] == ["builtin-aga"]
    assert (tmp_path / "run" / "table.md").exists()


@pytest.mark.real
def test_the_python_of_the_methods_runs(capsys: pytest.CaptureFixture[str]) -> None:
    fetch_folder()
    names = run_blocks("methods.md")
    assert names["c"]["erasure"].measure.unit == "probability"
    assert len(capsys.readouterr().out.splitlines()) == 2
    whole, without = names["found"].probabilities[0], names["found"].probabilities[1]
    lost = (whole - without).tolist()
    assert names["c"]["erasure"].scores[0].item() == pytest.approx(lost[0] - lost[1], rel=1e-3)


SHOWN = [
    block for page in ("index.md", "asking.md", "methods.md", "inside.md") for block in blocks(page, "text")
]


@pytest.mark.real
@pytest.mark.parametrize("block", [block for block in SHOWN if block.startswith("$")])
def test_what_the_pages_show_is_what_is_printed(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fetch_folder()
    compare_with_the_command(block, monkeypatch)


def compare_with_the_command(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the command in a block's first line; what it prints is what the block shows, rounding aside."""
    from typer.testing import CliRunner

    from whyword.cli.application import application

    for name, value in {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    command, _, shown = block.partition("\n")
    done = CliRunner().invoke(application, shlex.split(command)[2:])
    assert done.exit_code == 0, done.output
    printed = "\n".join(line.rstrip() for line in done.stdout.rstrip().splitlines())
    printed, shown = (re.sub(r"error \S+", "error", text.rstrip()) for text in (printed, shown))
    printed, shown = (
        re.sub(" {4,5}·", " +0.00", text.replace(" 0.00", "+0.00")) for text in (printed, shown)
    )  # next to nothing either way
    assert _NUMBER.sub("#", printed) == _NUMBER.sub("#", shown)
    assert [float(number) for number in _NUMBER.findall(printed)] == pytest.approx(
        [float(number) for number in _NUMBER.findall(shown)], abs=0.011
    )


@pytest.mark.real
def test_the_python_of_the_page_about_the_inside(capsys: pytest.CaptureFixture[str]) -> None:
    fetch_folder()
    run_blocks("inside.md")
    neuron, mlp, account = capsys.readouterr().out.strip().splitlines()
    assert neuron == "29.907 -3.46 (' were', 'were')"
    for line in (mlp, account):
        one, two = line.split(" = ")
        assert float(one) == pytest.approx(float(two), abs=2e-3)


def test_the_description_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    names = run_blocks("architectures.md")
    assert names["model"].architecture is names["olmo2"]
    error, wrong, remedy = capsys.readouterr().out.strip().splitlines()
    assert float(error) <= 1e-4
    assert wrong.startswith("block 1: stream in + all that was written = ")
    assert remedy


def test_adding_a_family_in_three_steps(capsys: pytest.CaptureFixture[str]) -> None:
    names = run_blocks("families.md")
    assert names["model"].architecture is names["starcoder2"]
    assert float(capsys.readouterr().out) <= 1e-4


def test_the_table_of_families_is_the_catalogue() -> None:
    table = (DOCS / "architectures.md").read_text().split("## Catalogued")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([\w-]+)` \| (.*?) \| `([\w.]+)` \|", table, flags=re.MULTILINE)
    found = {type_: (re.findall("`(.*?)`", names), block) for type_, names, block in rows}
    assert found == {
        type_: ([entry.name for entry in entries], entries[0].decoder.blocks)
        for type_, entries in CATALOGUE.items()
    }


def test_the_page_of_datasets(capsys: pytest.CaptureFixture[str]) -> None:
    from whyword.data import read_datasets

    run_blocks("data.md")
    printed, samples = blocks("data.md", "text")
    assert capsys.readouterr().out == printed
    shown = set()
    for dataset in read_datasets(["builtin"]):
        for example in dataset.examples[:2]:
            ((start, end),) = example.word
            prefix = f"{example.prefix[:start]}[{example.prefix[start:end]}]{example.prefix[end:]}"
            name = dataset.name.removeprefix("builtin-")
            shown.add(f"{name:<6} {prefix} … {example.target} / {example.foil}")
    assert set(samples.splitlines()) <= shown


def test_the_page_on_the_server() -> None:
    pytest.importorskip("fastapi", reason="FastAPI is not installed")
    testing = pytest.importorskip("starlette.testclient")
    fetch_folder()
    names = run_blocks("server.md")
    (command,) = [block for block in blocks("server.md", "sh") if block.startswith("curl")]
    question = json.loads(re.search(r"-d '(.*)'", command)[1])  # type: ignore[index]
    with testing.TestClient(names["application"], base_url="http://127.0.0.1:8000") as client:
        answer = client.post("/api/explain", json=question).json()
        routes = client.get("/api/openapi.json").json()["paths"]
    assert answer["schema"] == "whyword.explanation/1"
    listed = re.findall(
        r"^\| `(?:GET|POST) (/api/\S+)`", (DOCS / "server.md").read_text(), flags=re.MULTILINE
    )
    assert sorted(listed) == sorted(routes)


def test_how_it_is_built_names_every_module() -> None:
    """By name alone: no two modules have the same. Commands are named by the page of the command."""
    rows = re.findall(r"^\|.*\|$", (DOCS / "architecture.md").read_text(), flags=re.MULTILINE)
    named = {Path(name).name for row in rows for name in re.findall(r"`([\w/]+(?:/|\.py|\.cpp))`", row)}
    found = {path for path in Path(whyword.__file__).parent.rglob("[a-z]*") if path.parent.name != "commands"}
    modules = {path.name for path in found if path.suffix in (".py", ".cpp")}
    assert named - {path.name for path in found if path.is_dir()} - modules == set()
    assert modules - named == set()


def test_the_walks_through_the_code_name_what_is_there() -> None:
    page = (DOCS / "architecture.md").read_text()
    walks = page.partition("## From a call to its number")[2].partition("## The recorded run")[0]
    source = Path(whyword.__file__).parent
    steps = re.findall(r"`(\w+)`[^`]*?\(`(\w+\.py)`\)|\(`(\w+)`, `(\w+\.py)`\)", " ".join(walks.split()))
    named = [(name or other, file or place) for name, file, other, place in steps]
    assert len(named) > 20
    for name, file in named:
        (path,) = (path for path in source.rglob(file) if path.parent.name != "commands")
        assert re.search(rf"^(?:async )?(?:def|class) {name}\b", path.read_text(), flags=re.MULTILINE), (
            name,
            file,
        )


@pytest.mark.parametrize(
    "path", [*PAGES, *(ROOT / name for name in ("README.md", "CONTRIBUTING.md"))], ids=lambda path: path.name
)
def test_relative_links_resolve(path: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if not re.match(r"https?:|#", link):
            target = path.parent / link.split("#")[0]
            assert target.exists() or target.with_suffix(".md") == path, link  # a page's own notebook


@pytest.mark.parametrize("path", [*ROOT.glob("*.md"), *PAGES], ids=lambda path: path.name)
def test_no_asterisk_is_left_over(path: Path) -> None:
    """Bold and italics are closed as they were opened; a page shows no markers of them."""
    text = re.sub(r"\A---\n.*?^---\n", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^( *)```.*?^\1```|<!--.*?-->", "", text, flags=re.DOTALL | re.MULTILINE)
    shown = markdown.markdown(text, extensions=["tables", "attr_list", "md_in_html"])
    plain = re.sub(r"<(pre|code)>.*?</\1>", "", shown, flags=re.DOTALL)
    assert re.findall(r".{0,20}(?:\*\S|\S\*).{0,20}", plain) == []


def test_the_citation() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors", "license", "version"} <= set(citation)
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == whyword.__version__
    assert citation["license"] == "Apache-2.0"
    paper = citation["preferred-citation"]
    assert [author["family-names"] for author in paper["authors"]] == [
        "Ferrando",
        "Gállego",
        "Tsiamas",
        "Costa-jussà",
    ]
    assert (paper["doi"], paper["year"]) == ("10.18653/v1/2023.acl-long.301", 2023)
    assert (paper["start"], paper["end"]) == (5486, 5513)


def test_the_licence() -> None:
    licence = (ROOT / "LICENSE").read_text()
    assert re.match(r"\s*Apache License\s+Version 2.0, January 2004", licence)
    assert "END OF TERMS AND CONDITIONS" in licence
    project = (ROOT / "pyproject.toml").read_text()
    assert 'license = "Apache-2.0"' in project
    assert 'license-files = ["LICENSE"]' in project


@pytest.mark.filterwarnings("ignore")
def test_the_page_on_your_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a tiny model in the place of yours."""
    for package in ("peft", "bitsandbytes"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    tokenizer = toy_tokenizers.make("byte-level")
    sizes = {"hidden_size": 128, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **sizes)
    LlamaForCausalLM(config).save_pretrained(tmp_path / "your-model")
    tokenizer.save_pretrained(tmp_path / "your-model")
    monkeypatch.chdir(tmp_path)
    names = run_blocks("your-model.md")
    assert names["e"].target.text == "LABEL_1"


@pytest.mark.real
def test_the_page_on_translation(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "opus-mt-zh-en").symlink_to(shared / "models" / "opus-mt-zh-en")
    monkeypatch.chdir(tmp_path)
    for block in blocks("translation.md", "text"):
        compare_with_the_command(block, monkeypatch)
    names = run_blocks("translation.md")
    assert names["again"].to_dict() == names["t"].to_dict()
    assert names["t"].flagged == []


@pytest.mark.real
def test_the_page_on_alignment(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "opus-mt-zh-en").symlink_to(shared / "models" / "opus-mt-zh-en")
    monkeypatch.chdir(tmp_path)
    for block in blocks("alignment.md", "text"):
        compare_with_the_command(block, monkeypatch)
    names = run_blocks("alignment.md")
    assert names["again"].to_dict() == names["a"].to_dict()
    assert names["line"].split()[0] == "0-0"
    assert names["other"].block == 3


@pytest.mark.real
def test_the_page_on_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyarrow")
    fetch_folder()
    monkeypatch.chdir(tmp_path)
    names = run_blocks("runs.md")
    (printed,) = blocks("runs.md", "text")
    assert capsys.readouterr().out == printed
    assert len(names["frame"]) == 20
    for name, column in COLUMNS.items():
        if not name.startswith("token_"):
            assert f"`{name}`" in (DOCS / "runs.md").read_text(), (name, column.about)
