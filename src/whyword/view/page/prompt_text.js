/*
 * The prompt as running text, each piece tinted by its score, and the slot that is explained.
 */

import { paint, scaleOf, shown } from "./colour_scale.js";
import { element } from "./elements.js";
import { total } from "./numbers.js";
import { PROSE, TOKEN, visibleParts, visibleText } from "./visible_text.js";

export function promptText(explanation) {
  const scale = scaleOf(explanation, explanation.scores);
  const text = element("p", { class: "prompt", dir: "auto", tabindex: "0", role: "group", "aria-label": "Prompt" });
  const first = explanation.start?.tokens ?? 0;
  if (first > 0) {
    const score = total(explanation.scores.slice(0, first));
    const begun = element("span", { class: "piece start", title: shown(score, { ...scale, digits: 4 }) }, "start");
    text.append(paint(begun, score, scale), " ");
  }
  const pieces = promptPieces(explanation);
  for (const piece of pieces) {
    const part = element("span", { class: piece.forced ? "piece forced" : "piece", title: shown(piece.score, { ...scale, digits: 4 }) });
    part.append(...visibleParts(piece.text, PROSE)); // not isolated: words run on over pieces, from right to left too
    paint(part, piece.score, scale);
    text.append(part);
  }
  showStrongestPiece(text, pieces, first > 0 ? 1 : 0);
  const { text: target } = explanation.target;
  text.append(element("span", { class: "slot", title: "explained here" }, visibleText(target, /\S/.test(target) ? PROSE : TOKEN)));
  return text;
}

/** Once a long prompt is laid out, scroll it to its strongest piece. */
function showStrongestPiece(text, pieces, before) {
  const sizes = pieces.map(({ score }) => Math.abs(score));
  const strongest = text.children[before + sizes.indexOf(Math.max(...sizes))];
  if (!strongest) return;
  const sized = new ResizeObserver(() => {
    if (text.clientHeight === 0) return;
    sized.disconnect();
    if (text.scrollHeight > text.clientHeight) text.scrollTop = strongest.offsetTop - text.offsetTop - text.clientHeight / 2;
  });
  sized.observe(text);
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
