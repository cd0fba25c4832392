// The box on the page of errors: a pasted message finds its own entry, whatever values it has in the place of ‹these›;
// other text finds the entries that have all of its words.
const box = document.querySelector("#find-error");

function makePattern(title) {
  const parts = title.split(/‹[^›]*›/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return parts.join("").replace(/\W/g, "").length > 8 ? new RegExp(parts.join(".*"), "i") : null;
}

function readEntries() {
  return [...document.querySelectorAll("h4[id]")].map((head) => {
    const parts = [head];
    for (let next = head.nextElementSibling; next && !/^H[1-4]$/.test(next.tagName); next = next.nextElementSibling) {
      parts.push(next);
    }
    const title = head.firstChild.textContent;
    return { parts, pattern: makePattern(title), text: parts.map((part) => part.textContent).join(" ").toLowerCase() };
  });
}

function choose(entries, asked) {
  const exact = entries.filter((entry) => entry.pattern?.test(asked));
  if (!asked || exact.length) return asked ? exact : entries;
  const words = asked.toLowerCase().split(/[^\p{L}\p{N}_-]+/u).filter((word) => word.length > 1);
  return entries.filter((entry) => words.every((word) => entry.text.includes(word)));
}

if (box) {
  const entries = readEntries();
  box.addEventListener("input", () => {
    const asked = box.value.trim().split("\n")[0].replace(/^(whyword\.\S*: |\w*Error: )/, "");
    const chosen = new Set(choose(entries, asked));
    for (const entry of entries) for (const part of entry.parts) part.hidden = !chosen.has(entry);
    document.querySelector("#errors-found").textContent = asked ? `${chosen.size} of ${entries.length}` : "";
  });
}
