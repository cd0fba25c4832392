/*
 * The colours of numbers, and the legend of a scale.
 *
 * "Raises" and "lowers" always mean: the logit of the target, or its difference from the foils.
 */

import { element } from "./elements.js";
import { measureOf, plain, signed } from "./numbers.js";
import { wordingOf } from "./sentences.js";

const STRONG = 0.77; // from here on the text on a colour is inverted (in light colours; see report.css)

/**
 * The end of a colour scale that is symmetric around 0, the strongest number, and how many decimals its numbers need. One
 * scale for a picture: two numbers with the same colour are the same.
 */
export function makeScale(values) {
  const limit = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1;
  const order = Math.floor(Math.log10(limit));
  return { limit, digits: Math.min(6, Math.max(0, (order < 0 ? 1 : 2) - order)) };
}

/** The scale of a document's scores: grey, where they are the same for every target and neither raise nor lower it. */
export function scaleOf(explanation, values) {
  return { ...makeScale(values), neutral: !measureOf(explanation).contrastive };
}

/** A number as its scale has it. */
export function shown(number, { digits, neutral }) {
  return neutral ? plain(number, digits) : signed(number, digits);
}

/** The colours of numbers on a canvas, as the page has them now: light or dark. */
export function numberColours(box, scale) {
  const style = getComputedStyle(box);
  const [ground, panel, ink, muted, raise, lower, grey, onWeak, onStrong, lift] = [
    "ground", "panel", "ink", "muted", "raise", "lower", "grey", "on-weak", "on-strong", "lift",
  ].map((name) => style.getPropertyValue(`--${name}`).trim());
  const made = new Map();
  const of = (number) => {
    const strength = Math.round(100 * Math.min(1, Math.abs(number) / scale.limit)) / 100;
    const end = scale.neutral ? grey : number < 0 ? lower : raise;
    const key = number < 0 ? -strength : strength;
    if (!made.has(key)) {
      const share = 100 * strength * (1 + Number(lift) - Number(lift) * strength);
      made.set(key, { ground: `color-mix(in oklab, ${end} ${share.toFixed(1)}%, ${ground})`, ink: strength > STRONG ? onStrong : onWeak });
    }
    return made.get(key);
  };
  return { ground, panel, ink, muted, of };
}

/** Colour an element by a number; gives the element. */
export function paint(painted, number, scale) {
  const strength = Math.min(1, Math.abs(number) / scale.limit);
  painted.classList.add(scale.neutral ? "neutral" : number < 0 ? "lowers" : "raises");
  painted.classList.toggle("strong", strength > STRONG);
  painted.classList.toggle("faint", Number(number.toFixed(scale.digits)) === 0);
  painted.style.setProperty("--strength", strength.toFixed(3));
  return painted;
}

/** The colours of a scale; `name`: which sentence of the document says what they are. */
export function legend(scale, record, name = "legend") {
  const limit = scale.limit.toPrecision(2);
  const [lowers, raises, rest] = wordingOf(record)[name] ?? ["", "", ""];
  const [low, high] = scale.neutral ? ["0", limit] : [`${lowers} −${limit}`, `+${limit} ${raises}`];
  const colours = element("span", { class: scale.neutral ? "ramp grey" : "ramp", "aria-hidden": "true" });
  return element("p", { class: "legend" }, element("span", {}, low), colours, element("span", {}, high), element("span", {}, rest));
}
