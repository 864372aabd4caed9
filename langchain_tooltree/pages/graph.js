// A tool graph: boxes are tools, in columns by how many steps from the start they are; lines are as thick as their share.
const TOOL = 190, START = 64, ACROSS = 104, DOWN = 26;
const LISTED = 60; // edges in a list of the details
const EDGE = ["from", "to", "weight", "raw", "count", "tasks", "sources", "runs", "summaries", "written", "named"];
let edgesDrawn = 40; // those that were followed most often; a slider draws more
const times = (count) => (count === 1 ? "once" : count.toLocaleString("en") + " times");

VIEWS.graph = (data) => {
  const tools = data.tools.map(([name, count, column], place) => {
    const isStart = place === data.start, title = isStart ? "start" : name || "?";
    return {
      key: isStart ? "" : "tool " + name, name: title, title: short(title, 23), isStart, count, column, out: [], into: [],
      rows: isStart ? [] : [["called " + times(count), "dim", 0]], wide: isStart ? START : TOOL, high: 42, x: 0, y: 0, since: 0,
      look: isStart ? "plan" : "plain", text: searchable(title),
    };
  });
  const edges = data.edges.map((row) => {
    const edge = Object.fromEntries(EDGE.map((field, place) => [field, row[place]]));
    const from = tools[edge.from], to = tools[edge.to], name = from.name + " → " + to.name;
    Object.assign(edge, {
      from, to, name, key: from.key + "\n" + to.key, label: percent(edge.weight), thick: 1 + 4 * edge.weight, since: 0,
      look: edge.weight >= 0.5 ? "plan" : "plain", text: searchable(...edge.summaries),
      says: () => name + ", " + percent(edge.weight) + ", followed " + times(edge.count), tell: () => tellEdge(edge),
    });
    from.out.push(edge);
    to.into.push(edge);
    return edge;
  });
  const start = tools.find((tool) => tool.isStart) || tools[0];
  for (const tool of tools) {
    tool.out.sort((a, b) => b.weight - a.weight);
    tool.into.sort((a, b) => b.count - a.count);
    tool.tell = () => tellTool(tool);
    tool.says = () => sentence([
      tool.isStart ? "The start" : tool.name + ", called " + times(tool.count),
      tool.out.length ? "Most often next: " + tool.out[0].to.name + ", " + tool.out[0].label : "Nothing came next",
    ], ". ");
  }

  // --- places ---
  function layout() {
    result.lines = [...new Set([...edges.slice(0, Number(most.value)), ...extra])];
    result.boxes = [...new Set([...(start ? [start] : []), ...result.lines.flatMap((edge) => [edge.from, edge.to])])];
    const columns = [];
    for (const tool of tools) tool.row = undefined;
    for (const tool of result.boxes) (columns[tool.column] ||= []).push(tool);
    const whole = columns.filter(Boolean);
    order(whole);
    const tallest = Math.max(1, ...whole.map((column) => column.length));
    let x = 0;
    for (const column of whole) {
      column.forEach((tool, row) => {
        tool.x = x;
        tool.y = 36 + ((tallest - column.length) / 2 + row) * (tool.high + DOWN);
      });
      x += ACROSS + Math.max(...column.map((tool) => tool.wide));
    }
    result.width = Math.max(START, x - ACROSS);
    result.height = tallest * (42 + DOWN) + 16;
    result.lines.forEach((edge) => { edge.ends = {}; });
    for (const tool of result.boxes) for (const right of [true, false]) spread(tool, right);
    for (const edge of result.lines) edge.way = wayOf(edge);
    count.textContent = edges.length ? result.lines.length + " of " + edges.length : "";
    most.setAttribute("aria-valuetext", count.textContent);
  }
  // Tools of a column stand in the order of the tools that they are joined to.
  function order(columns) {
    for (let sweep = 0; sweep < 8; sweep++) for (const column of sweep % 2 ? [...columns].reverse() : columns) {
      for (const each of columns) each.forEach((tool, row) => { tool.row = row - (each.length - 1) / 2; });
      for (const tool of column) {
        const joined = [...tool.out.map((edge) => [edge.to, edge.weight]), ...tool.into.map((edge) => [edge.from, edge.weight])];
        const sum = (of) => joined.reduce((all, [other, weight]) => all + (other.row === undefined ? 0 : of(other) * weight), 0);
        tool.pull = sum((other) => other.row) / sum(() => 1);
      }
      column.sort((a, b) => a.pull - b.pull);
    }
  }
  const leavesRight = ({ from, to }) => to.x >= from.x, arrivesRight = ({ from, to }) => to.x <= from.x;
  // Where lines begin and end at a side of a box: in the order of where they lead, so that few of them cross.
  function spread(tool, right) {
    const ports = result.lines.filter((edge) => edge.from !== edge.to).flatMap((edge) => [
      ...(edge.from === tool && leavesRight(edge) === right ? [[edge, 0]] : []),
      ...(edge.to === tool && arrivesRight(edge) === right ? [[edge, 1]] : []),
    ]);
    const other = ([edge, end]) => (end ? edge.from : edge.to);
    ports.sort((a, b) => other(a).y - other(b).y || (right ? a[1] - b[1] : b[1] - a[1]));
    ports.forEach(([edge, end], place) => {
      edge.ends[end] = [tool.x + (right ? tool.wide : 0), tool.y + tool.high * 0.76 * ((place + 0.5) / ports.length - 0.5)];
    });
  }
  function wayOf(edge) {
    const { x, y, wide, high } = edge.from;
    if (edge.from === edge.to) {
      const right = x + wide - 14, top = y - high / 2;
      return [[right - 32, top], [right - 32, top - 26], [right, top - 26], [right, top - TIP]];
    }
    const { 0: [x1, y1], 1: [x2, y2] } = edge.ends;
    const onward = leavesRight(edge) ? 1 : -1, arrives = arrivesRight(edge) ? 1 : -1;
    const reach = onward === arrives ? 46 : Math.max(40, Math.abs(x2 - x1) / 2), end = x2 + arrives * TIP;
    const around = Math.abs(edge.to.x - x) > TOOL + ACROSS ? -1.4 * (high + DOWN) : 0; // the boxes that stand in between
    return [[x1, y1], [x1 + onward * reach, y1 + around], [end + arrives * reach, y2 + around], [end, y2]];
  }

  // --- details ---
  function listed(title, some, text) {
    const rows = some.slice(0, LISTED).map((edge) => chooser(edge, edge.label + " " + text(edge) + ", " + times(edge.count)));
    if (some.length > LISTED) rows.push(make("p", "and " + word(some.length - LISTED, "other edge"), "dim"));
    return section(title, ...(rows.length ? [links(...rows)] : []));
  }
  function tellTool(tool) {
    return [
      make("p", tool.isStart ? "Where runs begin" : "Tool, called " + times(tool.count) + " in runs that succeeded", "dim"),
      make("h2", tool.name),
      ...listed("What came next", tool.out, (edge) => edge.to.name),
      ...listed("What came before", tool.into, (edge) => edge.from.name),
      ...(tool.isStart ? listed("All edges, the most followed first", edges, (edge) => edge.name) : []),
    ];
  }
  function tellEdge(edge) {
    const more = (count, one) => (count > 0 ? [make("p", "and " + word(count, one), "dim")] : []);
    const runs = edge.named.map(([run, often]) => data.named[run] + (often > 1 ? ", " + times(often) : ""));
    return [
      make("p", "Edge", "dim"), make("h2", edge.name),
      links(chooser(edge.from, edge.from.name), make("span", "then"), chooser(edge.to, edge.to.name)),
      facts([
        ["Share of what came next", percent(edge.weight)], ["Followed", times(edge.count)], ["In runs", edge.runs],
        ["Tasks that support it", edge.tasks], ["Sources they came from", edge.sources],
        ["Raw weight (Eq. 1)", edge.raw.toFixed(2)],
      ]),
      ...section("States that agents summed up in between", ...edge.summaries.map((text) => make("pre", text)),
        ...more(edge.written - edge.summaries.length, "other state")),
      ...section("Runs behind it", ...runs.map((run) => make("p", run)), ...more(edge.runs - edge.named.length, "other run")),
    ];
  }

  // --- how much is drawn ---
  const extra = new Set(), most = make("input"), label = make("label", "Edges drawn"), count = make("output", "", "dim");
  Object.assign(most, { id: "most", type: "range", min: 1, step: 1, max: Math.max(1, edges.length), value: edgesDrawn });
  label.htmlFor = most.id;
  most.oninput = () => { edgesDrawn = Number(most.value); extra.clear(); layout(); fit(); };
  const result = {
    title: "Which tool came next", placeholder: "Find a tool, or words of a state", label: "Tool graph",
    summary: sentence([
      word(tools.length - (start?.isStart ? 1 : 0), "tool"), word(edges.length + data.left_out, "edge"),
      word(data.runs, "successful run"), data.left_out && word(data.left_out, "edge") + " followed least left out",
    ]),
    controls: [label, most, count],
    empty: "The graph is empty: no run that succeeded was added to it.",
    meaning: "The share of an edge is its weight (Eq. 2): how often this tool came next, of all that came after the one before "
      + "it. The raw weight (Eq. 1) counts how often the edge was followed, and short runs a little more. Tasks of sources "
      + "support an edge: one source with the same task counts once, however many runs it has. All runs have succeeded.",
    legend: [["plan", "half of the time or more"], ["plain", "less often"], ["other", "leads to the selected tool"]],
    boxes: [], lines: [], searched: [...tools, ...edges], width: 1, height: 1, when: 0, layout,
    lineLook(line) {
      if (!selected || selected.isStart) return line.look;
      return line.from === selected ? "plan" : line.to === selected ? "other" : "faded";
    },
    reveal(thing) { // a thing of the lists is drawn, too
      if (thing.to ? result.lines.includes(thing) : result.boxes.includes(thing)) return;
      for (const edge of thing.to ? [thing] : [...thing.out.slice(0, 6), ...thing.into.slice(0, 6)]) extra.add(edge);
      layout();
    },
  };
  return result;
};
