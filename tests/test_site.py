"""The site: cells of pages are run and kept, every error and every public name is on its page."""

import ast
import importlib
import json
import os
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import whyword
from whyword.view.html import render_html

from saved_results import make_results

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGE = """# A page

```python
word = "keys"
print(word)
```

=== "Tab"

    ```{.python .quiet}
    print("not shown")
    word * 2
    ```

<!-- run
assert word == "keys"
-->

```bash
whyword serve
```
"""


@pytest.fixture
def building(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder whose modules build the site, on the path."""
    monkeypatch.syspath_prepend(str(DOCS / "building"))


def take(name: str) -> ModuleType:
    return importlib.import_module(name)


def test_the_cells_of_a_page(building: None) -> None:
    cells = take("cells")
    found = cells.find_cells(PAGE)
    assert [(cell.source, cell.shown, cell.quiet, cell.indent) for cell in found] == [
        ('word = "keys"\nprint(word)', True, False, ""),
        ('print("not shown")\nword * 2', True, True, "    "),
        ('assert word == "keys"', False, False, ""),
    ]
    replaced = cells.replace_cells(PAGE, lambda number, cell, text: f"({number})")
    assert re.findall(r"\((\d)\)", replaced) == ["0", "1", "2"]
    assert "```bash\nwhyword serve\n```" in replaced


def test_commands_are_cells_and_become_calls(building: None) -> None:
    (cell,) = take("cells").find_cells("```sh\nwhyword models\n```\n")
    assert cell.code == "run_commands('whyword models')"
    with pytest.raises(ValueError, match="only commands of whyword"):
        take("kernel_start").run_commands("rm -r everything")


def test_outputs_depend_on_code_and_not_on_prose(building: None) -> None:
    execution = take("execution")
    place = execution._place(execution.PageToRun("a.md", PAGE))
    assert execution._place(execution.PageToRun("a.md", PAGE.replace("A page", "Another"))) == place
    assert execution._place(execution.PageToRun("a.md", PAGE.replace('"keys"', '"key"'))) != place


@pytest.fixture
def quick_kernels(building: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Kernels that do not load torch."""
    pytest.importorskip("nbclient")
    execution = take("execution")
    monkeypatch.setattr(execution, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(execution, "START", "import sys\nsys.path.insert(0, {here!r})")
    return execution


def test_cells_are_run_once_and_shown(quick_kernels: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    page = quick_kernels.PageToRun("a.md", PAGE)
    done = quick_kernels.run_pages([page], only_cached=False)["a.md"]
    cells, outputs = take("cells").find_cells(PAGE), take("outputs")
    shown = [outputs.render_outputs(cell, given) for cell, given in zip(cells, done.outputs, strict=True)]
    assert shown == [("```{.text .output}\nkeys\n```", ""), ("", ""), ("", "")]
    monkeypatch.setattr(quick_kernels, "_work", None)  # a second build asks no kernel
    assert quick_kernels.run_pages([page], only_cached=False)["a.md"] == done
    notebook = json.loads(outputs.make_notebook(PAGE, done.outputs))
    assert [cell["cell_type"] for cell in notebook["cells"]] == [
        "markdown",
        "code",
        "markdown",
        "code",
        "markdown",
    ]
    assert not any("assert" in "".join(cell["source"]) for cell in notebook["cells"])


@pytest.mark.skipif(os.name != "posix", reason="sockets that are files are of POSIX systems")
def test_kernels_need_no_port(quick_kernels: ModuleType) -> None:
    """A port can be taken by another process before a kernel opens it: then a build never ended."""
    cell = "from ipykernel import connect\nprint(connect.get_connection_info(unpack=True)['transport'])"
    page = quick_kernels.PageToRun("a.md", f"```python\n{cell}\n```\n")
    done = quick_kernels.run_pages([page], only_cached=False)["a.md"]
    assert done.outputs[0][0]["text"] == "ipc\n"


def test_a_cell_that_fails_stops_the_build(quick_kernels: ModuleType) -> None:
    page = quick_kernels.PageToRun("a.md", PAGE.replace('== "keys"', '== "key"'))
    with pytest.raises(SystemExit, match=r"docs/a\.md, cell 3:\n\nassert word"):
        quick_kernels.run_pages([page], only_cached=False)


def test_a_page_that_was_not_run_says_so(quick_kernels: ModuleType) -> None:
    done = quick_kernels.run_pages([quick_kernels.PageToRun("a.md", PAGE)], only_cached=True)["a.md"]
    assert "not run" in done.note
    assert done.outputs == [[], [], []]


def test_every_error_of_the_code_is_listed(building: None) -> None:
    """Each call that makes an error, but those that pass on the first line of another."""
    errors = take("raised_errors")
    found = {error.wrong for error in errors.find_errors()}
    assert len(found) > 300
    assert {error.folder for error in errors.find_errors()} <= {
        folder for part in errors.AREAS.values() for folder in part
    }
    for path in Path(whyword.__file__).parent.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            kind = call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""
            if kind.endswith("Error") and len(call.args) == 2 and isinstance(call.args[0], ast.Constant):  # type: ignore[attr-defined]
                assert " ".join(call.args[0].value.split()) in found, path  # type: ignore[attr-defined]


def test_placeholders_stand_where_values_do(building: None, gpt2: whyword.Model) -> None:
    """What is raised is found on the page: its words stand between the placeholders."""
    texts = [error.wrong for error in take("raised_errors").find_errors()]
    patterns = [
        ".*?".join(re.escape(part) for part in re.split("‹.*?›", text))
        for text in texts
        if re.sub("‹.*?›", "", text).strip()
    ]
    for call in (
        lambda: whyword.explain(gpt2, [1, 2, 3], target=5, foil=5),
        lambda: whyword.explain(gpt2, [1, 2, 3], method="nonsense"),
        lambda: whyword.explain(gpt2, [1, 2, 3], depth=99),
        lambda: whyword.explain(gpt2, [], target=5),
        lambda: whyword.fill("{a", a="b"),
        lambda: whyword.read("nothing.json"),
        lambda: whyword.predict(gpt2, [1, 2, 3], top=0),
        lambda: whyword.load(dtype="float13"),
    ):
        with pytest.raises(whyword.WhywordError) as raised:
            call()
        assert any(re.fullmatch(pattern, raised.value.wrong) for pattern in patterns), raised.value.wrong


def test_every_public_name_has_an_example() -> None:
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"^```py(?:thon)?\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE))
    for name in whyword.__all__:
        assert re.search(rf"\bwhyword\.{name}\b", code), name
        assert f"\n::: whyword.{name}\n" in page, name


def test_twenty_recipes_and_their_index() -> None:
    page = (DOCS / "recipes.md").read_text(encoding="utf-8")
    heads = re.findall(r"^## (\d+)\. ", page, flags=re.MULTILINE)
    assert heads == [str(number) for number in range(1, 21)]
    assert len(re.findall(r"\]\(#\d+-", page.split("## 1.")[0])) == 20


def test_twelve_reports_in_the_gallery(building: None) -> None:
    page = (DOCS / "gallery.md").read_text(encoding="utf-8")
    code = "\n".join(cell.source for cell in take("cells").find_cells(page))
    shown = re.findall(r'<iframe class="report"[^>]* src="([^"]+)"', page)
    assert len(shown) == len(set(shown)) == 12
    for path in shown:
        if path.startswith("gallery/"):
            assert Path(path).name in code, path
    assert "bank.html" in (DOCS / "tutorials" / "translation-and-alignment.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", sorted((DOCS / "tutorials").glob("[!i]*.md")), ids=lambda path: path.stem)
def test_a_tutorial_ends_with_a_question(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    asked, _, answer = page.partition("## Your turn")[2].partition("<details")
    assert "?" in asked
    assert "<summary>What we found</summary>" in answer
    assert f"]({path.stem}.ipynb)" in page


def test_what_the_site_is_built_with_is_installed_with_the_extra() -> None:
    if sys.version_info >= (3, 11):
        import tomllib

        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        named = {re.split(r"[\[>=]", line)[0] for line in extras["docs"]}
        assert {"nbclient", "nbformat", "ipykernel"} <= named


@pytest.mark.parametrize("kind", ["translation", "explanation"])
def test_stored_reports_are_documents_and_are_drawn_anew(building: None, kind: str) -> None:
    reports, result = take("stored_reports"), make_results()[kind]
    report = render_html([result.to_dict()])
    assert reports.draw_report(reports.keep_documents(report)) == report
    outputs = [[{"output_type": "execute_result", "data": {"text/html": result._repr_html_()}}], []]
    kept = reports.keep_outputs(outputs)
    assert "<script" not in json.dumps(kept)
    assert reports.draw_outputs(kept) == outputs


def test_a_page_without_its_model_shows_what_was_stored(
    building: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution = take("execution")
    text = (DOCS / "tutorials" / "translation-and-alignment.md").read_text(encoding="utf-8")
    monkeypatch.setattr(execution, "CACHE", tmp_path)
    page = execution.PageToRun("tutorials/translation-and-alignment.md", text, "*.html", "translation")
    done = execution.run_pages([page], only_cached=True)[page.path]
    assert "kept from a run" in done.note
    assert done.files["bank.html"].read_text(encoding="utf-8").startswith("<!doctype html>")
