/*
 * Source and translation as running text: a word of either side lights the words it belongs to.
 */

import { makeScale, paint } from "./colour_scale.js";
import { element } from "./elements.js";
import { signed } from "./numbers.js";
import { chosenScores, crossSum, sideColumns } from "./translation_columns.js";
import { LINE, quotedWord, visibleText } from "./visible_text.js";

export const LINK_LEAD = matchMedia("(hover: none)").matches
  ? "Tap a word of the translation to light what it came from, or a word of the source to light what it led to."
  : "Point at a word of the translation, or move with the arrow keys, to light what it came from; at a word of the source, to light what it led to.";
const LINK_HINT = "No word is chosen.";
const LINKED = 4; // words that are named in the readout

/** The two texts, and what is said about the word that is pointed at. */
export function linkedSides(state) {
  const { translation, unit } = state;
  const { source, target, first } = translation;
  const scores = chosenScores(state);
  const sources = sideColumns(source, 0, source.tokens.length, 0, unit).map((column) => linkedWord(column, "source"));
  const written = sideColumns(target, first, target.tokens.length, -first, unit).map((column) => linkedWord(column, "target"));
  // What is written is read by later steps at its place in a row, after the source and what was forced.
  const shift = source.tokens.length + first;
  const asRead = (word) => ({ members: word.column.members.map((place) => place + shift).filter((place) => place < scores[0].length) });
  const between = (step, word) => crossSum(scores, step.column, word.side === "source" ? word.column : asRead(word));
  const links = { sources, written, between, scale: makeScale(numbersBetween(sources, written, between)) };
  const readout = element("p", { class: "readout", "aria-live": "polite" }, LINK_HINT);
  const side = (words, name) => {
    const spaced = words.flatMap((word, index) => [index > 0 && unit === "words" ? " " : "", word.button]);
    const text = element("p", { class: "side", dir: "auto", role: "group", "aria-label": name }, element("span", { class: "side-name" }, name), ...spaced);
    listenToSide(text, words, links, readout);
    return text;
  };
  return [side(sources, "Source"), side(written, "Translation"), readout];
}

function linkedWord(column, side) {
  const button = element("button", { type: "button", class: "piece", tabindex: "-1" }, visibleText(column.text, LINE));
  return { column, side, button };
}

function numbersBetween(sources, written, between) {
  return written.flatMap((step) => sources.map((word) => between(step, word))).filter((value) => value !== null);
}

/** One word of a side can be tabbed to; arrow keys change which. */
function listenToSide(text, words, links, readout) {
  const wordAt = (event) => words.find((word) => word.button.contains(event.target));
  words[0]?.button.setAttribute("tabindex", "0");
  text.addEventListener("pointerover", (event) => light(links, wordAt(event), readout));
  text.addEventListener("pointerleave", () => light(links, wordAt({ target: document.activeElement }), readout));
  text.addEventListener("focusin", (event) => light(links, wordAt(event), readout));
  text.addEventListener("focusout", () => light(links, null, readout));
  text.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const place = words.indexOf(wordAt(event));
    if (!step || place < 0) return;
    event.preventDefault();
    const next = words[Math.min(words.length - 1, Math.max(0, place + step))];
    words.forEach((word) => word.button.setAttribute("tabindex", word === next ? "0" : "-1"));
    next.button.focus();
  });
}

/** Colour the words that belong to one, and say in words which they are. */
function light(links, chosen, readout) {
  const { sources, written, scale } = links;
  for (const { button } of [...sources, ...written]) {
    button.className = "piece";
    button.style.removeProperty("--strength");
  }
  if (!chosen) {
    readout.replaceChildren(LINK_HINT);
    return;
  }
  chosen.button.classList.add("chosen-word");
  const partners = partnersOf(links, chosen);
  partners.forEach(({ word, value }) => paint(word.button, value, scale));
  readout.replaceChildren(...describePartners(chosen, partners, scale));
}

/** For a written word all it came from, for one of the source all it led to. */
function partnersOf({ sources, written, between }, chosen) {
  const pairs =
    chosen.side === "source"
      ? written.map((step) => ({ word: step, value: between(step, chosen) }))
      : [...sources, ...written.slice(0, written.indexOf(chosen))].map((word) => ({ word, value: between(chosen, word) }));
  return pairs.filter(({ value }) => value !== null);
}

function describePartners(chosen, partners, scale) {
  const strongest = (side) =>
    partners
      .filter(({ word }) => word.side === side)
      .sort((one, two) => Math.abs(two.value) - Math.abs(one.value))
      .slice(0, LINKED)
      .filter(({ value }) => Number(value.toFixed(scale.digits)) !== 0);
  const listWords = (found) => found.flatMap(({ word, value }, index) => [index > 0 ? ", " : " ", quotedWord(word.column.text), ` ${signed(value, scale.digits)}`]);
  const quoted = element("strong", {}, quotedWord(chosen.column.text));
  if (chosen.side === "source") return [quoted, " of the source led to", ...listWords(strongest("target")), "."];
  const earlier = strongest("target");
  const rest = earlier.length > 0 ? ["; from what was already written", ...listWords(earlier)] : [];
  return [quoted, " came from", ...listWords(strongest("source")), " of the source", ...rest, "."];
}
