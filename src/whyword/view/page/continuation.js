/*
 * The report of a continuation: every generated token over what it could see, and the explanation of the chosen one below.
 */

import { legend, makeScale, paint } from "./colour_scale.js";
import { element, heading, paragraph, scroller, section, tableOf } from "./elements.js";
import { renderExplanation } from "./explanation.js";
import { reportHeader } from "./header_and_notes.js";
import { signed, total } from "./numbers.js";
import { sentence, wordingOf } from "./sentences.js";
import { headerRow, tokenColumns } from "./token_columns.js";
import { visibleText } from "./visible_text.js";

/** `first`: the token that is open at first. */
export function renderContinuation(continuation, id, _, first = 0) {
  const { explanations } = continuation;
  const start = Math.min(first, explanations.length - 1);
  const chosen = element("div", { class: "chosen", id: `${id}-chosen`, "aria-live": "polite" });
  const draw = (index) => chosen.replaceChildren(...renderExplanation(explanations[index], id));
  const show = (index) => {
    draw(index);
    chosen.dispatchEvent(new CustomEvent("tokenchosen", { bubbles: true, detail: index }));
  };
  draw(start);
  const scale = makeScale(explanations.flatMap((each) => each.scores));
  return [
    reportHeader(continuation),
    section(
      "Token by token",
      "triangle",
      ...paragraph("lead", ...sentence(wordingOf(continuation).lead)),
      ...paragraph("lead", ...sentence(wordingOf(continuation).sink)),
      element("div", { class: "controls" }, legend(scale, explanations[0])),
      scroller(triangle(explanations, scale, start, show)),
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
  const head = headerRow(columns, "token");
  if (contrasted) head.cells[0].after(heading("and not", "col"));
  return tableOf("heat", head, rows);
}
