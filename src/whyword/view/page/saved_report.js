/*
 * The start of a saved report: draws the documents that the file holds.
 */

import { renderReport } from "./report.js";

const root = document.getElementById("report");
renderReport(root, JSON.parse(document.getElementById("documents").textContent));

// In a notebook's frame, the height is told, so that the frame can be as high as what it shows.
if (window.parent !== window) {
  const tell = () => window.parent.postMessage({ whywordHeight: Math.ceil(root.getBoundingClientRect().height) + 8 }, "*");
  new ResizeObserver(tell).observe(root);
}
