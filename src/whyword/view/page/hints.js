/*
 * What a reader can do, said for fingers or for a pointer and keys.
 */

export const TOUCH = matchMedia("(hover: none)").matches;
export const CELL_HINT = TOUCH ? "Tap a cell to read it." : "Point at a cell or move with the arrow keys to read it.";
