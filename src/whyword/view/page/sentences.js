/*
 * The sentences that a document carries under `wording` (view/sentences.py writes them), as nodes and as plain text.
 *
 * A sentence is a string, or a list in which every second string is text of a prompt. Documents of older versions carry
 * none: then nothing is said.
 */

import { element } from "./elements.js";
import { quotedWord } from "./visible_text.js";

const ANY_TITLE = "whyword report";

export function wordingOf({ wording }) {
  return wording ?? {};
}

/** What the numbers of a document are about: a logit, or a difference of logits. */
export function quantityOf(record) {
  return wordingOf(record).quantity ?? "logit";
}

/** The nodes of a sentence. */
export function sentence(said) {
  const parts = said === undefined ? [] : [said].flat();
  return parts.map((part, index) => (index % 2 === 1 ? quotedWord(part) : part)).filter((part) => part !== "");
}

/** The question of a document. */
export function question(record) {
  const said = sentence(wordingOf(record).question);
  return element("span", { class: "question" }, ...(said.length > 0 ? said : [ANY_TITLE]));
}
