/*
 * Words and tokens of the two sides of a translation, and the sums of scores between them.
 */

import { total } from "./numbers.js";
import { tokenColumns, wordColumns } from "./token_columns.js";

/** The scores of the chosen decoder block, or of all together. */
export function chosenScores({ translation, block }) {
  return block === null ? translation.scores : translation.by_block[block];
}

/** Tokens of one side as columns, alone or by word; members are shifted to their place in a row of numbers. */
export function sideColumns({ text, tokens }, start, stop, shift, unit) {
  const own = tokens.slice(start, stop);
  const columns = unit === "words" ? wordColumns({ text, tokens: own, forced: 0 }) : tokenColumns({ tokens: own, forced: 0 });
  return columns.map((column) => ({ ...column, members: column.members.map((place) => place + start + shift) }));
}

/** The sum over explained tokens and columns, null where none of them could see it. */
export function crossSum(scores, step, column) {
  const seen = step.members.flatMap((row) => column.members.map((place) => scores[row][place])).filter((value) => value !== null);
  return seen.length > 0 ? total(seen) : null;
}
