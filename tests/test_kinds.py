"""Every kind of document: saved, described by a schema, read back whole, refused where it does not fit."""

import copy
import json
import math
import os
import random
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import torch
from rich.console import Console

import whyword
from whyword.document.kinds import KINDS, Kind, kind_of
from whyword.document.schemas import describe_fields, make_schema
from whyword.lazy import find_at
from whyword.view.quoting import write_plain
from whyword.view.showing import print_by_kind

from saved_results import make_results

NAMES = [kind.name for kind in KINDS]
MUTATIONS = int(os.environ.get("WHYWORD_FUZZ", "300"))


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    return make_results()


@pytest.fixture(scope="module")
def validators() -> dict[str, Any]:
    return {kind.schema: jsonschema_rs.validator_for(make_schema(kind)) for kind in KINDS}


def of_kind(results: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: result for key, result in results.items() if key.partition(",")[0] == name}


def as_json(document: Any) -> Any:
    return json.loads(json.dumps(document))


def without_surrogates(document: Any) -> Any:
    return json.loads(json.dumps(document, ensure_ascii=False).encode("utf-8", "replace"))


# ---------------------------------------------------------------- the table


def test_every_kind_has_a_result(results: dict[str, Any]) -> None:
    for kind in KINDS:
        assert type(results[kind.name]) is find_at(kind.result)
        assert type(results[kind.name]).schema == kind.schema
    assert len({kind.schema for kind in KINDS}) == len({kind.name for kind in KINDS}) == len(KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_everything_in_the_table_is_there(kind: Kind) -> None:
    homes = [kind.result, kind.declared, kind.terminal, kind.frame, kind.wording]
    for home in [
        *homes,
        *kind.formats.values(),
        *(home for view in kind.views.values() for home in view.values()),
    ]:
        assert home is None or callable(find_at(home)), home


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_every_format_of_every_kind(kind: Kind, results: dict[str, Any], tmp_path: Path) -> None:
    for name, result in of_kind(results, kind.name).items():
        if name == "alignment, empty":
            continue  # nothing to draw
        for ending in kind.formats:
            path = tmp_path / f"{len(list(tmp_path.iterdir()))}{ending}"
            result.save(path)
            content = path.read_bytes()
            assert content.startswith(b"\x89PNG") if ending == ".png" else len(content) > 3, (name, ending)
        for ending in kind.views.get("head", ()):
            result.save(tmp_path / f"heads{ending}", by="head")
        if "head" not in kind.views and ".png" in kind.formats:
            with pytest.raises(whyword.InputError, match=r"There is no picture by head of this"):
                result.save(tmp_path / "heads.png", by="head")
    with pytest.raises(whyword.InputError, match=r"'x\.pdf' does not end in a known format\."):
        result.save(tmp_path / "x.pdf")
    if ".talp" not in kind.formats:
        with pytest.raises(
            whyword.InputError, match=rf"'x\.talp': there is no \.talp of this \({kind.name}\)"
        ):
            result.save(tmp_path / "x.talp")


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_every_kind_shows_itself(
    kind: Kind, results: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    for result in of_kind(results, kind.name).values():
        result.show()
        assert capsys.readouterr().out.strip()
        assert (result._repr_html_() is not None) == (".html" in kind.formats)
        if kind.frame is None:
            with pytest.raises(whyword.InputError, match="There is no data frame of this"):
                result.to_dataframe()
        else:
            assert result.to_dataframe() is not None


def test_the_table_is_had_without_torch_and_pydantic() -> None:
    code = (
        "import sys, whyword, whyword.document.kinds, whyword.document.schemas, whyword.cli.application; "
        "print(sorted({'torch', 'transformers', 'numpy', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ---------------------------------------------------------------- saved and read back


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_every_kind_is_read_back_whole(kind: Kind, results: dict[str, Any], tmp_path: Path) -> None:
    for name, result in of_kind(results, kind.name).items():
        result.save(tmp_path / "r.json")
        saved = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
        assert saved == as_json(result.to_dict()), name
        again = whyword.read(tmp_path / "r.json")
        assert type(again) is type(result)
        assert again.to_dict() == saved, name
        assert repr(again) == repr(result)
        again.show()


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_documents_fit_their_schema(kind: Kind, results: dict[str, Any], validators: dict[str, Any]) -> None:
    for result in of_kind(results, kind.name).values():
        validators[kind.schema].validate(without_surrogates(result.to_dict()))
    document = as_json(results[kind.name].to_dict())
    for broken in ({**document, "schema": "whyword.other/1"}, {**document, "model": 3}):
        assert not validators[kind.schema].is_valid(broken)
    assert not validators[kind.schema].is_valid({key: document[key] for key in document if key != "model"})


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_every_field_is_declared_and_described(kind: Kind, results: dict[str, Any]) -> None:
    schema = make_schema(kind)
    for result in of_kind(results, kind.name).values():
        assert set(result.to_dict()) <= set(schema["properties"])
    for part in (schema, *schema.get("$defs", {}).values()):
        assert part["description"]
        for field, about in part["properties"].items():
            assert about["description"].endswith((".", "…")), field
    assert "wording" not in schema["required"]


def test_docstrings_of_bases_are_found() -> None:
    from whyword.results.explanation import ExplanationDocument

    described = describe_fields(ExplanationDocument)
    assert described["forced"].startswith("How many of the last tokens were forced")
    assert described["method"] == "The name of the method."


def test_a_comparison_keeps_its_mixing(results: dict[str, Any], tmp_path: Path) -> None:
    compared = results["comparison"]
    compared.save(tmp_path / "c.json")
    again = whyword.account(whyword.read(tmp_path / "c.json")["alti-logit"])
    torch.testing.assert_close(again.scores, whyword.account(compared["alti-logit"]).scores)


def test_what_a_document_does_not_hold(results: dict[str, Any], tmp_path: Path) -> None:
    results["neurons"].save(tmp_path / "n.json")
    neurons = whyword.read(tmp_path / "n.json")
    assert results["neurons"].explanation.to_dict()["method"] == "logit"
    with pytest.raises(whyword.InputError, match="does not hold the explanation"):
        _ = neurons.explanation
    results["survey"].save(tmp_path / "s.json")
    survey = whyword.read(tmp_path / "s.json")
    torch.testing.assert_close(survey.mean("odd", 1), results["survey"].mean("odd", 1), rtol=1e-5, atol=0)
    with pytest.raises(whyword.InputError, match="only has the deviations of ranked"):
        survey.deviation("odd", 1)
    assert [each["label"] for each in survey.to_dict(top=2)["ranked"]] == [
        each["label"] for each in results["survey"].to_dict(top=2)["ranked"]
    ]


def test_documents_of_older_versions_are_read(results: dict[str, Any], tmp_path: Path) -> None:
    """Without the keys that were added to a schema later."""
    added = {"explanation": ["measure", "mixing", "notes"], "comparison": ["mixing"], "neurons": ["measure"]}
    for name, keys in added.items():
        document = as_json(results[name].to_dict())
        older = {key: value for key, value in document.items() if key not in keys}
        (tmp_path / "o.json").write_text(json.dumps(older))
        assert whyword.read(tmp_path / "o.json").to_dict().keys() == document.keys()


def test_keys_of_newer_versions_are_let_be(results: dict[str, Any], tmp_path: Path) -> None:
    for name in NAMES:
        document = as_json(results[name].to_dict())
        newer = {**document, "unheard of": [1], "wording": {"title": "Why?", "lines": ["a", "b"]}}
        (tmp_path / "n.json").write_text(json.dumps(newer))
        again = whyword.read(tmp_path / "n.json").to_dict()
        assert {key: again[key] for key in document if key != "wording"} == {
            key: value for key, value in document.items() if key != "wording"
        }
    document = as_json(results["explanation"].to_dict())
    document["tokens"][0]["colour"] = document["target"]["colour"] = "red"
    assert whyword.Explanation.from_dict(document).to_dict() == results["explanation"].to_dict()


def test_a_prediction_is_a_sequence_of_choices(results: dict[str, Any]) -> None:
    predicted = results["prediction"]
    first, *others = predicted
    assert len(predicted) == 3
    assert predicted[0] == first
    assert predicted[1:] == whyword.Prediction(predicted.model, tuple(others), predicted.start)
    assert first.probability >= others[0].probability
    assert first in predicted
    assert predicted.to_dataframe()["text"].tolist() == [choice.text for choice in predicted]


# ---------------------------------------------------------------- what does not fit


def change(*keys: Any, to: Any) -> Callable[[Any], None]:
    def make(document: Any) -> None:
        for key in keys[:-1]:
            document = document[key]
        document[keys[-1]] = to(document[keys[-1]]) if callable(to) else to

    return make


def cut(value: list[Any]) -> list[Any]:
    return value[:-1]


@pytest.mark.parametrize(
    ("kind", "damage", "said"),
    [
        ("explanation", change("ledger", "mlp", 2, to="3"), "ledger.mlp[2]: Input should be a valid number."),
        ("explanation", change("scores", 1, to=math.nan), "scores[1]: Input should be a finite number."),
        ("explanation", change("scores", 1, to=math.inf), "scores[1]: Input should be a finite number."),
        (
            "explanation",
            change("by_block", 0, 0, to=1e39),
            "by_block: some numbers are too large for float32.",
        ),
        ("explanation", change("scores", to=cut), "scores: there are 5 where 6 belong."),
        ("explanation", change("by_block", 1, to=cut), "by_block[1]: there are 5 where 6 belong."),
        ("explanation", change("by_block", to=cut), "by_block: there are 2 where 3 belong."),
        ("explanation", change("by_head", 1, 2, to=cut), "by_head[1][2]: there are 5 where 6 belong."),
        ("explanation", change("by_head", 1, to=cut), "by_head[1]: there are 3 where 4 belong."),
        ("explanation", change("mixing", 0, to=cut), "mixing[0]: there are 5 where 6 belong."),
        (
            "explanation",
            change("ledger", "attention", to=cut),
            "ledger.attention: there are 2 where 3 belong.",
        ),
        ("explanation", change("position", to=6), "position: it is 6, and there are 6, counted from 0."),
        ("explanation", change("position", to=True), "position: Input should be a valid integer."),
        ("explanation", change("target", "id", to=1.5), "target.id: Input should be a valid integer."),
        (
            "explanation",
            change("tokens", 1, "special", to=1),
            "tokens[1].special: Input should be a valid boolean.",
        ),
        (
            "continuation",
            change("explanations", 1, "scores", to=cut),
            "explanations[1].scores: there are 6 where 7 belong.",
        ),
        (
            "continuation",
            change("explanations", to=lambda parts: parts[::-1]),
            "explanations[1].tokens: there are 6, not more than of the token before.",
        ),
        (
            "comparison",
            change("methods", 1, "method", to="alti-logit"),
            "methods[1].method: 'alti-logit' is there twice.",
        ),
        (
            "comparison",
            change("methods", to=[]),
            "methods: Tuple should have at least 1 item after validation, not 0.",
        ),
        ("translation", change("choices", to=cut), "choices: there are "),
        ("translation", change("by_block", 1, 0, 0, to=None), "by_block[1][0][0]: it is null."),
        ("translation", change("scores", 0, -1, to=1.0), "scores[0]["),
        ("translation", change("ledgers", 1, "mlp", to=cut), "ledgers[1].mlp: there are 2 where 3 belong."),
        (
            "alignment",
            change("links", 0, to=[9, 0]),
            "links[0][0]: it is 9, and there are 5, counted from 0.",
        ),
        ("alignment", change("links", 0, to=[0]), "links[0]: "),
        ("alignment", change("scores", 1, to=cut), "scores[1]: there are 4 where 5 belong."),
        ("neurons", change("blocks", 1, "update", to=cut), "blocks[1].update: there are 47 where 48 belong."),
        ("neurons", change("named", 0, "neuron", to=999), "named[0].neuron: There is no neuron "),
        (
            "survey",
            change("groups", 1, "update", 0, to=cut),
            "groups[1].update[0]: there are 47 where 48 belong.",
        ),
        ("survey", change("ranked", 0, "place", to=48), "ranked[0].place: it is 48, and there are 48"),
        ("survey", change("part", to="toes"), "part: Input should be 'neurons' or 'heads'."),
        (
            "top examples",
            change("highest", 0, "row", to=None),
            "highest[0].row: Input should be a valid integer.",
        ),
        (
            "ablation",
            change("effects", 0, "examples", to=-1),
            "effects[0].examples: Input should be greater than",
        ),
        (
            "support",
            change("rows", 1, "bias", to=None),
            "rows[1].bias: some rows have one, others have none.",
        ),
        ("prediction", change("choices", 2, to=3), "choices[2]: Input should be a valid dictionary."),
    ],
    ids=lambda value: None if callable(value) else value,
)
def test_the_first_place_that_does_not_fit_is_named(
    kind: str, damage: Callable[[Any], None], said: str, results: dict[str, Any], tmp_path: Path
) -> None:
    document = as_json(results[kind].to_dict())
    damage(document)
    path = tmp_path / "d.json"
    path.write_text(json.dumps(document))
    with pytest.raises(whyword.InputError) as caught:
        whyword.read(path)
    assert caught.value.wrong.startswith(f"{path} is damaged: {said}"), caught.value.wrong
    assert caught.value.remedy == "Give a document that whyword saved, as it was saved."


def test_what_is_not_a_document(results: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    for text in ("", "[" * 100_000, "{", "\x00", "1" * 5000):
        path.write_text(text)
        with pytest.raises(whyword.InputError, match=r"d\.json cannot be read: .*\n"):
            whyword.read(path)
    for text in ("[]", "3", "null", "{}", '{"schema": ["x"]}', '{"schema": "whyword.run/1"}'):
        path.write_text(text)
        with pytest.raises(
            whyword.InputError, match=r"d\.json has the schema .*\nThis version reads 'whyword\.exp"
        ):
            whyword.read(path)
    with pytest.raises(whyword.InputError, match=r"has the schema 'whyword.prediction/1', not 'whyword.expl"):
        whyword.Explanation.from_dict(results["prediction"].to_dict())


# ---------------------------------------------------------------- mutations

_STRANGE = (
    None, True, 0, 7, -1, 2.5, 1e39, 10**400, math.nan, math.inf, "", "3", "\ud800",
    [], {}, [[]], [None], {"a": []},
)  # fmt: skip


def mutate(document: Any, chance: random.Random) -> None:
    """Change a document in one random place: deep or shallow, in one of many ways."""
    where, key = document, chance.choice(list(document))
    while isinstance(where[key], dict | list) and where[key] and chance.random() < 0.7:
        where = where[key]
        key = chance.choice(list(where)) if isinstance(where, dict) else chance.randrange(len(where))
    value, way = where[key], chance.randrange(8)
    if way == 0:
        del where[key]
    elif way == 1:
        where[key] = [value]
    elif way == 2:
        where[key] = {"a": value}
    elif way == 3 and isinstance(value, list) and value:
        where[key] = value[: chance.randrange(len(value))]
    elif way == 4 and isinstance(value, list) and value:
        value.insert(chance.randrange(len(value)), copy.deepcopy(chance.choice(value)))
    elif way == 5 and isinstance(value, list):
        chance.shuffle(value)
    elif way == 6 and isinstance(value, int | float):
        where[key] = value * 2 + 1
    else:
        where[key] = copy.deepcopy(chance.choice(_STRANGE))


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_mutated_documents_are_refused_or_read(
    kind: Kind, results: dict[str, Any], validators: dict[str, Any], tmp_path: Path
) -> None:
    chance, path, console = random.Random(kind.name), tmp_path / "m.json", Console(file=StringIO())
    texts = [json.dumps(result.to_dict()) for result in of_kind(results, kind.name).values()]
    outcomes, lines = {"read": 0, "refused": 0}, list[list[str]]()
    for _ in range(MUTATIONS):
        document = json.loads(chance.choice(texts))
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            mutate(document, chance)
        path.write_text(json.dumps(document))
        try:
            again = whyword.read(path)
        except whyword.InputError as error:
            outcomes["refused"] += 1
            lines.append(str(error).splitlines())
            continue
        outcomes["read"] += 1
        described = as_json(again.to_dict())
        json.dumps(described, allow_nan=False)
        validators[kind.schema].validate(without_surrogates(described))
        # What the schema does not allow is not read either.
        assert validators[kind.schema].is_valid(without_surrogates(document)), document
        assert type(again).from_dict(described).to_dict() == described
        print_by_kind(described, console)
    assert {len(each) for each in lines} == {2}
    assert min(outcomes.values()) > MUTATIONS // 20, outcomes


def test_numbers_of_any_size_and_tables_without_rows_are_shown(results: dict[str, Any]) -> None:
    """Found by 10,000 mutations: what is allowed in a document must be shown."""
    console = Console(file=StringIO(), width=200)
    survey = results["survey"].to_dict() | {"ranked": []}
    print_by_kind(as_json(survey), console)
    assert write_plain(-1e39, 2).startswith("−99999999999999993970916637160317858")
    assert write_plain(0.005, 2) == "0.01"


def test_a_document_that_cannot_be_found_is_of_no_kind() -> None:
    with pytest.raises(whyword.InputError, match=r"The document has the schema None\.\nThis version reads"):
        kind_of({})
