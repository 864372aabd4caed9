// A picture of boxes and of lines between them, to be moved, enlarged, and walked through. Its view has `boxes` { key, x,
// y: its middle, wide, high, title, rows, look, badge, since: a step of the replay }, the first one first; `lines` { from,
// to, way, look, thick, label, since }, the important ones first; and `width` and `height`. A row is a text, a colour, and
// the step since which it is known. Things have `tell()`: details, `says()`: for a screen reader, `text`: to be found by.
const stage = $("stage"), canvas = $("canvas"), pen = canvas.getContext("2d");
const FAR = 0.2, NAMED = 0.28, READ = 0.45; // sizes from which on there are curves, names, and all texts
const ROW = 14, TIP = 7; // pixels at size 1
const LOOKS = { // colours of borders and lines, and of what is inside
  faded: ["edge", "box"], pruned: ["line", "page"], plain: ["line", "box"], other: ["other", "otherbox"],
  plan: ["way", "plan"], selected: ["focus", "box"],
};
const MONO = "ui-monospace, monospace";
let x0 = 20, y0 = 20, size = 1, pixels = 1, waiting = false, moved = false, selected = null;
const colours = {};
function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["page", "ink", "dim", "line", "box", "score", "way", "plan", "other", "otherbox", "open", "edge",
    "found", "focus"]) colours[name] = style.getPropertyValue("--" + name).trim();
}
const boxHeight = (rows) => 22 + ROW * rows.length + (rows.length ? 6 : 0);
const isThere = (thing) => thing.since <= view.when;

