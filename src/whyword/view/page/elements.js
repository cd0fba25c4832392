/*
 * Elements of the page, made with createElement and text nodes, never from strings of markup: text of a prompt is text.
 * Styles are classes and custom properties, since the page's policy allows no style attributes.
 */

/** Make an element; children are elements or text. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** Make a part of a drawing. */
export function shape(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}

export function heading(text, scope) {
  return text === "" ? element("td") : element("th", { scope }, text);
}

export function section(title, name, ...children) {
  return element("section", { class: name }, element("h2", {}, title), ...children);
}

/** A paragraph of a class; none where there is nothing to say. */
export function paragraph(name, ...children) {
  return children.length > 0 ? [element("p", { class: name }, ...children)] : [];
}

/** A table of rows under a row of headings. */
export function tableOf(name, head, rows) {
  return element("table", { class: name }, element("thead", {}, head), element("tbody", {}, ...rows));
}

/** What is made later, in a task of its own, and then takes its place: a long report opens part by part. */
export function deferred(make) {
  const place = element("section", { "aria-busy": "true" });
  setTimeout(() => place.replaceWith(make()), 0);
  return place;
}

/** A table that is too wide scrolls, instead of the page. */
export function scroller(table) {
  return watchEdges(element("div", { class: "scroll" }, table));
}

/** Mark a box whose content continues to the right or below; gives the box. */
export function watchEdges(box) {
  const look = () => {
    box.classList.toggle("more-right", box.scrollLeft + box.clientWidth < box.scrollWidth - 2);
    box.classList.toggle("more-below", box.scrollTop + box.clientHeight < box.scrollHeight - 2);
  };
  const sizes = new ResizeObserver(look); // after the layout, so that nothing is laid out twice
  [box, ...box.children].forEach((each) => sizes.observe(each));
  box.addEventListener("scroll", look, { passive: true });
  return box;
}

/** Buttons of which one is pressed, at first the first: the units that rows or columns are. */
export function unitSwitch(choose, units = ["tokens", "words"], name = "Columns") {
  const buttons = units.map((unit, index) =>
    element("button", { type: "button", "aria-pressed": String(index === 0) }, capitalise(unit)),
  );
  const press = (pressed) => {
    buttons.forEach((button) => button.setAttribute("aria-pressed", String(button === pressed)));
    choose(pressed.textContent.toLowerCase());
  };
  buttons.forEach((button) => button.addEventListener("click", () => press(button)));
  return element("div", { class: "switch", role: "group", "aria-label": name }, ...buttons);
}

export function capitalise(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
