/*
 * The report of means over a dataset: a ranking, and all heads, or all neurons of a block.
 */

import { makeScale, paint } from "./colour_scale.js";
import { element, heading, scroller, section, tableOf } from "./elements.js";
import { headTable } from "./head_map.js";
import { notes, reportHeader } from "./header_and_notes.js";
import { neuronPanels } from "./neuron_panels.js";
import { signed } from "./numbers.js";

export function renderSurvey(found, id) {
  const { groups, part } = found;
  const scale = makeScale(found.ranked.flatMap((each) => Object.values(each.mean)));
  const rows = found.ranked.map((each) => {
    const cells = groups.map(({ name }) => paint(element("td", {}, signed(each.mean[name], 3)), each.mean[name], scale));
    return element("tr", {}, heading(each.label, "row"), ...cells);
  });
  const names = groups.map((group) => heading(`${group.name} (${group.examples})`, "col"));
  const head = element("tr", {}, heading(part.slice(0, -1), "col"), ...names);
  const rest =
    part === "heads"
      ? groups.map((group) => section(group.name, "heads", scroller(headTable(group.update, null))))
      : [neuronPanels(groups.map((group) => ({ name: group.name, blocks: group.update })), found.ranked[0].block, id)];
  return [reportHeader(found), section("Ranked", "neurons", scroller(tableOf("figures ranking", head, rows))), ...rest, notes(found)];
}
