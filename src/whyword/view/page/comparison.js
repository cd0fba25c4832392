/*
 * The report of several methods for one prediction: one row each, in its own unit and with its own colours.
 */

import { makeScale, paint, shown } from "./colour_scale.js";
import { element, paragraph, scroller, section, unitSwitch } from "./elements.js";
import { notes, reportHeader } from "./header_and_notes.js";
import { ledgerTable } from "./ledger_table.js";
import { measureOf } from "./numbers.js";
import { predictionTable } from "./prediction_table.js";
import { sentence, wordingOf } from "./sentences.js";
import { headerRow, sumOver, tokenColumns, wordColumns } from "./token_columns.js";

export function renderComparison(comparison, id) {
  const table = element("table", { class: "heat comparison", id: `${id}-methods` });
  const draw = (unit) => drawComparison(table, comparison, unit);
  draw("tokens");
  return [
    reportHeader(comparison),
    section(
      "Method by method",
      "map",
      ...paragraph("lead", ...sentence(wordingOf(comparison).lead)),
      ...paragraph("lead", ...sentence(wordingOf(comparison).sink)),
      element("div", { class: "controls" }, unitSwitch(draw)),
      scroller(table),
    ),
    element("div", { class: "overview" }, predictionTable(comparison), ledgerTable(comparison)),
    methodList(comparison),
    notes(comparison),
  ];
}

function drawComparison(table, comparison, unit) {
  const columns = unit === "words" ? wordColumns(comparison) : tokenColumns(comparison);
  const rows = comparison.methods.map((each) => {
    const measure = measureOf(each);
    const numbers = columns.map((column) => sumOver(column, each.scores));
    const limit = Math.max(...numbers.map(Math.abs)) || 1;
    const scale = { ...makeScale(numbers), limit, neutral: !measure.contrastive };
    const cells = numbers.map((number) => paint(element("td", { title: String(number) }, shown(number, scale)), number, scale));
    const tag = measure.contrastive ? [] : [" ", element("span", { class: "tag" }, "not contrastive")];
    const name = element("th", { scope: "row", title: measure.summary }, each.method, ...tag);
    return element("tr", {}, name, ...cells, element("td", { class: "row-sum" }, measure.unit));
  });
  table.replaceChildren(element("thead", {}, headerRow(columns, "method", "unit")), element("tbody", {}, ...rows));
}

/** What each method's scores are. */
function methodList(comparison) {
  const { scores = [] } = wordingOf(comparison);
  const entries = comparison.methods.flatMap(({ method }, index) => [
    element("dt", {}, method),
    element("dd", {}, ...sentence(scores[index])),
  ]);
  return section("What the scores are", "notes", element("dl", {}, ...entries));
}
