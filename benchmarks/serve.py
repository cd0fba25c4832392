"""How soon an explanation is seen on the page, beside the library's own time for it; what the page weighs.

    python benchmarks/serve.py [--rounds 15] [--output serve.json]

The default model and a prompt of 30 tokens, in a real browser (chromium, headless) on this machine. A
button is pressed and the heat map drawn, or `whyword.explain(...)` is called: both take turns. First paint is
that of a browser that never saw the page; weight is what it loads before anything is asked.
"""

import shutil
import threading
from typing import Any

from playwright.sync_api import sync_playwright

import whyword
from whyword.serve.access import LOCAL, LOOPBACK
from whyword.serve.hosting import make_server, open_socket

from measure import check, interleave, parse, publish

PROMPT = (
    "The keys to the cabinet that stood in the old house by the lake, which my grandmother had bought "
    "from a painter of landscapes many years ago, and"
)
TOKENS = 30
BARS = {"seen ÷ explain": 1.5, "weight in kB": 300, "first paint in s": 1.0}
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
PRESS = """async () => {
  document.getElementById("run").click();
  const frame = () => new Promise(requestAnimationFrame);
  do await frame(); while (document.body.dataset.state === "running");
  await frame(); // what was drawn is on the screen when the next frame begins
  if (!document.querySelector("table.heat tfoot td")) throw new Error("there is no heat map");
}"""


def main() -> None:
    arguments = parse(__doc__, rounds=15)
    model = whyword.load()
    assert len(whyword.tokenize(model, PROMPT)) == TOKENS
    opened = open_socket(LOOPBACK, 0)
    ready = threading.Event()
    server = make_server([model], LOCAL, ready.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]})
    thread.start()
    ready.wait()
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
            page = browser.new_page()
            loaded: list[Any] = []
            page.on("response", lambda each: loaded.append(each))
            page.goto(f"http://{LOOPBACK}:{opened.getsockname()[1]}/")
            paint = (
                page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime") / 1000
            )
            page.wait_for_load_state("networkidle")
            weight = sum(len(each.body()) for each in loaded if each.request.method == "GET") / 1000
            medians = interleave(make_runs(model, page), arguments.rounds)
            browser.close()
    finally:
        server.should_exit = True
        thread.join()
    values = {
        "seen ÷ explain": medians["seen on the page"] / medians["whyword.explain"],
        "weight in kB": weight,
        "first paint in s": paint,
    }
    report = {
        "model": model.name,
        "tokens": TOKENS,
        "rounds": arguments.rounds,
        "seconds": medians,
        "bars": [check(what, value, BARS[what]) for what, value in values.items()],
    }
    publish(report, arguments.output)


def make_runs(model: whyword.Model, page: Any) -> dict[str, Any]:
    page.fill("#prompt", PROMPT)
    page.fill("#target", "are")
    page.fill("#foil", "is")

    return {
        "whyword.explain": lambda: whyword.explain(model, PROMPT, target="are", foil="is").to_dict(),
        "seen on the page": lambda: page.evaluate(PRESS),
    }


if __name__ == "__main__":
    main()
