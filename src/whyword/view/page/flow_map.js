/*
 * Flow: how much of the logit (difference) is at each position, depth by depth, the last block on top.
 */

import { canvasMap } from "./canvas_map.js";
import { legend, scaleOf } from "./colour_scale.js";
import { element, paragraph, section } from "./elements.js";
import { CELL_HINT } from "./hints.js";
import { signed } from "./numbers.js";
import { quantityOf, sentence, wordingOf } from "./sentences.js";
import { visibleText } from "./visible_text.js";

export function flowMap(explanation, id) {
  const { flow, tokens } = explanation;
  const biased = flow.bias.some((value) => value !== 0);
  const rows = flow.by_depth.map((values, depth) => ({ depth, label: String(depth), values: biased ? [...values, flow.bias[depth]] : values }));
  const columns = biased ? [...tokens, { text: "bias" }] : tokens;
  const scale = scaleOf(explanation, rows.flatMap(({ values }) => values));
  rows.reverse();
  const read = readingDepth(explanation);
  const describe = (row, column) => describeFlow(explanation, rows[row], column);
  const outlined = rows.findIndex(({ depth }) => depth === read);
  const map = canvasMap({ id: `${id}-flow`, name: "Flow by depth and token", columns, rows, scale, describe, hint: CELL_HINT, outlined });
  return section(
    "Depth by depth",
    "flow",
    ...paragraph("lead", ...sentence(wordingOf(explanation).depths)),
    element("div", { class: "controls" }, legend(scale, explanation)),
    map,
  );
}

/** The depth whose row the scores are. */
function readingDepth({ flow, scores }) {
  const differences = flow.by_depth.map((row) => Math.max(...row.map((value, index) => Math.abs(value - scores[index]))));
  return differences.indexOf(Math.min(...differences));
}

function describeFlow(explanation, { depth, values }, column) {
  const token = explanation.tokens[column];
  const last = explanation.flow.by_depth.length - 1;
  const where = depth === 0 ? "before block 1" : depth === last ? "after the last block" : `after block ${depth}`;
  const what = token ? [element("q", {}, visibleText(token.text)), ` (position ${column + 1}): `] : ["biases above: "];
  const amount = element("strong", {}, signed(values[column], 4));
  return [`Depth ${depth}, ${where}, `, ...what, amount, ` of the ${quantityOf(explanation)} of ${signed(explanation.ledger.logit, 3)}`];
}
