/*
 * The likeliest next tokens, and for every candidate two buttons: explain it, contrast with it.
 */

import { element, heading, section } from "./elements.js";
import { percent, plain } from "./numbers.js";
import { RUNNER_UP, wantsRunnerUp } from "./state.js";
import { trimmed, visibleText } from "./visible_text.js";

const FEW = 5; // rows that a narrow window shows before "all"

/**
 * Draw candidates into `holder`. `asked`: target and foils; `foils`: those that the question names, null for none.
 * `choose(part, choice)` is called for a button.
 */
export function drawCandidates(holder, { choices, asked, foils, title, choose }) {
  const others = [asked.target, ...asked.foils].filter((other) => other && choices.every(({ id }) => id !== other.id));
  const most = Math.max(...choices.map((choice) => choice.probability));
  const rows = [...choices, ...others].map((choice) => candidateRow(choice, most, asked, choose));
  others.forEach((_, index) => rows[choices.length + index].classList.add("other"));
  const names = ["token", "probability", "why", "not"].map((name) => heading(name, "col"));
  const table = element(
    "table",
    { class: "figures candidates" },
    element("thead", {}, element("tr", {}, ...names)),
    element("tbody", {}, ...rows),
  );
  const lead = "“Why” explains a token, “not” compares with it.";
  holder.replaceChildren(
    section(title, "next", element("p", { class: "help" }, lead), rivalSwitch(foils, choose), table, ...allButton(table, choices.length)),
  );
}

/** The two foils that need no name: the best-ranked token of the target's kind, and the plain runner-up. */
function rivalSwitch(foils, choose) {
  const kinds = [
    ["Its best rival", foils === null, null, "The likeliest token of the same kind: a word against a word, a function word against a function word."],
    ["The runner-up", wantsRunnerUp({ foils }), [RUNNER_UP], "The likeliest other token, whatever it is."],
  ];
  const buttons = kinds.map(([name, pressed, chosen, title]) => {
    const button = element("button", { type: "button", title, "aria-pressed": String(pressed) }, name);
    button.addEventListener("click", () => choose("foils", chosen));
    return button;
  });
  return element("div", { class: "switch rivals", role: "group", "aria-label": "Compare with" }, ...buttons);
}

function candidateRow(choice, most, asked, choose) {
  const bar = element("span", { class: "chance-bar", "aria-hidden": "true" });
  bar.style.setProperty("--part", (choice.probability / most).toFixed(4));
  const explained = asked.target?.id === choice.id;
  const contrasted = asked.foils.some((foil) => foil.id === choice.id);
  const details = `token id ${choice.id}, logit ${plain(choice.logit, 3)}`;
  return element(
    "tr",
    { class: explained ? "target" : contrasted ? "foil" : "" },
    element("td", { class: "token", title: details }, visibleText(choice.text)),
    element("td", { class: "chance" }, bar, element("span", {}, percent(choice.probability))),
    element("td", {}, partButton("why", choice, explained, choose)),
    element("td", {}, partButton("not", choice, contrasted, choose)),
  );
}

function partButton(part, choice, pressed, choose) {
  const label = `${part} ${visibleText(trimmed(choice.text)).textContent}`;
  const button = element("button", { type: "button", class: `part ${part}`, "aria-pressed": String(pressed), "aria-label": label }, part);
  button.dataset.part = part;
  button.dataset.token = String(choice.id);
  button.addEventListener("click", () => choose(part, choice));
  return button;
}

/** A button, seen in narrow windows only, that shows the rows left out there. */
function allButton(table, count) {
  if (count <= FEW) return [];
  const button = element("button", { type: "button", class: "all", "aria-expanded": "false" }, `All ${count} candidates`);
  button.addEventListener("click", () => {
    table.classList.add("whole");
    button.hidden = true;
    table.rows[FEW + 1].querySelector("button").focus();
  });
  return [button];
}
