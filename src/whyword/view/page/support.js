/*
 * The report of an answer by its sources: choose a sentence to see what every part of the prompt adds to it.
 */

import { makeScale, paint } from "./colour_scale.js";
import { element, heading, paragraph, scroller, section, tableOf } from "./elements.js";
import { reportHeader } from "./header_and_notes.js";
import { signed } from "./numbers.js";
import { partBar } from "./parts.js";
import { sentence, wordingOf } from "./sentences.js";
import { PROSE, visibleText } from "./visible_text.js";

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
    box.replaceChildren(...showParts(found, found.rows[index]));
  };
  choose(0);
  return [
    reportHeader(found),
    section("Answer", "support", ...paragraph("lead", ...sentence(lead)), ...paragraph("lead", ...sentence(flagged)), element("p", { class: "sentences" }, ...buttons)),
    box,
  ];
}

/** The parts of the prompt, the strongest first, for one sentence. */
function showParts({ columns }, row) {
  const scale = makeScale(row.scores);
  const order = columns.map((_, place) => place).sort((one, two) => row.scores[two] - row.scores[one]);
  const rows = order.map((place) => {
    const score = row.scores[place];
    return element(
      "tr",
      {},
      heading(columns[place].name, "row"),
      paint(element("td", {}, signed(score, scale.digits)), score, scale),
      element("td", {}, partBar(score, scale)),
      element("td", { class: "part-text" }, visibleText(columns[place].text, PROSE)),
    );
  });
  const head = element("tr", {}, ...["part", "score", "", "text"].map((name) => heading(name, "col")));
  const sum = `sum ${signed(row.logit, 2)}${row.bias === null ? "" : `, biases ${signed(row.bias, 2)}`}`;
  return [section(`${row.name}: ${sum}`, "parts", scroller(tableOf("figures ranking", head, rows)))];
}
