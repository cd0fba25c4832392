/*
 * The report of two explanations word by word: both scores, and what the second changes.
 */

import { legend, makeScale, paint } from "./colour_scale.js";
import { element, heading, paragraph, scroller, section, tableOf } from "./elements.js";
import { reportHeader } from "./header_and_notes.js";
import { percent, plain, signed } from "./numbers.js";
import { partBar } from "./parts.js";
import { sentence, wordingOf } from "./sentences.js";
import { PROSE, visibleText } from "./visible_text.js";

export function renderDifference(found) {
  const rest = found.rest && (found.rest.first_score || found.rest.second_score) ? [found.rest] : [];
  const pairs = [...found.words, ...rest];
  const scale = makeScale(pairs.flatMap((pair) => [pair.first_score, pair.second_score, pair.difference]));
  const rows = pairs.map((pair) =>
    element(
      "tr",
      { class: pair.first === pair.second ? "" : "changed" },
      element("th", { scope: "row" }, ...pairName(pair, found)),
      ...["first", "second"].map((side) => scoreCell(pair, side, scale)),
      paint(element("td", {}, signed(pair.difference, scale.digits)), pair.difference, scale),
      element("td", {}, partBar(pair.difference, scale)),
    ),
  );
  const names = ["word", "first", "second", "change", ""].map((name) => heading(name, "col"));
  const table = tableOf("figures ranking difference", element("tr", {}, ...names), rows);
  if (found.rest) {
    const totals = [found.first.logit, found.second.logit, found.difference].map((number) => element("td", {}, signed(number, 3)));
    table.append(element("tfoot", {}, element("tr", {}, element("th", { scope: "row" }, "total"), ...totals, element("td"))));
  }
  const { answer, total } = wordingOf(found);
  return [
    reportHeader(found),
    ...paragraph("answer", ...sentence(answer)),
    sidesTable(found),
    section("Word by word", "parts", ...paragraph("lead", total ?? ""), legend(scale, found), scroller(table)),
  ];
}

/** A word; both, where another stands in its place. */
function pairName(pair, found) {
  if (pair === found.rest) return [wordingOf(found).rest ?? "rest"];
  if (pair.start) return ["start"];
  const [first, second] = [pair.first, pair.second].map((text) => (text === null ? "–" : visibleText(text)));
  return pair.first === pair.second ? [first] : [first, " → ", second];
}

function scoreCell(pair, side, scale) {
  const score = pair[`${side}_score`];
  return pair[side] === null ? element("td") : paint(element("td", {}, signed(score, scale.digits)), score, scale);
}

/** Model, prompt, probabilities and the logit (difference) of both. */
function sidesTable(found) {
  const choices = [found.first.target, ...found.first.foils];
  const names = ["", "model", "prompt", ...choices.map(() => "probability"), "logit"];
  const head = element("tr", {}, ...names.map((name, index) => probabilityHead(name, choices[index - 3])));
  const rows = ["first", "second"].map((name) => {
    const side = found[name];
    const chances = [side.target, ...side.foils].map((choice) => element("td", {}, percent(choice.probability)));
    return element(
      "tr",
      {},
      heading(name, "row"),
      element("td", { class: "words" }, side.model),
      element("td", { class: "part-text" }, visibleText(side.text, PROSE)),
      ...chances,
      element("td", {}, found.first.foils.length > 0 ? signed(side.logit, 3) : plain(side.logit, 3)),
    );
  });
  return section("Both", "parts", scroller(tableOf("figures", head, rows)));
}

function probabilityHead(name, choice) {
  if (name === "probability") return element("th", { scope: "col" }, "P(", visibleText(choice.text.trim()), ")");
  const head = heading(name, "col");
  head.classList.toggle("words", name === "model" || name === "prompt");
  return head;
}
