// A picture that can be moved and enlarged. A page says what it shows: `paint`, the thing `at` a place, what it does
// with one that is chosen (`choose`) or clicked twice (`toggle`), and how large all of it is (`width`, `height`).
const stage = document.querySelector(".stage"), canvas = stage.querySelector("canvas"), pen = canvas.getContext("2d");
let x0 = 20, y0 = 20, size = 1, width = 0, height = 0;
let colours = {};
function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["page", "ink", "dim", "line", "box", "score", "way", "plan", "other", "otherbox", "open", "edge", "found", "focus"])
    colours[name] = style.getPropertyValue("--" + name).trim();
}
function onColours(then) {
  for (const kind of ["prefers-color-scheme: dark", "forced-colors: active"])
    matchMedia("(" + kind + ")").addEventListener("change", () => { readColours(); then(); });
}
let waiting = false, pixels = 1;
function draw() {
  if (!waiting) { waiting = true; requestAnimationFrame(() => { paint(); pointBeyond(); }); }
}
const EDGE = 12; // pixels
// An arrow at each side behind which there is more.
function pointBeyond() {
  const wide = stage.clientWidth, high = stage.clientHeight;
  for (const [beyond, x, y, turns] of [
    [x0 + width * size - wide, wide - EDGE, high / 2, 0], [y0 + height * size - high, wide / 2, high - EDGE, 1],
    [-x0, EDGE, high / 2, 2], [-y0, wide / 2, EDGE, 3],
  ]) if (beyond > EDGE) {
    pen.setTransform(pixels, 0, 0, pixels, x * pixels, y * pixels);
    pen.rotate(turns * Math.PI / 2);
    stroke(new Path2D("M-4 -10L5 0L-4 10"), colours.ink, 3);
  }
}
function fitCanvas() {
  x0 += (stage.clientWidth - canvas.width / pixels) / 2; y0 += (stage.clientHeight - canvas.height / pixels) / 2; // its middle stays
  pixels = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(stage.clientWidth * pixels));
  canvas.height = Math.max(1, Math.round(stage.clientHeight * pixels));
  draw();
}
function stroke(line, colour, wide) {
  pen.strokeStyle = colour; pen.lineWidth = wide; pen.stroke(line);
}
const MONO = "ui-monospace, monospace", SANS = "ui-sans-serif, system-ui, sans-serif";
function fit() {
  const wide = stage.clientWidth - 40, high = stage.clientHeight - 40;
  size = Math.min(1.2, Math.max(0.03, Math.min(wide / width, high / height)));
  x0 = 20 + Math.max(0, (wide - width * size) / 2); y0 = 20 + Math.max(0, (high - height * size) / 2);
  draw();
}
// Shows all; where that would be too small to read, the beginning, which is at a height.
function begin(y) {
  fit();
  if (size < 0.65) { size = 0.85; x0 = 20; y0 = stage.clientHeight / 2 - y * size; }
}
// Moves a box into view, with as much above and below it; from afar, into the middle.
function intoView(x, y, wide, high) {
  if (size < 0.45) { size = 0.8; x0 = stage.clientWidth / 2 - (x + wide / 2) * size; y0 = stage.clientHeight / 2 - y * size; return; }
  const left = x0 + x * size, right = left + wide * size - stage.clientWidth;
  const top = y0 + (y - high) * size, bottom = top + 2 * high * size - stage.clientHeight;
  if (left < 10) x0 += 10 - left; else if (right > -10) x0 -= right + 10;
  if (top < 10) y0 += 10 - top; else if (bottom > -10) y0 -= bottom + 10;
}
// Begins to paint anew; what part of the picture is seen.
function wipe() {
  waiting = false;
  pen.setTransform(pixels, 0, 0, pixels, 0, 0);
  pen.clearRect(0, 0, stage.clientWidth, stage.clientHeight);
  pen.translate(x0, y0);
  pen.scale(size, size);
  const left = -x0 / size, top = -y0 / size;
  return { left, top, right: left + stage.clientWidth / size, bottom: top + stage.clientHeight / size };
}
function zoom(factor, x = stage.clientWidth / 2, y = stage.clientHeight / 2) {
  const now = Math.min(3, Math.max(0.03, size * factor));
  x0 = x - (x - x0) * (now / size); y0 = y - (y - y0) * (now / size); size = now;
  draw();
}
let pressed = null;
const pointers = new Map();
canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
  pressed = pointers.size === 1 ? { x: event.offsetX, y: event.offsetY, moved: false } : null;
});
canvas.addEventListener("pointermove", (event) => {
  const before = pointers.get(event.pointerId);
  if (!before) { canvas.className = at(event.offsetX, event.offsetY) ? "over" : ""; return; }
  const others = [...pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
  pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
  if (others.length) { // two fingers
    const [x, y] = others[0], apart = (at) => Math.hypot(at[0] - x, at[1] - y) || 1;
    zoom(apart([event.offsetX, event.offsetY]) / apart(before), x, y);
    return;
  }
  if (pressed && Math.hypot(event.offsetX - pressed.x, event.offsetY - pressed.y) > 4) pressed.moved = true;
  if (!pressed || pressed.moved) {
    canvas.className = "dragging";
    x0 += event.offsetX - before[0]; y0 += event.offsetY - before[1];
    draw();
  }
});
const release = (event) => {
  pointers.delete(event.pointerId);
  canvas.className = "";
  if (event.type === "pointerup" && pressed && !pressed.moved) {
    const node = at(event.offsetX, event.offsetY);
    if (node) choose(node);
  }
  pressed = null;
};
canvas.addEventListener("pointerup", release);
canvas.addEventListener("pointercancel", release);
canvas.addEventListener("dblclick", (event) => {
  const node = at(event.offsetX, event.offsetY);
  if (node) toggle(node);
});
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  if (event.shiftKey) { x0 -= event.deltaY + event.deltaX; draw(); return; }
  zoom(Math.exp(-Math.max(-120, Math.min(120, event.deltaY)) * 0.0025), event.offsetX, event.offsetY);
}, { passive: false });
// What keys do: the same on each page, and what a page adds for what is chosen now.
function onKeys(own) {
  stage.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const larger = () => zoom(1.25), act = {
      "+": larger, "=": larger, "-": () => zoom(0.8), 0: fit, enter: () => $("details").focus(),
      "/": () => document.querySelector("input[type=search]").focus(), ...own(),
    }[event.key.toLowerCase()];
    if (act) { event.preventDefault(); act(); }
  });
}
$("details").addEventListener("keydown", (event) => { if (event.key === "Escape") stage.focus(); });
// Fills the details anew, and holds who stands in them with the keyboard.
function refill(...parts) {
  const into = $("details"), inside = into.contains(document.activeElement);
  into.replaceChildren(...parts);
  if (inside) into.focus();
  return into;
}
$("in").onclick = () => zoom(1.25);
$("out").onclick = () => zoom(0.8);
$("fit").onclick = fit;
