"""Agreement with what the code published with the paper computes (it adds 1e-6 in its distances: 1e-3)."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import whyword

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module", params=("gpt2", "opt", "bloom"))
def golden(request: pytest.FixtureRequest) -> tuple[whyword.Model, list[dict[str, Any]]]:
    folder = GOLDEN / request.param
    return whyword.load(folder), json.loads((folder / "expected.json").read_text(encoding="utf-8"))["cases"]


def close(found: Any, expected: Any) -> None:
    expected = torch.as_tensor(expected, dtype=torch.float64)
    found = torch.as_tensor(found, dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max()))


def test_ledger_entries(golden: tuple[whyword.Model, list[dict[str, Any]]]) -> None:
    model, cases = golden
    for case in cases:
        for which, token in enumerate((case["target"], case["foil"])):
            e = whyword.explain(model, case["input_ids"], target=token, foil=None)
            close(e.ledger.logit, case[("logit_target", "logit_foil")[which]])
            close(e.ledger.embedding, case["embedding_logit"][which])
            close(e.ledger.norm_bias, case["final_norm_bias_logit"][which])
            close(e.ledger.attention_bias, torch.tensor(case["attention_output_bias_logit"])[:, which])
            close(e.ledger.mlp, torch.tensor(case["mlp_logit"])[:, which])


def test_updates_by_block_and_head(golden: tuple[whyword.Model, list[dict[str, Any]]]) -> None:
    model, cases = golden
    for case in cases:
        for which, token in enumerate((case["target"], case["foil"])):
            e = whyword.explain(model, case["input_ids"], target=token, foil=None, method="logit")
            close(e.by_block, case["logit_by_layer"][which])
            close(e.by_head, torch.tensor(case["head_logit_last_position"])[:, :, which])


def test_mixing_and_alti_logit(golden: tuple[whyword.Model, list[dict[str, Any]]]) -> None:
    model, cases = golden
    for case in cases:
        close(whyword.mixing(model, case["input_ids"]), case["alti_rollout"])
        for which, token in enumerate((case["target"], case["foil"])):
            e = whyword.explain(model, case["input_ids"], target=token, foil=None, method="alti-logit")
            close(e.by_block, case["alti_logit_by_layer"][which])


def test_baselines(golden: tuple[whyword.Model, list[dict[str, Any]]]) -> None:
    model, cases = golden
    names = {"erasure": "erasure_prob", "gradient-norm": "grad_norm_l1", "gradient-x-input": "grad_x_input"}
    for case in cases:
        found = whyword.compare(
            model, case["input_ids"], target=case["target"], foil=case["foil"], methods=[*names, "alti"]
        )
        for method, name in names.items():
            scores, expected = found[method].scores, torch.tensor(case[name])
            if model.config.model_type == "bloom" and method == "gradient-x-input":
                # BLOOM norms its embeddings, so that their length hardly matters: terms of up to 60 cancel
                # to 1e-4, and what both codes give is mostly the rounding of float32.
                rounding = 1e-7 * max(case["grad_norm_l1"])
                torch.testing.assert_close(scores, expected, rtol=0, atol=rounding)
                continue
            close(scores, expected)
        close(found["alti"].scores, torch.tensor(case["alti_rollout"])[-1, -1])


def test_a_folder_without_tokenizer_takes_ids(golden: tuple[whyword.Model, list[dict[str, Any]]]) -> None:
    model, cases = golden
    assert model.tokenizer is None
    asked = {"target": cases[1]["target"], "foil": cases[1]["foil"], "method": "alti-logit"}
    e = whyword.explain(model, cases[1]["input_ids"], **asked)
    assert e.tokens.words() == [str(id_) for id_ in cases[1]["input_ids"]]
    close(
        e.by_block,
        torch.tensor(cases[1]["alti_logit_by_layer"])[0] - torch.tensor(cases[1]["alti_logit_by_layer"])[1],
    )
