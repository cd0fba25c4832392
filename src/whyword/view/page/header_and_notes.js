/*
 * What stands above and below every report: the question with the model, and what is exact and what is not.
 */

import { capitalise, element } from "./elements.js";
import { question, sentence, wordingOf } from "./sentences.js";

/** The question, the model, and what is said of it. */
export function reportHeader(record) {
  const { preference, subtitle } = wordingOf(record);
  const method = record.method ? [" · ", element("span", { class: "method" }, record.method), subtitle ? ": " : ""] : [subtitle ? " · " : ""];
  const preferred = preference ? [" ", element("span", { class: "preference" }, ...sentence(preference))] : [];
  const model = element("bdi", { class: "model" }, record.model);
  return element(
    "header",
    {},
    element("h1", {}, question(record)),
    element("p", { class: "subtitle" }, model, ...method, ...sentence(subtitle), ...preferred),
  );
}

export function notes(record) {
  const entries = Object.entries(record.notes ?? {}).flatMap(([name, text]) => [
    element("dt", {}, capitalise(name)),
    element("dd", {}, text),
  ]);
  return element("section", { class: "notes", "aria-label": "How to read this" }, element("dl", {}, ...entries));
}
