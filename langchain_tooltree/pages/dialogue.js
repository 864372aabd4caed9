// A run: its verdict, and its messages, of which long ones are folded.
const LONG = 700; // characters
const VERDICTS = { true: "success", false: "failure", null: "unknown" };
const WHO = {
  request: "User", reply: "Agent", observation: "Result", instruction: "Instructions", summary: "Summary of earlier messages",
  reference: "Reference material, not said by anybody", other: "Message",
};
const BY = { verdict: "by a verdict", user: "by a person", agent: "by the agent itself" };

VIEWS.run = (run) => dialogue(run);
function dialogue(run, lookup) {
  const messages = (run.messages || []).map(messageBox), boxes = messages.map((box, place) => ({
    box, text: JSON.stringify(run.messages[place]).toLowerCase(),
  }));
  const body = [facts(verdictOf(run, lookup))];
  if (run.instructions && !boxes.some(({ box }) => box.matches(".instruction")))
    body.push(messageBox({ part: "instruction", text: run.instructions }));
  if (!run.messages) body.push(make("p", "Its dialogue is not in this page, which has room for the latest ones.", "dim"));
  const show = ({ box }) => {
    for (const each of messages) each.classList.toggle("hit", each === box);
    for (const details of box.querySelectorAll("details")) details.open = true;
    box.scrollIntoView({ block: "center" });
    box.focus({ preventScroll: true });
  };
  return {
    title: run.task || "A run", summary: "", key: run.id, placeholder: "Find words, or: failed, anomaly", things: boxes,
    show, body: [...body, ...messages],
  };
}
function verdictOf(run, lookup) {
  const tokens = (run.messages || []).reduce((sum, message) => sum + (message.tokens || 0), 0);
  const waits = run.waits && (run.waits.includes("quarantined") ? OUTCOMES.quarantined : OUTCOMES.pending);
  const verdict = waits || OUTCOMES[VERDICTS[run.success]];
  const recalled = [["Run", run.recalled], ["Tip", run.tips]].flatMap(([kind, ids]) => (ids || []).map((id) =>
    make("div", kind + " ", "", ...(lookup ? lookup[kind](id) : [make("code", id)]))));
  return [
    ["Verdict", make("strong", verdict, { success: "good", failure: "bad" }[verdict])], ["Judged", BY[run.by] || ""],
    ["Reasons", run.reasons],
    ["Came from", run.from], ["Attempt given up in", run.attempt],
    ["Recalled for it", recalled.length ? make("div", undefined, "", ...recalled) : ""],
    ["Replies", run.turns], ["Tokens", tokens ? tokens.toLocaleString("en") : ""], ["Run", run.id],
  ];
}

// --- messages ---
function foldable(text) {
  if (text.length <= LONG) return make("pre", text);
  const line = text.slice(0, 160).replace(/\s+/g, " ") + "… (" + text.length.toLocaleString("en") + " characters)";
  return make("details", undefined, "", make("summary", line), make("pre", text));
}
function messageBox(message) {
  const name = message.part === "branch" ? "Sub-agent " + message.name : WHO[message.part] || "Message";
  const about = [message.at, message.tokens && word(message.tokens, "token")];
  const head = make("h3", sentence([name + (message.tool ? " of " + message.tool : ""), ...about]));
  if (message.failed) head.append(" ", make("span", "failed", "bad"));
  const box = make("section", undefined, "message " + message.part + (message.failed || message.anomaly ? " wrong" : ""), head);
  box.tabIndex = -1;
  const isLong = ["observation", "reference", "instruction"].includes(message.part) || message.text?.length > 4 * LONG;
  if (message.text) box.append(isLong ? foldable(message.text) : make("p", message.text, "text"));
  else if (message.part === "observation") box.append(make("p", "An empty result.", "dim"));
  if (message.suggested) box.append(suggestion(message));
  for (const call of message.calls || []) {
    box.append(make("p", "calls " + call.tool, "call"));
    if (call.arguments && call.arguments !== "{}") box.append(foldable(call.arguments));
  }
  if (message.anomaly) box.append(make("p", anomalyOf(message.anomaly), "bad"));
  for (const text of message.added || [])
    box.append(make("p", "Added by this package, no output of the tool:", "added"), foldable(text));
  if (message.reflected) box.append(make("p", "A reflection advised the agent here. Its words are not part of the record.", "added"));
  box.append(...(message.messages || []).map(messageBox));
  return box;
}
function anomalyOf({ kind, confidence, evidence }) {
  const rule = kind === "classified" ? "a classifier" : "the rule " + kind;
  return "Anomaly, found by " + rule + (confidence === null ? "" : ", " + percent(confidence) + " sure") + ": " + evidence;
}
function suggestion(message) {
  const called = (message.calls || []).map((call) => call.tool);
  const isFollowed = message.suggested.some(({ tool }) => called.includes(tool));
  const shares = message.suggested.map((each) => each.tool + " " + percent(each.share) + " (" + word(each.runs, "run") + ")");
  const outcome = isFollowed ? "followed." : called.length ? "not followed." : "not followed, nothing was called.";
  const text = "Past runs went on here with " + shares.join(", ") + ": ";
  return make("p", text, "", make("strong", outcome, isFollowed ? "good" : "open"));
}
