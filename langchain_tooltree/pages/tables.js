// What was learnt in a namespace, or done in a file of runs, and the list of a folder: tables that can be sorted.
const sorting = new Map(); // by the table's name: the column, and whether it goes down
// A column is { name, of: what a row's cell shows, by: what it is sorted by, look }; one that is empty is left out.
function table(name, columns, rows, { key = () => "", sort = "" } = {}) {
  const filled = columns.filter((column) => rows.some((row) => isGiven(column.of(row)))), body = make("tbody");
  let [by, down] = sorting.get(name) || [sort, true];
  const heads = filled.map((column) => make("th", undefined, "", button(column.name, () => {
    down = by !== column.name || !down;
    by = column.name;
    sorting.set(name, [by, down]);
    fill();
  })));
  function fill() {
    const column = filled.find((each) => each.name === by), value = column && (column.by || column.of);
    const compare = (a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (down ? -1 : 1);
    filled.forEach((each, place) =>
      heads[place].setAttribute("aria-sort", each !== column ? "none" : down ? "descending" : "ascending"));
    body.replaceChildren(...(column ? [...rows].sort(compare) : rows).map((row) => {
      const line = make("tr", undefined, "", ...filled.map((each) => cellOf(each, row)));
      const link = line.querySelector("a, button");
      if (link) link.dataset.key = key(row);
      return line;
    }));
  }
  fill();
  const head = make("thead", undefined, "", make("tr", undefined, "", ...heads));
  return rows.length ? [make("table", undefined, "rows", head, body)] : [];
}
function cellOf(column, row) {
  const cell = make("td", undefined, column.look, inner(column.of(row) ?? ""));
  cell.dataset.name = column.name;
  if (column.share) cell.style.setProperty("--share", column.share(row));
  return cell;
}
function anchor(text, href) {
  const link = make("a", text);
  link.href = href;
  return link;
}
const lines = (...parts) => make("div", undefined, "", ...parts.filter(Boolean)); // below each other, in one cell
const note = (text) => text && make("div", text, "dim");

// --- a folder ---
VIEWS.list = (data) => {
  const title = (entry) => entry.title || entry.name;
  const link = (entry) => entry.page ? anchor(title(entry), entry.page) : title(entry);
  const columns = [
    { name: "Last changed", of: (entry) => date(entry.written), by: (entry) => entry.written, look: "dim" },
    { name: "What", of: (entry) => lines(link(entry), note(entry.kind), note(entry.thread)), by: title },
    { name: "Plan, or what is in it", of: (entry) => entry.plan }, { name: "Cost", of: (entry) => entry.cost },
    { name: "Ended", of: (entry) => entry.stop_reason },
  ];
  const place = make("div"), shown = data.entries.length + " shown";
  return {
    title: data.name, summary: !data.entries.length ? data.none : data.more ? shown + ". Older ones: " + data.more : shown,
    placeholder: "Find a request or a tool", body: [place],
    filter(words) {
      const entries = data.entries.filter((entry) => JSON.stringify(Object.values(entry)).toLowerCase().includes(words));
      place.replaceChildren(...table("Entries", columns, entries, { key: (entry) => entry.name, sort: "Last changed" }));
      return words && entries.length + " found";
    },
  };
};

// --- an experience, or a file of runs ---
const OUTCOMES = {
  success: "success", failure: "failure", pending: "waits for a verdict", quarantined: "in quarantine", unknown: "not judged",
};
const FIGURES = {
  runs: "Runs", successes: "Succeeded", judged: "Judged", pending: "Wait for a verdict", quarantined: "In quarantine",
  in_graph: "In the graph", tips: "Tips",
};
const addressOf = (id) => "#run=" + encodeURIComponent(id.replace(/[\ud800-\udfff]/gu, "\ufffd"));

VIEWS.experience = (data) => {
  const byId = new Map(data.runs.map((run) => [run.id, run]));
  const linkTo = (id) => (byId.has(id) ? anchor(id, addressOf(id)) : make("code", id));
  const lookup = {
    Run: (id) => [linkTo(id), note(byId.has(id) ? short(byId.get(id).task || "", 200) : "not in this page")],
    Tip: (id) => [inner(data.tips?.find((tip) => tip.id === id)?.advice ?? make("code", id))],
  };
  const chosen = data.runs.find((run) => addressOf(run.id) === location.hash);
  if (chosen) {
    const back = () => { location.hash = ""; };
    return { ...dialogue(chosen, lookup), back, controls: [button("Back to all runs", back)] };
  }
  const learnt = Boolean(data.tips), place = make("div");
  const link = (run) => anchor(short(run.task || "no task", 200), addressOf(run.id));
  const columns = [
    { name: "Kept", of: (run) => date(run.kept), by: (run) => run.kept },
    { name: "Outcome", of: (run) => OUTCOMES[run.outcome] || run.outcome, look: "outcome" },
    { name: "Task", of: (run) => lines(link(run), note(run.reasons && short(run.reasons, 240))), by: (run) => run.task },
    { name: "Tools", of: (run) => run.tools, look: "dim" },
    { name: "From", of: (run) => run.from }, { name: "Tokens", of: (run) => run.tokens || "", by: (run) => run.tokens },
  ];
  return {
    title: learnt ? "What was learnt" : "What was done", summary: data.name, placeholder: "Find a task, tool, reason or day",
    body: [
      ...table("Figures", Object.entries(FIGURES).map(([figure, name]) => ({ name, of: () => data.status[figure] })), [0]),
      ...section("Progress", ...progress(data.runs)), make("h2", "Runs"), place,
      ...(learnt ? section("Tips", ...tips(data, byId, linkTo)) : []),
      ...section("Focus points", ...(data.focus || []).map((point) => make("p", point))),
    ],
    filter(words) {
      const text = (run) => searchable(run.task, run.tools, run.from, run.reasons, run.id, run.kept, OUTCOMES[run.outcome]);
      const runs = data.runs.filter((run) => text(run).includes(words));
      place.replaceChildren(...table("Runs", columns, runs, { key: (run) => run.id, sort: "Kept" }));
      return word(runs.length, "run") + (data.left_out ? ", of the " + data.runs.length + " latest" : "");
    },
  };
};
// The runs of each day, the latest first: how many there were, how they ended, and what they cost.
function progress(runs) {
  const days = new Map();
  for (const run of runs) if (run.kept) {
    const day = run.kept.slice(0, 10);
    if (!days.has(day)) days.set(day, { day, runs: 0, success: 0, failure: 0, tokens: 0 });
    const sums = days.get(day);
    sums.runs++;
    sums.tokens += run.tokens;
    if (run.outcome in sums) sums[run.outcome]++;
  }
  const go = (day) => { $("find").value = day; find(); $("find").focus(); };
  const most = Math.max(...[...days.values()].map((each) => each.runs));
  return table("Progress", [
    { name: "Day", of: (each) => button(each.day, () => go(each.day)), by: (each) => each.day },
    { name: "Runs", of: (each) => each.runs, look: "amount", share: (each) => each.runs / most },
    { name: "Succeeded", of: (each) => each.success, look: "amount", share: (each) => each.success / each.runs },
    { name: "Failed", of: (each) => each.failure },
    { name: "Not counted", of: (each) => each.runs - each.success - each.failure },
    { name: "Tokens", of: (each) => each.tokens || "", by: (each) => each.tokens },
  ], [...days.values()], { sort: "Day", key: (each) => each.day });
}
function tips(data, byId, linkTo) {
  const retired = (tip) => tip.retired && make("div", "Retired, and told no more: " + tip.retired + ".", "open");
  const from = (tip) => tip.runs.map((id) => lines(linkTo(id), note(byId.get(id)?.from)));
  const rows = table("Tips", [
    { name: "Tip", of: (tip) => lines(make("div", tip.advice), retired(tip), note(tip.reasoning)), by: (tip) => tip.advice },
    { name: "From", of: (tip) => lines(...from(tip)), by: (tip) => tip.runs.join() },
  ], data.tips);
  return rows.length ? rows : [make("p", "None: Experience(model=...) takes them of runs.", "dim")];
}

// A run has an address of its own; going back leads to where one was.
addEventListener("hashchange", () => {
  const { key } = view;
  $("find").value = "";
  render();
  const there = view.back ? $("title") : document.querySelector(`[data-key="${CSS.escape(key)}"]`);
  if (there) there.focus();
});

// --- a comparison ---
VIEWS.compare = (data) => {
  const signed = (value, digits) => (value < 0 ? "-" : "+") + Math.abs(value).toLocaleString("en", { maximumFractionDigits: digits });
  const bounds = (digits, ...values) => "{} ({} to {})".replace(/{}/g, () => signed(values.shift(), digits));
  const cost = (name, field, digits, more = (each) => each["more_" + field]) => ({
    name, of: (each) => lines(inner(each[field]), note(more(each) && bounds(digits, ...Object.values(more(each))))),
  });
  const change = ({ difference, low, high, gained, lost, p }) => p !== undefined && lines(
    bounds(0, 100 * difference, 100 * low, 100 * high) + " % of the tasks", note(`${gained} gained, ${lost} lost (p = ${p.toPrecision(2)})`));
  const figures = table("Agents", [
    { name: "Agent", of: (each) => each.name },
    { name: "Solved", of: (each) => each.solved + " of " + data.tasks, look: "amount", share: (each) => each.share },
    { name: "Against the plain agent", of: (each) => change(each) || "" },
    cost("Model calls a task", "model_calls", 1), cost("Tokens a task", "tokens", 0),
    { name: "Seconds a task", of: (each) => each.seconds }, { name: "Raised", of: (each) => each.errors || "" },
    { name: "Dollars in all", of: (each) => each.dollars_in_all && String(each.dollars_in_all) },
  ], Object.entries(data.agents).map(([name, each]) => ({ name, ...each, ...data.against_plain[name] })));
  const columns = [
    { name: "Task", of: (row) => lines(make("code", row.task), make("div", row.input)), by: (row) => row.task },
    { name: "Solved by", of: (row) => row.solved_by }, { name: "Plain agent's answer", of: (row) => row.plain_answer },
    { name: "Planner's answer", of: (row) => lines(make("div", row.answer), row.page && anchor("its search", row.page)) },
    { name: "Expected", of: ({ expected }) => (typeof expected === "object" ? expected && JSON.stringify(expected) : expected) },
  ];
  const place = make("div"), raised = data.errors.map((text) => make("p", text, "bad"));
  return {
    title: data.title, summary: word(data.tasks, "task"), placeholder: "Find a task or an answer",
    body: [
      ...data.verdicts.map((text) => make("h2", text)), ...figures, make("p", "In brackets: 95 % intervals, task by task.", "dim"),
      make("h2", "Not solved by both"), place, ...section("What raised, and counts as not solved", ...raised),
    ],
    filter(words) {
      const rows = data.unsolved.filter((row) => JSON.stringify(Object.values(row)).toLowerCase().includes(words));
      place.replaceChildren(...(rows.length ? table("Unsolved", columns, rows) : [make("p", "Both solve all.", "dim")]));
      return words && rows.length + " found";
    },
  };
};
