"use strict";

/*
 * Draws documents (what Explanation.to_dict gives) into an element: renderReport(root, documents).
 *
 * Everything is made with createElement and text nodes, never from strings of markup: text of a prompt is text.
 * Styles are classes and custom properties, since the page's policy allows no style attributes.
 * "Raises" and "lowers" always mean: the logit of the target, or its difference to the foils.
 */

// ---------------------------------------------------------------- a report

/** The one place where a document's schema is looked at. */
const RENDERERS = {
  "whyword.explanation/1": renderExplanation,
  "whyword.continuation/1": renderContinuation,
  "whyword.comparison/1": renderComparison,
  "whyword.neurons/1": renderNeurons,
  "whyword.survey/1": renderSurvey,
  "whyword.translation/1": renderTranslation,
};

/** Show documents below each other in `root`, replacing what it held. `name`: what ids begin with, where a page has several reports; `chosen`: the token of continuations that is open. */
function renderReport(root, documents, name = "document", chosen = 0) {
  const articles = documents.map((record, index) => {
    const id = `${name}-${index + 1}`;
    const render = RENDERERS[record.schema] ?? renderUnknown;
    return element("article", { id }, ...render(record, id, chosen));
  });
  root.replaceChildren(...(documents.length > 1 ? [contents(documents, name)] : []), ...articles);
}

/** Links to the documents of a report. */
function contents(documents, name) {
  const entries = documents.map((record, index) => {
    const asked = record.foils && !record.choices ? question(record) : String(record.text ?? record.target?.text ?? record.schema);
    const method = record.methods ? `${record.methods.length} methods` : record.method;
    const parts = record.model ? [asked, `, ${record.model}`, method ? `, ${method}` : ""] : [asked];
    return element("li", {}, element("a", { href: `#${name}-${index + 1}` }, ...parts));
  });
  return element("nav", { "aria-label": "Explanations in this report" }, element("ol", {}, ...entries));
}

function renderUnknown(record) {
  return [element("p", {}, `This page cannot show a document with the schema “${record.schema}”.`)];
}

/** The parts of one explanation. */
function renderExplanation(explanation, id) {
  return [
    element(
      "header",
      {},
      element("h1", {}, question(explanation)),
      element("p", { class: "subtitle" }, ...subtitle(explanation)),
    ),
    promptText(explanation),
    answer(explanation),
    element("div", { class: "overview" }, prediction(explanation), ledger(explanation)),
    heatMap(explanation, id),
    headMap(explanation),
    ...(explanation.account ? [fullAccount(explanation)] : []),
    notes(explanation),
  ];
}

/** A continuation: every generated token over what it could see, and the explanation of the chosen one below. */
function renderContinuation(continuation, id, first = 0) {
  const start = Math.min(first, continuation.explanations.length - 1);
  const chosen = element("div", { class: "chosen", id: `${id}-chosen`, "aria-live": "polite" });
  const draw = (index) => chosen.replaceChildren(...renderExplanation(continuation.explanations[index], id));
  const show = (index) => {
    draw(index);
    chosen.dispatchEvent(new CustomEvent("tokenchosen", { bubbles: true, detail: index }));
  };
  const asked = element("span", { class: "question" }, "Why ", element("q", {}, visibleText(trimmed(continuation.text), LINE)), "?");
  draw(start);
  const scale = makeScale(continuation.explanations.flatMap((each) => each.scores));
  return [
    element(
      "header",
      {},
      element("h1", {}, asked),
      element("p", { class: "subtitle" }, ...subtitle(continuation)),
    ),
    section(
      "Token by token",
      "triangle",
      element("p", { class: "lead" }, "One row per generated token, over all it could see. Choose one to see its blocks."),
      element("div", { class: "controls" }, legend(scale, continuation.explanations[0])),
      scroller(triangle(continuation.explanations, scale, start, show)),
    ),
    chosen,
  ];
}

/** Rows of generated tokens over columns of context; a row's button chooses it. */
function triangle(explanations, scale, start, show) {
  const columns = tokenColumns({ ...explanations.at(-1), forced: 0 });
  const contrasted = explanations.some((each) => each.foils.length > 0);
  const buttons = explanations.map((each, index) =>
    element("button", { type: "button", "aria-pressed": String(index === start) }, visibleText(each.target.text)),
  );
  buttons.forEach((button, index) =>
    button.addEventListener("click", () => {
      buttons.forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
      show(index);
    }),
  );
  const rows = explanations.map((each, index) => {
    const cells = columns.map((_, place) =>
      place < each.scores.length
        ? paint(element("td", {}, signed(each.scores[place], scale.digits)), each.scores[place], scale)
        : element("td"),
    );
    const sum = element("td", { class: "row-sum" }, signed(total(each.scores), scale.digits));
    const foils = each.foils.flatMap(({ text }, place) => [place > 0 ? ", " : "", visibleText(text)]);
    const not = contrasted ? [element("td", { class: "foil-token" }, ...foils)] : [];
    return element("tr", {}, element("th", { scope: "row" }, buttons[index]), ...not, ...cells, sum);
  });
  const head = headerRow(columns);
  head.cells[0].textContent = "token";
  if (contrasted) head.cells[0].after(heading("and not", "col"));
  return element("table", { class: "heat" }, element("thead", {}, head), element("tbody", {}, ...rows));
}

/** Several methods for one prediction: one row each, in its own unit and with its own colours. */
function renderComparison(comparison, id) {
  const table = element("table", { class: "heat comparison", id: `${id}-methods` });
  const draw = (unit) => drawComparison(table, comparison, unit);
  draw("tokens");
  const count = `${comparison.methods.length} methods`;
  return [
    element(
      "header",
      {},
      element("h1", {}, question(comparison)),
      element("p", { class: "subtitle" }, element("bdi", { class: "model" }, comparison.model), ` · ${count}`, ...preference(comparison)),
    ),
    section(
      "Method by method",
      "map",
      element("p", { class: "lead" }, comparisonLead(comparison)),
      element("div", { class: "controls" }, unitSwitch(draw)),
      scroller(table),
    ),
    element("div", { class: "overview" }, prediction(comparison), ledger(comparison)),
    methodList(comparison.methods),
    notes(comparison),
  ];
}

