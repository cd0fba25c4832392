/*
 * The page: a question in the form and in the URL, and what people do to it.
 */

import { askModels } from "./ask.js";
import { failureLines } from "./columns.js";
import { element } from "./elements.js";
import { closeFile, listenToKeeping } from "./keeping.js";
import { find, modelOf, page, promptOf, tell, translates } from "./page.js";
import * as form from "./prompt.js";
import { askedOf, cancel, run } from "./running.js";
import { exampleState, readState, writeState } from "./state.js";

const HINTS = {
  compare: "one row per method, each in its own unit. Red speaks for the word you ask about, blue against it. Grey rows are not contrastive: they are the same whatever word you ask about.",
  difference: "a word in each row, with its score in the first and in the second; the change is the second minus the first. Red raises the word you ask about, blue lowers it.",
  neurons: "each MLP neuron adds its update to the difference. Red raises it, blue lowers it.",
  continue: "one row per generated token. Choose a token to see why the model wrote it.",
  support: "choose a sentence of the answer: the prompt is tinted by what its words add to it. Choose a part for its strongest words. A wavy line: no source supports the sentence.",
  align: "a line joins words that belong together, the darker the surer. The slider goes from words that are each other’s best to everything there is evidence for.",
  translate: "point at a word, or tap it, to light the words it came from or led to. Numbers are logits.",
};

/** What colours, numbers and rows mean in a view; of one explanation, as its method has them. */
function hintOn({ view, sourceView, method }) {
  const measure = page.served.methods.find((each) => each.name === method);
  if (translates()) return HINTS[sourceView];
  if (view !== "explain" || !measure) return HINTS[view] ?? "";
  const colours = measure.adds_up
    ? "red speaks for the word you ask about, blue for the other one, and the numbers add up."
    : measure.contrastive
      ? `the numbers are scores in ${measure.unit}, red above zero and blue below; they do not add up to the difference.`
      : "the stronger the grey, the higher the score; scores are the same whatever word you ask about, and do not add up to the difference.";
  const rows = measure.by_block ? ", each row a block of the network, and the last row the sum" : "";
  return `${colours} In the heat map each column is a token${rows}.`;
}

start();

