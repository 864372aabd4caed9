"use strict";
let data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
// What would turn the direction of other texts, or is invisible, is shown as a mark.
const clean = (text) => String(text).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]/g, "\ufffd");
const make = (tag, text, look) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = clean(text);
  if (look) element.className = look;
  return element;
};
function button(text, go, look) {
  const made = make("button", text, look);
  made.onclick = go;
  return made;
}
function links(some) {
  const line = make("div", undefined, "links");
  line.append(...some);
  return line;
}
// A table with a name before each value; what has none is left out.
function facts(rows, look) {
  const table = make("table", undefined, look);
  for (const [name, value] of rows.filter(([, value]) => value !== "" && value !== undefined && value !== null)) {
    const row = make("tr"), head = make("th", name), cell = make("td");
    head.scope = "row";
    cell.append(value instanceof Node ? value : clean(value));
    row.append(head, cell);
    table.append(row);
  }
  return table;
}
function short(text, most) {
  let kept = "", room = most;
  for (const character of clean(text).slice(0, 9 * most).replace(/\s+/g, " ")) {
    room -= /\p{M}/u.test(character) ? 0 : character.codePointAt(0) >= 0x1100 && !/[\u2000-\u2bff]/.test(character) ? 2 : 1;
    if (room < 0) return kept.replace(/..?$/u, "") + "…";
    kept += character;
  }
  return kept;
}
function twoLines(text, most) {
  const all = short(text, 2 * most);
  if (all.length <= most) return [all];
  const space = all.lastIndexOf(" ", most), at = space > 0 ? space : most;
  return [all.slice(0, at), short(all.slice(at).trim(), most)];
}
const percent = (share) => (share > 0 && share < 0.005 ? "<1%" : Math.round(100 * share) + "%");
const word = (count, one) => count.toLocaleString("en") + " " + one + (count === 1 ? "" : "s");
const atTime = (text) => {
  const time = new Date(text);
  return isNaN(time) ? clean(text) : time.toLocaleString("en", { dateStyle: "medium", timeStyle: "medium" });
};
