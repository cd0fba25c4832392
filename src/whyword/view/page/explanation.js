/*
 * The report of one explanation, part by part.
 */

import { deferred, element } from "./elements.js";
import { flowMap } from "./flow_map.js";
import { fullAccount } from "./full_account.js";
import { headMap } from "./head_map.js";
import { notes, reportHeader } from "./header_and_notes.js";
import { heatMap } from "./heat_map.js";
import { ledgerTable } from "./ledger_table.js";
import { isLong } from "./long_heat_map.js";
import { predictionTable } from "./prediction_table.js";
import { promptText } from "./prompt_text.js";
import { routeGraph } from "./route_graph.js";
import { sentence, wordingOf } from "./sentences.js";
import { tokenNames } from "./token_columns.js";

/** `opening`: which picture of flow comes first ("depth", "routes"), and how many routes it shows. */
export function renderExplanation(explanation, id, opening = {}) {
  const named = { ...explanation, tokens: tokenNames(explanation).map((text, index) => ({ ...explanation.tokens[index], text })) };
  const part = isLong(explanation) ? deferred : (make) => make();
  const maps = [() => flowMap(named, id), () => routeGraph(named, id, opening.routes)];
  const flow = explanation.flow ? maps.map(part) : [];
  const early = opening.first === "routes" ? [...flow].reverse() : opening.first === "depth" ? flow : [];
  return [
    reportHeader(explanation),
    promptText(explanation),
    answerText(explanation),
    ...early,
    element("div", { class: "overview" }, predictionTable(explanation), ledgerTable(explanation)),
    part(() => heatMap(explanation, id)),
    ...(early.length > 0 ? [] : flow),
    part(() => headMap(explanation)),
    ...(explanation.account ? [fullAccount(explanation)] : []),
    notes(explanation),
  ];
}

/** The answer: what attention and the MLPs made, and the strongest words. */
function answerText(explanation) {
  const { decision, answer, sink } = wordingOf(explanation);
  const said = [decision, answer, sink].filter(Boolean).flatMap((each, index) => [index > 0 ? " " : "", ...sentence(each)]);
  return element("p", { class: "answer" }, ...said);
}
