"""Requests made from the server's own description, right and wrong ones: it answers as it says it does."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

pytest.importorskip("fastapi", reason="FastAPI is not installed")
schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")

from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from whyword.serve.access import LOCAL, Limits

from serving import make_toy, serving

# Not "valid data is accepted": a form that is right may still name a model that is not there.
CHECKS = [
    not_a_server_error,
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
]


@pytest.fixture(scope="module")
def description() -> Iterator[Any]:
    access = replace(LOCAL, limits=Limits(tokens=200, new_tokens=20))
    with serving([make_toy()], access) as address:
        yield schemathesis.openapi.from_url(f"{address}/api/openapi.json")


ASKED = ("compare", "continue", "explain", "neurons", "predict", "support", "translate")


def check(operation: Any, mode: Any) -> None:
    """Ask a route for what its description makes up."""

    @settings(max_examples=15, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        case.call_and_validate(checks=CHECKS)

    ask()


@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("name", ASKED)
def test_it_answers_as_it_says(description: Any, name: str, mode: Any) -> None:
    check(description[f"/api/{name}"]["POST"], mode)


def test_it_tells_what_it_says(description: Any) -> None:
    check(description["/api/models"]["GET"], schemathesis.GenerationMode.POSITIVE)
