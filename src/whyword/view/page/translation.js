"use strict";

/*
 * Draws the explanation of a translation: explained words over those of the source and those already written.
 * Comes before report.js in the page, and uses its elements, numbers and colours.
 */

const TRANSLATION_HINT = "Choose a word to see what adds up to its logit.";

/** The parts of one translation: the matrix, of all blocks or of one, and the ledgers of the chosen word below. */
function renderTranslation(translation, id) {
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
  const { source, target } = translation;
  const asked = element(
    "span",
    { class: "question" },
    "Why ",
    element("q", {}, visibleText(trimmed(target.text), LINE)),
    " for ",
    element("q", {}, visibleText(trimmed(source.text), LINE)),
    "?",
  );
  return [
    element(
      "header",
      {},
      element("h1", {}, asked),
      element("p", { class: "subtitle" }, ...subtitle(translation)),
    ),
    section("Source and translation", "sides", element("p", { class: "lead" }, LINK_LEAD), linked),
    section(
      "Word by word",
      "triangle",
      element("p", { class: "lead" }, shareLead(translation)),
      element("div", { class: "controls" }, units, blocks),
      holder,
      element("p", { class: "readout" }, TRANSLATION_HINT),
    ),
    chosen,
    notes(translation),
  ];
}

/** The explained token that has a foil, or the first. */
function contrastedPlace({ foils }) {
  return Math.max(0, foils.findIndex(Boolean));
}

function shareLead({ source_shares: shares, flagged, threshold }) {
  const rows = "One row per word of the translation, over the words of the source and those already written.";
  if (!shares) return rows;
  const count = flagged.length === 1 ? "1 token is" : `${flagged.length || "no"} tokens are`;
  return `${rows} Share: how much of the step came from the source (heuristic); ${count} below ${percent(threshold)}, ⚑ possibly hallucinated.`;
}

/** A list of blocks: all together, or one of them. */
function blockChoice({ by_block: byBlock }, choose) {
  const options = byBlock.map((_, block) => element("option", { value: String(block) }, `decoder block ${block + 1}`));
  const list = element("select", { "aria-label": "Decoder block" }, element("option", { value: "" }, "all blocks"), ...options);
  list.addEventListener("change", () => choose(list.value === "" ? null : Number(list.value)));
  return list;
}

/** Explained words or tokens over columns of source and prefix, with sums and shares. */
function translationTable(state) {
  const { translation, unit, block } = state;
  const { source, target, first } = translation;
  const scores = block === null ? translation.scores : translation.by_block[block];
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
  const head = headerRow(columns);
  head.cells[0].textContent = unit === "words" ? "word" : "token";
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

function shareCell({ source_shares: shares, flagged, threshold }, members) {
  const mean = total(members.map((place) => shares[place])) / members.length;
  const low = members.some((place) => flagged.includes(place));
  const title = low ? `below ${percent(threshold)}: possibly hallucinated` : "share of the source";
  return element("td", { class: low ? "share flagged" : "share", title }, `${(100 * mean).toFixed(0)} %${low ? " ⚑" : ""}`);
}

/** Tokens of one side as columns, alone or by word; members are shifted to their place in a row of numbers. */
function sideColumns({ text, tokens }, start, stop, shift, unit) {
  const own = tokens.slice(start, stop);
  const columns = unit === "words" ? wordColumns({ text, tokens: own, forced: 0 }) : tokenColumns({ tokens: own, forced: 0 });
  return columns.map((column) => ({ ...column, members: column.members.map((place) => place + start + shift) }));
}

/** The sum over explained tokens and columns, null where none of them could see it. */
function crossSum(scores, step, column) {
  const seen = step.members.flatMap((row) => column.members.map((place) => scores[row][place])).filter((value) => value !== null);
  return seen.length > 0 ? total(seen) : null;
}

/** Show what adds up to the logits of some explained tokens. */
function showSteps({ translation, chosen }, places) {
  const parts = places.map((place) => {
    const foil = translation.foils[place];
    const step = { target: translation.choices[place], foils: foil ? [foil] : [], ledger: translation.ledgers[place] };
    const name = element("h2", { class: "step" }, question(step));
    return [name, element("div", { class: "overview" }, prediction(step), ledger(step))];
  });
  chosen.replaceChildren(...parts.flat());
}
