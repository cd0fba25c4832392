/*
 * Routes: a graph of positions × depth. What stays at its position goes straight up; what an attention head moves goes from
 * one position to another. Widths are amounts; red raises and blue lowers.
 */

import { element, paragraph, section, shape } from "./elements.js";
import { isShortcut } from "./grid_walking.js";
import { signed } from "./numbers.js";
import { quantityOf, sentence, wordingOf } from "./sentences.js";
import { quotedWord, trimmed } from "./visible_text.js";

const SHOWN = 30; // routes that are shown at first
const ALL_POSITIONS = 24; // up to so many, all positions are shown; of more, those where a route begins or ends
const WIDEST = 16; // pixels of the largest amount
const LEFT = 44;
const BELOW = 96;
const HINT = matchMedia("(hover: none)").matches
  ? "Tap a line to read it."
  : "Point at a line, or go through the routes with the arrow keys, the strongest first.";

export function routeGraph(explanation, id, wanted = SHOWN) {
  const routes = explanation.flow.routes.filter(({ source, destination }) => source !== destination);
  const readout = element("p", { class: "readout", id: `${id}-route`, "aria-live": "polite" }, HINT);
  const box = element("div", { class: "scroll routes-box", role: "application", tabindex: "0", "aria-label": "Routes between positions", "aria-describedby": readout.id });
  const count = element("output", {});
  const slider = element("input", { type: "range", min: "1", max: String(Math.max(1, routes.length)), "aria-label": "Routes shown" });
  slider.value = String(Math.min(wanted, routes.length));
  const graph = { explanation, routes, readout, box, lines: [], chosen: -1 };
  const draw = () => {
    const shown = Math.min(Number(slider.value), routes.length);
    count.value = `${shown} of ${routes.length} routes`;
    graph.chosen = -1;
    readout.replaceChildren(HINT);
    box.replaceChildren(drawRoutes(graph, routes.slice(0, shown)));
  };
  slider.addEventListener("input", draw);
  listenToRoutes(graph);
  draw();
  const controls = element("label", { class: "controls" }, element("span", {}, "Fewer"), slider, element("span", {}, "More"), count);
  const lead = paragraph("lead", ...sentence(wordingOf(explanation).routes));
  return section("Routes", "routes", ...lead, controls, element("div", { class: "instrument" }, box, readout));
}

/** The drawing of some routes. */
function drawRoutes(graph, routes) {
  const { tokens, flow, position } = graph.explanation;
  const positions = choosePositions(tokens, position, routes);
  const depths = flow.by_depth.length - 1;
  const wide = Math.min(120, Math.max(34, 900 / positions.length));
  const tall = Math.max(13, Math.min(30, 520 / depths));
  const [width, height] = [LEFT + wide * positions.length + 20, tall * depths + BELOW + 16];
  const columns = new Map(positions.map((place, index) => [place, LEFT + (index + 0.5) * wide]));
  const up = (depth) => 10 + (depths - depth) * tall;
  const amounts = [...flow.by_depth.flatMap((row) => positions.map((place) => row[place])), ...routes.map(({ amount }) => amount)];
  const largest = Math.max(...amounts.map(Math.abs)) || 1;
  const thick = (amount) => (WIDEST * Math.abs(amount)) / largest;
  const lines = routes.map((route) => drawRoute(route, columns, up, thick));
  graph.lines = lines;
  const drawing = shape("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" });
  drawing.append(
    ...depthLabels(depths, up, width),
    ...drawStays(flow.by_depth, columns, up, thick),
    ...[...lines].reverse().map(({ drawn }) => drawn),
    ...positionLabels(tokens, positions, columns, up(0)),
  );
  return drawing;
}

/** All positions, or those where a route begins or ends, and the last. */
function choosePositions(tokens, last, routes) {
  if (tokens.length <= ALL_POSITIONS) return tokens.map((_, place) => place);
  const touched = new Set([last, ...routes.flatMap(({ source, destination }) => [source, destination])]);
  return [...touched].sort((one, two) => one - two);
}

