/*
 * Draws documents (what to_dict gives) into an element: renderReport(root, documents).
 */

import { renderAlignment } from "./alignment.js";
import { renderComparedParts } from "./compared_parts.js";
import { renderComparison } from "./comparison.js";
import { renderContinuation } from "./continuation.js";
import { renderDifference } from "./difference.js";
import { element } from "./elements.js";
import { renderExplanation } from "./explanation.js";
import { renderNeurons } from "./neurons.js";
import { renderParts } from "./parts.js";
import { question } from "./sentences.js";
import { renderSupport } from "./support.js";
import { renderSurvey } from "./survey.js";
import { renderTranslation } from "./translation.js";

/** The one place where a document's schema is looked at. */
export const RENDERERS = {
  "whyword.explanation/1": renderExplanation,
  "whyword.continuation/1": renderContinuation,
  "whyword.comparison/1": renderComparison,
  "whyword.compared-parts/1": renderComparedParts,
  "whyword.neurons/1": renderNeurons,
  "whyword.difference/1": renderDifference,
  "whyword.parts/1": renderParts,
  "whyword.support/1": renderSupport,
  "whyword.survey/1": renderSurvey,
  "whyword.translation/1": renderTranslation,
  "whyword.alignment/1": renderAlignment,
};

/**
 * Show documents below each other in `root`, replacing what it held. `name`: what ids begin with, where a page has
 * several reports; `chosen`: the token of continuations that is open.
 */
export function renderReport(root, documents, name = "document", chosen = 0) {
  const { first, routes } = root.dataset;
  const opening = { first, routes: Number(routes) || undefined };
  const articles = documents.map((record, index) => {
    const id = `${name}-${index + 1}`;
    const render = RENDERERS[record.schema] ?? renderUnknown;
    return element("article", { id }, ...render(record, id, opening, chosen));
  });
  root.replaceChildren(...(documents.length > 1 ? [contents(documents, name)] : []), ...articles);
}

/** Links to the documents of a report. */
function contents(documents, name) {
  const entries = documents.map((record, index) => {
    const method = record.methods ? `${record.methods.length} methods` : record.method;
    const rest = [record.model, method].filter(Boolean).map((each) => `, ${each}`);
    return element("li", {}, element("a", { href: `#${name}-${index + 1}` }, question(record), ...rest));
  });
  return element("nav", { "aria-label": "Explanations in this report" }, element("ol", {}, ...entries));
}

function renderUnknown(record) {
  return [element("p", {}, `This page cannot show a document with the schema “${record.schema}”.`)];
}
