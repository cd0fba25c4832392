/*
 * The report of scores by part of the prompt: a bar for each, and what it says.
 */

import { legend, makeScale, paint } from "./colour_scale.js";
import { element, heading, paragraph, scroller, section, tableOf } from "./elements.js";
import { reportHeader } from "./header_and_notes.js";
import { signed } from "./numbers.js";
import { predictionTable } from "./prediction_table.js";
import { wordingOf } from "./sentences.js";
import { PROSE, visibleText } from "./visible_text.js";

export function renderParts(found) {
  const scale = makeScale(found.parts.map((part) => part.score));
  const rows = found.parts.map((part) =>
    element(
      "tr",
      {},
      heading(part.name, "row"),
      paint(element("td", {}, signed(part.score, scale.digits)), part.score, scale),
      element("td", {}, partBar(part.score, scale)),
      element("td", { class: "part-text" }, part.name === part.text ? "" : visibleText(part.text, PROSE)),
    ),
  );
  const head = element("tr", {}, ...[found.by, "score", "", "text"].map((name) => heading(name, "col")));
  const lead = paragraph("lead", wordingOf(found).total ?? "");
  return [
    reportHeader(found),
    predictionTable({ ...found, ledger: { logit: found.logit } }),
    section(`By ${found.by}`, "parts", ...lead, legend(scale, found), scroller(tableOf("figures ranking", head, rows))),
  ];
}

/** A bar from the middle: to the right it raises, to the left it lowers. */
export function partBar(score, scale) {
  const bar = element("span", { class: score < 0 ? "part-bar lowers" : "part-bar raises" });
  bar.style.setProperty("--length", Math.min(1, Math.abs(score) / scale.limit).toFixed(3));
  return element("span", { class: "part-track", "aria-hidden": "true" }, bar);
}
