"""What was asked of every tool, and how its answers are found in the file of results."""

from typing import Any

__all__ = ["GROUPS", "NETWORKS", "PACKAGES", "TITLES", "find_cost", "list_lengths", "list_methods"]

Results = dict[str, Any]
NETWORKS = ("SmolLM2-135M-Instruct", "GPT-2 small, random weights")
TITLES = {
    "whyword": "whyword",
    "inseq": "Inseq",
    "captum": "Captum",
    "lxt": "LXT",
    "gim": "gim-explain",
    "transformer-lens": "TransformerLens",
    "nnsight": "nnsight",
    "context-cite": "ContextCite",
}
PACKAGES = {"gim": "gim-explain"}
GROUPS = ("BLiMP", "SVA", "IOI")


def list_methods(results: Results, kind: str, network: str | None = None) -> list[tuple[str, str, Any]]:
    """List tools, methods and what each answered."""
    found = []
    for tool in TITLES:
        answered = results.get(tool, {}).get(kind, {})
        answered = answered if network is None else answered.get(network, {})
        if "failed" in answered and not answered.get("methods"):
            found.append((tool, "", {"failed": answered["failed"]}))
        found += [(tool, method, each) for method, each in answered.get("methods", {}).items()]
    return found


def find_cost(found: Any, tokens: int) -> dict[str, Any]:
    """Find what was measured at one length."""
    cell: dict[str, Any] = next((each for each in found.get("costs", ()) if each["tokens"] == tokens), {})
    return cell


def list_lengths(results: Results, network: str) -> list[int]:
    """List the lengths that were measured."""
    found = list_methods(results, "costs", network)
    return sorted({each["tokens"] for _, _, answer in found for each in answer.get("costs", ())})
