"""What a run came to, in a small table."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..runs.whole_files import write_file
from ..view.sheet import Sheet
from .run_journal import read_corpus_settings, read_shard_lines
from .shard_files import read_records

__all__ = ["lay_out_summary", "summarise", "write_summary"]

_REASONS = 10


def summarise(folder: Path) -> dict[str, Any]:
    """Add up the finished shards: rows, failures with their reasons, differences by method, time and size."""
    settings, lines = read_corpus_settings(folder), read_shard_lines(folder)
    reasons: Counter[str] = Counter()
    sums: dict[str, list[float]] = {}
    for line in lines.values():
        for record in read_records(folder / line.file, ["method", "error", "difference"]):
            if record["error"] is not None:
                reasons[record["error"]] += 1
                continue
            own = sums.setdefault(record["method"], [0, 0.0, 0])
            own[0] += 1
            own[1] += record["difference"]
            own[2] += record["difference"] > 0
    rows, seconds = sum(line.rows for line in lines.values()), sum(line.seconds for line in lines.values())
    return {
        "model": settings["model"],
        "weights": settings["weights"],
        "rows": settings["rows"],
        "finished": rows,
        "failed": sum(line.failed for line in lines.values()),
        "reasons": dict(reasons.most_common(_REASONS)),
        "methods": {
            name: {"rows": int(count), "mean difference": total / count, "target preferred": above / count}
            for name, (count, total, above) in sums.items()
        },
        "worker seconds": round(seconds, 3),
        "bytes": sum(line.bytes for line in lines.values()),
    }


def write_summary(folder: Path) -> None:
    """Write summary.json; it has times, and so is not the same for two runs."""
    write_file(folder / "summary.json", json.dumps(summarise(folder), indent=1, ensure_ascii=False) + "\n")


def lay_out_summary(known: Mapping[str, Any]) -> Sheet:
    """Lay out a summary as a table: a row for each method."""
    title = (
        f"{known['model']}: {known['finished']:,} of {known['rows']:,} rows, "
        f"{known['failed']:,} not explained, {known['bytes'] / 1e6:,.1f} MB, "
        f"{known['worker seconds']:,.0f} s of work"
    )
    rows = tuple(
        (name, f"{own['rows']:,}", f"{own['mean difference']:+.3f}", f"{own['target preferred']:.1%}")
        for name, own in known["methods"].items()
    )
    return Sheet(title, ("method", "rows", "mean difference", "target preferred"), rows)
