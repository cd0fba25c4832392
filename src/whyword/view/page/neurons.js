/*
 * The report of the neurons of one prediction: the strongest, and all of a block by their index.
 */

import { makeScale, paint } from "./colour_scale.js";
import { element, heading, paragraph, scroller, section, tableOf } from "./elements.js";
import { notes, reportHeader } from "./header_and_notes.js";
import { ledgerTable } from "./ledger_table.js";
import { neuronPanels } from "./neuron_panels.js";
import { signed } from "./numbers.js";
import { predictionTable } from "./prediction_table.js";
import { sentence, wordingOf } from "./sentences.js";
import { trimmed, visibleText } from "./visible_text.js";

const SPELLED = 4; // tokens that are named for a value vector, at each end

export function renderNeurons(found, id) {
  const scale = makeScale(found.named.map((each) => each.update));
  const { reversed } = wordingOf(found);
  const rows = found.named.map((each) =>
    element(
      "tr",
      {},
      heading(each.label, "row"),
      paint(element("td", {}, signed(each.update, 3)), each.update, scale),
      activationCell(each, reversed),
      ...[each.promotes, each.suppresses].map((texts) => element("td", { class: "token" }, ...listTexts(texts))),
    ),
  );
  const names = ["neuron", "update", "activation", "its value vector promotes", "and suppresses"];
  const head = element("tr", {}, ...names.map((name) => heading(name, "col")));
  [...head.cells].slice(3).forEach((cell) => cell.classList.add("of-tokens"));
  const panels = [{ name: "update", blocks: found.blocks.map((block) => block.update) }];
  return [
    reportHeader(found),
    element("div", { class: "overview" }, predictionTable(found), ledgerTable(found)),
    section("Neurons", "neurons", ...paragraph("lead", ...sentence(reversed)), scroller(tableOf("figures ranking", head, rows))),
    neuronPanels(panels, found.named[0]?.block ?? 0, id),
    notes(found),
  ];
}

/** The activation; where it is negative the neuron works against its value vector. */
function activationCell({ activation, gate }, reversed = "") {
  const number = signed(activation * gate, 2);
  if (activation * gate >= 0) return element("td", {}, number);
  return element("td", { title: reversed }, element("span", { class: "tag" }, "reversed"), ` ${number}`);
}

function listTexts(texts) {
  return texts.slice(0, SPELLED).flatMap((text, index) => [index > 0 ? " " : "", visibleText(trimmed(text))]);
}