function comparisonLead({ methods }) {
  const lead = "Every row has its own unit, and colours up to its own largest number: compare orders, not sizes.";
  const blind = methods.some((each) => !measureOf(each).contrastive);
  return blind ? `${lead} Grey rows are not contrastive: the same for every target and foil.` : lead;
}

function drawComparison(table, comparison, unit) {
  const columns = unit === "words" ? wordColumns(comparison) : tokenColumns(comparison);
  const head = headerRow(columns);
  head.cells[0].textContent = "method";
  head.lastChild.textContent = "unit";
  const rows = comparison.methods.map((each) => {
    const measure = measureOf(each);
    const numbers = columns.map((column) => sumOver(column, each.scores));
    const limit = Math.max(...numbers.map(Math.abs)) || 1;
    const scale = { ...makeScale(numbers), limit, neutral: !measure.contrastive };
    const cells = numbers.map((number) => paint(element("td", { title: String(number) }, shown(number, scale)), number, scale));
    const tag = measure.contrastive ? [] : [" ", element("span", { class: "tag" }, "not contrastive")];
    const name = element("th", { scope: "row", title: measure.summary }, each.method, ...tag);
    return element("tr", {}, name, ...cells, element("td", { class: "row-sum" }, measure.unit));
  });
  table.replaceChildren(element("thead", {}, head), element("tbody", {}, ...rows));
}

/** What each method's scores are. */
function methodList(methods) {
  const entries = methods.flatMap((each) => [
    element("dt", {}, each.method),
    element("dd", {}, capitalise(measureOf(each).summary), measureOf(each).contrastive ? "." : ". The same for every target and foil."),
  ]);
  return section("What the scores are", "notes", element("dl", {}, ...entries));
}

const METHODS = {
  "alti-logit": "what attention adds, tracked back to the input tokens through the mixing of the blocks below",
  logit: "what attention adds, by the position it comes from",
};

/** What the scores of a document, or of one method of a comparison, are. */
function measureOf({ measure, method }) {
  return measure ?? { unit: "logits", summary: METHODS[method] ?? "", by_block: true, adds_up: true, contrastive: true };
}

/** Whether scores add up to all of the logit (difference) but biases, not to attention’s part of it. */
function addsUpToAll(measure) {
  return measure.adds_up && measure.sum_of === "difference";
}

function subtitle(record) {
  const { model, method, explanations, measure } = record;
  const { summary } = measureOf({ method, measure: measure ?? explanations?.[0].measure });
  const explained = summary ? `: ${summary}` : "";
  return [element("bdi", { class: "model" }, model), " · ", element("span", { class: "method" }, method), explained, ...preference(record)];
}

/** Whom the model itself prefers, where that is a foil. */
function preference({ target, foils, explanations, choices }) {
  if (explanations || choices || !target) return []; // about several predictions
  const better = foils.filter((foil) => foil.logit > target.logit).sort((one, two) => two.logit - one.logit);
  if (better.length === 0) return [];
  return [" ", element("span", { class: "preference" }, "(the model itself prefers ", quotedWord(better[0].text), ")")];
}

/** "Why ' has' and not ' have'?" */
function question({ target, foils }) {
  const quoted = (choice) => quotedWord(choice.text);
  const asked = element("span", { class: "question" }, "Why ", quoted(target));
  if (foils.length > 0) asked.append(foils.length > 1 ? " and not any of " : " and not ");
  foils.forEach((foil, index) => asked.append(index > 0 ? ", " : "", quoted(foil)));
  asked.append("?");
  return asked;
}

/** What the numbers are about: a logit, or a difference of logits. */
function quantity(explanation) {
  return explanation.foils.length > 0 ? "logit difference" : "logit";
}

function notes(explanation) {
  const entries = Object.entries(explanation.notes).flatMap(([name, text]) => [
    element("dt", {}, capitalise(name)),
    element("dd", {}, text),
  ]);
  return element("section", { class: "notes", "aria-label": "How to read this" }, element("dl", {}, ...entries));
}

// ---------------------------------------------------------------- the prompt

/** The prompt as running text, each piece tinted by its score, and the slot that is explained. */
function promptText(explanation) {
  const scale = scaleOf(explanation, explanation.scores);
  const text = element("p", { class: "prompt", dir: "auto", tabindex: "0", role: "group", "aria-label": "Prompt" });
  for (const piece of promptPieces(explanation)) {
    const part = element("span", { class: piece.forced ? "piece forced" : "piece", title: shown(piece.score, { ...scale, digits: 4 }) });
    part.append(...visibleParts(piece.text, PROSE)); // not isolated: words run on over pieces, from right to left too
    paint(part, piece.score, scale);
    text.append(part);
  }
  const slot = element("span", { class: "slot", title: "explained here" }, visibleText(explanation.target.text, /\S/.test(explanation.target.text) ? PROSE : TOKEN));
  text.append(slot);
  return text;
}

/**
 * Cut the text where tokens end. Tokens without characters of their own (several bytes of one character) add to the
 * piece before them; special tokens that are not in the text are left out here and shown in the heat map.
 */
function promptPieces({ text, tokens, scores, forced }) {
  const characters = Array.from(text); // offsets count code points
  const pieces = [];
  let reached = characters.slice(0, tokens[0].start).join("").trim() ? tokens[0].start : 0;
  tokens.forEach((token, index) => {
    if (token.end > reached) {
      const piece = characters.slice(reached, token.end).join("");
      pieces.push({ text: piece, score: scores[index], forced: index >= tokens.length - forced });
      reached = token.end;
    } else if (token.end > token.start && pieces.length > 0) {
      pieces.at(-1).score += scores[index];
    }
  });
  return pieces;
}

const NAMED = 3; // words that an answer names for each side
const SMALL = 0.05; // the part of the strongest word's score below which a word is not named

