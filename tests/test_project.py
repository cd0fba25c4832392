"""What the files around the code say of each other: versions, bounds, targets."""

import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

import whyword

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def read_project() -> dict[str, Any]:
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 reads no TOML")
    return dict(tomllib.loads(read("pyproject.toml"))["project"])


def test_the_version_is_said_once() -> None:
    project = read_project()
    assert "version" not in project
    assert project["dynamic"] == ["version"]
    assert version("whyword") == whyword.__version__


def test_the_citation_and_the_changelog_are_of_this_version() -> None:
    citation = yaml.safe_load(read("CITATION.cff"))
    assert citation["version"] == whyword.__version__
    unreleased, newest, *_ = re.findall(r"^## (.+)$", read("CHANGELOG.md"), flags=re.MULTILINE)
    assert unreleased == "Unreleased"
    assert newest == f"{whyword.__version__} – {citation['date-released']}"


def test_every_lower_bound_is_tried() -> None:
    project = read_project()
    names = set(project["optional-dependencies"]) - {"docs", "test", "dev"}
    asked = [
        *project["dependencies"],
        *(each for name in names for each in project["optional-dependencies"][name]),
    ]
    lowest = dict(re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)(?:,<\d+)?", each).groups() for each in asked)  # type: ignore[union-attr]
    pinned = dict(re.findall(r"^([\w-]+)==(\S+)$", read("constraints-oldest.txt"), flags=re.MULTILINE))
    assert pinned.pop("torch") in read("constraints.txt")
    assert lowest.pop("torch") == "2.6.0"
    assert pinned == lowest


@pytest.mark.parametrize(
    "path", [*WORKFLOWS, ROOT / "CONTRIBUTING.md", ROOT / ".ci" / "run"], ids=lambda p: p.name
)
def test_named_targets_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), flags=re.MULTILINE))
    text = path.read_text(encoding="utf-8")
    pattern = r"`make ([^`]*)`" if path.suffix == ".md" else r"^\s*(?:- run: |run: )?make ([^\n#]*)"
    named = {
        word
        for line in re.findall(pattern, text, flags=re.MULTILINE)
        for word in line.split()
        if not word.startswith("-") and "=" not in word and not word.isdigit()
    }
    assert named
    assert named <= targets


def test_the_workflow_runs_every_system_and_version() -> None:
    jobs = yaml.safe_load(read(".github/workflows/ci.yml"))["jobs"]
    matrix = jobs["tests"]["strategy"]["matrix"]
    assert [name.split("-")[0] for name in matrix["os"]] == ["ubuntu", "macos", "windows"]
    assert matrix["python"][0] == read_project()["requires-python"].removeprefix(">=")
    for job in jobs.values():
        assert all(("uses" in step) != ("run" in step) for step in job["steps"])


def test_hooks_before_commits_are_the_checks_of_make() -> None:
    (local,) = yaml.safe_load(read(".pre-commit-config.yaml"))["repos"]
    assert local["repo"] == "local"
    commands = [hook["entry"].split(" --")[0] for hook in local["hooks"]]
    assert commands == ["ruff check", "ruff format", "mypy"]
    assert all(f"$(BIN)/{command}" in read("Makefile") for command in commands)
