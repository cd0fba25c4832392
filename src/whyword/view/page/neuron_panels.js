/*
 * What every neuron of a chosen block adds, over its index: one panel for each group.
 */

import { element, section } from "./elements.js";

const LABELLED = 6; // the neurons of a panel that have their index beside them, at most
const LABELLED_FROM = 0.3; // the part of the largest update from which they have it

/** `panels`: names with the updates by block; `first`: the block that is shown at first. */
export function neuronPanels(panels, first, id) {
  const options = panels[0].blocks.map((_, block) => element("option", { value: String(block) }, `block ${block + 1}`));
  const select = element("select", { id: `${id}-block` }, ...options.reverse());
  const drawn = element("div", { class: "panels" });
  const draw = () => drawn.replaceChildren(...panels.map((panel) => scatter(panel, Number(select.value), panels)));
  select.value = String(first);
  select.addEventListener("change", draw);
  draw();
  const choice = element("p", { class: "controls" }, element("label", { for: `${id}-block` }, "Neurons of "), select);
  return section("Neuron by neuron", "by-index", choice, drawn);
}

/** A panel: every neuron is a point, the strongest have their index beside them. */
function scatter({ name, blocks }, block, panels) {
  const values = blocks[block];
  const largest = Math.max(...panels.flatMap((panel) => panel.blocks[block].map(Math.abs))) || 1;
  const at = (kind, index, ...children) => {
    const put = element("span", { class: `${kind} ${values[index] < 0 ? "lowers" : "raises"}` }, ...children);
    put.style.setProperty("--across", (index / Math.max(1, values.length - 1)).toFixed(4));
    put.style.setProperty("--down", (0.5 - (0.42 * values[index]) / largest).toFixed(4));
    return put;
  };
  const ranked = [...values.keys()].sort((one, two) => Math.abs(values[two]) - Math.abs(values[one])).slice(0, LABELLED);
  const named = ranked.filter((index) => Math.abs(values[index]) > LABELLED_FROM * largest);
  const label = `${name}: ${values.length} neurons of block ${block + 1}, up to ±${largest.toPrecision(2)}`;
  const points = values.map((_, index) => at("point", index));
  const panel = element("div", { class: "panel", role: "img", "aria-label": label }, ...points);
  panel.append(...named.map((index) => at("name", index, String(index))));
  return element("figure", {}, panel, element("figcaption", {}, label));
}
