/*
 * The report of one explanation, part by part.
 */

import { element } from "./elements.js";
import { fullAccount } from "./full_account.js";
import { headMap } from "./head_map.js";
import { notes, reportHeader } from "./header_and_notes.js";
import { heatMap } from "./heat_map.js";
import { ledgerTable } from "./ledger_table.js";
import { predictionTable } from "./prediction_table.js";
import { promptText } from "./prompt_text.js";
import { sentence, wordingOf } from "./sentences.js";

export function renderExplanation(explanation, id) {
  return [
    reportHeader(explanation),
    promptText(explanation),
    answerText(explanation),
    element("div", { class: "overview" }, predictionTable(explanation), ledgerTable(explanation)),
    heatMap(explanation, id),
    headMap(explanation),
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