/** The answer in sentences: what attention and the MLPs made, and the words that speak for the target and against it. */
function answer(explanation) {
  const measure = measureOf(explanation);
  const words = wordColumns(explanation).map((column) => ({ text: column.text, score: sumOver(column, explanation.scores) }));
  const least = SMALL * Math.max(...words.map((word) => Math.abs(word.score)));
  const strongest = (sign) =>
    words
      .filter((word) => sign * word.score > least)
      .sort((one, two) => sign * (two.score - one.score))
      .slice(0, NAMED);
  const side = (name, found) => (found.length > 0 ? [element("span", {}, ...name, ": ", ...namedWords(found, 2, measure))] : []);
  const [raised, lowered] = measure.adds_up ? towards(explanation) : [["highest scores"], ["lowest"]];
  const sides = [...side(raised, strongest(1)), ...side(lowered, strongest(-1))].flatMap((each, index) => [index > 0 ? "; " : "", each]);
  const split = measure.adds_up ? decision(explanation) : [];
  const said = element("p", { class: "answer" }, ...split);
  if (sides.length === 0) return said;
  if (measure.adds_up) said.append(split.length > 0 ? " " : "", addsUpToAll(measure) ? "By token, " : "By token, attention ");
  else if (sides[1].firstChild) sides[1].firstChild.data = capitalise(sides[1].firstChild.data);
  said.append(...sides, ` (${measure.unit}).`);
  return said;
}

/** Words with their numbers, in a row; `digits` decimals. */
function namedWords(found, digits, { contrastive } = { contrastive: true }) {
  const number = contrastive ? signed : plain;
  return found.flatMap(({ text, score }, index) => [index > 0 ? ", " : "", quotedWord(text), ` ${number(score, digits)}`]);
}

/** What raises and what lowers is for: the target, and the foil. */
function towards({ target, foils }) {
  const against = foils.length === 1 ? ["towards ", quotedWord(foils[0].text)] : [foils.length > 1 ? "towards the others" : "away from it"];
  return [["towards ", quotedWord(target.text)], against];
}

const SLIGHT = 0.1; // the part of the total up to which embedding and biases are not named

/** What attention, the MLPs and the rest make together; and who decides, where attention speaks against the outcome. */
function decision({ target, foils, ledger }) {
  const [attention, mlps] = [total(ledger.attention), total(ledger.mlp)];
  const rest = ledger.total - attention - mlps;
  if (attention === 0 && mlps === 0) return [];
  const against = (one, other) => one * other < 0;
  if (against(attention, ledger.total) && against(attention, mlps) && !against(attention + mlps, ledger.total)) {
    const speaks = (number) => {
      if (number > 0) return ["for ", quotedWord(target.text)];
      return foils.length === 1 ? ["for ", quotedWord(foils[0].text)] : [foils.length > 1 ? "for the others" : "against it"];
    };
    const [one, other] = [speaks(attention), speaks(mlps)];
    return ["Attention speaks ", ...one, ` (${signed(attention, 2)}), the MLPs `, ...other, ` (${signed(mlps, 2)}): the MLPs decide.`];
  }
  const [most, all] = [Math.abs(rest) <= SLIGHT * Math.abs(ledger.total), signed(ledger.total, 2)];
  return most
    ? [`Attention ${signed(attention, 2)} and MLPs ${signed(mlps, 2)} make most of ${all}.`]
    : [`Attention ${signed(attention, 2)}, MLPs ${signed(mlps, 2)}, embedding and biases ${signed(rest, 2)} make ${all}.`];
}

function quotedWord(text) {
  return element("q", {}, visibleText(trimmed(text), /\S/.test(text) ? LINE : TOKEN)); // spaces alone are marked
}

// ---------------------------------------------------------------- the prediction

function prediction(explanation) {
  const { target, foils } = explanation;
  const body = element("tbody", {}, choiceRow("target", target), ...foils.map((foil) => choiceRow("foil", foil)));
  if (foils.length > 1) {
    const mean = total(foils.map((foil) => foil.logit)) / foils.length;
    body.append(resultRow("mean of the foils’ logits", plain(mean, 3)));
  }
  const columns = ["", "token", "probability", "logit", ...(isCapped(target) ? ["capped"] : [])];
  const head = element("tr", {}, ...columns.map((name) => heading(name, "col")));
  const table = element("table", { class: "figures" }, element("thead", {}, head), body);
  if (foils.length > 0) {
    table.append(element("tfoot", {}, resultRow("logit difference", signed(explanation.ledger.logit, 3))));
  }
  return section("Prediction", "prediction", scroller(table));
}

function choiceRow(role, choice) {
  const id = choice.id === null ? "several tokens" : `token id ${choice.id}`;
  return element(
    "tr",
    { class: role },
    heading(role, "row"),
    element("td", { class: "token", title: id }, visibleText(choice.text)),
    element("td", {}, percent(choice.probability)),
    element("td", {}, plain(choice.logit, 3)),
    ...(isCapped(choice) ? [element("td", {}, plain(choice.capped, 3))] : []),
  );
}

/** Whether the model caps its logits: what is explained is the logit before. */
function isCapped(choice) {
  return typeof choice.capped === "number";
}

function resultRow(name, number) {
  return element("tr", {}, element("th", { scope: "row", colspan: "3" }, name), element("td", {}, number));
}

// ---------------------------------------------------------------- the ledger

function ledger(explanation) {
  const entries = ledgerEntries(explanation.ledger);
  const steps = waterfall(entries.map((entry) => entry.value));
  const result = { name: "total", value: explanation.ledger.total };
  const scaled = scaleSteps([...steps, { from: 0, to: result.value }]);
  const rows = [...entries, result].map((entry, index) => ledgerRow(entry, scaled.steps[index]));
  const total = rows.pop();
  const table = element(
    "table",
    { class: "ledger figures" },
    element("tbody", {}, ...rows),
    element("tfoot", {}, total),
  );
  table.style.setProperty("--zero", scaled.zero);
  return section(
    "What adds up to it",
    "ledger-section",
    table,
    proof(explanation),
    byBlock(explanation.ledger),
  );
}

/** The entries that add up, those of all blocks in one. */
function ledgerEntries(ledger) {
  const source = ledger.cross_attention
    ? [
        { name: "source (cross-attention)", value: total(ledger.cross_attention) },
        { name: "cross-attention bias", value: total(ledger.cross_attention_bias) },
      ]
    : [];
  return [
    { name: "embedding", value: ledger.embedding },
    ...source,
    { name: ledger.cross_attention ? "prefix (self-attention)" : "attention", value: total(ledger.attention) },
    { name: "attention bias", value: total(ledger.attention_bias) },
    { name: "MLPs", value: total(ledger.mlp) },
    { name: "norm bias", value: ledger.norm_bias },
    { name: "unembedding bias", value: ledger.unembedding_bias },
  ];
}

