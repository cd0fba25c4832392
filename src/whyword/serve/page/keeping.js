/*
 * Keeping and sharing: links, saved files, and files that are opened.
 */

import { element } from "./elements.js";
import * as files from "./files.js";
import { find, page, shownDocuments, tell, titleOf } from "./page.js";

/** Files can be saved where there is something to save. */
export function showSaving() {
  const nothing = shownDocuments().length === 0;
  find("save-html").disabled = find("save-json").disabled = nothing;
}

async function save(ending) {
  const documents = shownDocuments();
  const title = documents.length === 1 ? titleOf(documents[0]) : "whyword report";
  try {
    if (ending === "json") files.download(files.writeJson(documents), files.fileName(title, "json"), "application/json");
    else files.download(await files.writeReport(documents, title), files.fileName(title, "html"), "text/html");
  } catch (error) {
    tell(`The report cannot be saved: ${error.message}.`, "Reload the page and try again.");
  }
}

async function copyLink() {
  const button = find("copy");
  try {
    await navigator.clipboard.writeText(location.href);
    button.textContent = "Copied";
    find("status").textContent = "The link is copied.";
    setTimeout(() => (button.textContent = "Copy link"), 2000);
  } catch {
    // Without permission to write to the clipboard: a field to copy from.
    const field = element("input", { readonly: "", "aria-label": "Link to this question" });
    field.value = location.href;
    find("notice").replaceChildren(element("p", {}, "Copy this link:"), field);
    field.select();
  }
}

async function openFile(file) {
  try {
    const documents = await files.readDocuments(file);
    files.showDocuments(find("from-file"), documents);
    page.opened = documents;
    find("notice").replaceChildren();
    find("file-name").replaceChildren("Shown from the file ", element("bdi", { dir: "auto" }, file.name));
    document.body.dataset.file = "shown";
    find("file-shown").hidden = find("from-file").hidden = false;
    find("columns").hidden = true;
    showSaving();
    find("file-shown").scrollIntoView({ block: "nearest" });
  } catch (error) {
    tell(`${file.name} cannot be shown.`, `${error.message} Reports and JSON that whyword saved can be.`);
  }
}

/** Go back to the answers. */
export function closeFile() {
  page.opened = null;
  delete document.body.dataset.file;
  find("file-shown").hidden = find("from-file").hidden = true;
  find("from-file").replaceChildren();
  find("columns").hidden = false;
  showSaving();
}

/** Listen to the buttons that save and open, and to files that are dropped anywhere. */
export function listenToKeeping() {
  find("copy").addEventListener("click", copyLink);
  find("save-html").addEventListener("click", () => save("html"));
  find("save-json").addEventListener("click", () => save("json"));
  find("open").addEventListener("click", () => find("file").click());
  find("file").addEventListener("change", () => {
    if (find("file").files[0]) openFile(find("file").files[0]);
    find("file").value = "";
  });
  find("file-close").addEventListener("click", closeFile);
  // Links inside a report lead to its parts; the fragment of this page is the question.
  find("from-file").addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (!link) return;
    event.preventDefault();
    document.getElementById(link.getAttribute("href").slice(1))?.scrollIntoView();
  });
  const dragged = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  addEventListener("dragover", (event) => {
    if (!dragged(event)) return;
    event.preventDefault();
    find("drop").hidden = false;
  });
  addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) find("drop").hidden = true;
  });
  addEventListener("drop", (event) => {
    find("drop").hidden = true;
    if (!dragged(event)) return;
    event.preventDefault();
    if (event.dataTransfer.files[0]) openFile(event.dataTransfer.files[0]);
  });
}
