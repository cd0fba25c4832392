"""Runs that are stopped and go on: what is kept, what is dropped, what is refused."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from whyword import InputError
from whyword.runs.batches import cut_batches, run_batches
from whyword.runs.fingerprint import fingerprint_network, fingerprint_weights
from whyword.runs.journal import append_lines, open_run, read_lines, read_settings

from families import other_weights


def test_a_run_goes_on_after_a_cut_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    journal = tmp_path / "new" / "run" / "lines.jsonl"
    settings = {"model": "größe", "versions": {"torch": "1"}}
    open_run(journal, "mine/1", settings)
    written = [{"text": "a\u2028b"}, {"text": "é"}]  # U+2028 ends a line for Python, not for JSON
    append_lines(journal, (json.dumps(each, ensure_ascii=False) for each in written))
    with journal.open("a") as file:
        file.write('{"te')
    open_run(journal, "mine/1", {**settings, "versions": {"torch": "2"}})
    assert "the last line is incomplete" in caplog.text
    assert list(read_lines(journal, dict)) == written
    assert read_settings(journal.parent, "mine/1") == settings


def test_lines_are_there_as_soon_as_they_are_made(tmp_path: Path) -> None:
    path, seen = tmp_path / "lines", []

    def make() -> object:
        for line in ("1", "2"):
            yield line
            seen.append(path.read_text())

    append_lines(path, make())  # type: ignore[arg-type]
    assert seen == ["1\n", "1\n2\n"]


def test_what_is_not_this_run_is_refused(tmp_path: Path) -> None:
    journal = tmp_path / "run" / "lines.jsonl"
    open_run(journal, "mine/1", {"limit": 2, "name": "x" * 90})
    with pytest.raises(InputError, match=r"holds a run with other settings: limit is 2 there, 3 here\."):
        open_run(journal, "mine/1", {"limit": 3})
    with pytest.raises(InputError, match=r'name is "x{79}… there, null here'):
        open_run(journal, "mine/1", {"name": None})
    with pytest.raises(InputError, match="another kind of run: mine/1"):
        open_run(journal, "other/1", {"limit": 2})
    journal.write_text('{"a": 1}\n[]\n')
    with pytest.raises(InputError, match=r"Line 2 of .* cannot be read") as caught:
        list(read_lines(journal, lambda line: line["a"]))
    assert caught.value.remedy.startswith("Delete it and the lines after it")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file cannot be used: File exists"):
        open_run(tmp_path / "file" / "lines.jsonl", "mine/1", {})


def test_a_fingerprint_covers_every_element() -> None:
    network = torch.nn.Sequential(torch.nn.Linear(300, 200), torch.nn.BatchNorm1d(200))
    before = fingerprint_weights(network)
    assert fingerprint_weights(network) == before
    places = [(tensor, place) for tensor in network.state_dict().values() for place in (0, -1)]
    for tensor, place in places:
        kept = tensor.flatten()[place].clone()
        tensor.view(-1)[place] += 1
        assert fingerprint_weights(network) != before, (tensor.shape, place)
        tensor.view(-1)[place] = kept
    assert fingerprint_weights(network) == before
    with other_weights(network):  # torch keeps no count of changes to `data`
        assert fingerprint_weights(network) != before
    assert fingerprint_weights(network) == before
    assert fingerprint_weights(network.half()) != before
    with pytest.raises(InputError, match=r"Sequential are not in memory: 0\.weight is on the device meta\."):
        fingerprint_weights(network.to("meta"))


def test_a_fingerprint_covers_hooks_and_what_forward_was_made() -> None:
    """A run that was stopped is not resumed with what another network gives."""
    network = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    before, found = fingerprint_network(network), set()
    for hook in (_halve, _double, partial(_triple, None)):
        handle = network[0].register_forward_hook(hook)
        found |= {fingerprint_network(network), fingerprint_network(network)}
        handle.remove()
        assert fingerprint_network(network) == before
    handle = network[1].register_forward_hook(_halve)
    found.add(fingerprint_network(network))
    handle.remove()
    network[1].forward = lambda given: given * 2
    found.add(fingerprint_network(network))
    assert len(found | {before}) == 6
    assert len({fingerprint_weights(each) for each in (network, torch.nn.Sequential(*network))}) == 1


@pytest.mark.parametrize(
    ("place", "name", "value"),
    [(0, "scaling", 2.0), (1, "eps", 0.1), (2, "approximate", "tanh"), (3, "activate", torch.sigmoid)],
)
def test_a_fingerprint_covers_the_numbers_of_modules(place: int, name: str, value: object) -> None:
    modules = [torch.nn.Linear(3, 3), torch.nn.LayerNorm(3), torch.nn.GELU(), torch.nn.Identity()]
    network = torch.nn.Sequential(*modules)
    network[0].scaling, network[3].activate = 1.0, torch.tanh
    before = fingerprint_network(network)
    network[3].longest_cached = 5  # what a network counts as it runs
    network.train(not network.training)
    assert fingerprint_network(network) == before
    setattr(network[place], name, value)
    assert fingerprint_network(network) != before


def _halve(_module: Any, _args: Any, output: torch.Tensor) -> torch.Tensor:
    return output * 0.5


def _double(_module: Any, _args: Any, output: torch.Tensor) -> torch.Tensor:
    return output * 2


def _triple(_first: None, _module: Any, _args: Any, output: torch.Tensor) -> torch.Tensor:
    return output * 3


def test_batches_are_cut_by_size_and_halved_where_memory_runs_out(caplog: pytest.LogCaptureFixture) -> None:
    batches = cut_batches([5, 1, 4, 2, 3], lambda size: size, lambda batch: sum(batch) <= 6)
    assert batches == [[1, 2, 3], [4], [5]]

    def run(batch: Sequence[int]) -> int:
        if len(batch) > 1:
            raise MemoryError
        return sum(batch)

    def refuse(size: int) -> InputError:
        return InputError(f"{size} does not fit.", "Take less.")

    assert list(run_batches(batches, run, str, refuse)) == [1, 2, 3, 4, 5]
    assert "Out of memory with [1, 2, 3]: taking 1 at a time." in caplog.text
    with pytest.raises(InputError, match="9 does not fit"):
        list(run_batches([[9]], lambda batch: run([*batch, 0]), str, refuse))
    with pytest.raises(ZeroDivisionError):
        list(run_batches([[9]], lambda batch: batch[0] // 0, str, refuse))


@pytest.mark.parametrize(
    ("there", "here", "said"),
    [
        (
            {"methods": ["logit", "alti-logit"] * 9},
            {"methods": ["logit", "alti-logit"] * 8 + ["logit", "erasure"]},
            'entry 18 of methods is "alti-logit" there, "erasure" here.',
        ),
        (
            {"data": [["a", "1"]]},
            {"data": [("a", "1"), ("b", "2")]},
            "the number of entries of data is 1 there, 2 here.",
        ),
        (
            {"split": {"words": [["this"], ["that"]], "column": None}},
            {"split": {"words": [["this"], ["those"]], "column": None}},
            'entry 1 of entry 2 of split.words is "that" there, "those" here.',
        ),
        ({"about": {"a": 1}}, {"about": {"a": 1, "b": 2}}, "about.b is not set there, 2 here."),
        (
            {"text": "x" * 200 + "there" + "y" * 100},
            {"text": "x" * 200 + "here"},
            f'text is …{"x" * 20}there{"y" * 55}… there, …{"x" * 20}here" here.',
        ),
    ],
)
def test_the_setting_that_differs_is_named(tmp_path: Path, there: Any, here: Any, said: str) -> None:
    journal = tmp_path / "lines.jsonl"
    open_run(journal, "mine/1", there)
    with pytest.raises(InputError) as caught:
        open_run(journal, "mine/1", here)
    assert caught.value.wrong == f"{tmp_path} holds a run with other settings: {said}"


def test_a_tuple_is_the_list_that_was_written(tmp_path: Path) -> None:
    open_run(tmp_path / "lines.jsonl", "mine/1", {"data": [("a", "1")]})
    open_run(tmp_path / "lines.jsonl", "mine/1", {"data": [("a", "1")]})
