/* global element, percent, question */

/*
 * The page: a question in the form and in the URL, answers in columns.
 *
 * An explanation is asked for first and the candidates after it: what people came for is seen first.
 */

import { askDocument, askModels, Refusal, writeBody } from "./ask.js";
import { drawCandidates } from "./candidates.js";
import * as columns from "./columns.js";
import * as files from "./files.js";
import * as form from "./prompt.js";
import { emptyState, exampleState, readState, writeState } from "./state.js";

const KEPT = 24; // answers that going back shows at once
const HINTS = {
  explain:
    "How to read it: red speaks for the word you ask about, blue for the other one, and the numbers add up. " +
    "In the heat map a column is a token, a row a block of the network, and the last row the sum.",
  compare: "How to read it: one row per method, each in its own unit. Red is for the word you ask about, blue against it.",
  neurons: "How to read it: each MLP neuron adds its update to the difference. Red raises it, blue lowers it.",
  continue: "How to read it: one row per token that is written. Click a token to see why the model wrote it.",
  translate: "How to read it: point at a word to light the words it came from, or those it led to. Numbers are logits.",
};
const find = (id) => document.getElementById(id);

/** What the page knows. */
const page = {
  served: { models: [], methods: [], limits: {} },
  state: emptyState(),
  columns: [],
  running: null, // an AbortController
  answers: new Map(),
  names: new Map(), // texts of token ids, of the first model
  opened: null, // documents of a file
};

start();

async function start() {
  form.listenToForm();
  listen();
  try {
    page.served = await askModels();
  } catch (error) {
    document.body.dataset.state = "error";
    find("status").textContent = "";
    find("notice").replaceChildren(...columns.failureLines(error, () => location.reload()));
    return;
  }
  drawModels();
  drawMethods();
  find("count").max = String(page.served.limits.new_tokens ?? 100);
  openAddress();
}

// ---------------------------------------------------------------- the question

/** Ask what the URL says, or the example. */
function openAddress() {
  const read = readState(location.hash);
  const first = page.served.models[0];
  const state = read ?? exampleState(first);
  const known = state.models.filter((name) => modelOf(name));
  const missing = state.models.filter((name) => !modelOf(name));
  const models = known.length > 0 ? known : [first.name];
  const kind = modelOf(models[0]).translates;
  const same = models.filter((name) => modelOf(name).translates === kind);
  ask({ ...state, models: same }, { keep: "replace" });
  if (missing.length > 0) {
    tell(`This server does not have ${missing.join(", ")}.`, `Shown with ${same.join(", ")} instead.`);
  }
}

function modelOf(name) {
  return page.served.models.find((model) => model.name === name);
}

function translates(state = page.state) {
  return Boolean(modelOf(state.models[0])?.translates);
}

/** Take a question: show it in the form and the URL, and run it. `fresh`: even if its answer is known. */
function ask(state, { keep = "push", fresh = false } = {}) {
  page.state = state;
  const address = writeState(state, translates());
  if (keep === "replace") history.replaceState(null, "", address);
  else if (address !== location.hash) history.pushState(null, "", address);
  closeFile();
  find("notice").replaceChildren();
  showQuestion();
  run(fresh);
}

/** Ask what the form holds. */
function askForm() {
  const read = form.readForm(page.state);
  // Words for one prompt say little about another; a slightly changed one keeps them.
  const stale = form.wordsUntouched() && isAnother(promptOf(page.state), promptOf(read));
  ask(stale ? { ...read, target: null, foils: null } : read, { fresh: true });
}

function promptOf({ prompt, chat }) {
  return chat ? chat.map((turn) => turn.content).join(" ") : prompt;
}

/** Whether two prompts share less than half of their words. */
function isAnother(one, two) {
  const [first, second] = [one, two].map((text) => new Set(text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []));
  const shared = [...first].filter((word) => second.has(word)).length;
  return shared < 0.5 * Math.max(first.size, second.size);
}

