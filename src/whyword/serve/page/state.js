/*
 * What is asked, and how it is written into the fragment of the URL: a link holds the whole question.
 *
 * Words are strings and token ids are numbers; in the URL an id is written #123, and a word that starts with # gets
 * another one in front.
 */

export const VIEWS = ["explain", "compare", "difference", "neurons", "continue", "support"];

/** The word that stands for the plain runner-up, as the library reads it. */
export const RUNNER_UP = "runner-up";

const EXAMPLE = { prompt: "The keys to the cabinet", target: "are", foils: ["is"] };
const SOURCES = [
  ["zh", "我昨天在图书馆读了一本关于历史的书。"],
  ["de", "Gestern habe ich in der Bibliothek ein Buch über Geschichte gelesen."],
  ["fr", "Hier, j’ai lu un livre d’histoire à la bibliothèque."],
  ["es", "Ayer leí un libro de historia en la biblioteca."],
  ["en", "Yesterday I read a book about history in the library."],
];

/** The question before anything was asked. */
export function emptyState() {
  return {
    models: [], // empty: the first
    prompt: "",
    chat: null, // or turns, and then they are the prompt
    documents: null, // or documents with names, and then they and the question are the prompt
    question: "",
    target: null, // null: the model's first choice
    foils: null, // null: the best rival; empty: none; RUNNER_UP alone: that one
    view: "explain",
    versus: "", // the other prompt of a difference; empty: the other model
    method: null, // null: the default of the server
    count: 12,
    continuation: "",
    answerTokens: 60, // of the model's own answer
    chosen: 0, // which token of a continuation is open
    source: "",
    translation: "",
    sourceView: "translate", // or "align"
    place: null,
    foilWord: "",
    sourceLanguage: "",
    targetLanguage: "",
  };
}

/** A question with an answer worth seeing, for whoever opens the page for the first time. */
export function exampleState(model) {
  return { ...emptyState(), ...EXAMPLE, ...(model.translates ? exampleSource(model) : {}) };
}

/** A source in a language that the model reads: by the codes it lists, or else by its name (opus-mt-zh-en). */
function exampleSource({ name, source_languages: from, target_languages: to }) {
  const code = (codes, language) => codes.find((each) => each.startsWith(language)) ?? "";
  const many = to.length > 0;
  const reads = (language) => (many ? code(from, language) : name.toLowerCase().includes(`${language}-`));
  const [language, source] = SOURCES.find(([each]) => reads(each)) ?? SOURCES.at(-1);
  return { source, sourceLanguage: code(from, language), targetLanguage: code(to, language === "en" ? "de" : "en") };
}

/** Whether the foil is the plain runner-up, whatever it is. */
export function wantsRunnerUp({ foils }) {
  return foils?.length === 1 && foils[0] === RUNNER_UP;
}

/** Read a fragment; null where it holds no question. */
export function readState(fragment) {
  const fields = new URLSearchParams(fragment.replace(/^#/, ""));
  if (!["prompt", "chat", "documents", "source", "model"].some((name) => fields.has(name))) return null;
  const state = emptyState();
  const text = (name) => fields.get(name) ?? "";
  const view = text("view");
  const count = Number.parseInt(text("tokens"), 10);
  const place = Number.parseInt(text("place"), 10);
  const chosen = Number.parseInt(text("chosen"), 10);
  return {
    ...state,
    models: [...new Set(fields.getAll("model"))],
    prompt: text("prompt"),
    chat: readList(text("chat"), ["role", "content"]),
    documents: readList(text("documents"), ["name", "text"]),
    question: text("question"),
    target: fields.has("target") ? readWord(text("target")) : null,
    foils: fields.has("foil") ? fields.getAll("foil").filter(Boolean).map(readWord) : null,
    view: VIEWS.includes(view) ? view : state.view,
    versus: text("versus"),
    method: text("method") || state.method,
    count: count > 0 ? count : state.count,
    continuation: text("continuation"),
    chosen: chosen > 0 ? chosen - 1 : state.chosen,
    source: text("source"),
    translation: text("translation"),
    sourceView: view === "align" ? view : state.sourceView,
    place: place > 0 ? place : null,
    foilWord: text("foil_word"),
    sourceLanguage: text("from"),
    targetLanguage: text("to"),
  };
}

/** Write the fields that say something; `translates` says which half of them matters. */
export function writeState(state, translates) {
  const fields = new URLSearchParams();
  const add = (name, value) => value && fields.append(name, value);
  state.models.forEach((name) => add("model", name));
  if (translates) {
    fields.append("source", state.source);
    add("translation", state.translation);
    if (state.sourceView === "align") add("view", "align");
    if (state.place && state.foilWord) {
      add("place", String(state.place));
      add("foil_word", state.foilWord);
    }
    add("from", state.sourceLanguage);
    add("to", state.targetLanguage);
  } else {
    if (state.documents) {
      fields.append("documents", JSON.stringify(state.documents));
      add("question", state.question);
    } else if (state.chat) fields.append("chat", JSON.stringify(state.chat));
    else fields.append("prompt", state.prompt);
    if (state.target !== null) fields.append("target", writeWord(state.target));
    if (state.foils?.length === 0) fields.append("foil", "");
    state.foils?.forEach((foil) => fields.append("foil", writeWord(foil)));
    add("view", state.view);
    if (state.view === "difference") add("versus", state.versus);
    if (state.view === "continue") {
      add("tokens", String(state.count));
      add("continuation", state.continuation);
      if (state.chosen > 0) add("chosen", String(state.chosen + 1));
    }
    if (state.view === "support") add("continuation", state.continuation);
  }
  if (!translates || state.sourceView === "translate") add("method", state.method);
  return `#${fields}`;
}

function readWord(text) {
  if (/^#\d+$/.test(text)) return Number(text.slice(1));
  return text.startsWith("##") ? text.slice(1) : text || null;
}

function writeWord(word) {
  if (typeof word === "number") return `#${word}`;
  return word.startsWith("#") ? `#${word}` : word;
}

/** A list of objects that have texts of some names, such as turns of a chat; null where the text is not that. */
function readList(text, names) {
  try {
    const found = JSON.parse(text);
    const sound = (each) => names.every((name) => typeof each?.[name] === "string");
    return Array.isArray(found) && found.length > 0 && found.every(sound)
      ? found.map((each) => Object.fromEntries(names.map((name) => [name, each[name]])))
      : null;
  } catch {
    return null;
  }
}
