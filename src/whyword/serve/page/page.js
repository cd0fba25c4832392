/*
 * What the page knows, and what all of its parts ask of it.
 */

import { failureLines } from "./columns.js";
import { question } from "./sentences.js";
import { emptyState } from "./state.js";

export const find = (id) => document.getElementById(id);

export const page = {
  served: { models: [], methods: [], default_method: null, limits: {} },
  state: emptyState(),
  columns: [],
  running: null, // an AbortController
  answers: new Map(),
  names: new Map(), // texts of token ids, of the first model
  places: [], // words of the last translation
  opened: null, // documents of a file
};

export function modelOf(name) {
  return page.served.models.find((model) => model.name === name);
}

export function translates(state = page.state) {
  return Boolean(modelOf(state.models[0])?.translates);
}

export function promptOf({ prompt, chat, documents, question }) {
  if (documents) return documents.length > 0 && question.trim() ? [...documents.map(({ text }) => text), question].join(" ") : "";
  return chat ? chat.map((turn) => turn.content).join(" ") : prompt;
}

export function shownDocuments() {
  return page.opened ?? page.columns.map((column) => column.document).filter(Boolean);
}

export function titleOf(answer) {
  return question(answer).textContent;
}

/** Say what is wrong, and what to do, above the answers. */
export function tell(wrong, remedy) {
  find("notice").replaceChildren(...failureLines({ message: wrong, remedy }));
}
