/*
 * A heat map on a canvas: only the columns in view are drawn, so that a thousand tokens are drawn as soon as ten.
 *
 * The canvas sticks in a box that scrolls sideways. The pointer and the arrow keys read cells, which are said below.
 */

import { numberColours, shown } from "./colour_scale.js";
import { element, watchEdges } from "./elements.js";
import { isShortcut, STEPS } from "./grid_walking.js";
import { trimmed } from "./visible_text.js";

const NUMBERED = 60; // columns up to which numbers stand in the cells
const FONT = "12px system-ui, sans-serif";
const WIDE = { cell: [54, 132], row: 21, head: 26, left: 46 };
const NARROW = { cell: [19, 19], row: 15, head: 104, left: 46 };

/**
 * The map of `rows` ({ label, values }, the top one first) over `columns` ({ text }).
 * `describe(row, column)` gives what is said of a cell, by their indices; `outlined`: a row that is marked, or -1.
 */
export function canvasMap({ id, name, columns, rows, scale, describe, hint, outlined = -1 }) {
  const size = columns.length <= NUMBERED ? WIDE : NARROW;
  const canvas = element("canvas", { "aria-hidden": "true" });
  const space = element("div", { class: "canvas-space" }, canvas);
  const readout = element("p", { class: "readout", id: `${id}-said`, "aria-live": "polite" }, hint);
  const box = element("div", { class: "canvas-scroll", role: "application", tabindex: "0", "aria-label": name, "aria-describedby": readout.id }, space);
  const map = { columns, rows, scale, outlined, size, canvas, box, places: placeColumns(columns, size, canvas), current: null, under: null };
  const say = () => {
    const cell = map.under ?? (document.activeElement === box ? map.current : null);
    readout.replaceChildren(...(cell ? describe(cell.row, cell.column) : [hint]));
    drawSoon(map);
  };
  const height = size.head + rows.length * size.row;
  space.style.setProperty("width", `${map.places.at(-1)}px`);
  space.style.setProperty("height", `${height}px`);
  canvas.style.setProperty("height", `${height}px`);
  showStrongest(map);
  listen(map, say);
  return element("div", { class: "instrument" }, watchEdges(box), readout);
}

/** Where every column begins, and where the last one ends. */
function placeColumns(columns, { cell: [least, most], left }, canvas) {
  const context = canvas.getContext("2d");
  context.font = FONT;
  const places = [left];
  for (const { text } of columns) {
    const wanted = least === most ? least : Math.ceil(context.measureText(trimmed(text)).width) + 14;
    places.push(places.at(-1) + Math.min(most, Math.max(least, wanted)));
  }
  return places;
}

/** Once the box has a width, scroll to the strongest number and draw. */
function showStrongest(map) {
  const strengths = map.columns.map((_, column) => Math.max(...map.rows.map(({ values }) => Math.abs(values[column]))));
  const marked = map.rows[map.outlined]?.values.map(Math.abs) ?? strengths;
  const strongest = marked.indexOf(Math.max(...marked));
  map.current = { row: Math.max(0, map.outlined), column: strongest };
  let opened = false;
  const fit = () => {
    if (map.box.clientWidth === 0) return;
    if (!opened) map.box.scrollLeft = map.places[strongest] - map.box.clientWidth / 2;
    opened = true;
    drawCanvas(map);
  };
  new ResizeObserver(fit).observe(map.box);
}

function drawSoon(map) {
  if (map.waiting) return;
  map.waiting = true;
  requestAnimationFrame(() => {
    map.waiting = false;
    drawCanvas(map);
  });
}

function drawCanvas(map) {
  const { box, canvas, places, size, columns, rows } = map;
  const width = box.clientWidth;
  const height = size.head + rows.length * size.row;
  const sharp = window.devicePixelRatio || 1;
  canvas.style.setProperty("width", `${width}px`);
  if (canvas.width !== Math.round(width * sharp) || canvas.height !== Math.round(height * sharp)) {
    canvas.width = Math.round(width * sharp);
    canvas.height = Math.round(height * sharp);
  }
  const context = canvas.getContext("2d");
  context.setTransform(sharp, 0, 0, sharp, 0, 0);
  const from = box.scrollLeft;
  const first = Math.max(0, places.findIndex((place) => place > from + size.left) - 1);
  const beyond = places.findIndex((place) => place > from + width);
  const last = beyond < 0 ? columns.length : beyond;
  const colours = numberColours(box, map.scale);
  context.fillStyle = colours.ground;
  context.fillRect(0, 0, width, height);
  context.font = FONT;
  context.textBaseline = "middle";
  const view = { context, colours, from, first, last, width, height };
  drawCells(map, view);
  drawHeadings(map, view);
  drawFrames(map, view);
}

