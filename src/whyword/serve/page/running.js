/*
 * Asking the models: each column on its own, the explanation first and the candidates after it.
 */

import { askDocument, Refusal, writeBody } from "./ask.js";
import { drawCandidates } from "./candidates.js";
import * as columns from "./columns.js";
import { showSaving } from "./keeping.js";
import { find, page, promptOf, shownDocuments, tell, titleOf, translates } from "./page.js";
import * as form from "./prompt.js";
import { RUNNER_UP } from "./state.js";
import { LINE, visibleText } from "./visible_text.js";

const KEPT = 24; // answers that going back shows at once

/** Run the question. `again` asks it once more, `choose` takes a candidate; `fresh`: even if the answer is known. */
export async function run(question) {
  page.running?.abort();
  const controller = new AbortController();
  page.running = controller;
  arrange();
  const lacking = findLack(page.state);
  if (lacking) {
    tell(...lacking);
    finish(controller, ["error"]);
    return;
  }
  document.body.dataset.state = "running";
  find("cancel").hidden = false;
  find("status").textContent = "Explaining …";
  page.columns.forEach(columns.showWaiting);
  const done = await Promise.all(page.columns.map((column) => explain(column, controller, question)));
  finish(controller, done);
}

/** What a question lacks before any model can be asked, and what to do; null: nothing. */
function findLack(state) {
  const nothing = "There is nothing to explain.";
  if (!translates() && !promptOf(state)) return [nothing, "Type something for the model to continue."];
  if (!translates() && state.view === "difference" && !state.versus.trim() && state.models.length !== 2) {
    return ["There is nothing to compare with.", "Type a second prompt, or choose two models."];
  }
  if (!translates()) return null;
  if (!state.source.trim()) return [nothing, "Type what is to be translated."];
  if (!state.foilWord || state.place || state.sourceView === "align") return null;
  return [`“${state.foilWord}” has no place.`, "Choose the word of the translation that it is compared with."];
}

/** The models that have a column: both, or the first where the answer is the difference between two. */
function columnsOf({ view, versus, models }) {
  return view === "difference" && !versus.trim() && !translates() ? models.slice(0, 1) : models;
}

/** Columns for the models that are asked; those that stay keep what they show. */
function arrange() {
  const models = columnsOf(page.state);
  const before = page.columns.map((column) => column.model);
  if (before.length === models.length && before.every((name, index) => name === models[index])) return;
  page.names.clear();
  page.columns = models.map((name, index) => columns.makeColumn(name, index, models.length > 1));
  find("columns").replaceChildren(...page.columns.map((column) => column.root));
  find("next").replaceChildren(...(models.length === 1 ? [page.columns[0].next] : []));
  document.body.dataset.models = models.length > 1 ? "several" : "one";
}

/** Ask one model; gives "done", "error" or "cancelled". */
async function explain(column, controller, question) {
  const route = translates() ? page.state.sourceView : page.state.view;
  const body = writeBody(page.state, column.model, translates());
  const began = performance.now();
  if (!recall("predict", predictionBody(body))) column.next.setAttribute("aria-busy", "true"); // those of another prompt
  try {
    const known = question.fresh ? null : recall(route, body);
    const progress = (step) => controller === page.running && columns.showProgress(column, step);
    const answer = known ?? (await askDocument(route, body, { signal: controller.signal, progress }));
    if (controller !== page.running) return "cancelled";
    const seconds = known ? null : (performance.now() - began) / 1000;
    columns.showDocument(column, answer, { seconds, chosen: page.state.chosen, notes: notesOn(page.state, answer) });
    remember(route, body, answer);
    showAnswer(column, answer);
    if (!translates()) predict(column, body, controller, question);
    return "done";
  } catch (error) {
    if (controller !== page.running) return "cancelled";
    if (error.name === "AbortError") {
      columns.showCancelled(column);
      return "cancelled";
    }
    if (!translates()) predict(column, body, controller, question);
    return fail(column, error, question);
  }
}

function fail(column, error, { again }) {
  if (!(error instanceof Refusal)) console.error(error);
  const said = error instanceof Refusal ? error : new Refusal({ wrong: "The page cannot show this answer.", remedy: error.message });
  columns.showFailure(column, said, again);
  return "error";
}

