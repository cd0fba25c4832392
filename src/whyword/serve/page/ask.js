/*
 * Questions to the server: one request, its progress, and a document or a refusal at the end.
 */

import { RUNNER_UP, wantsRunnerUp } from "./state.js";

/** What went wrong and what to do, as the server says it. `again`: whether the same may work later. */
export class Refusal extends Error {
  constructor({ wrong, remedy }, again = false) {
    super(wrong);
    this.remedy = remedy;
    this.again = again;
  }
}

const UNREACHABLE = { wrong: "The server does not answer.", remedy: "See whether whyword serve is still running, then try again." };
const BROKEN = { wrong: "The answer ended before it was whole.", remedy: "Try again." };

/** Ask for the models, methods and limits. */
export async function askModels() {
  const response = await reach("/api/models", {});
  if (!response.ok) throw await readRefusal(response);
  return response.json();
}

/** Ask for a document; `progress` is called for every step, `signal` ends the work. */
export async function askDocument(route, body, { signal, progress = () => {} }) {
  const response = await reach(`/api/${route}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: "application/x-ndjson" },
    body: JSON.stringify(body),
    signal,
  });
  if (!response.ok) throw await readRefusal(response);
  if (!(response.headers.get("Content-Type") ?? "").includes("ndjson")) return response.json();
  for await (const line of readLines(response.body)) {
    const said = JSON.parse(line);
    if (said.document) return said.document;
    if (said.error) throw new Refusal(said.error, said.error.status === 503);
    if (said.progress) progress(said.progress);
  }
  throw new Refusal(BROKEN, true);
}

/** The bodies of requests: what a question asks of one model. */
export function writeBody(state, model, translates) {
  const common = { model, method: state.method };
  if (translates) {
    const pair = {
      source: state.source,
      translation: state.translation.trim() ? state.translation : null,
      source_language: state.sourceLanguage || null,
      target_language: state.targetLanguage || null,
    };
    if (state.sourceView === "align") return { model, ...pair };
    return {
      ...common,
      ...pair,
      foil: state.place && state.foilWord ? { word: state.foilWord, place: state.place } : null,
    };
  }
  const prompt = state.documents ? { documents: state.documents, question: state.question } : (state.chat ?? state.prompt);
  const foil = state.foils === null ? "auto" : state.foils.length > 0 ? state.foils : null;
  if (state.view === "continue") {
    const continuation = state.continuation || null;
    return { ...common, prompt, continuation, foil: foil === null ? null : wantsRunnerUp(state) ? RUNNER_UP : "auto", new_tokens: state.count };
  }
  if (state.view === "support") {
    return { ...common, prompt, continuation: state.continuation.trim() ? state.continuation : null, new_tokens: state.answerTokens };
  }
  const asked = { model, prompt, target: state.target, foil };
  if (state.view === "difference") return { ...asked, method: state.method, ...versusOf(state) };
  return state.view === "explain" ? { ...asked, method: state.method } : asked;
}

/** What a question is compared with: another prompt (of a chat, another last turn), or the second of two models. */
function versusOf({ versus, chat, models }) {
  if (!versus.trim()) return { versus_model: models[1] ?? null };
  return { versus: chat ? [...chat.slice(0, -1), { ...chat.at(-1), content: versus }] : versus };
}

async function reach(address, options) {
  try {
    return await fetch(address, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(UNREACHABLE, true);
  }
}

async function readRefusal(response) {
  const again = response.status === 503;
  try {
    const { error } = await response.json();
    const wait = again ? response.headers.get("Retry-After") : null;
    return new Refusal(wait ? { ...error, remedy: `${error.remedy} (in ${wait} s)` } : error, again);
  } catch {
    return new Refusal({ wrong: `The server answered with status ${response.status}.`, remedy: "Try again." }, true);
  }
}

/** Lines of a stream, as they come; pieces are joined only where a line ends, since documents are long. */
async function* readLines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let pieces = [];
  for (;;) {
    const { done, value } = await reader.read().catch((error) => {
      if (error.name === "AbortError") throw error;
      throw new Refusal(BROKEN, true);
    });
    if (done) break;
    const [first, ...rest] = value.split("\n");
    pieces.push(first);
    for (const next of rest) {
      const line = pieces.join("");
      if (line.trim()) yield line;
      pieces = [next];
    }
  }
  const line = pieces.join("");
  if (line.trim()) yield line;
}