function drawCells({ rows, places, size, scale }, { context, colours, from, first, last }) {
  context.textAlign = "right";
  rows.forEach(({ values }, row) => {
    const top = size.head + row * size.row;
    for (let column = first; column < last; column += 1) {
      const left = places[column] - from;
      const wide = places[column + 1] - places[column];
      const { ground, ink } = colours.of(values[column]);
      context.fillStyle = ground;
      context.fillRect(left, top, wide - 1, size.row - 1);
      if (size === NARROW) continue;
      context.fillStyle = ink;
      context.fillText(shown(values[column], scale), left + wide - 7, top + size.row / 2);
    }
  });
}

function drawHeadings({ rows, columns, places, size, outlined, under, current }, { context, colours, from, first, last, width, height }) {
  context.fillStyle = colours.panel;
  context.fillRect(0, 0, width, size.head);
  const lit = under?.column ?? current.column;
  for (let column = first; column < last; column += 1) {
    const text = trimmed(columns[column].text) || columns[column].text;
    const wide = places[column + 1] - places[column];
    context.save();
    context.fillStyle = column === lit ? colours.ink : colours.muted;
    context.beginPath();
    context.rect(places[column] - from, 0, size === WIDE ? wide - 4 : wide, size.head - 3);
    context.clip();
    if (size === WIDE) {
      context.textAlign = "right";
      context.fillText(text, places[column] - from + wide - 7, size.head / 2);
    } else {
      context.translate(places[column] - from + wide / 2, size.head - 6);
      context.rotate(-Math.PI / 2);
      context.textAlign = "left";
      context.fillText(text, 0, 0);
    }
    context.restore();
  }
  context.fillStyle = colours.panel;
  context.fillRect(0, 0, size.left, height);
  context.textAlign = "right";
  rows.forEach(({ label }, row) => {
    context.fillStyle = row === outlined || row === under?.row ? colours.ink : colours.muted;
    context.fillText(label, size.left - 8, size.head + (row + 0.5) * size.row);
  });
}

/** A frame around the row that is marked, and around the cell that is read. */
function drawFrames(map, { context, colours, from, width }) {
  const { outlined, size, places, box, under } = map;
  context.strokeStyle = colours.ink;
  if (outlined >= 0) {
    context.lineWidth = 1;
    context.strokeRect(size.left - 0.5, size.head + outlined * size.row - 0.5, width - size.left - 1, size.row);
  }
  const cell = under ?? (document.activeElement === box ? map.current : null);
  if (!cell) return;
  const left = places[cell.column] - from;
  if (left < size.left - 1) return;
  context.lineWidth = 2;
  context.strokeRect(left, size.head + cell.row * size.row, places[cell.column + 1] - places[cell.column] - 1, size.row - 1);
}

function listen(map, say) {
  const { box, canvas, places, size, rows, columns } = map;
  const cellAt = (event) => {
    const across = event.clientX - canvas.getBoundingClientRect().left;
    const row = Math.floor((event.clientY - canvas.getBoundingClientRect().top - size.head) / size.row);
    const column = places.findIndex((place) => place > across + box.scrollLeft) - 1;
    return across >= size.left && row >= 0 && row < rows.length && column >= 0 ? { row, column } : null;
  };
  const point = (cell) => {
    map.under = cell;
    say();
  };
  canvas.addEventListener("pointermove", (event) => point(cellAt(event)));
  canvas.addEventListener("pointerleave", () => point(null));
  canvas.addEventListener("click", (event) => {
    map.current = cellAt(event) ?? map.current;
    say();
  });
  box.addEventListener("scroll", () => drawSoon(map), { passive: true });
  box.addEventListener("focus", say);
  box.addEventListener("blur", say);
  box.addEventListener("keydown", (event) => {
    if (isShortcut(event)) return;
    const ends = { Home: 0, End: columns.length - 1 };
    if (!(event.key in STEPS) && !(event.key in ends)) return;
    event.preventDefault();
    const [down, right] = STEPS[event.key] ?? [0, 0];
    const row = Math.min(rows.length - 1, Math.max(0, map.current.row + down));
    const column = Math.min(columns.length - 1, Math.max(0, ends[event.key] ?? map.current.column + right));
    map.current = { row, column };
    map.under = null;
    if (places[column] - box.scrollLeft < size.left) box.scrollLeft = places[column] - size.left;
    if (places[column + 1] - box.scrollLeft > box.clientWidth) box.scrollLeft = places[column + 1] - box.clientWidth;
    say();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawSoon(map));
}
