/*
 * Tables that are walked like a grid: one cell is a stop of the keyboard, arrow keys go to its neighbours, and the cell that
 * has the focus or lies under the pointer is read out below.
 *
 * A walk is { table, readout, hint, width, describe(cell) } and, where cells do something, activate(cell) and leave(cell).
 * `width`: how many columns of numbers there are; rows with a cell that spans columns are passed over.
 */

export const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/** Whether keys that belong to the browser are held down. */
export function isShortcut(event) {
  return event.ctrlKey || event.metaKey || event.altKey;
}

export function walkGrid(walk) {
  const { table } = walk;
  const cellOf = (event) => event.target.closest("th, td");
  table.addEventListener("pointerover", (event) => readCell(walk, cellOf(event)));
  table.addEventListener("pointerleave", () => readCell(walk, table.contains(document.activeElement) ? walk.current : null));
  table.addEventListener("focusin", (event) => readCell(walk, cellOf(event)));
  table.addEventListener("click", (event) => {
    const cell = cellOf(event);
    if (!cell) return;
    if (!isPassedOver(cell.parentElement) && !cell.closest("thead")) moveTo(walk, cell);
    walk.activate?.(cell);
  });
  table.addEventListener("keydown", (event) => {
    if (!isShortcut(event) && pressKey(walk, walk.current, event.key)) event.preventDefault();
  });
}

/** One cell of the table can be tabbed to; arrow keys change which. */
export function makeCurrent(walk, cell) {
  walk.current?.removeAttribute("tabindex");
  cell.setAttribute("tabindex", "0");
  cell.setAttribute("aria-describedby", walk.readout.id);
  walk.current = cell;
}

export function moveTo(walk, cell) {
  makeCurrent(walk, cell);
  cell.focus();
}

/** Do what a key means for a cell; say whether it means anything. */
function pressKey(walk, cell, key) {
  if (key in STEPS) moveTo(walk, neighbour(walk, cell, ...STEPS[key]));
  else if (key === "Home") moveTo(walk, cell.parentElement.cells[0]);
  else if (key === "End") moveTo(walk, cell.parentElement.cells[walk.width]);
  else if (walk.activate && (key === "Enter" || key === " ")) walk.activate(cell);
  else if (walk.leave && key === "Escape") walk.leave(cell);
  else return false;
  return true;
}

/** The cell some steps away; the cell itself at an edge. */
function neighbour({ table }, cell, down, right) {
  let row = cell.parentElement.rowIndex;
  do row += down;
  while (isPassedOver(table.rows[row]));
  return table.rows[row]?.cells[cell.cellIndex + right] ?? cell;
}

function isPassedOver(row) {
  return Boolean(row?.querySelector("[colspan]"));
}

/** Say in full what a cell shows, and light its headings. */
function readCell(walk, cell) {
  for (const lit of walk.table.querySelectorAll(".lit")) lit.classList.remove("lit");
  if (!cell || cell.hasAttribute("colspan")) {
    walk.readout.replaceChildren(walk.hint);
    return;
  }
  walk.table.rows[0].cells[cell.cellIndex].classList.add("lit");
  cell.parentElement.cells[0].classList.add("lit");
  walk.readout.replaceChildren(...walk.describe(cell));
}