function drawRoute(route, columns, up, thick) {
  const [start, end] = [columns.get(route.source), columns.get(route.destination)];
  const [low, high] = [up(route.block), up(route.block + 1)];
  const bend = (low - high) * 0.7;
  const path = `M${start} ${low}C${start} ${low - bend} ${end} ${high + bend} ${end} ${high}`;
  const line = shape("path", { d: path, class: "line", "stroke-width": Math.max(0.8, thick(route.amount)).toFixed(2) });
  const near = shape("path", { d: path, class: "near", "stroke-width": Math.max(9, thick(route.amount)).toFixed(2) }); // easier to point at
  return { route, drawn: shape("g", { class: route.amount < 0 ? "route lowers" : "route raises" }, line, near) };
}

/** What is at every position between one depth and the next. */
function drawStays(byDepth, columns, up, thick) {
  return byDepth.slice(1).flatMap((above, depth) =>
    [...columns].flatMap(([place, across]) => {
      const amount = (byDepth[depth][place] + above[place]) / 2;
      if (thick(amount) < 0.15) return [];
      const ends = { x1: across, x2: across, y1: up(depth), y2: up(depth + 1) };
      return [shape("line", { ...ends, class: amount < 0 ? "stays lowers" : "stays raises", "stroke-width": thick(amount).toFixed(2) })];
    }),
  );
}

function depthLabels(depths, up, width) {
  const step = Math.max(1, Math.round(depths / 10));
  return Array.from({ length: Math.floor(depths / step) + 1 }, (_, index) => index * step).flatMap((depth) => [
    shape("line", { class: "rule", x1: LEFT - 6, x2: width, y1: up(depth), y2: up(depth) }),
    shape("text", { class: "depth", x: LEFT - 12, y: up(depth) }, String(depth)),
  ]);
}

function positionLabels(tokens, positions, columns, foot) {
  return positions.map((place, index) => {
    const skipped = place !== (positions[index - 1] ?? -1) + 1 ? "… " : "";
    const text = trimmed(tokens[place].text);
    const across = columns.get(place);
    const shown = `${skipped}${text.length > 14 ? `${text.slice(0, 13)}…` : text}`;
    return shape("text", { class: "token", x: across, y: foot + 14, transform: `rotate(-40 ${across} ${foot + 14})` }, shown);
  });
}

function listenToRoutes(graph) {
  const { box } = graph;
  const at = (event) => graph.lines.findIndex(({ drawn }) => drawn.contains(event.target));
  box.addEventListener("pointerover", (event) => chooseRoute(graph, at(event)));
  box.addEventListener("pointerleave", () => chooseRoute(graph, -1));
  box.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const place = { Home: 0, End: graph.lines.length - 1 }[event.key] ?? graph.chosen + (step ?? 0);
    if (isShortcut(event) || (step === undefined && !["Home", "End"].includes(event.key))) return;
    event.preventDefault();
    chooseRoute(graph, Math.min(graph.lines.length - 1, Math.max(0, place)));
  });
}

/** Light a route and say what it is. */
function chooseRoute(graph, index) {
  graph.lines.forEach(({ drawn }, place) => drawn.classList.toggle("chosen-route", place === index));
  graph.chosen = index;
  graph.readout.replaceChildren(...(index < 0 ? [HINT] : describeRoute(graph.explanation, graph.lines[index].route, index)));
}

function describeRoute(explanation, { block, head, source, destination, amount }, index) {
  const name = (place) => [quotedWord(explanation.tokens[place].text), ` (${place + 1})`];
  const effect = `${signed(amount, 4)} ${amount < 0 ? "lowers" : "raises"} the ${quantityOf(explanation)}`;
  return [`${index + 1}. Block ${block + 1}, head ${head + 1}: from `, ...name(source), " to ", ...name(destination), ": ", element("strong", {}, effect)];
}
