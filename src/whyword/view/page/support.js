/*
 * The report of an answer by its sources: choose a sentence to tint the prompt by what its words add to it, and to list
 * the parts of the prompt; choose a part to see its strongest words.
 */

import { legend, makeScale, paint } from "./colour_scale.js";
import { element, heading, paragraph, scroller, section, tableOf } from "./elements.js";
import { reportHeader } from "./header_and_notes.js";
import { signed } from "./numbers.js";
import { partBar } from "./parts.js";
import { sentence, wordingOf } from "./sentences.js";
import { PROSE, visibleParts, visibleText } from "./visible_text.js";

const STRONGEST = 8;

export function renderSupport(found) {
  const { lead, flagged } = wordingOf(found);
  const box = element("div", { class: "support-parts", "aria-live": "polite" });
  const buttons = found.rows.map((row, index) => {
    const name = row.supported ? "sentence" : "sentence unsupported";
    const button = element("button", { type: "button", class: name, "aria-pressed": "false" }, visibleText(row.text, PROSE));
    button.addEventListener("click", () => choose(index));
    return button;
  });
  const choose = (index) => {
    buttons.forEach((button, place) => button.setAttribute("aria-pressed", String(place === index)));
    box.replaceChildren(...showSentence(found, found.rows[index]));
  };
  choose(0);
  const said = [lead, flagged].flatMap((each) => paragraph("lead", ...sentence(each)));
  return [
    reportHeader(found),
    section("Answer", "support", ...said, element("p", { class: "sentences" }, ...buttons)),
    box,
  ];
}

/** What supports one sentence: the parts, the strongest first, and the prompt. */
function showSentence(found, row) {
  const words = found.words.map((word, place) => ({ ...word, score: row.words[place] }));
  const scale = makeScale(words.map(({ score }) => score));
  const prompt = tintedPrompt(found, words, scale);
  const strongest = element("p", { class: "strongest-words" });
  const buttons = new Map();
  const choose = (column) => {
    const open = buttons.get(column).getAttribute("aria-pressed") === "true" ? null : column;
    buttons.forEach((button, place) => button.setAttribute("aria-pressed", String(place === open)));
    prompt.classList.toggle("one-part", open !== null);
    for (const piece of prompt.querySelectorAll(".piece")) piece.classList.toggle("in-part", piece.dataset.column === String(open));
    strongest.replaceChildren(...(open === null ? [] : listStrongest(found.columns[open].name, words.filter((word) => word.column === open), scale)));
    if (open !== null) prompt.querySelector(".in-part")?.scrollIntoView({ block: "nearest" });
  };
  const order = found.columns.map((_, place) => place).sort((one, two) => row.scores[two] - row.scores[one]);
  const bars = makeScale(row.scores);
  const rows = order.map((place) => {
    const named = visibleText(found.columns[place].name, PROSE);
    const button = element("button", { type: "button", class: "part-name", "aria-pressed": "false" }, named);
    const listed = words.some((word) => word.column === place);
    if (listed) {
      buttons.set(place, button);
      button.addEventListener("click", () => choose(place));
    }
    const score = row.scores[place];
    return element(
      "tr",
      {},
      element("th", { scope: "row" }, listed ? button : named),
      paint(element("td", {}, signed(score, bars.digits)), score, bars),
      element("td", {}, partBar(score, bars)),
    );
  });
  const head = element("tr", {}, ...["part", "score", ""].map((name) => heading(name, "col")));
  const sum = `sum ${signed(row.logit, 2)}${row.bias === null ? "" : `, biases ${signed(row.bias, 2)}`}`;
  return [
    section(`${row.name}: ${sum}`, "parts", scroller(tableOf("figures ranking", head, rows)), strongest),
    section("Prompt", "support-prompt", legend(scale, found), prompt),
  ];
}

/** The prompt as running text, every word tinted by its score. */
function tintedPrompt({ prompt, columns }, words, scale) {
  const characters = Array.from(prompt); // offsets count code points
  const text = element("p", { class: "prompt", dir: "auto", tabindex: "0", role: "group", "aria-label": "Prompt" });
  let reached = 0;
  for (const word of words) {
    if (word.end <= reached) continue; // the start is not in the text
    text.append(...visibleParts(characters.slice(reached, word.start).join(""), PROSE));
    const title = `${signed(word.score, scale.digits)}, ${columns[word.column].name}`;
    const piece = element("span", { class: "piece", title, "data-column": String(word.column) });
    piece.append(...visibleParts(characters.slice(Math.max(reached, word.start), word.end).join(""), PROSE));
    text.append(paint(piece, word.score, scale));
    reached = word.end;
  }
  text.append(...visibleParts(characters.slice(reached).join(""), PROSE));
  return text;
}

/** The strongest words of a part, the strongest first. */
function listStrongest(name, words, scale) {
  const ranked = [...words].sort((one, two) => Math.abs(two.score) - Math.abs(one.score)).slice(0, STRONGEST);
  const chips = ranked.flatMap((word) => [
    paint(element("span", { class: "piece" }, visibleText(word.text || "start", PROSE)), word.score, scale),
    ` ${signed(word.score, scale.digits)} `,
  ]);
  return [element("strong", {}, "Strongest words of ", visibleText(name, PROSE), ": "), ...chips];
}
