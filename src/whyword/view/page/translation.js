/*
 * The report of a translation: explained words over those of the source and those already written.
 */

import { makeScale, paint } from "./colour_scale.js";
import { element, heading, paragraph, section, unitSwitch, watchEdges } from "./elements.js";
import { notes, reportHeader } from "./header_and_notes.js";
import { ledgerTable } from "./ledger_table.js";
import { signed, total } from "./numbers.js";
import { predictionTable } from "./prediction_table.js";
import { question, sentence, wordingOf } from "./sentences.js";
import { headerRow } from "./token_columns.js";
import { chosenScores, crossSum, sideColumns } from "./translation_columns.js";
import { translationFlow } from "./translation_flow.js";
import { LINK_LEAD, linkedSides } from "./translation_links.js";
import { visibleText } from "./visible_text.js";

const STEP_HINT = "Choose a word to see what adds up to its logit.";

/** The parts of one translation: the matrix, of all blocks or of one, and the ledgers of the chosen word below. */
export function renderTranslation(translation, id) {
  const chosen = element("div", { class: "chosen", id: `${id}-chosen`, "aria-live": "polite" });
  const state = { translation, unit: "words", block: null, chosen, place: contrastedPlace(translation) };
  const holder = element("div", { class: "scroll" });
  const linked = element("div", { class: "linked" });
  const draw = () => {
    holder.replaceChildren(translationTable(state));
    linked.replaceChildren(...linkedSides(state));
  };
  const chooseUnit = (unit) => {
    state.unit = unit;
    draw();
  };
  const units = unitSwitch(chooseUnit, ["words", "tokens"], "Rows and columns");
  const blocks = blockChoice(translation, (block) => {
    state.block = block;
    draw();
  });
  draw();
  watchEdges(holder);
  showSteps(state, [state.place]);
  return [
    reportHeader(translation),
    section("Source and translation", "sides", element("p", { class: "lead" }, LINK_LEAD), linked),
    section(
      "Word by word",
      "triangle",
      ...paragraph("lead", ...sentence(wordingOf(translation).lead)),
      element("div", { class: "controls" }, units, blocks),
      holder,
      element("p", { class: "readout" }, STEP_HINT),
    ),
    chosen,
    notes(translation),
  ];
}

/** The explained token that has a foil, or the first. */
function contrastedPlace({ foils }) {
  return Math.max(0, foils.findIndex(Boolean));
}

/** A list of blocks: all together, or one of them. */
function blockChoice({ by_block: byBlock }, choose) {
  const options = byBlock.map((_, block) => element("option", { value: String(block) }, `decoder block ${block + 1}`));
  if (byBlock.length === 1) return ""; // the method has no blocks
  const list = element("select", { "aria-label": "Decoder block" }, element("option", { value: "" }, "all blocks"), ...options);
  list.addEventListener("change", () => choose(list.value === "" ? null : Number(list.value)));
  return list;
}

/** Explained words or tokens over columns of source and prefix, with sums and shares. */
function translationTable(state) {
  const { translation, unit } = state;
  const { source, target, first } = translation;
  const scores = chosenScores(state);
  const sources = sideColumns(source, 0, source.tokens.length, 0, unit);
  const prefix = sideColumns(target, 0, target.tokens.length - 1, source.tokens.length, unit);
  const steps = sideColumns(target, first, target.tokens.length, -first, unit);
  const columns = [...sources, ...prefix];
  const values = steps.map((step) => columns.map((column) => crossSum(scores, step, column)));
  const scale = makeScale(values.flat().filter((value) => value !== null));
  const rows = steps.map((step, index) => translationRow(state, step, values[index], sources.length, scale));
  const shares = Boolean(translation.source_shares);
  const sides = element(
    "tr",
    {},
    element("td", shares ? { colspan: "2" } : {}),
    element("th", { scope: "colgroup", colspan: String(sources.length) }, "source"),
    element("th", { scope: "colgroup", colspan: String(prefix.length), class: "divided" }, "already written"),
  );
  const head = headerRow(columns, unit === "words" ? "word" : "token");
  head.cells[1 + sources.length].classList.add("divided");
  if (shares) head.cells[0].after(heading("share", "col"));
  return element(
    "table",
    { class: "heat translation" },
    element("thead", {}, sides, head),
    element("tbody", {}, ...rows),
  );
}

function translationRow(state, step, values, split, scale) {
  const { translation } = state;
  const pressed = String(step.members.includes(state.place));
  const button = element("button", { type: "button", "aria-pressed": pressed }, visibleText(step.text));
  button.addEventListener("click", () => {
    const table = button.closest("table");
    table.querySelectorAll("button").forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
    state.place = step.members[0];
    showSteps(state, step.members);
  });
  const cells = values.map((value, place) => {
    const cell = value === null ? element("td") : paint(element("td", {}, signed(value, scale.digits)), value, scale);
    if (place === split) cell.classList.add("divided");
    return cell;
  });
  const sum = element("td", { class: "row-sum" }, signed(total(values.map((value) => value ?? 0)), scale.digits));
  const share = translation.source_shares ? [shareCell(translation, step.members)] : [];
  return element("tr", {}, element("th", { scope: "row" }, button), ...share, ...cells, sum);
}

function shareCell(translation, members) {
  const { source_shares: shares, flagged } = translation;
  const mean = total(members.map((place) => shares[place])) / members.length;
  const low = members.some((place) => flagged.includes(place));
  const { share = "", low_share: lowShare = "" } = wordingOf(translation);
  return element("td", { class: low ? "share flagged" : "share", title: low ? lowShare : share }, `${(100 * mean).toFixed(0)} %${low ? " ⚑" : ""}`);
}

/** Show what adds up to the logits of some explained tokens. */
function showSteps({ translation, chosen }, places) {
  const parts = places.map((place) => {
    const foil = translation.foils[place];
    const wording = wordingOf(translation).steps?.[place];
    const step = { target: translation.choices[place], foils: foil ? [foil] : [], ledger: translation.ledgers[place], wording };
    const name = element("h2", { class: "step" }, question(step));
    return [name, element("div", { class: "overview" }, predictionTable(step), ledgerTable(step))];
  });
  chosen.replaceChildren(...parts.flat(), ...translationFlow(translation, places, chosen.id));
}
