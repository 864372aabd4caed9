"""Progress events: what a planner tells while it works. Pure.

Every event is a plain dict. It arrives twice: in `stream_mode="custom"` as `{"tooltree": event}`, and at callback
handlers as a custom event named `tooltree.<type>`.

| `type` | When | Fields |
|---|---|---|
| `doubt` | an answer is doubtful | `missing`, `model_calls` (the extra ones of the turn so far) |
| `candidates` | other calls were asked for | `calls` that may be tried, most promising first; `model_calls` |
| `explore` | a read is tried, as an ordinary call | `call`, `r_pre` (`None` without a judge), `model_calls` |
| `stop` | the search launches nothing more | `reason`, `rollouts` |
| `suggest` | a SIT-Graph suggested tools | `last_tool` (`None` at the beginning), `suggestions` |
| `recall` | past runs were recalled | `task`, `runs` (their tasks, most similar first), `tips` |
| `anomaly` | an observation is anomalous | `anomaly` |
| `reflect` | an anomaly was reflected on | `call_id`, `reflection` (`None` if there is none), `problem` (why not) |

A deep search has more:

| `type` | When | Fields |
|---|---|---|
| `start` | it begins | `query`, `tools`, `max_rollouts` and `max_model_calls`: the most that it may cost |
| `select` | a rollout begins at a node | `node`, `rollout` |
| `propose` | a state was asked for calls | `node`, `rollout`, `calls`, `dropped` (no candidates, and why) |
| `judge` | a candidate was scored | `node`, `rollout`, `call`, `r_pre`, `scored` (false without a usable score) |
| `execute` | a call was run | `node`, `rollout`, `call`, `status`, `cached` (a known observation was reused) |
| `evaluate` | an observation was scored | `node`, `rollout`, `call`, `r_post`, `goal`, `scored` |
| `prune` | a node leaves the search | `node`, `rollout`, `call`, `reason` |
| `best` | a better path was found | `node` that it ends in, `value`, `calls` |
| `budget` | after each operation | `rollouts`, `model_calls`, `tool_calls`, `tokens`: what is spent so far |
| `fallback` | nothing is worth keeping; the plain model answers | `reason`, `details` |
"""

from typing import Any

Event = dict[str, Any]
"""One event: its `type`, and the fields that the table lists for it. Scores and values are in [0, 1]."""
