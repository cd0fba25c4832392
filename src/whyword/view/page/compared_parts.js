/*
 * The report of several methods by part of the prompt: a row for each part, a column for each method.
 */

import { makeScale, paint, shown } from "./colour_scale.js";
import { element, heading, paragraph, scroller, section, tableOf } from "./elements.js";
import { reportHeader } from "./header_and_notes.js";
import { measureOf, signed } from "./numbers.js";
import { predictionTable } from "./prediction_table.js";
import { sentence, wordingOf } from "./sentences.js";
import { PROSE, visibleText } from "./visible_text.js";

export function renderComparedParts(found) {
  const { lead, faithfulness } = wordingOf(found);
  const scales = found.methods.map((each) => ({ ...makeScale(each.scores), neutral: !measureOf(each).contrastive }));
  const rows = found.parts.map((part, place) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, visibleText(part.name, PROSE)),
      ...found.methods.map(({ scores }, column) =>
        paint(element("td", {}, shown(scores[place], scales[column])), scores[place], scales[column]),
      ),
      element("td", { class: "part-text" }, part.name === part.text ? "" : visibleText(part.text, PROSE)),
    ),
  );
  const names = found.methods.map((each) => element("th", { scope: "col", title: measureOf(each).summary }, each.method, element("br"), measureOf(each).unit));
  const table = tableOf("figures ranking", element("tr", {}, heading(found.by, "col"), ...names, heading("text", "col")), rows);
  table.append(element("tfoot", {}, ...faithfulnessRows(found.methods)));
  return [
    reportHeader(found),
    predictionTable({ ...found, ledger: { logit: found.logit } }),
    section(
      "Method by method",
      "parts",
      ...paragraph("lead", ...sentence(lead)),
      scroller(table),
      ...paragraph("lead", ...sentence(faithfulness)),
    ),
  ];
}

function faithfulnessRows(methods) {
  if (methods.some(({ faithfulness }) => !faithfulness)) return [];
  const named = [["strongest source", ({ strongest }) => strongest], ["comprehensiveness", (each) => signed(each.comprehensiveness, 3)], ["sufficiency", (each) => signed(each.sufficiency, 3)]];
  return named.map(([name, say]) =>
    element("tr", {}, heading(name, "row"), ...methods.map(({ faithfulness }) => element("td", {}, say(faithfulness)))),
  );
}
