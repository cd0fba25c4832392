/*
 * The form: a prompt as text or as turns of a chat, the two words, and source and translation.
 *
 * A field for words can hold more than its text says (a token id, words with commas): `held`, until someone types in it.
 */

import { drawDocuments, listenToDocuments, readDocuments } from "./document_boxes.js";
import { element } from "./elements.js";
import { find } from "./page.js";
import { trimmed, visibleText } from "./visible_text.js";

const ROLES = ["system", "user", "assistant"];

/** Show a question in the form. `names`: what is known of token ids; `places`: the words of a translation. */
export function fillForm(state, translates, { names, places }) {
  find("for-prompt").hidden = translates;
  find("for-source").hidden = !translates;
  setText("prompt", state.prompt);
  if (state.chat) drawTurns(state.chat);
  if (state.documents) drawDocuments(state.documents);
  setText("question", state.question);
  showKind(state.documents ? "documents" : state.chat ? "chat" : "text");
  showWords(state, names);
  setText("source", state.source);
  setText("translation", state.translation);
  setText("foil-word", state.foilWord);
  showPlaces(places, state.place);
  find("source-language").value = state.sourceLanguage;
  find("target-language").value = state.targetLanguage;
  find("count").value = String(state.count);
  setText("continuation", state.continuation);
  setText("versus", state.versus);
}

/** Show target and foils as words; an id whose text is not known stays an id. */
export function showWords(state, names) {
  const written = (word) => (typeof word === "number" ? (names.has(word) ? wordOf(names.get(word)) : `#${word}`) : word);
  hold(find("target"), state.target === null ? "" : written(state.target), state.target);
  hold(find("foil"), (state.foils ?? []).map(written).join(", "), state.foils);
  find("no-foil").checked = state.foils?.length === 0;
  find("foil").disabled = find("no-foil").checked;
}

/** Say in empty fields what the model decided. */
export function showDecided(target, foils) {
  const [first] = foils;
  find("target").placeholder = target ? `first choice: ${wordOf(target.text)}` : "its first choice";
  find("foil").placeholder = first ? `best rival: ${wordOf(first.text)}` : "its best rival";
}

/** Read the question that the form holds; what it does not hold is as in `state`. */
export function readForm(state) {
  const { kind } = find("prompt-kind").dataset;
  const documents = kind === "documents" ? readDocuments() : null;
  return {
    ...state,
    view: documents && !state.documents ? "support" : state.view, // whoever asks about documents wants to see them
    prompt: find("prompt").value,
    chat: kind === "chat" ? readTurns() : null,
    documents,
    question: find("question").value,
    target: readWords(find("target"), (text) => readWord(text.trim())),
    foils: find("no-foil").checked ? [] : readWords(find("foil"), splitWords),
    count: Math.max(1, Number.parseInt(find("count").value, 10) || 12),
    continuation: find("continuation").value,
    versus: find("versus").value,
    source: find("source").value,
    translation: find("translation").value,
    place: Number(find("place").value) || null,
    foilWord: find("foil-word").value.trim(),
    sourceLanguage: find("source-language").value,
    targetLanguage: find("target-language").value,
  };
}

/** Whether nobody has typed a word since the form was filled. */
export function wordsUntouched() {
  return "held" in find("target").dataset && "held" in find("foil").dataset;
}

/** What the form does on its own: kinds of prompt, turns, words that are typed. */
export function listenToForm() {
  for (const name of ["target", "foil"]) {
    find(name).addEventListener("input", (event) => delete event.target.dataset.held);
  }
  find("no-foil").addEventListener("change", () => (find("foil").disabled = find("no-foil").checked));
  for (const button of find("prompt-kind").children) {
    button.addEventListener("click", () => {
      const { kind } = button.dataset;
      if (kind === "chat" && !find("turns").hasChildNodes()) drawTurns([{ role: "user", content: find("prompt").value }]);
      if (kind === "documents" && !find("document-list").hasChildNodes()) drawDocuments([]);
      showKind(kind);
    });
  }
  listenToDocuments();
}

/** The words of a translation that a foil can be put against. */
export function showPlaces(words, place) {
  const options = words.map((word, index) => element("option", { value: String(index + 1) }, `${index + 1} ${wordOf(word)}`));
  // A place that a link names before the translation is known, or that it does not have.
  if (place > words.length) options.push(element("option", { value: String(place) }, `word ${place}`));
  find("place").replaceChildren(element("option", { value: "" }, "every word"), ...options);
  find("place").value = place ? String(place) : "";
}

export function showLanguages({ source_languages: from, target_languages: to }) {
  find("languages").hidden = from.length + to.length === 0;
  const fill = (id, codes) => {
    const chosen = find(id).value;
    find(id).replaceChildren(element("option", { value: "" }, "as the model has it"), ...codes.map((code) => element("option", { value: code }, code)));
    find(id).value = codes.includes(chosen) ? chosen : "";
  };
  fill("source-language", from);
  fill("target-language", to);
}

/** A token as a word for people: without its spaces, and with marks for what cannot be seen. */
export function wordOf(text) {
  return visibleText(trimmed(text)).textContent;
}

function showKind(kind) {
  find("prompt-kind").dataset.kind = kind;
  for (const button of find("prompt-kind").children) {
    button.setAttribute("aria-pressed", String(button.dataset.kind === kind));
  }
  find("prompt").hidden = kind !== "text";
  find("turns").hidden = kind !== "chat";
  find("documents").hidden = kind !== "documents";
}

function drawTurns(turns) {
  const add = element("button", { type: "button", class: "quiet" }, "Add a turn");
  add.addEventListener("click", () => {
    const roles = [...find("turns").querySelectorAll("select")].map((select) => select.value);
    const turn = turnBox({ role: roles.at(-1) === "user" ? "assistant" : "user", content: "" });
    add.before(turn);
    turn.querySelector("textarea").focus();
  });
  find("turns").replaceChildren(...turns.map(turnBox), add);
}

function turnBox({ role, content }) {
  const roles = ROLES.includes(role) ? ROLES : [...ROLES, role];
  const select = element("select", { "aria-label": "Role" }, ...roles.map((each) => element("option", { value: each }, each)));
  select.value = role;
  const remove = element("button", { type: "button", class: "quiet", "aria-label": "Remove this turn" }, "Remove");
  const text = element("textarea", { rows: "2", spellcheck: "false", dir: "auto", "aria-label": "Turn" });
  text.value = content;
  const box = element("div", { class: "turn" }, element("div", { class: "row" }, select, remove), text);
  remove.addEventListener("click", () => {
    if (find("turns").querySelectorAll(".turn").length > 1) box.remove();
    else text.value = "";
    find("turns").querySelector("textarea").focus();
  });
  return box;
}

function readTurns() {
  return [...find("turns").querySelectorAll(".turn")].map((box) => ({
    role: box.querySelector("select").value,
    content: box.querySelector("textarea").value,
  }));
}

function setText(id, text) {
  if (find(id).value !== text) find(id).value = text; // the place of the cursor stays
}

function hold(field, text, value) {
  field.value = text;
  field.dataset.held = JSON.stringify(value);
}

function readWords(field, read) {
  return "held" in field.dataset ? JSON.parse(field.dataset.held) : read(field.value);
}

function splitWords(text) {
  const words = text.split(",").map((word) => word.trim()).filter(Boolean);
  if (words.length > 0) return words.map(readWord);
  return text.trim() ? [text.trim()] : null; // a comma alone is a word
}

/** A typed word; #123 is the token with that id. */
function readWord(text) {
  return /^#\d+$/.test(text) ? Number(text.slice(1)) : text || null;
}
