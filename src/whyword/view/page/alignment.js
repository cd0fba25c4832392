/*
 * The report of an alignment: both texts with their links, then words of the translation × words of the source, with the
 * links marked; human (gold) links are framed where the document has them.
 */

import { linkedTexts, SIDES_LEAD } from "./alignment_links.js";
import { legend, makeScale, paint, shown } from "./colour_scale.js";
import { element, paragraph, section, tableOf, watchEdges } from "./elements.js";
import { makeCurrent, walkGrid } from "./grid_walking.js";
import { notes, reportHeader } from "./header_and_notes.js";
import { CELL_HINT } from "./hints.js";
import { sentence, wordingOf } from "./sentences.js";
import { LINE, quotedWord, visibleText } from "./visible_text.js";

const LINK = "●";
const LISTED = 6; // words that are named for a row or a column

export function renderAlignment(alignment, id) {
  const lead = paragraph("lead", ...sentence(wordingOf(alignment).lead));
  if (alignment.source.length === 0 || alignment.target.length === 0) {
    return [reportHeader(alignment), section("Word by word", "map", ...lead), ...(alignment.notes ? [notes(alignment)] : [])];
  }
  const parts = { header: reportHeader(alignment), map: element("div", {}, ...alignmentMap(alignment, id)) };
  const redraw = () => {
    parts.map.replaceChildren(...alignmentMap(alignment, id));
    const header = reportHeader(alignment);
    parts.header.replaceWith(header);
    parts.header = header;
  };
  return [
    parts.header,
    section("Source and translation", "sides", element("p", { class: "lead" }, SIDES_LEAD), ...linkedTexts(alignment, redraw)),
    section("Word by word", "map", ...lead, parts.map),
    ...(alignment.notes ? [notes(alignment)] : []),
  ];
}

/** The legend, and the table that is walked like a grid. */
function alignmentMap(alignment, id) {
  const neutral = alignment.scores.flat().every((score) => score >= 0);
  const exact = { ...makeScale(alignment.scores.flat()), neutral };
  const table = drawAlignment(alignment, neutral);
  const readout = element("p", { class: "readout", id: `${id}-readout` }, CELL_HINT);
  const walk = { table, readout, hint: CELL_HINT, width: alignment.source.length, current: null };
  walk.describe = (cell) => describeCrossing(alignment, exact, cell.parentElement.rowIndex - 1, cell.cellIndex - 1, walk.hint);
  walkGrid(walk);
  makeCurrent(walk, table.tBodies[0].rows[0].cells[0]);
  const box = watchEdges(element("div", { class: "heat-scroll whole" }, table));
  const colours = legend({ limit: 1, neutral }, alignment);
  return [element("div", { class: "controls" }, colours), element("div", { class: "instrument" }, box, readout)];
}

/** Every score in the colour of its share of the largest in its row. */
function drawAlignment(alignment, neutral) {
  const { source, target, scores } = alignment;
  const rows = target.map((word, row) => {
    const largest = Math.max(...scores[row].map(Math.abs)) || 1;
    const cells = scores[row].map((score, column) => {
      const cell = element("td", { class: marksOf(alignment, row, column) }, isLinked(alignment.links, row, column) ? LINK : "");
      return paint(cell, score / largest, { limit: 1, digits: 2, neutral });
    });
    return element("tr", {}, element("th", { scope: "row" }, visibleText(word, LINE)), ...cells);
  });
  const heads = source.map((word) => element("th", { scope: "col" }, element("span", { class: "token" }, visibleText(word, LINE))));
  const table = tableOf("heat alignment", element("tr", {}, element("th", { scope: "col" }), ...heads), rows);
  table.setAttribute("role", "grid");
  table.setAttribute("aria-label", "Words of the translation by words of the source");
  return table;
}

function isLinked(links, row, column) {
  return links.some(([own, other]) => own === column && other === row);
}

function marksOf({ links, gold }, row, column) {
  const marks = [
    isLinked(links, row, column) && "link",
    isLinked(gold?.sure ?? [], row, column) ? "gold" : isLinked(gold?.possible ?? [], row, column) && "gold possible",
  ];
  return marks.filter(Boolean).join(" ");
}

/** What a cell says in full; a heading: what its word is linked with. */
function describeCrossing(alignment, scale, row, column, hint) {
  const { source, target, scores, links, gold } = alignment;
  if (row < 0 && column < 0) return [hint];
  if (row < 0) return describeLinks(source[column], links.filter(([own]) => own === column).map(([, other]) => target[other]));
  if (column < 0) return describeLinks(target[row], links.filter(([, other]) => other === row).map(([own]) => source[own]));
  const said = [
    isLinked(links, row, column) ? "linked" : "not linked",
    isLinked(gold?.sure ?? [], row, column) && "gold",
    isLinked(gold?.possible ?? [], row, column) && !isLinked(gold?.sure ?? [], row, column) && "possible in gold",
  ].filter(Boolean);
  const number = element("strong", {}, shown(scores[row][column], scale));
  return [quotedWord(target[row]), " from ", quotedWord(source[column]), ": ", number, `, ${said.join(", ")}`];
}

function describeLinks(word, others) {
  if (others.length === 0) return [quotedWord(word), ": no link"];
  const listed = others.slice(0, LISTED).flatMap((other, index) => [index > 0 ? ", " : "", quotedWord(other)]);
  return [quotedWord(word), " is linked with ", ...listed, others.length > LISTED ? " …" : ""];
}
