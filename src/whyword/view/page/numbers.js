/*
 * Numbers as text, and what the scores of a document measure.
 */

export function total(values) {
  return values.reduce((sum, value) => sum + value, 0);
}

/** A number with its sign, and a minus as wide as a plus; no sign where only zeros are shown. */
export function signed(number, digits) {
  const text = plain(number, digits);
  return number > 0 && Number(number.toFixed(digits)) !== 0 ? `+${text}` : text;
}

export function plain(number, digits) {
  const size = Math.abs(number).toFixed(digits);
  return number < 0 && Number(size) !== 0 ? `−${size}` : size;
}

export function percent(probability) {
  const share = 100 * probability;
  const text = share >= 10 ? share.toFixed(1) : share.toPrecision(2);
  return `${text.replace("e-", "e−")} %`;
}

/** What the scores of a document, or of one method of a comparison, are. */
export function measureOf({ measure }) {
  return measure ?? { unit: "logits", summary: "", by_block: true, adds_up: true, contrastive: true };
}