/** Candidates come after the explanation, and are asked for once per prompt. */
async function predict(column, asked, controller, { choose }) {
  const body = predictionBody(asked);
  try {
    const found = recall("predict", body) ?? (await askDocument("predict", body, { signal: controller.signal }));
    if (controller !== page.running) return;
    remember("predict", body, found);
    if (column.index === 0) found.choices.forEach(({ id, text }) => page.names.set(id, text));
    showCandidates(column, found.choices, choose);
  } catch (error) {
    if (error instanceof Refusal && controller === page.running) column.next.replaceChildren();
  }
}

function predictionBody({ model, prompt }) {
  return { model, prompt, top: 10 };
}

function showCandidates(column, choices, choose) {
  const pressed = document.activeElement?.closest?.(".part");
  const again = pressed && column.next.contains(pressed) ? pressed.dataset : null;
  column.next.removeAttribute("aria-busy");
  drawCandidates(column.next, {
    choices,
    asked: askedOf(column),
    foils: page.state.foils,
    title: "What the model would write next",
    choose: (part, choice) => choose(column, part, choice),
  });
  // Rows are redrawn: the focus stays on the button that was pressed.
  if (again) column.next.querySelector(`[data-part="${again.part}"][data-token="${again.token}"]`)?.focus();
}

/** Where a word that was typed is more than the token that is explained: which one that is. */
function notesOn({ target, foils, view }, answer) {
  if (!answer.target || !answer.foils || view === "continue" || translates()) return [];
  const differing = answer.foils.length > 0 && target !== null && foils !== null;
  const note = (word, token) => {
    if (typeof word !== "string" || word === RUNNER_UP || !token || word.trim().toLowerCase() === token.text.trim().toLowerCase()) return [];
    const which = differing ? "the first that differs" : "the first of them";
    const role = token === answer.target ? "explained" : "the foil";
    return [`‘${visibleText(word.trim(), LINE).textContent}’ is several tokens; ‘${visibleText(token.text).textContent}’, ${which}, is ${role}.`];
  };
  return [...note(target, answer.target), ...(foils ?? []).flatMap((word, index) => note(word, answer.foils[index]))];
}

/** What an answer says about the question: the words that the model chose itself. */
function showAnswer(column, answer) {
  if (column.index > 0) return;
  find("words-note").replaceChildren(...notesOn(page.state, answer).flatMap((note) => [note, " "]));
  if (translates() && page.state.sourceView === "align") return;
  if (translates()) {
    page.places = wordsOf(answer);
    form.showPlaces(page.places, page.state.place);
    return;
  }
  const { target, foils } = askedOf(column);
  for (const choice of [target, ...foils]) if (choice) page.names.set(choice.id, choice.text);
  if (form.wordsUntouched()) form.showWords(page.state, page.names);
  form.showDecided(page.state.target === null ? target : null, page.state.foils === null ? foils : []);
  document.title = `${titleOf(answer)} · whyword`;
}

/** The words of a translation that can be contrasted, in order. */
function wordsOf({ target, first }) {
  const words = new Map();
  for (const token of target.tokens.slice(first)) {
    if (!token.special) words.set(token.word, (words.get(token.word) ?? "") + token.text);
  }
  return [...words.values()];
}

function finish(controller, done) {
  if (controller !== page.running) return;
  const bad = done.filter((end) => end === "error").length;
  document.body.dataset.state = bad > 0 ? "error" : done.includes("cancelled") ? "cancelled" : "done";
  find("cancel").hidden = true;
  const [first] = shownDocuments();
  find("status").textContent =
    done.includes("cancelled") ? "Cancelled." : bad > 0 && !first ? "There is no answer." : first ? `Done. ${titleOf(first)}` : "";
  showSaving();
}

/** Let go of what is running. */
export function cancel() {
  page.running?.abort();
  find("run").focus();
}

function remember(route, body, answer) {
  const key = JSON.stringify([route, body]);
  page.answers.delete(key);
  page.answers.set(key, answer);
  if (page.answers.size > KEPT) page.answers.delete(page.answers.keys().next().value);
}

function recall(route, body) {
  return page.answers.get(JSON.stringify([route, body])) ?? null;
}

/** What a column's answer is about: its target and foils. */
export function askedOf({ document: answer }) {
  return { target: answer?.target?.id === undefined ? null : answer.target, foils: answer?.target ? (answer.foils ?? []) : [] };
}