// --- painting ---
function draw() {
  if (!waiting) { waiting = true; requestAnimationFrame(paint); }
}
function paint() {
  waiting = false;
  if (!view.boxes) return;
  pen.setTransform(pixels, 0, 0, pixels, 0, 0);
  pen.clearRect(0, 0, stage.clientWidth, stage.clientHeight);
  pen.translate(x0, y0);
  pen.scale(size, size);
  const left = -x0 / size, right = left + stage.clientWidth / size;
  const top = -y0 / size, bottom = top + stage.clientHeight / size;
  const inside = (xs, ys) =>
    Math.max(...xs) >= left && Math.min(...xs) <= right && Math.max(...ys) >= top && Math.min(...ys) <= bottom;
  const order = Object.keys(LOOKS), lookOf = (line) => (line === selected ? "selected" : view.lineLook?.(line) ?? line.look);
  const lines = view.lines.filter((line) => isThere(line) && inside(line.way.map(([x]) => x), line.way.map(([, y]) => y)))
    .map((line) => [line, lookOf(line)]).sort(([, a], [, b]) => order.indexOf(a) - order.indexOf(b));
  for (const [line, look] of lines) paintLine(line, look);
  const hits = new Set(matches);
  for (const box of view.boxes)
    if (isThere(box) && inside([box.x, box.x + box.wide], [box.y - box.high, box.y + box.high])) paintBox(box, hits.has(box));
  if (size >= READ) paintLabels(lines.reverse());
}
function paintLine({ way: [start, one, two, end], thick }, look) {
  pen.strokeStyle = pen.fillStyle = colours[LOOKS[look][0]];
  pen.lineWidth = Math.max(look === "plain" ? thick : thick * 1.6, 0.6 / size);
  pen.setLineDash(look === "pruned" && size >= FAR ? [4, 3] : []);
  pen.beginPath();
  pen.moveTo(...start);
  if (size < FAR) pen.lineTo(...end); else pen.bezierCurveTo(...one, ...two, ...end);
  pen.stroke();
  pen.setLineDash([]);
  if (size < FAR) return;
  const half = Math.max(TIP / 2, pen.lineWidth * 0.9), dx = Math.sign(end[0] - two[0]), dy = dx ? 0 : 1;
  pen.beginPath();
  pen.moveTo(end[0] + dx * TIP, end[1] + dy * TIP);
  pen.lineTo(end[0] - dy * half, end[1] - dx * half);
  pen.lineTo(end[0] + dy * half, end[1] + dx * half);
  pen.fill();
}
function write(text, x, y, colour, { font = "11px " + MONO, room = undefined } = {}) {
  pen.font = font;
  pen.fillStyle = colours[colour];
  pen.fillText(text, x, y, room);
}
function paintBox(box, hit) {
  const [border, inner] = LOOKS[box.look], top = box.y - box.high / 2, strong = box.look === "plan" || box.look === "other";
  if (size < FAR) { // thousands at once: no texts, and one colour each
    pen.fillStyle = colours[box === selected ? "focus" : hit ? "open" : border];
    pen.fillRect(box.x, top, box.wide, box.high);
    return;
  }
  pen.beginPath();
  pen.roundRect(box.x, top, box.wide, box.high, 6);
  pen.fillStyle = colours[hit ? "found" : inner];
  pen.fill();
  pen.setLineDash(box.look === "pruned" ? [4, 3] : []);
  pen.lineWidth = Math.max(strong || hit ? 2.2 : 1.2, 0.7 / size);
  pen.strokeStyle = colours[hit && !strong ? "open" : border];
  pen.stroke();
  pen.setLineDash([]);
  if (box === selected) {
    pen.lineWidth = Math.max(3, 2 / size);
    pen.strokeStyle = colours.focus;
    pen.strokeRect(box.x - 4, top - 4, box.wide + 8, box.high + 8);
  }
  if (size < NAMED) return;
  const ink = (colour) => (box.look === "pruned" ? "dim" : colour), room = box.wide - 16;
  write(box.title, box.x + 8, top + 16, ink("ink"), { font: "600 12px " + MONO, room: room - (box.badge ? 18 : 0) });
  if (size < READ) return;
  box.rows.forEach(([text, colour, since], place) => {
    if (since <= view.when) write(text, box.x + 8, top + 31 + ROW * place, ink(colour), { room });
  });
  if (box.badge) write(box.badge, box.x + box.wide - 18, top + 16, border, { font: "600 12px " + MONO });
}
const pointOn = (way, t) => {
  const parts = [(1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t ** 2, t ** 3];
  return [0, 1].map((axis) => way.reduce((sum, point, place) => sum + parts[place] * point[axis], 0));
};
// The label of each line where it covers no box and no other label, the most important lines first.
function paintLabels(lines) {
  const half = 17, taken = [];
  const free = ([x, y]) => !taken.some(([ox, oy]) => Math.abs(ox - x) < 2 * half && Math.abs(oy - y) < 14) && !view.boxes.some(
    (box) => x > box.x - half && x < box.x + box.wide + half && Math.abs(box.y - y) < box.high / 2 + 6);
  pen.textAlign = "center";
  pen.lineWidth = 4;
  pen.lineJoin = "round";
  pen.strokeStyle = colours.page;
  pen.font = "600 11px " + MONO;
  for (const [line, look] of lines) {
    const places = line.label && look !== "faded" ? [0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8] : [];
    const point = places.map((t) => pointOn(line.way, t)).find(free);
    if (!point) continue;
    taken.push(point);
    pen.strokeText(line.label, point[0], point[1] + 4);
    write(line.label, point[0], point[1] + 4, look === "plain" ? "ink" : LOOKS[look][0], { font: pen.font });
  }
  pen.textAlign = "start";
}

// --- sizes ---
function resize() { // what is in the middle stays there
  x0 += (stage.clientWidth - canvas.width / pixels) / 2;
  y0 += (stage.clientHeight - canvas.height / pixels) / 2;
  pixels = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(stage.clientWidth * pixels));
  canvas.height = Math.max(1, Math.round(stage.clientHeight * pixels));
  draw();
}
function fit() {
  const wide = stage.clientWidth - 40, high = stage.clientHeight - 40;
  size = Math.min(1.2, Math.max(0.03, Math.min(wide / view.width, high / view.height)));
  x0 = 20 + Math.max(0, (wide - view.width * size) / 2);
  y0 = 20 + Math.max(0, (high - view.height * size) / 2);
  draw();
}
// Shows all; where that would be too small to read, the beginning.
function begin() {
  fit();
  if (size < 0.65 && view.boxes.length) { size = 0.85; x0 = 20; y0 = stage.clientHeight / 2 - view.boxes[0].y * size; }
}
function zoom(factor, x = stage.clientWidth / 2, y = stage.clientHeight / 2) {
  const now = Math.min(3, Math.max(0.03, size * factor));
  x0 = x - (x - x0) * (now / size);
  y0 = y - (y - y0) * (now / size);
  size = now;
  draw();
}
// Moves a box into the middle, unless it can be seen and read where it is.
function intoView(box) {
  const inside = (from, to, end) => from > 0 && to < end, left = x0 + box.x * size, middle = y0 + box.y * size;
  const high = box.high * size, isInside = inside(left, left + box.wide * size, stage.clientWidth);
  if (size >= READ && isInside && inside(middle - high, middle + high, stage.clientHeight)) return;
  size = Math.max(size, 0.8);
  x0 = stage.clientWidth / 2 - (box.x + box.wide / 2) * size;
  y0 = stage.clientHeight / 2 - box.y * size;
}

