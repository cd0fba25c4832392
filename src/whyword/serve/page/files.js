/*
 * Saved files: the shown documents written as the library writes them, and such files read back.
 *
 * A file is read as text: of an HTML report only the JSON inside is taken, and no markup is ever parsed.
 */

import { element } from "./elements.js";
import { RENDERERS, renderReport } from "./report.js";

const LARGEST = 64 * 1024 * 1024; // bytes: beyond this the window would stand still
const HEAD_DIGITS = 4; // as the library rounds numbers by head in reports
const FLOW_DIGITS = 6; // and flow by depth
const MOST_HEADS = 100_000; // how many numbers by head a report keeps
const OPENING = '<script type="application/json" id="documents">'; // the JSON behind it has no "<"

/** Give the file's documents; an Error says in words for people why there are none. */
export async function readDocuments(file) {
  if (file.size > LARGEST) throw new Error(`It has ${Math.round(file.size / 1e6)} MB, more than this page reads.`);
  const text = await file.text();
  const json = /^\s*</.test(text) ? embeddedJson(text) : text;
  const documents = parseDocuments(json);
  const known = documents.filter((each) => Object.hasOwn(RENDERERS, each?.schema));
  if (known.length === 0) throw new Error("It is not a report or document of whyword.");
  return known;
}

/** Show documents in `root`; one that is damaged says so, and the page stays as it is. */
export function showDocuments(root, documents) {
  const aside = element("div");
  try {
    renderReport(aside, documents, "file");
  } catch {
    throw new Error("It looks like a document of whyword, but parts of it are missing or damaged.");
  }
  root.replaceChildren(...aside.childNodes);
}

/** The JSON of documents, one alone or several in a list, as `--json` prints it. */
export function writeJson(documents) {
  return `${JSON.stringify(documents.length === 1 ? documents[0] : documents)}\n`;
}

/** A report that needs nothing else: the server's empty one, with the documents put in. */
export async function writeReport(documents, title) {
  const response = await fetch("/assets/report.html");
  if (!response.ok) throw new Error(`the server answered with status ${response.status}`);
  const page = await response.text();
  const empty = `${OPENING}[]`;
  if (!page.includes(empty)) throw new Error("the server’s empty report is of another version");
  const json = asciiJson(documents.map(roundHeads));
  return page
    .replace(empty, () => OPENING + json)
    .replace(/<title>[^<]*<\/title>/, () => `<title>${escapeMarkup(title)}</title>`);
}

/** Offer text as a file to keep. */
export function download(text, name, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** A file name from a question: letters, digits and hyphens. */
export function fileName(title, ending) {
  const words = title.normalize("NFC").match(/[\p{L}\p{N}]+/gu) ?? [];
  return `${["whyword", ...words].join("-").slice(0, 60).toLowerCase()}.${ending}`;
}

function embeddedJson(text) {
  const start = text.indexOf(OPENING);
  const end = text.indexOf("</script>", start);
  if (start < 0 || end < 0) throw new Error("It is a page, but not a report of whyword.");
  return text.slice(start + OPENING.length, end);
}

/** One document, a list, or one in every line. */
function parseDocuments(json) {
  try {
    return [JSON.parse(json)].flat();
  } catch {
    try {
      return json.trim().split("\n").map((line) => JSON.parse(line));
    } catch {
      throw new Error("It is neither JSON nor a report of whyword.");
    }
  }
}

/** Round what a report rounds, as the library does (view/html.py). */
function roundHeads(record) {
  if (record.schema === "whyword.comparison/1") return { ...record, by_head: [] };
  if (record.explanations) return { ...record, explanations: record.explanations.map(roundHeads) };
  if (!record.by_head) return record;
  const made = { ...record, by_head: roundAll(record.by_head, HEAD_DIGITS) };
  const sizes = record.by_head.flat(2).map(Math.abs).sort((one, two) => two - one);
  if (sizes.length > MOST_HEADS) {
    made.by_head = roundAll(record.by_head, HEAD_DIGITS, sizes[MOST_HEADS]);
    made.head_sums = record.by_head.map((block) => block.map((head) => head.reduce((sum, value) => sum + value, 0)));
  }
  if (record.flow) made.flow = { ...record.flow, by_depth: roundAll(record.flow.by_depth, FLOW_DIGITS) };
  return made;
}

/** Keep some digits of numbers; those up to a size are 0. */
function roundAll(numbers, digits, nothing = 0) {
  if (Array.isArray(numbers)) return numbers.map((number) => roundAll(number, digits, nothing));
  return Math.abs(numbers) > nothing ? Number(numbers.toPrecision(digits)) : 0;
}

/** JSON that can stand inside a script element: ASCII, and no "<" that could end it. */
function asciiJson(value) {
  const escape = (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(value).replace(/[<\u007f-\uffff]/g, escape);
}

function escapeMarkup(text) {
  const names = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return text.replace(/[&<>"]/g, (character) => names[character]).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, "");
}
