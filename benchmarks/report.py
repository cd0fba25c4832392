"""Size of a long report, and how long its longest task takes in Chromium: python benchmarks/report.py.

The document is made up: as many tokens, blocks and heads as are asked for, with random numbers. Times are
those of the browser's own trace: by the clock, and on the CPU, which does not depend on what else is running.
"""

import argparse
import json
import random
import tempfile
from pathlib import Path
from typing import Any

from whyword.view.html import render_html

LARGE = 3.0
"""Megabytes that a report of 1,500 tokens should not be larger than."""
LONG = 200.0
"""Milliseconds that no task should take."""


def main() -> None:
    """Measure a report and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=1500)
    parser.add_argument("--blocks", type=int, default=30)
    parser.add_argument("--heads", type=int, default=9)
    parser.add_argument("--chromium", default=None, help="path of the browser")
    options = parser.parse_args()
    for method in ("flow", "alti-logit"):
        page = render_html([make_document(options.tokens, options.blocks, options.heads, method)])
        found = measure(page, options.chromium)
        size = len(page.encode()) / 1e6
        print(f"{method}, {options.tokens:,} tokens: {size:.2f} MB")
        for name, (clock, processor) in found.items():
            print(f"  longest task while it {name}: {clock:.0f} ms by the clock, {processor:.0f} ms of CPU")
        assert size <= LARGE
        assert all(processor <= LONG for _, processor in found.values())


def make_document(tokens: int, blocks: int, heads: int, method: str) -> dict[str, Any]:
    """Make a document with random numbers, few of them strong."""
    source = random.Random(0)

    def row() -> list[float]:
        return [source.gauss(0, 0.02) ** 3 * 1e3 for _ in range(tokens)]

    texts = [f" word{place}" if place % 3 else "s" for place in range(tokens)]
    ends = [len("".join(texts[: place + 1])) for place in range(tokens)]
    own = [
        {
            "id": place,
            "text": text,
            "start": end - len(text.strip()),
            "end": end,
            "word": place,
            "special": False,
        }
        for place, (text, end) in enumerate(zip(texts, ends, strict=True))
    ]
    by_head = [[row() for _ in range(heads)] for _ in range(blocks)]
    by_block = [row() for _ in range(blocks)] if method == "alti-logit" else [row()]
    choice = {"id": 1, "logit": 5.0, "probability": 0.5}
    document: dict[str, Any] = {
        "schema": "whyword.explanation/1",
        "model": "made up",
        "method": method,
        "text": "".join(texts),
        "tokens": own,
        "forced": 0,
        "position": tokens - 1,
        "target": {**choice, "text": " has"},
        "foils": [{**choice, "text": " have", "logit": 4.0}],
        "scores": [sum(column) for column in zip(*by_block, strict=True)],
        "by_block": by_block,
        "by_head": by_head,
        "ledger": {
            "embedding": 0.0,
            "attention": [0.1] * blocks,
            "attention_bias": [0.0] * blocks,
            "mlp": [0.1] * blocks,
            "norm_bias": 0.0,
            "unembedding_bias": 0.0,
            "total": 0.2 * blocks,
            "logit": 0.2 * blocks,
            "error": 0.0,
        },
        "notes": {},
    }
    if method == "flow":
        places = range(256)
        routes = [
            {
                "block": place % blocks,
                "head": 0,
                "source": source.randrange(tokens - 1),
                "destination": tokens - 1,
            }
            | {"amount": 1.0 / (place + 1)}
            for place in places
        ]
        by_depth = [*(row() for _ in range(blocks)), by_block[0]][::-1]
        document["flow"] = {"by_depth": by_depth, "bias": [0.0] * (blocks + 1), "routes": routes}
    return document


def measure(page: str, chromium: str | None) -> dict[str, tuple[float, float]]:
    """Open a page, scroll it and its heat map; give the longest task of each, in milliseconds."""
    from playwright.sync_api import sync_playwright

    found = {}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as running:
        path, trace = Path(folder) / "report.html", Path(folder) / "trace.json"
        path.write_text(page, encoding="utf-8")
        browser = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        for name in ("opens", "scrolls"):
            browser.start_tracing(page=tab, path=trace, categories=["devtools.timeline", "toplevel"])
            if name == "opens":
                tab.goto(path.as_uri())
                tab.wait_for_timeout(2000)
            else:
                scroll(tab)
            browser.stop_tracing()
            found[name] = read_longest(json.loads(trace.read_text())["traceEvents"])
        browser.close()
    return found


def scroll(tab: Any) -> None:
    """Scroll the page to its end and its heat map to the right."""
    for _ in range(20):
        tab.mouse.wheel(0, 500)
        tab.wait_for_timeout(50)
    tab.evaluate(
        """async () => {
          const box = document.querySelector(".canvas-scroll");
          for (let across = 0; across < box.scrollWidth; across += 1000) {
            box.scrollLeft = across;
            await new Promise(requestAnimationFrame);
          }
        }"""
    )


def read_longest(events: list[dict[str, Any]]) -> tuple[float, float]:
    """Read the longest task of the thread that runs the page: by the clock, and on the CPU."""
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    tasks = [
        event
        for event in events
        if event["name"] == "ThreadControllerImpl::RunTask" and names.get(event["tid"]) == "CrRendererMain"
    ]
    clock, processor = (max(task.get(name, 0) for task in tasks) / 1000 for name in ("dur", "tdur"))
    return clock, processor


if __name__ == "__main__":
    main()
