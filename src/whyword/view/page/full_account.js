/*
 * The full account: every logit except biases on a token; attention, MLPs and the embedding.
 */

import { makeScale, paint } from "./colour_scale.js";
import { element, heading, paragraph, scroller, section, tableOf } from "./elements.js";
import { signed } from "./numbers.js";
import { sentence, wordingOf } from "./sentences.js";
import { tokenNames } from "./token_columns.js";
import { visibleText } from "./visible_text.js";

const PARTS = ["attention", "mlp", "embedding", "scores"];

export function fullAccount(explanation) {
  const { account } = explanation;
  const scale = makeScale(account.scores);
  const rows = tokenNames(explanation).map((name, index) => {
    const cells = PARTS.map((name) => element("td", {}, signed(account[name][index], 3)));
    paint(cells.at(-1), account.scores[index], scale);
    return element("tr", {}, element("th", { scope: "row", class: "token" }, visibleText(name)), ...cells);
  });
  const head = ["token", "attention", "MLPs", "embedding", "all"].map((name) => heading(name, "col"));
  const table = tableOf("figures ranking", element("tr", {}, ...head), rows);
  return section("The full account", "account", ...paragraph("lead", ...sentence(wordingOf(explanation).account)), scroller(table));
}
