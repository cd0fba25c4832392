/*
 * Target and foils with their probabilities and logits, and the difference.
 */

import { element, heading, scroller, section, tableOf } from "./elements.js";
import { percent, plain, signed, total } from "./numbers.js";
import { visibleText } from "./visible_text.js";

export function predictionTable({ target, foils, ledger }) {
  const rows = [choiceRow("target", target), ...foils.map((foil) => choiceRow("foil", foil))];
  if (foils.length > 1) {
    rows.push(resultRow("mean of the foils’ logits", plain(total(foils.map((foil) => foil.logit)) / foils.length, 3)));
  }
  const columns = ["", "token", "probability", "logit", ...(isCapped(target) ? ["capped"] : [])];
  const table = tableOf("figures", element("tr", {}, ...columns.map((name) => heading(name, "col"))), rows);
  if (foils.length > 0) table.append(element("tfoot", {}, resultRow("logit difference", signed(ledger.logit, 3))));
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

/** Whether the model caps its logits: what is explained is the logit before the cap. */
function isCapped(choice) {
  return typeof choice.capped === "number";
}

function resultRow(name, number) {
  return element("tr", {}, element("th", { scope: "row", colspan: "3" }, name), element("td", {}, number));
}