function showQuestion() {
  const { state } = page;
  const source = translates();
  const model = modelOf(state.models[0]);
  form.showLanguages(model);
  form.fillForm(state, source, page.names);
  find("prompt-kind").hidden = !state.chat && !state.models.every((name) => modelOf(name).chat);
  find("words").hidden = state.view === "continue";
  press(find("view"), "view", state.view);
  find("view").hidden = source;
  find("method").value = state.method;
  find("method-choice").hidden = !source && !["explain", "continue"].includes(state.view);
  find("count-choice").hidden = find("continuation-choice").hidden = source || state.view !== "continue";
  find("hint").textContent = HINTS[source ? "translate" : state.view];
  for (const box of find("models").querySelectorAll("input")) box.checked = state.models.includes(box.value);
  for (const option of find("method").options) option.hidden = option.disabled = source && option.index > 1;
}

function press(group, name, value) {
  for (const button of group.children) button.setAttribute("aria-pressed", String(button.dataset[name] === value));
}

/** A candidate was chosen: for the target, or as the foil; pressing it again takes it back. */
function choose(column, part, choice) {
  const { state } = page;
  const word = state.models.length > 1 ? choice.text.trim() || choice.text : choice.id;
  const asked = askedOf(column);
  const next = { ...state, view: state.view === "continue" ? "explain" : state.view };
  if (part === "why") {
    next.target = asked.target?.id === choice.id && state.target !== null ? null : word;
    if (asked.foils.some((foil) => foil.id === choice.id)) next.foils = null;
  } else {
    next.foils = asked.foils.some((foil) => foil.id === choice.id) ? [] : [word];
    if (asked.target?.id === choice.id) next.target = null;
    else if (state.target === null && asked.target) next.target = state.models.length > 1 ? null : asked.target.id;
  }
  ask(next);
}

/** What a column's answer is about: its target and foils. */
function askedOf({ document: answer }) {
  return { target: answer?.target?.id === undefined ? null : answer.target, foils: answer?.target ? (answer.foils ?? []) : [] };
}

// ---------------------------------------------------------------- running

async function run(fresh) {
  page.running?.abort();
  const controller = new AbortController();
  page.running = controller;
  arrange();
  const empty = translates() ? !page.state.source.trim() : !promptOf(page.state);
  if (empty) {
    const remedy = translates() ? "Type what is to be translated." : "Type something that the model can go on from.";
    finish(controller, page.columns.map((column) => fail(column, new Refusal({ wrong: "There is nothing to explain.", remedy }))));
    return;
  }
  document.body.dataset.state = "running";
  find("cancel").hidden = false;
  find("status").textContent = "Explaining …";
  page.columns.forEach(columns.showWaiting);
  const done = await Promise.all(page.columns.map((column) => explain(column, controller, fresh)));
  finish(controller, done);
}

/** Columns for the models that are asked; those that stay keep what they show. */
function arrange() {
  const { models } = page.state;
  const before = page.columns.map((column) => column.model);
  if (before.length === models.length && before.every((name, index) => name === models[index])) return;
  page.names.clear();
  page.columns = models.map((name, index) => columns.makeColumn(name, index, models.length > 1));
  find("columns").replaceChildren(...page.columns.map((column) => column.root));
  find("next").replaceChildren(...(models.length === 1 ? [page.columns[0].next] : []));
  document.body.dataset.models = models.length > 1 ? "several" : "one";
}

/** Ask one model; gives "done", "error" or "cancelled". */
async function explain(column, controller, fresh) {
  const route = translates() ? "translate" : page.state.view;
  const body = writeBody(page.state, column.model, translates());
  const began = performance.now();
  try {
    const known = fresh ? null : recall(route, body);
    const progress = (step) => controller === page.running && columns.showProgress(column, step);
    const answer = known ?? (await askDocument(route, body, { signal: controller.signal, progress }));
    if (controller !== page.running) return "cancelled";
    columns.showDocument(column, answer, known ? null : (performance.now() - began) / 1000);
    remember(route, body, answer);
    showAnswer(column, answer);
    if (!translates()) predict(column, body, controller);
    return "done";
  } catch (error) {
    if (controller !== page.running) return "cancelled";
    if (error.name === "AbortError") {
      columns.showCancelled(column);
      return "cancelled";
    }
    if (!translates()) predict(column, body, controller);
    return fail(column, error);
  }
}

