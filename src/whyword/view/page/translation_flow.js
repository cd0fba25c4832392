/*
 * Flow of a translated word: where its logit is, down the decoder and then down the encoder.
 */

import { canvasMap } from "./canvas_map.js";
import { legend, makeScale } from "./colour_scale.js";
import { element, paragraph } from "./elements.js";
import { CELL_HINT } from "./hints.js";
import { signed, total } from "./numbers.js";
import { sentence, wordingOf } from "./sentences.js";
import { sideColumns } from "./translation_columns.js";
import { visibleText } from "./visible_text.js";

/** The map of some explained tokens together: depths of both stacks over source, prefix and biases. */
export function translationFlow(translation, places, id) {
  const { source, target, first, joint_flow: flow } = translation;
  if (!flow) return [];
  const sources = sideColumns(source, 0, source.tokens.length, 0, "words");
  const prefix = sideColumns(target, 0, first + Math.max(...places), 0, "words");
  const over = (amounts, depth, columns) =>
    columns.map(({ members }) => total(places.flatMap((place) => members.map((member) => amounts[place][depth][member]))));
  const biases = (amounts, depth) => total(places.map((place) => amounts[place][depth]));
  const decoder = flow.bias[0].map((_, depth) => ({
    stack: "decoder",
    depth,
    label: `dec ${depth}`,
    values: [...over(flow.read, depth, sources), ...over(flow.prefix, depth, prefix), biases(flow.bias, depth)],
  }));
  const encoder = flow.encoder_bias[0].map((_, depth) => ({
    stack: "encoder",
    depth,
    label: `enc ${depth}`,
    values: [
      ...over(flow.source, depth, sources),
      ...over(flow.prefix, 0, prefix),
      biases(flow.bias, 0) + biases(flow.encoder_bias, depth),
    ],
  }));
  const rows = [...decoder.reverse(), ...encoder.reverse()];
  const columns = [...sources, ...prefix, { text: "bias" }];
  const scale = makeScale(rows.flatMap(({ values }) => values));
  const describe = (row, column) => describeDepth(rows[row], columns[column], column < sources.length, column === columns.length - 1, column);
  const map = canvasMap({ id: `${id}-flow`, name: "Flow by depth and word", columns, rows, scale, describe, hint: CELL_HINT });
  return [
    element("h3", {}, "Depth by depth"),
    ...paragraph("lead", ...sentence(wordingOf(translation).depths)),
    element("div", { class: "controls" }, legend(scale, translation)),
    map,
  ];
}

function describeDepth({ stack, depth, values }, { text }, ofSource, ofBias, column) {
  const side = ofBias ? ["biases above: "] : [element("q", {}, visibleText(text)), ofSource ? " of the source: " : " already written: "];
  return [`${stack === "decoder" ? "Decoder" : "Encoder"}, depth ${depth}: `, ...side, element("strong", {}, signed(values[column], 4))];
}
