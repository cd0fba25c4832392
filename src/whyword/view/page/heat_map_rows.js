/*
 * The rows of the heat map of blocks × tokens: blocks, their heads once they are opened, and the sum.
 */

import { paint, shown } from "./colour_scale.js";
import { element, heading } from "./elements.js";
import { moveTo } from "./grid_walking.js";
import { signed, total } from "./numbers.js";
import { wordingOf } from "./sentences.js";
import { sumOver } from "./token_columns.js";

/** One row of numbers; what it stands for is kept for the readout. */
export function drawRow(map, row) {
  const numbers = map.columns.map((column) => sumOver(column, row.values));
  const cells = numbers.map((number) => paint(element("td", {}, shown(number, row.scale)), number, row.scale));
  const head = heading(row.label, "row");
  if (row.kind === "block") head.setAttribute("aria-expanded", "false");
  const end = row.end ?? signed(total(row.values), row.scale.digits);
  const drawn = element("tr", { class: row.kind }, head, ...cells, element("td", { class: "row-sum" }, end));
  map.rows.set(drawn, { ...row, numbers });
  return drawn;
}

/** Open or close the heads of the block that a row shows. */
export function toggleHeads(map, drawn) {
  const { block } = map.rows.get(drawn);
  const opened = !map.open.delete(block);
  drawn.cells[0].setAttribute("aria-expanded", String(opened));
  if (opened) {
    map.open.add(block);
    drawn.after(...headRows(map, block));
  } else {
    while (["head", "heads-note"].includes(drawn.nextElementSibling?.className)) drawn.nextElementSibling.remove();
  }
}

/** Open or close the block of a cell. */
export function activateBlock(map, cell) {
  const row = cell.parentElement;
  if (map.rows.get(row)?.kind === "block") toggleHeads(map, row);
}

/** Close the heads that a cell belongs to, and go back to their block. */
export function leaveHeads(map, cell) {
  const row = cell.parentElement;
  const { block } = map.rows.get(row) ?? {};
  if (!map.open.has(block)) return;
  let own = row;
  while (map.rows.get(own)?.kind !== "block") own = own.previousElementSibling;
  toggleHeads(map, own);
  moveTo(map, own.cells[cell.cellIndex]);
}

function headRows(map, block) {
  const heads = map.explanation.by_head[block];
  const { head_rows: said = "" } = wordingOf(map.explanation);
  const text = `Block ${block + 1} by head. ${said}`;
  const note = element("td", { colspan: String(map.columns.length + 2) }, element("span", {}, text));
  const rows = heads.map((values, head) => {
    const name = `block ${block + 1}, head ${head + 1}`;
    return drawRow(map, { kind: "head", block, label: `${block + 1}.${head + 1}`, name, values, scale: map.scale });
  });
  return [element("tr", { class: "heads-note" }, note), ...rows];
}
