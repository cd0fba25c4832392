/*
 * Blocks × heads: what every head adds, all tokens together; a head that is chosen says what it reads.
 */

import { legend, makeScale, paint } from "./colour_scale.js";
import { element, heading, paragraph, scroller, section, tableOf } from "./elements.js";
import { isShortcut, STEPS } from "./grid_walking.js";
import { signed, total } from "./numbers.js";
import { sentence, wordingOf } from "./sentences.js";
import { tokenNames } from "./token_columns.js";
import { quotedWord, visibleText } from "./visible_text.js";

const READ = 4; // positions that are named for a head

export function headMap(explanation) {
  const sums = sumsOf(explanation);
  const said = element("div", { class: "head-tokens", "aria-live": "polite" }, "Choose a head to see what it reads.");
  const table = headTable(sums, (block, head) => said.replaceChildren(...describeHead(explanation, block, head)));
  return section(
    "Head by head",
    "heads",
    ...paragraph("lead", ...sentence(wordingOf(explanation).heads)),
    element("div", { class: "controls" }, legend(makeScale(sums.flat()), explanation, "head_legend")),
    element("div", { class: "instrument" }, scroller(table), said),
  );
}

/** What every head adds; a report keeps the sums, since it leaves out the smallest numbers. */
function sumsOf({ head_sums: sums, by_head: byHead }) {
  return sums ?? byHead.map((heads) => heads.map(total));
}

/** What a head adds by reading which positions: the strongest with their numbers, and all of them tinted. */
function describeHead(explanation, block, head) {
  const values = explanation.by_head[block][head];
  const tokens = tokenNames(explanation);
  const scale = makeScale(values);
  const pieces = tokens.flatMap((name, index) => {
    const text = element("span", { class: "piece", title: signed(values[index], 4) }, visibleText(name));
    return [paint(text, values[index], scale), " "];
  });
  const strongest = tokens
    .map((text, index) => ({ text, score: values[index] }))
    .sort((one, two) => Math.abs(two.score) - Math.abs(one.score))
    .slice(0, READ)
    .filter(({ score }) => Number(score.toFixed(3)) !== 0);
  const listed = strongest.flatMap(({ text, score }, index) => [index > 0 ? ", " : " by reading: ", quotedWord(text), ` ${signed(score, 3)}`]);
  const rest = tokens.length > strongest.length && strongest.length > 0 ? " …" : "";
  const name = element("strong", {}, `Block ${block + 1}, head ${head + 1}`);
  return [
    element("p", {}, name, ` adds ${signed(sumsOf(explanation)[block][head], 3)}`, ...listed, rest),
    element("p", { class: "head-pieces", tabindex: "0", role: "group", "aria-label": "All that it reads" }, ...pieces),
  ];
}

/** The table of blocks × heads; `choose(block, head)` is called for the head that is clicked; null: none can be. */
export function headTable(sums, choose) {
  const scale = makeScale(sums.flat());
  const buttons = [];
  const rows = sums.map((heads, block) => {
    const cells = heads.map((value, head) => {
      const name = `block ${block + 1}, head ${head + 1}: ${signed(value, scale.digits)}`;
      const number = signed(value, scale.digits);
      if (!choose) return paint(element("td", { title: name }, number), value, scale);
      const button = element("button", { type: "button", "aria-label": name, "aria-pressed": "false", tabindex: "-1" }, number);
      buttons.push({ button, block, head });
      return paint(element("td", {}, button), value, scale);
    });
    return element("tr", {}, heading(String(block + 1), "row"), ...cells);
  });
  const most = Math.max(...sums.map((heads) => heads.length));
  const names = Array.from({ length: most }, (_, head) => heading(String(head + 1), "col"));
  const table = tableOf("figures by-head", element("tr", {}, heading("block", "col"), ...names), rows.reverse());
  if (choose) listenToHeads(table, buttons, choose);
  return table;
}

/** One head can be tabbed to, at first the top left one; arrow keys change which. */
function listenToHeads(table, buttons, choose) {
  const at = (event) => buttons.find(({ button }) => button === event.target.closest("button"));
  table.tBodies[0].querySelector("button")?.setAttribute("tabindex", "0");
  table.addEventListener("click", (event) => {
    const chosen = at(event);
    if (!chosen) return;
    buttons.forEach(({ button }) => button.setAttribute("aria-pressed", String(button === chosen.button)));
    makeStop(buttons, chosen.button);
    choose(chosen.block, chosen.head);
  });
  table.addEventListener("keydown", (event) => {
    const from = at(event);
    if (!from || !(event.key in STEPS) || isShortcut(event)) return;
    event.preventDefault();
    const [down, right] = STEPS[event.key];
    const next = buttons.find(({ block, head }) => block === from.block - down && head === from.head + right); // the last block is on top
    if (!next) return;
    makeStop(buttons, next.button);
    next.button.focus();
  });
}

function makeStop(buttons, stop) {
  buttons.forEach(({ button }) => button.setAttribute("tabindex", button === stop ? "0" : "-1"));
}
