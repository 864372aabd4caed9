// What was said in a run, as elements; long observations are folded.
const LONG = 700; // characters of a text from which on it is folded
const VERDICTS = { true: "success", false: "failure", null: "not judged" };
const WHO = { request: "User", reply: "Agent", observation: "Result", instruction: "Instructions", summary: "Summary of earlier messages", reference: "Reference material, not said by anybody", other: "Message" };
const BY = { verdict: "by a verdict", user: "by a person", agent: "by the agent itself" };
function foldable(text, open) {
  if (text.length <= LONG) return make("pre", text);
  const details = make("details"), line = text.slice(0, 160).replace(/\s+/g, " ");
  details.append(make("summary", line + "… (" + text.length.toLocaleString("en") + " characters)"), make("pre", text));
  details.open = Boolean(open);
  return details;
}
function said(item, number) {
  const box = make("section", undefined, "said " + item.part + (item.failed ? " failed" : "") + (item.anomaly ? " off" : ""));
  const head = make("h3", item.part === "branch" ? "Sub-agent " + item.name : WHO[item.part] || "Message");
  if (item.tool) head.append(make("span", " of " + item.tool));
  if (item.failed) head.append(make("span", "failed", "bad"));
  if (item.at) head.append(make("span", " · " + item.at));
  if (item.tokens) head.append(make("span", " · " + word(item.tokens, "token")));
  box.append(head);
  if (number !== undefined) { box.tabIndex = -1; box.dataset.number = number; }
  if (item.text) box.append(["observation", "reference", "instruction"].includes(item.part) || item.text.length > 4 * LONG ? foldable(item.text) : make("p", item.text, "text"));
  else if (item.part === "observation") box.append(make("p", "An empty result.", "dim"));
  if (item.suggested) {
    const called = (item.calls || []).map((call) => call.tool), followed = item.suggested.some((each) => called.includes(each.tool));
    const told = item.suggested.map((each) => each.tool + " " + percent(each.share) + " (" + word(each.runs, "run") + ")").join(", ");
    const line = make("p", "Past runs went on here with " + told + ": ", "suggested");
    line.append(make("strong", followed ? "followed." : called.length ? "not followed." : "not followed, nothing was called.", followed ? "good" : "open"));
    box.append(line);
  }
  for (const call of item.calls || []) {
    box.append(make("p", "calls " + call.tool, "tool"));
    const text = typeof call.arguments === "string" ? call.arguments : JSON.stringify(call.arguments, null, 2);
    if (text && text !== "{}") box.append(foldable(text));
  }
  const scores = Object.entries(item.scores || {}).map(([name, value]) => name + "=" + value.toFixed(2));
  if (scores.length) box.append(make("p", "Planned by a search: " + scores.join(", "), "dim"));
  if (item.anomaly) box.append(make("p", "Anomaly, found by " + (item.anomaly.kind === "classified" ? "a classifier" : "the rule " + item.anomaly.kind) + (item.anomaly.sure === null ? "" : ", " + percent(item.anomaly.sure) + " sure") + ": " + item.anomaly.evidence, "bad"));
  for (const text of item.added || []) box.append(make("p", "Added by this package, no output of the tool:", "added"), foldable(text));
  if (item.reflected) box.append(make("p", "A reflection advised the agent here. Its words are not part of the record.", "added"));
  for (const inner of item.said || []) box.append(said(inner));
  return box;
}
const outcome = (run) => (run.waits ? (run.waits.includes("quarantined") ? "in quarantine" : "waits for a verdict") : VERDICTS[run.success]);
const badge = (text) => make("span", text, "verdict " + text);
// A bar for each, as high as its share of the most; a click leads to it.
function bars(some, label, go) {
  const list = make("ol", undefined, "bars"), most = Math.max(1, ...some.map((each) => each.size));
  for (const each of some) {
    const item = make("li"), bar = button("", () => go(each));
    bar.title = clean(label(each));
    bar.setAttribute("aria-label", bar.title);
    bar.style.setProperty("--share", Math.max(0.08, each.size / most));
    item.append(bar);
    list.append(item);
  }
  return list;
}
// What was recalled for a run: its record holds ids, and where there is a store, it is looked up there.
function recalledFor(run, known) {
  const list = make("ul", undefined, "recalled");
  for (const [kind, ids] of [["Run", run.recalled], ["Tip", run.tips]]) for (const id of ids || []) {
    const item = make("li", kind + " ");
    item.append(known ? known[kind](id) : make("code", id));
    list.append(item);
  }
  return list.children.length ? list : "";
}
function runInto(into, run, known) {
  const tokens = run.said.reduce((sum, item) => sum + (item.tokens || 0), 0), replies = run.said.filter((item) => item.part === "reply");
  into.append(facts([
    ["Verdict", badge(outcome(run))], ["Judged", BY[run.by] || ""], ["Reasons", run.reasons],
    ["Came from", run.from], ["Attempt given up in", run.attempt], ["Recalled for it", recalledFor(run, known)],
    ["Replies", run.turns], ["Tokens", tokens ? tokens.toLocaleString("en") : ""], ["Run", run.id],
  ], "facts"));
  if (run.instructions && !run.said.some((item) => item.part === "instruction")) into.append(said({ part: "instruction", text: run.instructions }));
  const list = make("div");
  run.said.forEach((item, number) => list.append(said(item, number)));
  const go = (each) => { const box = list.children[each.number]; box.scrollIntoView({ block: "start" }); box.focus(); };
  if (tokens) {
    const sized = run.said.map((item, number) => ({ item, number, size: item.tokens || 0 })).filter((each) => each.size);
    into.append(make("p", "Tokens of each reply", "dim"), bars(sized, (each) => "Reply " + (replies.indexOf(each.item) + 1) + ": " + word(each.size, "token") + (each.item.at ? ", " + each.item.at : ""), go));
  }
  const timed = run.said.map((item, number) => ({ item, number, time: Date.parse(item.at) })).filter((each) => each.time);
  if (timed.length > 1) {
    const taken = timed.slice(1).map((each, place) => ({ ...each, size: Math.max(0, each.time - timed[place].time) }));
    into.append(make("p", "Seconds until each message", "dim"), bars(taken, (each) => (WHO[each.item.part] || "Message") + " after " + (each.size / 1000).toFixed(1) + " s", go));
  }
  into.append(list);
  return list;
}
// A run with a bar to find things in it; the ids of its controls begin with `prefix`.
function reader(into, run, known, prefix = "") {
  const bar = make("div", undefined, "bar reader"), named = (id, element) => Object.assign(element, { id: prefix + id });
  bar.setAttribute("role", "toolbar");
  bar.setAttribute("aria-label", "Dialogue");
  const input = named("find", make("input")), label = make("label", "Find in what was said", "unseen");
  label.htmlFor = input.id;
  Object.assign(input, { type: "search", placeholder: "Find in what was said", autocomplete: "off", spellcheck: false });
  const next = named("next", button("Next")), hitsShown = named("hits", make("span", undefined, "dim"));
  hitsShown.setAttribute("role", "status");
  const off = named("off", button("Next that went wrong")), unfold = named("unfold", button("Unfold all"));
  bar.append(label, input, next, hitsShown, make("span", undefined, "gap"), off, unfold);
  into.append(bar);
  const list = runInto(into, run, known), boxes = [...list.children], wrong = boxes.filter((box) => box.matches(".failed, .off"));
  const texts = run.said.map((item) => JSON.stringify(item).toLowerCase());
  let hits = [], hit = -1, wrongAt = -1;
  const show = (box) => {
    for (const other of boxes) other.classList.toggle("found", other === box);
    for (const details of box.querySelectorAll("details")) if (hits.includes(box)) details.open = true;
    box.scrollIntoView({ block: "center" });
    box.focus({ preventScroll: true });
  };
  const further = () => {
    if (!hits.length) return;
    hit = (hit + 1) % hits.length;
    hitsShown.textContent = hit + 1 + " of " + hits.length;
    show(hits[hit]);
  };
  input.addEventListener("input", () => {
    const wanted = input.value.trim().toLowerCase(), quoted = JSON.stringify(wanted).slice(1, -1);
    hits = wanted ? boxes.filter((_, number) => texts[number].includes(quoted)) : [];
    hit = -1;
    next.disabled = !hits.length;
    hitsShown.textContent = wanted ? hits.length + " found" : "";
  });
  input.addEventListener("keydown", (event) => { if (event.key === "Enter") further(); });
  next.disabled = true;
  next.onclick = further;
  off.disabled = !wrong.length;
  off.onclick = () => { wrongAt = (wrongAt + 1) % wrong.length; show(wrong[wrongAt]); };
  unfold.setAttribute("aria-pressed", false);
  unfold.onclick = () => {
    const open = unfold.getAttribute("aria-pressed") !== "true";
    unfold.setAttribute("aria-pressed", open);
    unfold.textContent = open ? "Fold all" : "Unfold all";
    for (const details of list.querySelectorAll("details")) details.open = open;
  };
  return list;
}
