/*
 * The start of a saved report: draws the documents that the file holds.
 */

import { renderReport } from "./report.js";

renderReport(document.getElementById("report"), JSON.parse(document.getElementById("documents").textContent));
