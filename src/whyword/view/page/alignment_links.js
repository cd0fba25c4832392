/*
 * Source and translation as running text, with a line for every link: a word of either side lights its own. A slider
 * goes from the surest links to all there is evidence for.
 */

import { element, shape } from "./elements.js";
import { LINE, quotedWord, visibleText } from "./visible_text.js";

export const SIDES_LEAD = matchMedia("(hover: none)").matches
  ? "Tap a word of either side to see its links."
  : "Point at a word of either side, or move with the arrow keys, to see its links.";
const NO_WORD = "No word is chosen.";
const STEP = 0.05;

/** The two texts with their lines; `changed` is called when the slider has changed the links of the alignment. */
export function linkedTexts(alignment, changed) {
  const [sources, written] = [alignment.source, alignment.target].map((words) => words.map(wordButton));
  const lines = shape("svg", { class: "lines", "aria-hidden": "true" });
  const readout = element("p", { class: "readout", "aria-live": "polite" }, NO_WORD);
  const state = { alignment, sources, written, lines, readout, chosen: null };
  const box = element("div", { class: "paired" }, sideOf(state, "Source"), sideOf(state, "Translation"), lines);
  const draw = () => drawLines(state, box);
  new ResizeObserver(draw).observe(box); // words wrap differently
  const slider = alignment.candidates ? [recallSlider(alignment, () => (draw(), lightLinks(state), changed()))] : [];
  return [...slider, box, readout];
}

function wordButton(word) {
  return element("button", { type: "button", class: "piece", tabindex: "-1" }, visibleText(word, LINE));
}

/** A side as text: one of its words can be tabbed to, and arrow keys change which. */
function sideOf(state, name) {
  const words = name === "Source" ? state.sources : state.written;
  const spaced = words.flatMap((word, index) => [index > 0 ? " " : "", word]);
  const label = element("span", { class: "side-name" }, name);
  const held = name === "Source" ? [label, ...spaced] : [...spaced, label]; // the lines stay clear of the names
  const side = element("p", { class: "side", dir: "auto", role: "group", "aria-label": name }, ...held);
  const choose = (target) => {
    state.chosen = words.find((word) => word.contains(target)) ?? null;
    lightLinks(state);
  };
  words[0]?.setAttribute("tabindex", "0");
  side.addEventListener("pointerover", (event) => choose(event.target));
  side.addEventListener("pointerleave", () => choose(document.activeElement));
  side.addEventListener("focusin", (event) => choose(event.target));
  side.addEventListener("focusout", () => choose(null));
  side.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const place = words.indexOf(event.target);
    if (!step || place < 0) return;
    event.preventDefault();
    const next = words[Math.min(words.length - 1, Math.max(0, place + step))];
    words.forEach((word) => word.setAttribute("tabindex", word === next ? "0" : "-1"));
    next.focus();
  });
  return side;
}

/** From words that are each other's best to everything there is evidence for; what is saved is what is shown. */
function recallSlider(alignment, changed) {
  const slider = element("input", { type: "range", min: "0", max: "1", step: String(STEP), "aria-label": "Recall" });
  slider.value = String(alignment.recall);
  const said = element("output", {}, countLinks(alignment));
  slider.addEventListener("input", () => {
    linkAt(alignment, Number(slider.value));
    said.textContent = countLinks(alignment);
    changed();
  });
  const label = element("label", {}, "Fewer, surer links ", slider, " more links");
  return element("div", { class: "controls recall" }, label, said);
}

/** Choose the links of a recall, in the document itself. */
function linkAt(alignment, recall) {
  const kept = alignment.candidates.filter((each) => each.recall === 0 || each.recall < recall);
  alignment.links = kept.map(({ source, target }) => [source, target]);
  alignment.confidence = kept.map(({ confidence }) => confidence);
  alignment.recall = recall;
  alignment.method = alignment.method.replace(/recall [\d.]+/, `recall ${recall}`);
}

function countLinks({ links, confidence, recall }) {
  const sum = (confidence ?? []).reduce((all, each) => all + each, 0);
  const right = links.length > 0 && confidence ? `, about ${Math.min(99, Math.round((100 * sum) / links.length))} % of them right` : "";
  return `recall ${recall}: ${links.length} ${links.length === 1 ? "link" : "links"}${right}`;
}

/** A line for every link, from below a word of the source to above one of the translation. */
function drawLines({ alignment, sources, written, lines, chosen }, box) {
  const frame = box.getBoundingClientRect();
  const middle = (word) => {
    const [first] = word.getClientRects();
    return first && { x: first.x + first.width / 2 - frame.x, above: first.y - frame.y, below: first.bottom - frame.y };
  };
  lines.setAttribute("viewBox", `0 0 ${frame.width} ${frame.height}`);
  const drawn = alignment.links.map(([own, other], index) => {
    const [from, to] = [middle(sources[own]), middle(written[other])];
    if (!from || !to) return "";
    const bend = (to.above - from.below) / 2;
    const path = `M${from.x},${from.below}C${from.x},${from.below + bend} ${to.x},${to.above - bend} ${to.x},${to.above}`;
    const line = shape("path", { d: path, "stroke-opacity": String(0.15 + 0.6 * (alignment.confidence?.[index] ?? 1)) });
    line.classList.toggle("chosen-line", chosen === sources[own] || chosen === written[other]);
    return line;
  });
  lines.replaceChildren(...drawn);
}

/** Mark the chosen word, its lines and the words at their ends, and say which they are. */
function lightLinks(state) {
  const { alignment, sources, written, lines, readout, chosen } = state;
  const own = alignment.links.map(([source, target], index) => ({ source, target, index, sure: alignment.confidence?.[index] }));
  const lit = own.filter(({ source, target }) => chosen && (sources[source] === chosen || written[target] === chosen));
  const ends = new Set(lit.flatMap(({ source, target }) => [sources[source], written[target]]));
  for (const word of [...sources, ...written]) {
    word.classList.toggle("chosen-word", word === chosen);
    word.classList.toggle("linked-word", word !== chosen && ends.has(word));
  }
  lines.classList.toggle("one-word", chosen !== null);
  [...lines.children].forEach((line, index) => line.classList.toggle("chosen-line", lit.some((each) => each.index === index)));
  readout.replaceChildren(...(chosen ? describeWord(alignment, sources.indexOf(chosen), written.indexOf(chosen), lit) : [NO_WORD]));
}

function describeWord({ source, target }, own, other, lit) {
  const name = element("strong", {}, quotedWord(own >= 0 ? source[own] : target[other]));
  if (lit.length === 0) return [name, " has no link."];
  const partners = lit.flatMap((each, index) => [
    index > 0 ? ", " : " ",
    quotedWord(own >= 0 ? target[each.target] : source[each.source]),
    each.sure === undefined ? "" : ` (${Math.min(99, Math.round(100 * each.sure))} % sure)`,
  ]);
  return [name, " is linked with", ...partners, "."];
}