function fail(column, error) {
  if (!(error instanceof Refusal)) console.error(error);
  const said = error instanceof Refusal ? error : new Refusal({ wrong: "The page cannot show this answer.", remedy: error.message });
  columns.showFailure(column, said, () => ask(page.state, { fresh: true }));
  return "error";
}

/** Candidates come after the explanation, and are asked for once per prompt. */
async function predict(column, { model, prompt }, controller) {
  const body = { model, prompt, top: 10 };
  try {
    const found = recall("predict", body) ?? (await askDocument("predict", body, { signal: controller.signal }));
    if (controller !== page.running) return;
    remember("predict", body, found);
    if (column.index === 0) found.choices.forEach(({ id, text }) => page.names.set(id, text));
    showCandidates(column, found.choices);
  } catch (error) {
    if (error instanceof Refusal && controller === page.running) column.next.replaceChildren();
  }
}

function showCandidates(column, choices) {
  const pressed = document.activeElement?.closest?.(".part");
  const again = pressed && column.next.contains(pressed) ? pressed.dataset : null;
  drawCandidates(column.next, {
    choices,
    asked: askedOf(column),
    title: "What the model would write next",
    choose: (part, choice) => choose(column, part, choice),
  });
  // Rows are drawn anew: the focus stays on the button that was pressed.
  if (again) column.next.querySelector(`[data-part="${again.part}"][data-token="${again.token}"]`)?.focus();
}

