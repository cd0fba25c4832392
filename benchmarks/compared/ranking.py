"""Ranks of evidence: the scores of any tool, ranked as our own evaluation ranks ours."""

from typing import Any

from compared.questions import Row
from whyword.evaluation.metrics import expect_by_chance, expect_reciprocal_rank

__all__ = ["rank_rows"]


def rank_rows(rows: list[Row], answered: dict[str, Any]) -> dict[str, Any]:
    """Give the mean reciprocal rank of every method by group of datasets, and that of random scores.

    `few`: the same over the rows that slow methods are asked, too.
    """
    methods = {name: _rank(rows, found["rows"]) for name, found in answered.get("methods", {}).items()}
    ranked = [len(row.question["ids"]) - len(row.left_out) for row in rows]
    chance = [expect_by_chance(tokens, len(row.evidence)) for row, tokens in zip(rows, ranked, strict=True)]
    kept = {key: value for key, value in answered.items() if key != "methods"}
    return {**kept, "methods": methods, "random": _average_both(rows, chance)}


def _rank(rows: list[Row], found: list[dict[str, Any] | None]) -> dict[str, Any]:
    ranks, failed = list[float | None](), list[str]()
    for row, answer in zip(rows, found, strict=True):
        if answer is None or "failed" in answer:
            failed += [answer["failed"]] if answer else []
            ranks.append(None)
            continue
        places = [place for place in range(len(answer["scores"])) if place not in row.left_out]
        scores = [answer["scores"][place] for place in places]
        ranks.append(expect_reciprocal_rank(scores, [places.index(place) for place in row.evidence]))
    asked = sum(answer is not None for answer in found)
    return {
        **_average_both(rows, ranks),
        "asked": asked,
        "failed_rows": len(failed),
        "reason": failed[0] if failed else None,
    }


def _average_both(rows: list[Row], values: list[Any]) -> dict[str, Any]:
    few = [value if row.question["few"] else None for row, value in zip(rows, values, strict=True)]
    return {"mrr": _average(rows, values), "few": _average(rows, few)}


def _average(rows: list[Row], values: list[Any]) -> dict[str, dict[str, float | None]]:
    means = {}
    for group in dict.fromkeys(row.group for row in rows):
        used = [
            value for row, value in zip(rows, values, strict=True) if row.group == group and value is not None
        ]
        means[group] = {"mean": sum(used) / len(used) if used else None, "n": len(used)}
    return means
