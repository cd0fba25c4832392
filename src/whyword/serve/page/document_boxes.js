/*
 * Documents to ask about: typed, pasted, or opened from text files, each with a name.
 */

import { element } from "./elements.js";
import { find } from "./page.js";

/** Show documents in the form, at least one box. */
export function drawDocuments(documents) {
  find("document-list").replaceChildren(...(documents.length > 0 ? documents : [{ name: "", text: "" }]).map(documentBox));
}

/** The documents that say something; those without a name are numbered. */
export function readDocuments() {
  const boxes = [...find("document-list").querySelectorAll(".turn")];
  return boxes
    .map((box, index) => ({
      name: box.querySelector("input").value.trim() || `document ${index + 1}`,
      text: box.querySelector("textarea").value,
    }))
    .filter(({ text }) => text.trim());
}

export function listenToDocuments() {
  find("add-document").addEventListener("click", () => {
    const box = documentBox({ name: "", text: "" });
    find("document-list").append(box);
    box.querySelector("textarea").focus();
  });
  find("open-documents").addEventListener("click", () => find("document-files").click());
  find("document-files").addEventListener("change", async (event) => {
    const files = [...event.target.files];
    const opened = await Promise.all(files.map(async (file) => ({ name: file.name, text: await file.text() })));
    drawDocuments([...readDocuments(), ...opened]);
    event.target.value = "";
    find("question").focus();
  });
}

function documentBox({ name, text }) {
  const label = element("input", { "aria-label": "Name of the document", placeholder: "name", autocomplete: "off", spellcheck: "false", dir: "auto" });
  label.value = name;
  const remove = element("button", { type: "button", class: "quiet", "aria-label": "Remove this document" }, "Remove");
  const area = element("textarea", { rows: "3", spellcheck: "false", dir: "auto", "aria-label": "Document", placeholder: "Paste a document." });
  area.value = text;
  const box = element("div", { class: "turn" }, element("div", { class: "row" }, label, remove), area);
  remove.addEventListener("click", () => {
    if (find("document-list").children.length > 1) box.remove();
    else [label.value, area.value] = ["", ""];
    find("add-document").focus();
  });
  return box;
}