/** Each value starts where the one before it ended. */
function waterfall(values) {
  let reached = 0;
  return values.map((value) => ({ from: reached, to: (reached += value) }));
}

/** Bring steps and zero to the range 0 to 1. */
function scaleSteps(steps) {
  const ends = [0, ...steps.flatMap((step) => [step.from, step.to])];
  const low = Math.min(...ends);
  const range = Math.max(...ends) - low || 1;
  const place = (value) => (value - low) / range;
  return { zero: place(0), steps: steps.map(({ from, to }) => ({ from: place(from), to: place(to) })) };
}

function ledgerRow({ name, value }, { from, to }) {
  const bar = element("span", { class: value < 0 ? "bar lowers" : "bar raises" });
  const joint = element("span", { class: "joint" });
  const track = element("td", { class: "track", "aria-hidden": "true" }, bar, joint);
  track.style.setProperty("--left", Math.min(from, to));
  track.style.setProperty("--width", Math.abs(to - from));
  track.style.setProperty("--to", to);
  return element("tr", {}, heading(name, "row"), element("td", { class: "amount" }, signed(value, 3)), track);
}

/** The proof that every document carries. */
function proof(explanation) {
  const { total, logit, error } = explanation.ledger;
  return element(
    "p",
    { class: "proof" },
    `total ${plain(total, 6)}, model’s own ${quantity(explanation)} ${plain(logit, 6)}: off by ${exponent(Math.abs(total - logit))}, `,
    element("span", { title: "relative error: |total − logit| ÷ sum of absolute entries" }, `which is ${exponent(error)} of the size of all entries`),
  );
}

function byBlock(ledger) {
  const columns = [
    ...(ledger.cross_attention
      ? [
          { name: "cross-attention", values: ledger.cross_attention },
          { name: "cross-attention bias", values: ledger.cross_attention_bias },
        ]
      : []),
    { name: "attention", values: ledger.attention },
    { name: "attention bias", values: ledger.attention_bias },
    { name: "MLP", values: ledger.mlp },
  ];
  const scale = makeScale(columns.flatMap((column) => column.values));
  const rows = ledger.attention.map((_, block) =>
    element(
      "tr",
      {},
      heading(String(block + 1), "row"),
      ...columns.map(({ values }) => paint(element("td", {}, signed(values[block], 3)), values[block], scale)),
    ),
  );
  const head = element("tr", {}, heading("block", "col"), ...columns.map(({ name }) => heading(name, "col")));
  const body = element("tbody", {}, ...rows.reverse());
  const table = element("table", { class: "figures" }, element("thead", {}, head), body);
  return element("details", {}, element("summary", {}, "Attention and MLPs by block"), table);
}

// ---------------------------------------------------------------- the heat map

const TOUCH = matchMedia("(hover: none)").matches;
const HINT = TOUCH
  ? "Tap a cell to read it and to open its block’s heads; tap again to close them."
  : "Point at a cell or move with the arrow keys to read it; click or press Enter to open a block’s heads.";
const PLAIN_HINT = TOUCH ? "Tap a cell to read it." : "Point at a cell or move with the arrow keys to read it.";

const MOST_ROWS = 40; // up to here the page scrolls, not a box of its own: nobody should miss the last rows

/** Blocks × tokens with the sum below, in a table that is walked like a grid. */
function heatMap(explanation, id) {
  const scale = scaleOf(explanation, explanation.by_block.flat());
  const table = element("table", { class: "heat", role: "grid", "aria-label": "Attribution by block and token" });
  const measure = measureOf(explanation);
  const hint = measure.by_block ? HINT : PLAIN_HINT;
  const few = explanation.by_block.length <= MOST_ROWS;
  const readout = element("p", { class: "readout", id: `${id}-readout` }, hint);
  const map = { explanation, measure, hint, scale, table, readout, open: new Set(), columns: [], rows: new WeakMap(), current: null };
  const choose = unitSwitch((unit) => drawHeatMap(map, unit));
  drawHeatMap(map, "tokens");
  listen(map);
  return section(
    measure.by_block ? "Block by block" : "Token by token",
    "map",
    element("p", { class: "lead" }, coverage(explanation)),
    element("div", { class: "controls" }, choose, legend(scale, explanation, measure.by_block)),
    element("div", { class: "instrument" }, watchEdges(element("div", { class: few ? "heat-scroll whole" : "heat-scroll" }, table)), readout),
  );
}

/** How much of the logit the heat map covers. */
function coverage(explanation) {
  const { scores, ledger } = explanation;
  const measure = measureOf(explanation);
  if (!measure.adds_up) {
    const blind = measure.contrastive ? "" : " They are the same for every target and foil.";
    return `Scores in ${measure.unit}: ${measure.summary}. They do not add up to the ${quantity(explanation)} of ${signed(ledger.logit, 3)}.${blind}`;
  }
  if (addsUpToAll(measure)) {
    return (
      `The scores of all tokens add up to ${signed(total(scores), 3)}; what biases add makes it the ` +
      `${quantity(explanation)} of ${signed(ledger.logit, 3)}.`
    );
  }
  return (
    `The scores of all tokens add up to ${signed(total(scores), 3)}, attention’s part of the ` +
    `${quantity(explanation)} of ${signed(ledger.logit, 3)}. The other entries are not traced to tokens.`
  );
}

/** Two buttons: columns are tokens, or words; the first is pressed. */
function unitSwitch(choose, units = ["tokens", "words"], name = "Columns") {
  const buttons = units.map((unit, index) =>
    element("button", { type: "button", "aria-pressed": String(index === 0) }, capitalise(unit)),
  );
  const press = (pressed) => {
    buttons.forEach((button) => button.setAttribute("aria-pressed", String(button === pressed)));
    choose(pressed.textContent.toLowerCase());
  };
  buttons.forEach((button) => button.addEventListener("click", () => press(button)));
  return element("div", { class: "switch", role: "group", "aria-label": name }, ...buttons);
}