/** What an answer says about the question: the words that the model chose itself. */
function showAnswer(column, answer) {
  if (column.index > 0) return;
  if (translates()) {
    const words = wordsOf(answer);
    form.showPlaces(words, page.state.place);
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

function cancel() {
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

// ---------------------------------------------------------------- files and links

function shownDocuments() {
  return page.opened ?? page.columns.map((column) => column.document).filter(Boolean);
}

function showSaving() {
  const nothing = shownDocuments().length === 0;
  find("save-html").disabled = find("save-json").disabled = nothing;
}

function titleOf(answer) {
  if (answer.target?.id !== undefined && answer.foils) return question(answer).textContent;
  const text = answer.text ?? answer.target?.text;
  return typeof text === "string" ? `Why ${text.trim().slice(0, 60)}?` : "whyword report";
}

async function save(ending) {
  const documents = shownDocuments();
  const title = documents.length === 1 ? titleOf(documents[0]) : "whyword report";
  try {
    if (ending === "json") files.download(files.writeJson(documents), files.fileName(title, "json"), "application/json");
    else files.download(await files.writeReport(documents, title), files.fileName(title, "html"), "text/html");
  } catch (error) {
    tell(`The report cannot be saved: ${error.message}.`, "Reload the page and try again.");
  }
}

async function copyLink() {
  const button = find("copy");
  try {
    await navigator.clipboard.writeText(location.href);
    button.textContent = "Copied";
    find("status").textContent = "The link is copied.";
    setTimeout(() => (button.textContent = "Copy link"), 2000);
  } catch {
    // Without leave to write to the clipboard: a field to copy from.
    const field = element("input", { readonly: "", "aria-label": "Link to this question" });
    field.value = location.href;
    find("notice").replaceChildren(element("p", {}, "Copy this link:"), field);
    field.select();
  }
}

async function openFile(file) {
  try {
    const documents = await files.readDocuments(file);
    files.showDocuments(find("from-file"), documents);
    page.opened = documents;
    find("notice").replaceChildren();
    find("file-name").replaceChildren("Shown from the file ", element("bdi", { dir: "auto" }, file.name));
    document.body.dataset.file = "shown";
    find("file-shown").hidden = find("from-file").hidden = false;
    find("columns").hidden = true;
    showSaving();
    find("file-shown").scrollIntoView({ block: "nearest" });
  } catch (error) {
    tell(`${file.name} cannot be shown.`, `${error.message} Reports and JSON that whyword saved can be.`);
  }
}

function closeFile() {
  page.opened = null;
  delete document.body.dataset.file;
  find("file-shown").hidden = find("from-file").hidden = true;
  find("from-file").replaceChildren();
  find("columns").hidden = false;
  showSaving();
}

function tell(wrong, remedy) {
  find("notice").replaceChildren(...columns.failureLines({ message: wrong, remedy }));
}

// ---------------------------------------------------------------- the page's own parts

function drawModels() {
  const { models } = page.served;
  const boxes = models.map(({ name, translates: source, blocks }) => {
    const box = element("input", { type: "checkbox", value: name });
    const kind = `${source ? "translation, " : ""}${blocks} blocks`;
    box.addEventListener("change", () => chooseModel(box));
    return element("label", { class: "check" }, box, " ", element("bdi", {}, name), element("span", { class: "help" }, ` ${kind}`));
  });
  find("models").append(...boxes);
  find("models").hidden = models.length < 2;
}

/** At least one model, and either such that go on or such that translate. */
function chooseModel(box) {
  const kind = modelOf(box.value).translates;
  const checked = [...find("models").querySelectorAll("input")].filter((each) => each.checked && modelOf(each.value).translates === kind);
  const models = checked.length > 0 ? checked.map((each) => each.value) : [box.value];
  const read = form.readForm({ ...page.state });
  const example = exampleState(modelOf(models[0]));
  // Ids are of one model; for several, and for another one, words are meant.
  const word = (each) => (typeof each === "number" ? (page.names.get(each)?.trim() ?? null) : each);
  const foils = read.foils?.map(word).filter((each) => each !== null) ?? null;
  ask({
    ...read,
    models,
    prompt: kind || read.prompt || read.chat ? read.prompt : example.prompt,
    source: kind && !read.source ? example.source : read.source,
    method: kind && !["alti-logit", "logit"].includes(read.method) ? "alti-logit" : read.method,
    target: word(read.target),
    foils: foils?.length === 0 && read.foils.length > 0 ? null : foils,
  });
}

function drawMethods() {
  const options = page.served.methods.map(({ name, summary }) => element("option", { value: name, title: summary }, name));
  find("method").replaceChildren(...options);
}

function listen() {
  find("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    askForm();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      askForm();
    } else if (event.key === "Escape" && document.body.dataset.state === "running") cancel();
  });
  find("cancel").addEventListener("click", cancel);
  find("no-foil").addEventListener("change", askForm);
  for (const name of ["count", "continuation"]) {
    find(name).addEventListener("keydown", (event) => event.key === "Enter" && askForm());
  }
  for (const button of find("view").children) {
    button.addEventListener("click", () => ask({ ...form.readForm(page.state), view: button.dataset.view }));
  }
  find("method").addEventListener("change", () => ask({ ...form.readForm(page.state), method: find("method").value }));
  addEventListener("hashchange", () => {
    if (readState(location.hash)) openAddress();
  });
  find("copy").addEventListener("click", copyLink);
  find("save-html").addEventListener("click", () => save("html"));
  find("save-json").addEventListener("click", () => save("json"));
  listenToFiles();
}

function listenToFiles() {
  find("open").addEventListener("click", () => find("file").click());
  find("file").addEventListener("change", () => {
    if (find("file").files[0]) openFile(find("file").files[0]);
    find("file").value = "";
  });
  find("file-close").addEventListener("click", closeFile);
  // Links inside a report lead to its parts; the fragment of this page is the question.
  find("from-file").addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (!link) return;
    event.preventDefault();
    document.getElementById(link.getAttribute("href").slice(1))?.scrollIntoView();
  });
  const dragged = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  addEventListener("dragover", (event) => {
    if (!dragged(event)) return;
    event.preventDefault();
    find("drop").hidden = false;
  });
  addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) find("drop").hidden = true;
  });
  addEventListener("drop", (event) => {
    find("drop").hidden = true;
    if (!dragged(event)) return;
    event.preventDefault();
    if (event.dataTransfer.files[0]) openFile(event.dataTransfer.files[0]);
  });
}