// --- selecting ---
function select(thing, { quiet = false, move = true } = {}) {
  selected = thing;
  view.reveal(thing);
  if (move) intoView(thing.to || thing);
  tell();
  if (!quiet) $("live").textContent = clean(thing.says());
  draw();
}
// Fills the details anew, and holds who stands in them with the keyboard.
function tell() {
  const details = $("details"), inside = details.contains(document.activeElement);
  details.replaceChildren(...(selected ? selected.tell() : [make("p", view.empty, "dim")]));
  if (inside) details.focus();
}
const chooser = (thing, text) => button(text, () => select(thing));
function at(x, y) {
  const px = (x - x0) / size, py = (y - y0) / size;
  const box = view.boxes.find((each) =>
    isThere(each) && px >= each.x && px <= each.x + each.wide && Math.abs(py - each.y) <= each.high / 2);
  if (box) return box;
  const steps = Array.from({ length: 41 }, (_, step) => step / 40);
  const far = (line) => Math.min(...steps.map((t) => pointOn(line.way, t)).map(([lx, ly]) => Math.hypot(px - lx, py - ly)));
  return view.lines.filter((line) => line.tell && isThere(line)).find((line) => far(line) - line.thick < 6 / size);
}
stage.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !selected) return;
  const box = selected.from || selected, lines = view.lines.filter((line) => isThere(line) && line.from !== line.to);
  const out = view.lines.filter((line) => line.from === box && line.tell), next = lines.find((line) => line.from === box);
  const before = lines.find((line) => line.to === box);
  const column = view.boxes.filter((other) => isThere(other) && other.x === box.x).sort((a, b) => a.y - b.y);
  const beside = (by) => column[column.indexOf(box) + by];
  const go = (thing) => { if (thing) select(thing); };
  const act = {
    ArrowRight: () => go(selected.to || next?.to), ArrowLeft: () => go(selected.from || before?.from),
    ArrowUp: () => go(beside(-1)), ArrowDown: () => go(beside(1)), Home: () => go(view.boxes[0]),
    e: () => go(out[(out.indexOf(selected) + 1) % out.length]), Enter: () => $("details").focus(),
    "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8), 0: fit,
  }[event.key];
  if (act) { moved = true; event.preventDefault(); act(); }
});
$("details").addEventListener("keydown", (event) => { if (event.key === "Escape") stage.focus(); });

// --- pointers ---
let pressed = null;
canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  pressed = { x: event.offsetX, y: event.offsetY, pulled: false };
});
canvas.addEventListener("pointermove", (event) => {
  if (!pressed) return;
  const dx = event.offsetX - pressed.x, dy = event.offsetY - pressed.y;
  if (!pressed.pulled && Math.hypot(dx, dy) <= 4) return;
  x0 += dx;
  y0 += dy;
  pressed = { x: event.offsetX, y: event.offsetY, pulled: true };
  moved = true;
  draw();
});
canvas.addEventListener("pointerup", (event) => {
  const thing = pressed && !pressed.pulled && at(event.offsetX, event.offsetY);
  pressed = null;
  if (thing) select(thing, { move: false });
});
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  moved = true;
  zoom(Math.exp(-Math.max(-120, Math.min(120, event.deltaY)) * 0.0025), event.offsetX, event.offsetY);
}, { passive: false });
for (const [id, go] of [["larger", () => zoom(1.25)], ["smaller", () => zoom(0.8)], ["fit", fit]])
  $(id).onclick = () => { moved = true; go(); };
new ResizeObserver(() => {
  if (!view.boxes) return;
  resize();
  if (!moved) begin();
}).observe(stage);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); draw(); });

// Shows a view's picture as a whole, with its first box selected.
function renderPicture() {
  readColours();
  stage.setAttribute("aria-label", view.label);
  $("meaning").textContent = view.meaning;
  $("legend").replaceChildren(...view.legend.map(([look, text]) => make("span", text, look)));
  view.layout();
  view.things = view.searched;
  view.show = select;
  resize();
  begin();
  selected = view.boxes[0] || null;
  tell();
  view.started?.();
  draw();
}