/** The colours of a scale; `sums`: whether a row of sums has another one. */
function legend(scale, explanation, sums = false) {
  const limit = scale.limit.toPrecision(2);
  const measure = measureOf(explanation);
  if (scale.neutral) {
    return legendLine("0", "ramp grey", limit, `in ${measure.unit}; stronger ones have the same colour`);
  }
  if (!measure.adds_up) {
    return legendLine(`−${limit}`, "ramp", `+${limit}`, `in ${measure.unit}; stronger ones have the same colour`);
  }
  const rest = `the ${quantity(explanation)}; stronger ones have the same colour${sums ? "; the sum has its own scale" : ""}`;
  return legendLine(`lowers −${limit}`, "ramp", `+${limit} raises`, rest);
}

function legendLine(low, ramp, high, rest) {
  const colours = element("span", { class: ramp, "aria-hidden": "true" });
  return element("p", { class: "legend" }, element("span", {}, low), colours, element("span", {}, high), element("span", {}, rest));
}

/** Fill the table for a unit of columns, with the blocks that are open. */
function drawHeatMap(map, unit) {
  const { explanation, table } = map;
  map.columns = unit === "words" ? wordColumns(explanation) : tokenColumns(explanation);
  if (!map.measure.by_block) {
    const scores = { kind: "sum", label: "score", name: "score", values: explanation.scores, scale: map.scale };
    const head = headerRow(map.columns);
    head.cells[0].textContent = "";
    head.lastChild.textContent = "unit";
    const row = drawRow(map, scores);
    row.lastChild.textContent = map.measure.unit;
    table.replaceChildren(element("thead", {}, head), element("tbody", {}, row));
    makeCurrent(map, table.tBodies[0].rows[0].cells[0]);
    return;
  }
  const blocks = explanation.by_block.map((values, block) => {
    const names = { label: String(block + 1), name: `block ${block + 1}` };
    return drawRow(map, { kind: "block", block, ...names, values, scale: map.scale });
  });
  const sums = { kind: "sum", label: "sum", name: "sum of all blocks", values: explanation.scores };
  const sumScale = makeScale(map.columns.map((column) => sumOver(column, explanation.scores)));
  table.replaceChildren(
    element("thead", {}, headerRow(map.columns)),
    element("tbody", {}, ...[...blocks].reverse()),
    element("tfoot", {}, drawRow(map, { ...sums, scale: { ...sumScale, digits: map.scale.digits } })),
  );
  const open = [...map.open];
  map.open.clear();
  open.forEach((block) => toggleHeads(map, blocks[block]));
  makeCurrent(map, table.tBodies[0].rows[0].cells[0]);
}

function headerRow(columns) {
  const cells = columns.map((column) =>
    element(
      "th",
      { scope: "col", class: column.tags.join(" ") },
      element("span", { class: "token" }, visibleText(column.text)),
      element("span", { class: "index" }, column.place),
      ...column.tags.map((tag) => element("span", { class: "tag" }, tag)),
    ),
  );
  return element("tr", {}, heading("block", "col"), ...cells, heading("sum", "col"));
}

/** One row of numbers; what it stands for is kept for the readout. */
function drawRow(map, row) {
  const numbers = map.columns.map((column) => sumOver(column, row.values));
  const cells = numbers.map((number) => paint(element("td", {}, shown(number, row.scale)), number, row.scale));
  const head = heading(row.label, "row");
  if (row.kind === "block") head.setAttribute("aria-expanded", "false");
  const sum = element("td", { class: "row-sum" }, signed(total(row.values), row.scale.digits));
  const drawn = element("tr", { class: row.kind }, head, ...cells, sum);
  map.rows.set(drawn, { ...row, numbers });
  return drawn;
}

/** Open or close the heads of the block that a row shows. */
function toggleHeads(map, drawn) {
  const { block } = map.rows.get(drawn);
  const opened = !map.open.delete(block);
  drawn.cells[0].setAttribute("aria-expanded", String(opened));
  if (opened) {
    map.open.add(block);
    drawn.after(...headRows(map, block));
  } else {
    while (["head", "heads-note"].includes(drawn.nextElementSibling?.className)) drawn.nextElementSibling.remove();
  }
}

function headRows(map, block) {
  const heads = map.explanation.by_head[block];
  const scale = makeScale(heads.flat());
  const mixed =
    map.explanation.method === "alti-logit"
      ? "A head reads positions; alti-logit then passes what it read back to the words that flowed into them"
      : "A head reads positions";
  const text = `Block ${block + 1} by head. ${mixed}. Scale of its own, ±${scale.limit.toPrecision(2)}.`;
  const note = element("td", { colspan: String(map.columns.length + 2) }, element("span", {}, text));
  const rows = heads.map((values, head) => {
    const name = `block ${block + 1}, head ${head + 1}`;
    return drawRow(map, { kind: "head", block, label: `${block + 1}.${head + 1}`, name, values, scale });
  });
  return [element("tr", { class: "heads-note" }, note), ...rows];
}

// ---------------------------------------------------------------- heads

const READ = 4; // positions that are named for a head

/** Blocks × heads: what every head adds, all tokens together; a head that is chosen says what it reads. */
function headMap(explanation) {
  const sums = explanation.by_head.map((heads) => heads.map(total));
  const scale = makeScale(sums.flat());
  const said = element("div", { class: "head-tokens", "aria-live": "polite" }, "Choose a head to see what it reads.");
  const table = headTable(sums, (block, head) => said.replaceChildren(...describeHead(explanation, block, head)));
  const lead = "What every head adds, before mixing, all tokens together. Blocks and heads are counted from 1.";
  const colours = legend(scale, { ...explanation, measure: undefined });
  return section(
    "Head by head",
    "heads",
    element("p", { class: "lead" }, lead),
    element("div", { class: "controls" }, colours),
    element("div", { class: "instrument" }, scroller(table), said),
  );
}

/** What a head adds by reading which positions: the strongest with their numbers, and all of them tinted. */
function describeHead({ by_head: byHead, tokens }, block, head) {
  const values = byHead[block][head];
  const scale = makeScale(values);
  const pieces = tokens.flatMap((token, index) => {
    const text = element("span", { class: "piece", title: signed(values[index], 4) }, visibleText(token.text));
    return [paint(text, values[index], scale), " "];
  });
  const strongest = tokens
    .map(({ text }, index) => ({ text, score: values[index] }))
    .sort((one, two) => Math.abs(two.score) - Math.abs(one.score))
    .slice(0, READ)
    .filter(({ score }) => Number(score.toFixed(3)) !== 0);
  const named = strongest.length > 0 ? [" by reading: ", ...namedWords(strongest, 3)] : [];
  const rest = tokens.length > strongest.length && strongest.length > 0 ? " …" : "";
  const name = element("strong", {}, `Block ${block + 1}, head ${head + 1}`);
  return [
    element("p", {}, name, ` adds ${signed(total(values), 3)}`, ...named, rest),
    element("p", { class: "head-pieces", tabindex: "0", role: "group", "aria-label": "All that it reads" }, ...pieces),
  ];
}

