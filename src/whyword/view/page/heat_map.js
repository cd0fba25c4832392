/*
 * The heat map of blocks × tokens with the sum below; of a method without blocks, one row of scores.
 */

import { legend, scaleOf } from "./colour_scale.js";
import { capitalise, element, paragraph, section, unitSwitch, watchEdges } from "./elements.js";
import { makeCurrent, walkGrid } from "./grid_walking.js";
import { activateBlock, drawRow, leaveHeads, toggleHeads } from "./heat_map_rows.js";
import { CELL_HINT, TOUCH } from "./hints.js";
import { isLong, longHeatMap } from "./long_heat_map.js";
import { measureOf, plain, signed, total } from "./numbers.js";
import { quantityOf, sentence, wordingOf } from "./sentences.js";
import { headerRow, sumOver, tokenColumns, wordColumns } from "./token_columns.js";
import { visibleText } from "./visible_text.js";

const BLOCK_HINT = TOUCH
  ? "Tap a cell to read it and to open its block’s heads; tap again to close them."
  : "Point at a cell or move with the arrow keys to read it; click or press Enter to open a block’s heads.";

const MOST_ROWS = 40; // up to here the page scrolls, not a box of its own: nobody should miss the last rows

/** The heat map of an explanation, in a table that is walked like a grid. */
export function heatMap(explanation, id) {
  const scale = scaleOf(explanation, numbersShown(explanation));
  if (isLong(explanation)) return longSection(explanation, id, scale);
  const table = element("table", { class: "heat", role: "grid", "aria-label": "Attribution by block and token" });
  const measure = measureOf(explanation);
  const hint = measure.by_block ? BLOCK_HINT : CELL_HINT;
  const readout = element("p", { class: "readout", id: `${id}-readout` }, hint);
  const map = { explanation, measure, hint, scale, table, readout, open: new Set(), columns: [], rows: new WeakMap(), current: null, width: 0 };
  map.describe = (cell) => describeCell(map, cell);
  map.activate = (cell) => activateBlock(map, cell);
  map.leave = (cell) => leaveHeads(map, cell);
  const choose = unitSwitch((unit) => drawHeatMap(map, unit));
  drawHeatMap(map, "tokens");
  walkGrid(map);
  const whole = explanation.by_block.length <= MOST_ROWS;
  return section(
    measure.by_block ? "Block by block" : "Token by token",
    "map",
    ...paragraph("lead", ...sentence(wordingOf(explanation).coverage)),
    element("div", { class: "controls" }, choose, legend(scale, explanation)),
    element("div", { class: "instrument" }, watchEdges(element("div", { class: whole ? "heat-scroll whole" : "heat-scroll" }, table)), readout),
  );
}

/** Every number that the map may show: of tokens, words and heads. */
function numbersShown(explanation) {
  const rows = [...explanation.by_block, explanation.scores];
  const words = wordColumns(explanation);
  const heads = measureOf(explanation).by_block && !isLong(explanation) ? explanation.by_head.flat(2) : [];
  return [...rows, ...rows.map((values) => words.map((column) => sumOver(column, values))), heads].flat();
}

function longSection(explanation, id, scale) {
  const measure = measureOf(explanation);
  const describe = (name, column, number) => [`${capitalise(name)}, `, ...describeColumn({ explanation }, column, "token"), ": ", amount({ explanation, measure }, number)];
  const { holder, draw } = longHeatMap(explanation, id, scale, describe);
  return section(
    measure.by_block ? "Block by block" : "Token by token",
    "map",
    ...paragraph("lead", ...sentence(wordingOf(explanation).coverage)),
    element("div", { class: "controls" }, unitSwitch(draw), legend(scale, explanation)),
    holder,
  );
}

/** Fill the table for a unit of columns, with the blocks that are open. */
function drawHeatMap(map, unit) {
  map.columns = unit === "words" ? wordColumns(map.explanation) : tokenColumns(map.explanation);
  map.width = map.columns.length;
  map.table.replaceChildren(...(map.measure.by_block ? blockRows(map) : scoreRow(map)));
  makeCurrent(map, map.table.tBodies[0].rows[0].cells[0]);
}

function scoreRow(map) {
  const scores = { kind: "sum", label: "score", name: "score", values: map.explanation.scores, scale: map.scale, end: map.measure.unit };
  return [element("thead", {}, headerRow(map.columns, "", "unit")), element("tbody", {}, drawRow(map, scores))];
}

function blockRows(map) {
  const { explanation, columns, scale } = map;
  const blocks = explanation.by_block.map((values, block) => {
    const names = { label: String(block + 1), name: `block ${block + 1}` };
    return drawRow(map, { kind: "block", block, ...names, values, scale });
  });
  const sums = { kind: "sum", label: "sum", name: "sum of all blocks", values: explanation.scores };
  const body = element("tbody", {}, ...[...blocks].reverse());
  const open = [...map.open];
  map.open.clear();
  open.forEach((block) => toggleHeads(map, blocks[block]));
  const foot = element("tfoot", {}, drawRow(map, { ...sums, scale }));
  return [element("thead", {}, headerRow(columns)), body, foot];
}

/** What a cell of the heat map shows, in full. */
function describeCell(map, cell) {
  const row = map.rows.get(cell.parentElement);
  const column = map.columns[cell.cellIndex - 1];
  const place = row?.kind === "head" ? "position" : "token"; // what a head reads is no longer the token alone
  if (!row) return column ? describeColumn(map, column, place) : [map.hint];
  if (!column && !map.measure.adds_up) return [`${capitalise(row.name)}, in ${map.measure.unit}: ${map.measure.summary}`];
  if (cell.cellIndex === 0) return [`${capitalise(row.name)}: `, amount(map, total(row.values)), ` over all ${place}s`];
  if (!column) return [`${capitalise(row.name)}, all ${place}s: `, amount(map, total(row.values))];
  const number = row.numbers[cell.cellIndex - 1];
  return [`${capitalise(row.name)}, `, ...describeColumn(map, column, place), ": ", amount(map, number)];
}

function describeColumn({ explanation }, { text, members, place, tags }, kind) {
  const ids = members.map((index) => explanation.tokens[index].id).join(" ");
  const details = [`${kind}${members.length > 1 ? "s" : ""} ${place}`, `id ${ids}`, ...tags].join(", ");
  return [element("q", {}, visibleText(text)), ` (${details})`];
}

function amount({ explanation, measure }, number) {
  if (!measure.adds_up) return element("strong", {}, `${(measure.contrastive ? signed : plain)(number, 5)} (${measure.unit})`);
  const effect = number < 0 ? "lowers" : "raises";
  const text = number === 0 ? "0" : `${signed(number, 5)} ${effect} the ${quantityOf(explanation)}`;
  return element("strong", {}, text);
}
