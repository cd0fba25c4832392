/*
 * The page over a run: its rows in an order, and the explanation of the one that is chosen.
 */

import { element } from "./elements.js";
import { renderReport } from "./report.js";

const COUNT = 50;
const find = (id) => document.getElementById(id);
const state = { sort: "difference", descending: false, offset: 0, method: null, total: 0 };
const newest = {};

begin();

async function begin() {
  try {
    const about = await ask("/api/run");
    drawChoices(about);
    listen();
    await show();
    document.body.dataset.state = "done";
  } catch (error) {
    tell(error);
  }
}

/** Ask the server; what it refuses is an Error with two lines. Null if the same was asked anew meanwhile. */
async function ask(path, values = {}) {
  const address = `${path}?${new URLSearchParams(values)}`;
  newest[path] = address;
  const response = await fetch(address);
  const answer = await response.json();
  if (newest[path] !== address) return null;
  if (!response.ok) throw Object.assign(new Error(answer.error.wrong), { remedy: answer.error.remedy });
  return answer;
}

function tell(error) {
  find("notice").replaceChildren(element("p", {}, element("strong", {}, error.message)), element("p", {}, error.remedy ?? ""));
}

function drawChoices(about) {
  const rows = `${about.finished.toLocaleString("en")} of ${about.rows.toLocaleString("en")} rows`;
  const failed = about.failed > 0 ? `, ${about.failed.toLocaleString("en")} not explained` : "";
  find("about").textContent = `${about.folder}: ${about.model}, ${rows}${failed}`;
  document.title = `${about.folder} · whyword`;
  const option = (value, text) => element("option", { value }, text);
  find("method").append(...about.names.map((name) => option(name, name)));
  find("sort").append(option("difference", "difference"), option("row", "order of the file"));
  find("sort").append(...about.parts.map((name) => option(name, `share of ${name}`)));
  state.method = about.names[0];
  const kept = new URLSearchParams(location.hash.slice(1));
  if (about.names.includes(kept.get("method"))) state.method = kept.get("method");
  if (kept.has("sort")) state.sort = kept.get("sort");
  state.descending = kept.get("descending") === "true";
  state.offset = Number.parseInt(kept.get("offset") ?? "0", 10) || 0;
  find("method").value = state.method;
  find("sort").value = state.sort;
  find("descending").checked = state.descending;
  if (kept.get("id")) choose(kept.get("id"));
}

function listen() {
  const change = (next) => {
    Object.assign(state, { offset: 0 }, next);
    show();
  };
  find("order").addEventListener("submit", (event) => event.preventDefault());
  find("method").addEventListener("change", () => {
    change({ method: find("method").value });
    if (state.id) choose(state.id);
  });
  find("sort").addEventListener("change", () => change({ sort: find("sort").value }));
  find("descending").addEventListener("change", () => change({ descending: find("descending").checked }));
  find("before").addEventListener("click", () => change({ offset: Math.max(0, state.offset - COUNT) }));
  find("after").addEventListener("click", () => change({ offset: state.offset + COUNT }));
}

async function show() {
  const { method, sort, descending, offset } = state;
  try {
    const page = await ask("/api/rows", { method, sort, descending, offset, count: COUNT });
    if (page === null) return;
    state.total = page.total;
    const part = ["difference", "row"].includes(sort) ? null : sort;
    find("share-heading").textContent = part ? `share of ${part}` : "strongest words";
    find("rows").replaceChildren(...page.rows.map((row) => drawRow(row, part)));
    const last = offset + page.rows.length;
    find("range").textContent = page.rows.length ? `${(offset + 1).toLocaleString("en")}–${last.toLocaleString("en")} of ${page.total.toLocaleString("en")}` : "no rows";
    find("before").disabled = offset === 0;
    find("after").disabled = last >= page.total;
    find("notice").replaceChildren();
    keep();
  } catch (error) {
    tell(error);
  }
}

/** Keep the order and the chosen row in the address, so that a link shows the same. */
function keep() {
  const { method, sort, descending, offset, id } = state;
  const kept = new URLSearchParams({ method, sort, descending, offset, ...(id ? { id } : {}) });
  history.replaceState(null, "", `#${kept}`);
}

function drawRow(row, part) {
  const button = element("button", { type: "button" }, row.id);
  const why = row.error ? "" : `${row.target}${row.foils.length > 0 ? ` / ${row.foils.join(", ")}` : ""}`;
  const cells = row.error
    ? [element("td", { class: "failed", colspan: "4" }, `not explained: ${row.error}`)]
    : [
        element("td", { class: "prompt-text", dir: "auto" }, row.text),
        element("td", {}, element("bdi", {}, why)),
        element("td", { class: `number ${row.difference > 0 ? "raised" : "lowered"}` }, signed(row.difference, 2)),
        part ? drawShare(row, part) : element("td", {}, ...drawWords(row.strongest)),
      ];
  const made = element("tr", { "data-id": row.id, "aria-selected": String(row.id === state.id) }, element("td", {}, button), ...cells);
  if (!row.error) made.addEventListener("click", () => choose(row.id));
  else button.disabled = true;
  return made;
}

function drawShare(row, part) {
  const own = row.parts.find(([name]) => name === part);
  return element("td", { class: "number" }, own ? `${signed(100 * own[1], 0)} %` : "–");
}

function drawWords(words) {
  return words.flatMap(([word, score], place) => [
    place > 0 ? ", " : "",
    element("bdi", {}, word),
    element("span", { class: score > 0 ? "raised" : "lowered" }, ` ${signed(score, 2)}`),
  ]);
}

function signed(number, digits) {
  return `${number < 0 ? "−" : "+"}${Math.abs(number).toFixed(digits)}`;
}

/** Show the explanation of a row below the table. */
async function choose(id) {
  state.id = id;
  for (const row of find("rows").children) row.setAttribute("aria-selected", String(row.dataset.id === id));
  try {
    const answer = await ask("/api/row", { id, method: state.method });
    if (answer === null) return;
    renderReport(find("explanation"), [answer], "row");
    if (find("explanation").getBoundingClientRect().top > 0.8 * innerHeight) find("explanation").scrollIntoView();
    find("notice").replaceChildren();
    keep();
  } catch (error) {
    tell(error);
  }
}