/** The table of blocks × heads; `choose(block, head)` is called for the head that is clicked. */
function headTable(sums, choose) {
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
  const head = element("tr", {}, heading("block", "col"), ...names);
  const table = element("table", { class: "figures by-head" }, element("thead", {}, head), element("tbody", {}, ...rows.reverse()));
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
    if (!from || !(event.key in STEPS) || event.ctrlKey || event.metaKey || event.altKey) return;
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

// ---------------------------------------------------------------- the full account

/** Every logit except biases on a token: attention, MLPs and the embedding. */
function fullAccount({ tokens, account }) {
  const scale = makeScale(account.scores);
  const names = ["attention", "mlp", "embedding", "scores"];
  const rows = tokens.map((token, index) => {
    const cells = names.map((name) => element("td", {}, signed(account[name][index], 3)));
    paint(cells.at(-1), account.scores[index], scale);
    return element("tr", {}, element("th", { scope: "row", class: "token" }, visibleText(token.text)), ...cells);
  });
  const head = ["token", "attention", "MLPs", "embedding", "all"].map((name) => heading(name, "col"));
  const table = element("table", { class: "figures ranking" }, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
  const lead = `${capitalise(account.note)}. All tokens ${signed(total(account.scores), 3)} and biases ${signed(account.biases, 3)} make ${signed(account.logit, 3)}.`;
  return section("The full account", "account", element("p", { class: "lead" }, lead), scroller(table));
}

// ---------------------------------------------------------------- neurons

/** The neurons of one prediction: the strongest, and all of a block by their index. */
function renderNeurons(found, id) {
  const scale = makeScale(found.named.map((each) => each.update));
  const rows = found.named.map((each) =>
    element(
      "tr",
      {},
      heading(each.label, "row"),
      paint(element("td", {}, signed(each.update, 3)), each.update, scale),
      activationCell(each),
      ...[each.promotes, each.suppresses].map((texts) => element("td", { class: "token" }, ...listed(texts))),
    ),
  );
  const names = ["neuron", "update", "activation", "its value vector promotes", "and suppresses"];
  const head = element("tr", {}, ...names.map((name) => heading(name, "col")));
  [...head.cells].slice(3).forEach((cell) => cell.classList.add("of-tokens"));
  const table = element("table", { class: "figures ranking" }, element("thead", {}, head), element("tbody", {}, ...rows));
  const count = total(found.blocks.map((block) => block.update.length)).toLocaleString("en");
  const panels = [{ name: "update", blocks: found.blocks.map((block) => block.update) }];
  return [
    element(
      "header",
      {},
      element("h1", {}, question(found)),
      element("p", { class: "subtitle" }, element("bdi", { class: "model" }, found.model), ` · ${count} MLP neurons`, ...preference(found)),
    ),
    element("div", { class: "overview" }, prediction(found), ledger(found)),
    section("Neurons", "neurons", ...reversedLead(found.named), scroller(table)),
    byIndex(panels, found.named[0]?.block ?? 0, id),
    notes(found),
  ];
}

const REVERSED = "Reversed: the activation is negative, so that here it lowers what its value vector promotes and raises what that suppresses.";

function isReversed({ activation, gate }) {
  return activation * gate < 0;
}

function activationCell(neuron) {
  const number = signed(neuron.activation * neuron.gate, 2);
  return isReversed(neuron) ? element("td", { title: REVERSED }, element("span", { class: "tag" }, "reversed"), ` ${number}`) : element("td", {}, number);
}

function reversedLead(named) {
  return named.some(isReversed) ? [element("p", { class: "lead" }, REVERSED)] : [];
}

/** Means over a dataset: a ranking, and all heads, or all neurons of a block. */
function renderSurvey(found, id) {
  const { groups, part } = found;
  const scale = makeScale(found.ranked.flatMap((each) => Object.values(each.mean)));
  const rows = found.ranked.map((each) => {
    const cells = groups.map(({ name }) => paint(element("td", {}, signed(each.mean[name], 3)), each.mean[name], scale));
    return element("tr", {}, heading(each.label, "row"), ...cells);
  });
  const names = groups.map((group) => heading(`${group.name} (${group.examples})`, "col"));
  const head = element("tr", {}, heading(part.slice(0, -1), "col"), ...names);
  const table = element("table", { class: "figures ranking" }, element("thead", {}, head), element("tbody", {}, ...rows));
  const data = found.data.map(([name]) => name).join(", ");
  const rest =
    part === "heads"
      ? groups.map((group) => section(group.name, "heads", scroller(headTable(group.update, null))))
      : [byIndex(groups.map((group) => ({ name: group.name, blocks: group.update })), found.ranked[0].block, id)];
  return [
    element(
      "header",
      {},
      element("h1", {}, `Which ${part} decide?`),
      element("p", { class: "subtitle" }, element("bdi", { class: "model" }, found.model), ` · mean over ${found.examples} examples of ${data}`),
    ),
    section("Ranked", "neurons", scroller(table)),
    ...rest,
    notes(found),
  ];
}

function listed(texts) {
  return texts.slice(0, 4).flatMap((text, index) => [index > 0 ? " " : "", visibleText(trimmed(text))]);
}

/** What every neuron of the chosen block adds, over its index: one panel for each group. */
function byIndex(panels, first, id) {
  const options = panels[0].blocks.map((_, block) => element("option", { value: String(block) }, `block ${block + 1}`));
  const select = element("select", { id: `${id}-block` }, ...options.reverse());
  const drawn = element("div", { class: "panels" });
  const draw = () => drawn.replaceChildren(...panels.map((panel) => scatter(panel, Number(select.value), panels)));
  select.value = String(first);
  select.addEventListener("change", draw);
  draw();
  const choice = element("p", { class: "controls" }, element("label", { for: `${id}-block` }, "Neurons of "), select);
  return section("Neuron by neuron", "by-index", choice, drawn);
}

/** A panel: every neuron is a point, the strongest have their index beside them. */
function scatter({ name, blocks }, block, panels) {
  const values = blocks[block];
  const largest = Math.max(...panels.flatMap((panel) => panel.blocks[block].map(Math.abs))) || 1;
  const at = (kind, index, ...children) => {
    const put = element("span", { class: `${kind} ${values[index] < 0 ? "lowers" : "raises"}` }, ...children);
    put.style.setProperty("--across", (index / Math.max(1, values.length - 1)).toFixed(4));
    put.style.setProperty("--down", (0.5 - (0.42 * values[index]) / largest).toFixed(4));
    return put;
  };
  const ranked = [...values.keys()].sort((one, two) => Math.abs(values[two]) - Math.abs(values[one])).slice(0, 6);
  const named = ranked.filter((index) => Math.abs(values[index]) > 0.3 * largest);
  const label = `${name}: ${values.length} neurons of block ${block + 1}, up to ±${largest.toPrecision(2)}`;
  const points = values.map((_, index) => at("point", index));
  const panel = element("div", { class: "panel", role: "img", "aria-label": label }, ...points);
  panel.append(...named.map((index) => at("name", index, String(index))));
  return element("figure", {}, panel, element("figcaption", {}, label));
}

// ---------------------------------------------------------------- columns

function tokenColumns({ tokens, forced }) {
  return tokens.map((token, index) =>
    makeColumn([index], token.text, String(index + 1), token.special, index >= tokens.length - forced),
  );
}

/** Tokens that share a word make one column, which shows the text they cover. */
function wordColumns({ text, tokens, forced }) {
  const characters = Array.from(text); // offsets count code points
  const words = new Map();
  tokens.forEach((token, index) => words.set(token.word, [...(words.get(token.word) ?? []), index]));
  return [...words.values()].map((members) => {
    const own = members.map((index) => tokens[index]);
    const covered = characters.slice(own[0].start, Math.max(...own.map((token) => token.end))).join("");
    const [first, last] = [members[0] + 1, members.at(-1) + 1];
    return makeColumn(
      members,
      own[0].special ? own[0].text : covered.trim() || covered,
      first === last ? String(first) : `${first}–${last}`,
      own[0].special,
      members.some((index) => index >= tokens.length - forced),
    );
  });
}

function makeColumn(members, text, place, special, forced) {
  const tags = [special && "special", forced && "forced"].filter(Boolean);
  return { members, text, place, tags };
}

function sumOver(column, values) {
  return total(column.members.map((index) => values[index]));
}

// ---------------------------------------------------------------- reading and walking the heat map

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

function listen(map) {
  const { table } = map;
  const cellOf = (event) => event.target.closest("th, td");
  table.addEventListener("pointerover", (event) => readCell(map, cellOf(event)));
  table.addEventListener("pointerleave", () => {
    readCell(map, table.contains(document.activeElement) ? map.current : null);
  });
  table.addEventListener("focusin", (event) => readCell(map, cellOf(event)));
  table.addEventListener("click", (event) => {
    const cell = cellOf(event);
    if (!cell) return;
    if (map.rows.has(cell.parentElement)) moveTo(map, cell);
    activate(map, cell);
  });
  table.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (pressKey(map, map.current, event.key)) event.preventDefault();
  });
}

