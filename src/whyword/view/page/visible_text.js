/*
 * Text of prompts and tokens, with visible marks for what cannot be seen.
 */

import { element } from "./elements.js";

// What is replaced by a mark: everything invisible, what changes direction, and then, for prose, for one line and for a
// token, more and more of the spaces.
const UNSEEN = "\\p{Cs}\\p{Co}\\p{Cn}\\p{Zl}\\p{Zp}\\p{Bidi_Control}\\u00ad\\u200b\\u2060\\ufeff";
const MARKS = { " ": "␣", "\n": "⏎", "\t": "⇥", "\u007f": "␡" };
export const PROSE = new RegExp(`([${UNSEEN}]|(?![\\n\\t])\\p{Cc})`, "u");
export const LINE = new RegExp(`([${UNSEEN}\\p{Cc}])`, "u");
export const TOKEN = new RegExp(`([${UNSEEN}\\p{Cc}\\p{Zs}])`, "u");

/** Text in a direction of its own, with marks for what cannot be seen. */
export function visibleText(text, replaced = TOKEN) {
  const parts = text === "" ? [element("span", { class: "mark" }, "∅")] : visibleParts(text, replaced);
  return element("bdi", { dir: "auto" }, ...parts);
}

/** Text without the spaces that belong to its token; spaces alone stay. */
export function trimmed(text) {
  return text.replace(/^ +| +$/g, "") || text;
}

/** A word in quotes; one of spaces alone has them marked. */
export function quotedWord(text) {
  return element("q", {}, visibleText(trimmed(text), /\S/.test(text) ? LINE : TOKEN));
}

export function visibleParts(text, replaced) {
  const parts = text.split(replaced); // every second one is what was found
  return parts.map((part, index) => (index % 2 === 1 ? element("span", { class: "mark" }, markOf(part)) : part));
}

function markOf(character) {
  const code = character.codePointAt(0);
  if (code < 0x20) return MARKS[character] ?? String.fromCodePoint(0x2400 + code); // the control pictures of Unicode
  return MARKS[character] ?? `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}