async function start() {
  form.listenToForm();
  listen();
  try {
    page.served = await askModels();
  } catch (error) {
    document.body.dataset.state = "error";
    find("status").textContent = "";
    find("notice").replaceChildren(...failureLines(error, () => location.reload()));
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

/** Take a question: show it in the form and the URL, and run it. `fresh`: even if its answer is known. */
function ask(state, { keep = "push", fresh = false } = {}) {
  const answerTokens = Math.min(state.answerTokens, page.served.limits.new_tokens ?? state.answerTokens);
  page.state = { ...state, method: state.method ?? page.served.default_method, answerTokens };
  const address = writeState(page.state, translates());
  if (keep === "replace") history.replaceState(null, "", address);
  else if (address !== location.hash) history.pushState(null, "", address);
  closeFile();
  find("notice").replaceChildren();
  showQuestion();
  return run({ fresh, again: () => ask(page.state, { fresh: true }), choose });
}

/** Ask what the form holds, with something changed. */
function askForm(change = {}, options = {}) {
  const read = form.readForm(page.state);
  // Words for one prompt say little about another; a slightly changed one keeps them.
  const stale = form.wordsUntouched() && isAnother(promptOf(page.state), promptOf(read));
  const next = { ...(stale ? { ...read, target: null, foils: null } : read), ...change };
  // The open token of a continuation is one of that continuation.
  const written = ({ prompt, chat, documents, question, continuation, count, models }) =>
    JSON.stringify([prompt, chat, documents, question, continuation, count, models]);
  const chosen = written(next) === written(page.state) ? next.chosen : 0;
  return ask({ ...next, chosen }, options);
}

/** Ask again, even what was asked before; where the answer is below the form, go there. */
async function askAgain() {
  await askForm({}, { fresh: true });
  if (!matchMedia("(max-width: 60rem)").matches || !["done", "error"].includes(document.body.dataset.state)) return;
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  find("results").scrollIntoView({ behavior: still ? "auto" : "smooth" });
}

/** Candidates of a prompt that is being edited are those of another one. */
function showEdited() {
  const edited = promptOf(form.readForm(page.state)) !== promptOf(page.state);
  find("next").classList.toggle("edited", edited);
  find("columns").classList.toggle("edited", edited);
}

/** Keep the open token of a continuation in the address. */
function keepChosen(index) {
  page.state = { ...page.state, chosen: index };
  history.replaceState(null, "", writeState(page.state, translates()));
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
  form.fillForm(state, source, page);
  showEdited();
  const chats = state.chat !== null || state.models.every((name) => modelOf(name).chat);
  find("prompt-kind").querySelector('[data-kind="chat"]').hidden = !chats;
  find("words").hidden = ["continue", "support"].includes(state.view);
  press(find("view"), "view", state.view);
  find("view").hidden = source;
  press(find("source-view"), "sourceView", state.sourceView);
  find("source-view").hidden = !source;
  find("source-foil").hidden = state.sourceView === "align";
  find("method").value = state.method;
  find("method-choice").hidden = source ? state.sourceView === "align" : !["explain", "difference", "continue", "support"].includes(state.view);
  find("versus-choice").hidden = source || state.view !== "difference";
  find("count-choice").hidden = source || state.view !== "continue";
  find("continuation-choice").hidden = source || !["continue", "support"].includes(state.view);
  find("continuation-name").textContent = state.view === "support" ? "Answer" : "Continuation";
  find("hint").textContent = `How to read it: ${hintOn(state)}`;
  for (const box of find("models").querySelectorAll("input")) box.checked = state.models.includes(box.value);
  for (const option of find("method").options) option.hidden = option.disabled = !listMethods(source).includes(option.value);
}

function press(group, name, value) {
  for (const button of group.children) button.setAttribute("aria-pressed", String(button.dataset[name] === value));
}

/** A candidate was chosen: for the target, or as the foil (pressing it again takes it back); or a foil without a name. */
function choose(column, part, choice) {
  const { state } = page;
  if (part === "foils") {
    askForm({ foils: choice });
    return;
  }
  const word = state.models.length > 1 ? choice.text.trim() || choice.text : choice.id;
  const asked = askedOf(column);
  const next = { view: state.view === "continue" ? "explain" : state.view };
  if (part === "why") {
    next.target = asked.target?.id === choice.id && state.target !== null ? null : word;
    if (asked.foils.some((foil) => foil.id === choice.id)) next.foils = null;
  } else {
    next.foils = asked.foils.some((foil) => foil.id === choice.id) ? [] : [word];
    if (asked.target?.id === choice.id) next.target = null;
    else if (state.target === null && asked.target) next.target = state.models.length > 1 ? null : asked.target.id;
  }
  askForm(next);
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

/** At least one model is asked, and all of them continue text or all of them translate. */
function chooseModel(box) {
  const kind = modelOf(box.value).translates;
  const checked = [...find("models").querySelectorAll("input")].filter((each) => each.checked && modelOf(each.value).translates === kind);
  const models = checked.length > 0 ? checked.map((each) => each.value) : [box.value];
  const read = form.readForm(page.state);
  const model = modelOf(models[0]);
  const example = exampleState(model);
  // Token ids belong to one model; several models, or another one, are asked about words.
  const word = (each) => (typeof each === "number" ? (page.names.get(each)?.trim() ?? null) : each);
  const foils = read.foils?.map(word).filter((each) => each !== null) ?? null;
  ask({
    ...read,
    models,
    prompt: kind || read.prompt || read.chat ? read.prompt : example.prompt,
    source: kind && !read.source ? example.source : read.source,
    sourceLanguage: model.source_languages.includes(read.sourceLanguage) ? read.sourceLanguage : example.sourceLanguage,
    targetLanguage: model.target_languages.includes(read.targetLanguage) ? read.targetLanguage : example.targetLanguage,
    method: listMethods(kind).includes(read.method) ? read.method : page.served.default_method,
    target: word(read.target),
    foils: foils?.length === 0 && read.foils.length > 0 ? null : foils,
  });
}

/** The methods that explain a prompt, or a translation. */
function listMethods(translation) {
  return page.served.methods.filter((each) => !translation || each.translates).map((each) => each.name);
}

function drawMethods() {
  const options = page.served.methods.map(({ name, summary }) => element("option", { value: name, title: summary }, name));
  find("method").replaceChildren(...options);
}

function listen() {
  find("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    askAgain();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      askAgain();
    } else if (event.key === "Escape" && document.body.dataset.state === "running") cancel();
  });
  find("cancel").addEventListener("click", cancel);
  find("skip").addEventListener("click", (event) => {
    event.preventDefault(); // the fragment of this page is the question
    find("results").focus();
  });
  find("for-prompt").addEventListener("input", showEdited);
  find("prompt-kind").addEventListener("click", showEdited);
  find("columns").addEventListener("tokenchosen", (event) => keepChosen(event.detail));
  find("no-foil").addEventListener("change", () => askForm());
  for (const name of ["count", "continuation", "versus"]) {
    find(name).addEventListener("keydown", (event) => event.key === "Enter" && askAgain());
  }
  for (const button of find("view").children) {
    button.addEventListener("click", () => askForm({ view: button.dataset.view }));
  }
  for (const button of find("source-view").children) {
    button.addEventListener("click", () => askForm({ sourceView: button.dataset.sourceView }));
  }
  find("method").addEventListener("change", () => askForm({ method: find("method").value }));
  addEventListener("hashchange", () => {
    if (readState(location.hash)) openAddress();
  });
  listenToKeeping();
}