/** Do what a key means for a cell; say whether it means anything. */
function pressKey(map, cell, key) {
  if (key in STEPS) moveTo(map, neighbour(map, cell, ...STEPS[key]));
  else if (key === "Home") moveTo(map, cell.parentElement.cells[0]);
  else if (key === "End") moveTo(map, cell.parentElement.cells[map.columns.length]);
  else if (key === "Enter" || key === " ") activate(map, cell);
  else if (key === "Escape") closeAround(map, cell);
  else return false;
  return true;
}

/** The cell some steps away, passing over rows without numbers; the cell itself at an edge. */
function neighbour({ table }, cell, down, right) {
  let row = cell.parentElement.rowIndex;
  do row += down;
  while (table.rows[row]?.className === "heads-note");
  return table.rows[row]?.cells[cell.cellIndex + right] ?? cell;
}

function activate(map, cell) {
  const row = cell.parentElement;
  if (map.rows.get(row)?.kind === "block") toggleHeads(map, row);
}

/** Close the heads that a cell belongs to, and go back to their block. */
function closeAround(map, cell) {
  const row = cell.parentElement;
  const { block } = map.rows.get(row) ?? {};
  if (!map.open.has(block)) return;
  let own = row;
  while (map.rows.get(own)?.kind !== "block") own = own.previousElementSibling;
  toggleHeads(map, own);
  moveTo(map, own.cells[cell.cellIndex]);
}

/** One cell of the table can be tabbed to; arrow keys change which. */
function makeCurrent(map, cell) {
  map.current?.removeAttribute("tabindex");
  cell.setAttribute("tabindex", "0");
  cell.setAttribute("aria-describedby", map.readout.id);
  map.current = cell;
}

function moveTo(map, cell) {
  makeCurrent(map, cell);
  cell.focus();
}

/** Say in full what a cell shows, and light its headings. */
function readCell(map, cell) {
  for (const lit of map.table.querySelectorAll(".lit")) lit.classList.remove("lit");
  if (!cell || cell.hasAttribute("colspan")) {
    map.readout.replaceChildren(map.hint);
    return;
  }
  const heads = map.table.rows[0].cells;
  heads[cell.cellIndex].classList.add("lit");
  cell.parentElement.cells[0].classList.add("lit");
  map.readout.replaceChildren(...describe(map, cell));
}

function describe(map, cell) {
  const row = map.rows.get(cell.parentElement);
  const column = map.columns[cell.cellIndex - 1];
  const place = row?.kind === "head" ? "position" : "token"; // what a head reads is no longer the token alone
  if (!row) return column ? describeColumn(map, column, place) : [map.hint];
  if (!column && !map.measure.adds_up) return [`${capitalise(row.name)}, in ${map.measure.unit}: ${map.measure.summary}`];
  if (cell.cellIndex === 0) return [`${capitalise(row.name)}: `, amount(map, total(row.values)), ` over all ${place}s`];
  if (!column) return [`${capitalise(row.name)}, all ${place}s: `, amount(map, total(row.values))];
  const number = row.numbers[cell.cellIndex - 1];
  return [`${capitalise(row.name)}, `, ...describeColumn(map, column, place), ": ", amount(map, number)];
}

