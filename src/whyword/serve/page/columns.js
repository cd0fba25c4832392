/*
 * One column for every model that is asked: how far it is, what it answered, or why not.
 */

import { element } from "./elements.js";
import { renderReport } from "./report.js";

const WORDS = { waiting: "waiting for its turn", blocks: "block", tokens: "token", prompts: "prompt" };

/** Make a column; its parts are filled in as answers come. */
export function makeColumn(model, index, several) {
  const parts = {
    progress: element("p", { class: "progress" }),
    next: element("div"),
    failure: element("div", { class: "failure", role: "alert", hidden: "" }),
    report: element("div", { class: "report" }),
  };
  const top = several ? [element("div", { class: "row" }, element("h2", { class: "model-name" }, element("bdi", {}, model)), parts.progress), parts.next] : [parts.progress];
  const root = element("section", { class: "column", "aria-label": model }, ...top, parts.failure, parts.report);
  return { model, root, ...parts, index, document: null };
}

/** Say that a column is at work; what it showed stays, paler. */
export function showWaiting(column) {
  column.root.setAttribute("aria-busy", "true");
  column.failure.hidden = true;
  showProgress(column, { what: "waiting", done: 0, total: null });
}

export function showProgress({ progress }, { what, done, total }) {
  const name = WORDS[what] ?? what;
  const text = what === "waiting" ? (done > 0 ? `${name}: ${done} before it` : "at work …") : `${name} ${done}${total ? ` of ${total}` : ""}`;
  if (!progress.querySelector("progress")) progress.replaceChildren(element("progress", { "aria-label": "Progress" }), element("span"));
  const [bar, words] = progress.children;
  if (total) {
    bar.max = total;
    bar.value = done;
  } else bar.removeAttribute("value");
  words.textContent = text;
}

/** Draw a document where the one before it was, with `notes` below its question; `chosen`: the open token of a continuation. */
export function showDocument(column, answer, { seconds, chosen, notes }) {
  renderReport(column.report, [answer], `model-${column.index + 1}`, chosen);
  column.report.classList.remove("stale");
  column.report.querySelector("header")?.append(...notes.map((note) => element("p", { class: "several-tokens" }, note)));
  column.document = answer;
  column.root.removeAttribute("aria-busy");
  column.progress.replaceChildren(seconds === null ? "" : `${seconds.toFixed(2)} s`);
}

/** Two lines: what is wrong, what to do; and a button where the same may work later. The last answer stays, pale. */
export function showFailure(column, error, again) {
  column.root.removeAttribute("aria-busy");
  column.progress.replaceChildren();
  column.document = null;
  column.report.classList.add("stale");
  const last = column.report.hasChildNodes() ? [element("p", { class: "help" }, "Below is the last answer.")] : [];
  column.failure.replaceChildren(...failureLines(error, again), ...last);
  column.failure.hidden = false;
}

export function showCancelled(column) {
  column.root.removeAttribute("aria-busy");
  column.progress.replaceChildren("Cancelled.");
}

export function failureLines(error, again) {
  const lines = [element("p", {}, element("strong", {}, error.message)), element("p", {}, error.remedy ?? "")];
  if (!error.again || !again) return lines;
  const button = element("button", { type: "button" }, "Try again");
  button.addEventListener("click", again);
  return [...lines, button];
}
