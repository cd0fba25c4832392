/*
 * The heat map of blocks × tokens of a long prompt, on a canvas; heads are below, in their own map.
 */

import { canvasMap } from "./canvas_map.js";
import { capitalise, element } from "./elements.js";
import { CELL_HINT } from "./hints.js";
import { measureOf } from "./numbers.js";
import { sumOver, tokenColumns, wordColumns } from "./token_columns.js";

const MOST_CELLS = 6000; // beyond, a table would take long to lay out

export function isLong({ by_block: byBlock, tokens }) {
  return byBlock.length * tokens.length > MOST_CELLS || tokens.length > 600;
}

/** The map, in an element that is filled anew for another unit; `describe(name, column, number)` says what a cell is. */
export function longHeatMap(explanation, id, scale, describe) {
  const holder = element("div", {});
  const draw = (unit) => {
    const columns = unit === "words" ? wordColumns(explanation) : tokenColumns(explanation);
    const rows = listRows(explanation).map((row) => ({ ...row, values: columns.map((column) => sumOver(column, row.values)) }));
    const say = (row, column) => describe(rows[row].name, columns[column], rows[row].values[column]);
    const name = "Attribution by block and token";
    holder.replaceChildren(canvasMap({ id: `${id}-long`, name, columns, rows, scale, describe: say, hint: CELL_HINT, outlined: rows.length - 1 }));
  };
  draw("tokens");
  return { holder, draw };
}

/** Blocks from the last to the first, and their sum. */
function listRows(explanation) {
  const scores = { label: "sum", name: "sum of all blocks", values: explanation.scores };
  if (!measureOf(explanation).by_block) return [{ ...scores, label: "score", name: "score" }];
  const blocks = explanation.by_block.map((values, block) => ({ label: String(block + 1), name: `block ${block + 1}`, values }));
  return [...blocks.reverse(), { ...scores, name: capitalise(scores.name) }];
}