function describeColumn({ explanation }, { text, members, place, tags }, kind) {
  const ids = members.map((index) => explanation.tokens[index].id).join(" ");
  const details = [`${kind}${members.length > 1 ? "s" : ""} ${place}`, `id ${ids}`, ...tags].join(", ");
  return [element("q", {}, visibleText(text)), ` (${details})`];
}

function amount({ explanation, measure }, number) {
  if (!measure.adds_up) return element("strong", {}, `${(measure.contrastive ? signed : plain)(number, 5)} (${measure.unit})`);
  const effect = number < 0 ? "lowers" : "raises";
  const text = number === 0 ? "0" : `${signed(number, 5)} ${effect} the ${quantity(explanation)}`;
  return element("strong", {}, text);
}

// ---------------------------------------------------------------- numbers and colours

const SATURATED = 0.98; // the share of numbers below the end of a colour scale: one outlier should not pale the rest
const STRONG = 0.77; // from here on the text on a colour is inverted (in light colours; see report.css)

/** The end of a colour scale that is symmetric around 0, and how many decimals its numbers need. */
function makeScale(values) {
  const sizes = values.map(Math.abs).sort((one, two) => one - two);
  const limit = sizes[Math.ceil(SATURATED * sizes.length) - 1] || sizes.at(-1) || 1;
  const order = Math.floor(Math.log10(limit));
  return { limit, digits: Math.min(6, Math.max(0, (order < 0 ? 1 : 2) - order)) };
}

/** The scale of a document's scores: grey, where they are the same for every target and neither raise nor lower it. */
function scaleOf(explanation, values) {
  return { ...makeScale(values), neutral: !measureOf(explanation).contrastive };
}

/** A number as its scale has it. */
function shown(number, { digits, neutral }) {
  return neutral ? plain(number, digits) : signed(number, digits);
}

/** Colour an element by a number; gives the element. */
function paint(painted, number, scale) {
  const strength = Math.min(1, Math.abs(number) / scale.limit);
  painted.classList.add(scale.neutral ? "neutral" : number < 0 ? "lowers" : "raises");
  painted.classList.toggle("strong", strength > STRONG);
  painted.classList.toggle("faint", Number(number.toFixed(scale.digits)) === 0);
  painted.style.setProperty("--strength", strength.toFixed(3));
  return painted;
}

function total(values) {
  return values.reduce((sum, value) => sum + value, 0);
}

/** A number with its sign, and a minus as wide as a plus; no sign where nothing but zeros is shown. */
function signed(number, digits) {
  const shown = plain(number, digits);
  return number > 0 && Number(number.toFixed(digits)) !== 0 ? `+${shown}` : shown;
}

function plain(number, digits) {
  const size = Math.abs(number).toFixed(digits);
  return number < 0 && Number(size) !== 0 ? `−${size}` : size;
}

function percent(probability) {
  const share = 100 * probability;
  const shown = share >= 10 ? share.toFixed(1) : share.toPrecision(2);
  return `${shown.replace("e-", "e−")} %`;
}

function exponent(number) {
  return number === 0 ? "0" : number.toExponential(0).replace("e-", "e−");
}

// ---------------------------------------------------------------- text and elements

// What is replaced by a visible mark: everything invisible, what changes direction, and then, for prose, for one line
// and for a token, more and more of the spaces.
const UNSEEN = "\\p{Cs}\\p{Co}\\p{Cn}\\p{Zl}\\p{Zp}\\p{Bidi_Control}\\u00ad\\u200b\\u2060\\ufeff";
const PROSE = new RegExp(`([${UNSEEN}]|(?![\\n\\t])\\p{Cc})`, "u");
const LINE = new RegExp(`([${UNSEEN}\\p{Cc}])`, "u");
const TOKEN = new RegExp(`([${UNSEEN}\\p{Cc}\\p{Zs}])`, "u");
const MARKS = { " ": "␣", "\n": "⏎", "\t": "⇥", "\u007f": "␡" };

/** Text in a direction of its own, with marks for what cannot be seen. */
function visibleText(text, replaced = TOKEN) {
  const parts = text === "" ? [element("span", { class: "mark" }, "∅")] : visibleParts(text, replaced);
  return element("bdi", { dir: "auto" }, ...parts);
}

/** Text without the spaces that belong to its token; spaces alone stay. */
function trimmed(text) {
  return text.replace(/^ +| +$/g, "") || text;
}

function visibleParts(text, replaced) {
  const parts = text.split(replaced); // every second one is what was found
  return parts.map((part, index) => (index % 2 === 1 ? element("span", { class: "mark" }, markOf(part)) : part));
}

function markOf(character) {
  const code = character.codePointAt(0);
  if (code < 0x20) return MARKS[character] ?? String.fromCodePoint(0x2400 + code); // the control pictures of Unicode
  return MARKS[character] ?? `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

function capitalise(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Make an element; children are elements or text. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function heading(text, scope) {
  return text === "" ? element("td") : element("th", { scope }, text);
}

function section(title, name, ...children) {
  return element("section", { class: name }, element("h2", {}, title), ...children);
}

/** A table that is too wide scrolls, instead of the page. */
function scroller(table) {
  return watchEdges(element("div", { class: "scroll" }, table));
}

/** Mark a box whose content goes on to the right or below; gives the box. */
function watchEdges(box) {
  const look = () => {
    box.classList.toggle("more-right", box.scrollLeft + box.clientWidth < box.scrollWidth - 2);
    box.classList.toggle("more-below", box.scrollTop + box.clientHeight < box.scrollHeight - 2);
  };
  const sizes = new ResizeObserver(look); // after the layout, so that nothing is laid out twice
  [box, ...box.children].forEach((each) => sizes.observe(each));
  box.addEventListener("scroll", look, { passive: true });
  return box;
}

// ---------------------------------------------------------------- a saved page

{
  const saved = document.getElementById("documents");
  if (saved) renderReport(document.getElementById("report"), JSON.parse(saved.textContent));
}
