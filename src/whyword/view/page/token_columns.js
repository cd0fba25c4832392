/*
 * The columns of heat maps: tokens, or words of several tokens, and their headings.
 */

import { element, heading } from "./elements.js";
import { total } from "./numbers.js";
import { visibleText } from "./visible_text.js";

export function tokenColumns({ tokens, forced }) {
  return tokens.map((token, index) =>
    joinTokens([index], token.text, String(index + 1), token.special, index >= tokens.length - forced),
  );
}

/** Tokens that share a word make one column, which shows the text they cover. */
export function wordColumns({ text, tokens, forced }) {
  const characters = Array.from(text); // offsets count code points
  const words = new Map();
  tokens.forEach((token, index) => words.set(token.word, [...(words.get(token.word) ?? []), index]));
  return [...words.values()].map((members) => {
    const own = members.map((index) => tokens[index]);
    const covered = characters.slice(own[0].start, Math.max(...own.map((token) => token.end))).join("");
    const [first, last] = [members[0] + 1, members.at(-1) + 1];
    return joinTokens(
      members,
      own[0].special ? own[0].text : covered.trim() || covered,
      first === last ? String(first) : `${first}–${last}`,
      own[0].special,
      members.some((index) => index >= tokens.length - forced),
    );
  });
}

function joinTokens(members, text, place, special, forced) {
  const tags = [special && "special", forced && "forced"].filter(Boolean);
  return { members, text, place, tags };
}

export function sumOver(column, values) {
  return total(column.members.map((index) => values[index]));
}

/** The row of headings: `first` above the names of rows, the columns, `last` above their sums. */
export function headerRow(columns, first = "block", last = "sum") {
  const cells = columns.map((column) =>
    element(
      "th",
      { scope: "col", class: column.tags.join(" ") },
      element("span", { class: "token" }, visibleText(column.text)),
      element("span", { class: "index" }, column.place),
      ...column.tags.map((tag) => element("span", { class: "tag" }, tag)),
    ),
  );
  return element("tr", {}, element("th", { scope: "col" }, first), ...cells, heading(last, "col"));
}
