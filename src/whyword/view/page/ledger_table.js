/*
 * The ledger: entries that add up to the logit (difference), as a waterfall; by block; and the proof.
 */

import { makeScale, paint } from "./colour_scale.js";
import { element, heading, paragraph, section, tableOf } from "./elements.js";
import { signed, total } from "./numbers.js";
import { sentence, wordingOf } from "./sentences.js";

/** The ledger of an explanation, or of one step of a translation. */
export function ledgerTable(explanation) {
  const entries = ledgerEntries(explanation.ledger);
  const steps = waterfall(entries.map((entry) => entry.value));
  const result = { name: "total", value: explanation.ledger.total };
  const scaled = scaleSteps([...steps, { from: 0, to: result.value }]);
  const rows = [...entries, result].map((entry, index) => ledgerRow(entry, scaled.steps[index]));
  const sum = rows.pop();
  const table = element("table", { class: "ledger figures" }, element("tbody", {}, ...rows), element("tfoot", {}, sum));
  table.style.setProperty("--zero", scaled.zero);
  const { proof } = wordingOf(explanation);
  return section("What adds up to it", "ledger-section", table, ...paragraph("proof", ...sentence(proof)), byBlock(explanation.ledger));
}

/** The entries that add up, those of all blocks in one. */
function ledgerEntries(ledger) {
  const source = ledger.cross_attention
    ? [
        { name: "source (cross-attention)", value: total(ledger.cross_attention) },
        { name: "cross-attention bias", value: total(ledger.cross_attention_bias) },
      ]
    : [];
  return [
    { name: "embedding", value: ledger.embedding },
    ...source,
    { name: ledger.cross_attention ? "prefix (self-attention)" : "attention", value: total(ledger.attention) },
    { name: "attention bias", value: total(ledger.attention_bias) },
    { name: "MLPs", value: total(ledger.mlp) },
    { name: "norm bias", value: ledger.norm_bias },
    { name: "unembedding bias", value: ledger.unembedding_bias },
  ];
}

/** Each value starts where the one before it ended. */
function waterfall(values) {
  let reached = 0;
  return values.map((value) => ({ from: reached, to: (reached += value) }));
}

/** Bring steps and zero to the range 0 to 1. */
function scaleSteps(steps) {
  const ends = [0, ...steps.flatMap((step) => [step.from, step.to])];
  const low = Math.min(...ends);
  const range = Math.max(...ends) - low || 1;
  const place = (value) => (value - low) / range;
  return { zero: place(0), steps: steps.map(({ from, to }) => ({ from: place(from), to: place(to) })) };
}

function ledgerRow({ name, value }, { from, to }) {
  const bar = element("span", { class: value < 0 ? "bar lowers" : "bar raises" });
  const joint = element("span", { class: "joint" });
  const track = element("td", { class: "track", "aria-hidden": "true" }, bar, joint);
  track.style.setProperty("--left", Math.min(from, to));
  track.style.setProperty("--width", Math.abs(to - from));
  track.style.setProperty("--to", to);
  return element("tr", {}, heading(name, "row"), element("td", { class: "amount" }, signed(value, 3)), track);
}

function byBlock(ledger) {
  const columns = [
    ...(ledger.cross_attention
      ? [
          { name: "cross-attention", values: ledger.cross_attention },
          { name: "cross-attention bias", values: ledger.cross_attention_bias },
        ]
      : []),
    { name: "attention", values: ledger.attention },
    { name: "attention bias", values: ledger.attention_bias },
    { name: "MLP", values: ledger.mlp },
  ];
  const scale = makeScale(columns.flatMap((column) => column.values));
  const rows = ledger.attention.map((_, block) =>
    element(
      "tr",
      {},
      heading(String(block + 1), "row"),
      ...columns.map(({ values }) => paint(element("td", {}, signed(values[block], 3)), values[block], scale)),
    ),
  );
  const head = element("tr", {}, heading("block", "col"), ...columns.map(({ name }) => heading(name, "col")));
  return element("details", {}, element("summary", {}, "Attention and MLPs by block"), tableOf("figures", head, rows.reverse()));
}
