/*
 * The columns of heat maps: tokens, or words of several tokens, and their headings.
 */

import { element, heading } from "./elements.js";
import { total } from "./numbers.js";
import { visibleText } from "./visible_text.js";

/** The names of tokens: their texts; the start of text is named so. */
export function tokenNames({ tokens, start }) {
  return tokens.map((token, index) => (index < (start?.tokens ?? 0) ? "start" : token.text));
}

export function tokenColumns(explanation) {
  const { tokens, forced } = explanation;
  return tokenNames(explanation).map((name, index) =>
    joinTokens([index], name, String(index + 1), tokens[index].special, index >= tokens.length - forced),
  );
}

/** Tokens that share a word make one column, which shows the text they cover. */
export function wordColumns({ text, tokens, forced, start }) {
  const characters = Array.from(text); // offsets count code points
  const words = new Map();
  tokens.forEach((token, index) => place(words, index < (start?.tokens ?? 0) ? "start" : token.word, index));
  return [...words].map(([word, members]) => {
    const own = members.map((index) => tokens[index]);
    const covered = characters.slice(own[0].start, Math.max(...own.map((token) => token.end))).join("");
    const [first, last] = [members[0] + 1, members.at(-1) + 1];
    return joinTokens(
      members,
      word === "start" ? word : own[0].special ? own[0].text : covered.trim() || covered,
      first === last ? String(first) : `${first}–${last}`,
      own[0].special,
      members.some((index) => index >= tokens.length - forced),
    );
  });
}

function place(words, word, index) {
  words.set(word, [...(words.get(word) ?? []), index]);
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
