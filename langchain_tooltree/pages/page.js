"use strict";
// A page shows its data as a view: { title, summary, and a picture (see picture.js), or a `body` of tables and messages }.
// Each kind of data has a function here that makes its view.
const VIEWS = {};
const data = JSON.parse(document.getElementById("data").textContent);
let view;

// --- elements: texts are never read as markup ---
const $ = (id) => document.getElementById(id);
// What would turn the direction of other texts, or is invisible, is shown as a mark.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]/g;
const clean = (text) => String(text).replace(HIDDEN, "\ufffd");
function make(tag, text, look, ...children) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = clean(text);
  if (look) element.className = look;
  element.append(...children);
  return element;
}
function button(text, go) {
  const element = make("button", text);
  element.type = "button";
  element.onclick = go;
  return element;
}
const isGiven = (value) => value !== "" && value !== undefined && value !== null;
const inner = (value) => (value instanceof Node ? value : typeof value === "number" ? value.toLocaleString("en") : clean(value));
const links = (...elements) => make("div", undefined, "links", ...elements);
// A table with a name before each value; what has none is left out.
function facts(rows) {
  const row = ([name, value]) => make("tr", undefined, "", make("th", name), make("td", undefined, "", inner(value)));
  return make("table", undefined, "", ...rows.filter(([, value]) => isGiven(value)).map(row));
}
// A heading with what stands below it; nothing where nothing does.
function section(title, ...elements) {
  return elements.length ? [make("h2", title), ...elements] : [];
}

// --- texts ---
// The beginning of a text, in one line.
function short(text, most) {
  const characters = [...clean(text).slice(0, 9 * most).replace(/\s+/g, " ")];
  return characters.length <= most ? characters.join("") : characters.slice(0, most - 1).join("") + "…";
}
const percent = (share) => (share > 0 && share < 0.005 ? "<1%" : Math.round(100 * share) + "%");
const word = (count, one) => count.toLocaleString("en") + " " + one + (count === 1 ? "" : "s");
const sentence = (parts, between = " · ") => parts.filter(Boolean).join(between);
const searchable = (...texts) => texts.filter(Boolean).join("\n").toLowerCase();
const date = (text) => (text ? text.slice(0, 16).replace("T", " ") : "");

// --- finding: a view filters its rows (`filter`), or has `things` with a `text` that it can `show` ---
let matches = [], match = -1;
function find() {
  const words = $("find").value.trim().toLowerCase();
  match = -1;
  matches = words && view.things ? view.things.filter((thing) => thing.text.includes(words)) : [];
  $("next").disabled = !matches.length;
  $("next").hidden = !view.things;
  const count = view.filter ? view.filter(words) : words ? matches.length + " found" : "";
  if ($("hits").textContent !== count) $("hits").textContent = clean(count);
  if (view.boxes) draw();
}
function nextMatch() {
  if (!matches.length) return;
  match = (match + 1) % matches.length;
  $("hits").textContent = match + 1 + " of " + matches.length;
  view.show(matches[match]);
}
$("find").addEventListener("input", find);
$("find").addEventListener("keydown", (event) => { if (event.key === "Enter") nextMatch(); });
$("next").onclick = nextMatch;
document.addEventListener("keydown", (event) => {
  if (event.target === $("find") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") { event.preventDefault(); $("find").focus(); }
  if (event.key === "Escape" && view.back) view.back();
});

// --- showing ---
function render() {
  view = VIEWS[data.kind](data);
  for (const id of ["title", "summary"]) if ($(id).textContent !== clean(view[id])) $(id).textContent = clean(view[id]);
  $("find").placeholder = view.placeholder || "Find";
  $("controls").replaceChildren(...(view.controls || []));
  document.body.className = view.boxes ? "pictured" : "";
  $("replay").hidden = !(view.last >= 0);
  $("body").replaceChildren(...(view.body || []));
  if (view.boxes) renderPicture();
  find();
}
