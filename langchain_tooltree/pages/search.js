// A search: its calls from left to right, the plan on one line; a deep search can be replayed.
const CALL = 210, REQUEST = 76, BETWEEN = 40, BELOW = 10; // pixels at size 1
const SCORES = {
  r_pre: "score of the call before it ran, from 0 to 1", r_post: "score of its result, from 0 to 1",
  goal: "whether the task is done here, from 0 to 1", Q: "mean reward of the rollouts through it, from 0 to 1",
  N: "rollouts that went through it",
};
const STEPS = { plan: "narrowed the tools", propose: "asked for calls", score: "scored calls", evaluate: "judged a result" };
const PRUNED = {
  pre_evaluation: "It was not run, since its r_pre is below the threshold.",
  top_k: "It was not run, since others had a higher r_pre.",
  post_evaluation: "It was given up, and nothing was tried after it.",
};
let planOnly = false; // whether calls are left out that follow none of the plan and its alternatives
const wasTried = (node) => node.seen !== undefined || "r_post" in node.scores; // a write is judged without being run

VIEWS.search = (data) => {
  const { nodes, history, plan } = data, end = nodes[plan.at(-1)];
  const path = (node) => (node.parent === null ? [] : [...path(nodes[node.parent]), node]);
  for (const node of nodes) Object.assign(node, { key: node.id, children: [], since: -1, ran: -1 });
  for (const node of nodes.slice(1)) nodes[node.parent].children.push(node);
  let there = history.length ? 1 : nodes.length;
  for (const change of history) {
    for (; there < change.nodes; there++) nodes[there].since = change.rollout;
    for (const id of change.ran) nodes[id].ran = change.rollout;
  }
  const last = history.reduce((most, change) => Math.max(most, change.rollout), -1);
  const tried = data.alternatives.filter((id) => wasTried(nodes[id]));
  const ideas = data.alternatives.filter((id) => !tried.includes(id));
  const others = new Set(tried.flatMap((id) => path(nodes[id]).map((node) => node.id)));
  const stepOf = (node) => plan.indexOf(node.id) + 1;

  // --- the picture ---
  function describe(node) {
    const missing = (node.missing || []).join("; "), step = stepOf(node), isOther = others.has(node.id);
    node.look = step || !node.tool ? "plan" : isOther ? "other" : node.pruned ? "pruned" : "plain";
    node.badge = step ? String(step) : "";
    node.title = node.tool ? short(node.tool, 26) : "request";
    node.rows = !node.tool ? [] : [
      [short(node.label.slice(node.tool.length + 1, -1), 29), "ink", -1],
      [node.seen === undefined ? "" : "→ " + short(node.seen, 27), "dim", node.ran],
      [short(node.fate || "", 29), "open", node.ran],
      [node.answer === undefined ? "" : short("answer: " + node.answer, 29), missing ? "open" : "way", node.ran],
      [missing && short("missing: " + missing, 29), "open", node.ran],
      [node.figures || "", "score", last],
    ].filter(([text]) => text);
    Object.assign(node, { wide: node.tool ? CALL : REQUEST, high: boxHeight(node.rows), x: 0, y: 0 });
    node.text = searchable(node.label, node.seen, node.answer, ...(node.missing || []), node.fate);
    node.tell = () => tellCall(node);
    node.says = () => sentence([
      node.tool ? "" : "The request", step ? "Plan, step " + step : isOther ? "Alternative" : "", node.label,
      node.figures, node.fate, node.answer === undefined ? "" : "Answer: " + node.answer,
      word(node.children.length, "call") + " next",
    ], ". ");
  }
  // Each leaf has a row of its own; a call stands beside the one that follows in the plan, or in the middle of all.
  const isMain = (node) => node.parent === null || stepOf(node) || others.has(node.id);
  const below = (node) => (planOnly && !isMain(node) ? [] : [...node.children]);
  function layout() {
    const high = BELOW + Math.max(...nodes.map((node) => node.high)), open = [nodes[0]];
    result.boxes = [];
    result.lines = [];
    while (open.length) {
      const node = open.pop();
      result.boxes.push(node);
      open.push(...below(node).reverse());
    }
    let y = 0;
    for (const node of [...result.boxes].reverse()) {
      const next = below(node), onPlan = next.find(stepOf);
      node.y = onPlan ? onPlan.y : next.length ? (next[0].y + next.at(-1).y) / 2 : (y -= high);
    }
    for (const node of result.boxes) {
      const from = nodes[node.parent];
      node.y -= y - high / 2;
      if (!from) continue;
      const start = from.x + from.wide, middle = start + BETWEEN / 2;
      node.x = start + BETWEEN;
      const way = [[start, from.y], [middle, from.y], [middle, node.y], [node.x - TIP, node.y]];
      result.lines.push({ from, to: node, way, thick: 1.4, look: node.look, since: node.since });
    }
    result.lines.sort((a, b) => !stepOf(a.to) - !stepOf(b.to));
    result.width = Math.max(...result.boxes.map((node) => node.x + node.wide));
    result.height = -y;
  }
  function showAll(all) {
    planOnly = !all;
    toggle.setAttribute("aria-pressed", planOnly);
    layout();
  }

  // --- the details ---
  const link = (id) => chooser(nodes[id], nodes[id].label || "request");
  const listed = (title, ids) => section(title, ...(ids.length ? [links(...ids.map(link))] : []));
  function costOf(changes) {
    const sum = (name) => changes.reduce((all, change) => all + change[name], 0);
    const ran = changes.reduce((all, change) => all + change.ran.length, 0);
    const counts = [[sum("model_calls"), "model call"], [sum("tokens"), "token"], [ran, "result"]];
    return sentence(counts.map(([count, one]) => count && word(count, one)), ", ") || "nothing";
  }
  function tellRequest() {
    return [
      ...section("The request", make("pre", data.query)),
      ...(end?.answer === undefined ? [] : section("The answer", make("pre", end.answer))),
      ...(plan.length ? listed("The plan", plan) : [make("p", "The search found no plan.", "dim")]),
      ...tried.flatMap((id) => listed("Alternative", path(nodes[id]).map((node) => node.id))),
      ...listed("Considered, not run, best first", ideas),
    ];
  }
  function tellResult(node) {
    const what = stepOf(node) ? "Step " + stepOf(node) + " of the plan"
      : others.has(node.id) ? "Part of an alternative" : wasTried(node) ? "Considered" : "Considered, not run";
    const nothing = node.effect === "write" ? "Nothing: a write is never run while searching." : "Nothing: it was not run.";
    return [
      make("p", what, stepOf(node) ? "good" : "dim"), make("h2", node.tool + " (" + node.effect + ")"),
      make("pre", node.arguments),
      ...[node.fate, PRUNED[node.pruned]].filter(Boolean).map((text) => make("p", text, "open")),
      ...section("What came back" + (node.kind && node.kind !== "ok" ? ": " + node.kind : ""),
        node.seen === undefined ? make("p", nothing, "dim") : make("pre", node.seen)),
      ...(node.answer === undefined ? [] : section("The agent's answer here", make("pre", node.answer))),
    ];
  }
  function tellCall(node) {
    const isRequest = node.parent === null, changes = history.filter((change) => change.node === node.id);
    const scores = Object.entries(node.scores).map(([name, value]) => [
      name, sentence([name === "N" ? value : value.toFixed(2), (node.reasons || {})[name] || SCORES[name]], ": "),
    ]);
    return [
      ...(isRequest ? tellRequest() : tellResult(node)),
      ...section("What is missing, as it says", ...(node.missing || []).map((each) => make("p", each, "open"))),
      ...section("Scores", ...(scores.length && !isRequest ? [facts(scores)] : [])),
      ...section("What it cost", ...(changes.length ? [make("p", costOf(changes))] : [])),
      ...section("Proposed here and left out", ...(node.dropped || []).map((each) => make("p", each, "dim"))),
      ...(isRequest ? [] : listed("Asked for after", [0, ...path(nodes[node.parent]).map((each) => each.id)])),
      ...listed("What followed", node.children.slice(0, 40).map((child) => child.id)),
    ];
  }

  // --- the replay ---
  function describeStep() {
    const changes = history.filter((change) => change.rollout === result.when);
    const name = (id) => nodes[id].label || "the request";
    const steps = changes.map(({ kind, node, ran }) => sentence([
      ran.length && "ran " + ran.map(name).join(" and "), kind !== "execute" && STEPS[kind] + ": " + name(node),
    ], ", then "));
    return result.when < 0 ? "What the search began with."
      : changes.length ? steps.join("; ") + ". It cost " + costOf(changes) + "." : "Nothing came of it.";
  }
  function setWhen(when) {
    result.when = Math.max(-1, Math.min(last, when));
    $("when").value = result.when;
    $("count").textContent = result.when < 0 ? "before" : "step " + (result.when + 1) + " of " + (last + 1);
    $("change").textContent = clean(describeStep());
    $("when").setAttribute("aria-valuetext", $("count").textContent + ". " + $("change").textContent);
    draw();
  }

  const toggle = button("Plan and what stood beside it", () => { showAll(planOnly); select(nodes[0], { quiet: true }); fit(); });
  toggle.setAttribute("aria-pressed", planOnly);
  const count = (which) => nodes.filter(which).length;
  const result = {
    title: data.query || "A search", placeholder: "Find a call or a result", label: "Search tree",
    summary: sentence([
      data.cost.rollouts && word(data.cost.rollouts, "rollout"), word(nodes.length - 1, "call") + " considered",
      count((node) => node.seen !== undefined) + " run", count((node) => node.pruned) + " pruned",
      word(data.cost.model_calls || 0, "model call"), data.cost.tokens && word(data.cost.tokens, "token"),
      "stopped: " + data.stop_reason,
    ]),
    controls: [toggle],
    meaning: Object.entries(SCORES).map(([name, text]) => name + ": " + text).join(". ") + ". A score that nobody gave is "
      + "left out. The slider goes through a deep search; a rollout is a step that tries a call, or the calls of one reply.",
    legend: [
      ["plan", "plan", plan.length], ["other", "alternative", others.size], ["pruned", "pruned", count((node) => node.pruned)],
      ["plain", "considered", count((node) => node.tool && !node.pruned && !stepOf(node) && !others.has(node.id))],
    ].filter(([, , shown]) => shown),
    boxes: [], lines: [], searched: nodes, width: 1, height: 1, layout, last, setWhen,
    when: last,
    reveal(node) {
      if (!result.boxes.includes(node)) showAll(true);
      if (!isThere(node)) setWhen(last);
    },
    started() { $("when").max = last; setWhen(result.when); },
  };
  nodes.forEach(describe);
  return result;
};

let timer = 0;
function pause() {
  clearInterval(timer);
  timer = 0;
  $("play").textContent = "Play";
}
$("when").addEventListener("input", () => { pause(); view.setWhen(Number($("when").value)); });
$("play").onclick = () => {
  if (timer) { pause(); return; }
  if (view.when >= view.last) view.setWhen(-1);
  $("play").textContent = "Pause";
  const step = () => { view.setWhen(view.when + 1); if (view.when >= view.last) pause(); };
  timer = setInterval(step, Math.max(60, Math.min(700, 12000 / (view.last + 1))));
};
