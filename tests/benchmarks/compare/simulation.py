"""One simulated model, one judge and one world for every method: what a task looks like to what plans it.

A state is the path of calls made so far. It is *aligned* while its calls agree with a prefix of the gold calls, extra
calls of read-only tools ignored. At an aligned state the next gold call is among the proposals with probability .9, and
stands first with .5; at any other state the figures are .4 and .2. Once every gold call was made, the model takes the
request for fulfilled and proposes nothing, rightly or not.

How the judge errs is said in `noise`.

All chance is a hash of the seed, the task, the state and how often it was asked, so every method sees the same model
and the same judge, in whatever order it asks.
"""

import math
import pickle
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.benchmarks.bfcl_model import ArgumentPool, arguments_for, value_for
from tests.benchmarks.bfcl_world import Objects, PlainCall, Task, ToolSpec, World
from tests.benchmarks.compare.noise import OFFERED, Noise, Stage, Standing

PROPOSALS = 5
"""K: calls offered each time a state is asked, unless it is said otherwise."""

OFFERED_ASTRAY = 0.4
"""Probability that the next gold call is among the proposals of a state that is not aligned."""

FIRST, FIRST_ASTRAY = 0.5, 0.2
"""Probabilities that it stands first; at an aligned state and at any other."""

DRAWS_PER_WRONG_CALL = 20
"""Where tools are few, not every wish for yet another wrong call can be met."""

READ_ONLY = frozenset(
    [
        "absolute_value",
        "add",
        "cat",
        "check_tire_pressure",
        "compute_exchange_rate",
        "diff",
        "displayCarStatus",
        "display_log",
        "divide",
        "du",
        "estimate_distance",
        "estimate_drive_feasibility_by_mileage",
        "filter_stocks_by_price",
        "find",
        "find_nearest_tire_shop",
        "gallon_to_liter",
        "get_account_info",
        "get_all_credit_cards",
        "get_available_stocks",
        "get_booking_history",
        "get_budget_fiscal_year",
        "get_credit_card_balance",
        "get_current_speed",
        "get_current_time",
        "get_message_stats",
        "get_nearest_airport_by_city",
        "get_order_details",
        "get_order_history",
        "get_outside_temperature_from_weather_com",
        "get_stock_info",
        "get_symbol_by_name",
        "get_ticket",
        "get_transaction_history",
        "get_tweet",
        "get_tweet_comments",
        "get_user_id",
        "get_user_stats",
        "get_user_tickets",
        "get_user_tweets",
        "get_watchlist",
        "get_zipcode_based_on_city",
        "grep",
        "imperial_si_conversion",
        "list_all_airports",
        "list_all_following",
        "list_users",
        "liter_to_gallon",
        "logarithm",
        "ls",
        "max_value",
        "mean",
        "message_get_login_status",
        "min_value",
        "multiply",
        "notify_price_change",
        "percentage",
        "posting_get_login_status",
        "power",
        "pwd",
        "retrieve_invoice",
        "round_number",
        "search_messages",
        "search_tweets",
        "si_unit_conversion",
        "sort",
        "square_root",
        "standard_deviation",
        "subtract",
        "sum_values",
        "tail",
        "ticket_get_login_status",
        "trading_get_login_status",
        "travel_get_login_status",
        "verify_traveler_information",
        "view_messages_sent",
        "wc",
    ]
)
"""Tools that never change the world of a task; the benchmark does not say, so they were read."""


@dataclass(eq=False, slots=True)
class State:
    """The path of calls to here, and the world after it; states are compared by identity.

    Attributes:
        parent: The state before the last call, `None` at the start.
        call: The last call.
        observation: What it brought back.
        depth: Calls on the path.
        made: Gold calls among them, in their order.
        aligned: Whether all other calls were of read-only tools.
        done: Whether the task is solved.
        right: The next gold call, `None` if all were made.
        objects: The objects of the world after the path, pickled.
        children: States reached by one more call.
    """

    parent: "State | None"
    call: PlainCall | None
    observation: str
    depth: int
    made: int
    aligned: bool
    done: bool
    right: PlainCall | None
    objects: bytes
    children: dict[str, "State"] = field(default_factory=dict)

    def path(self) -> list["State"]:
        """The states after each call of the path, in order."""
        path: list[State] = []
        state = self
        while state.parent is not None:
            path.append(state)
            state = state.parent
        return path[::-1]

    @property
    def calls(self) -> list[PlainCall]:
        """The calls of the path."""
        return [state.call for state in self.path() if state.call]

    @property
    def name(self) -> str:
        """The path in words: what chance is drawn for."""
        return "\n".join(call.key for call in self.calls)


class Simulation:
    """The world and the model of one task, for one seed; shared by all methods, so that nothing is worked out twice.

    Args:
        task: The task.
        pool: Arguments with which gold calls of any task use each tool, for plausible wrong calls.
        seed: Seed of all chance.
        tools: The tools the model is shown; all of the task if left out.
        proposals: K, how many calls the model offers each time a state is asked.
        offered: Probability that the next gold call is among them, at an aligned state.
        early_offers: Probability that another one is a gold call of a later step.
    """

    def __init__(
        self,
        task: Task,
        pool: ArgumentPool,
        *,
        seed: int,
        tools: Sequence[ToolSpec] | None = None,
        proposals: int = PROPOSALS,
        offered: float = OFFERED,
        early_offers: float = 0.0,
    ) -> None:
        self.task = task
        self.proposals = proposals
        self.tools = tuple(task.tools if tools is None else tools)
        self._pool = pool
        self._seed = seed
        self._offered = offered
        self._early_offers = early_offers
        self._schemas = {tool.name: tool.schema for tool in self.tools}
        self._words = sorted(set(re.findall(r"[\w.#@/-]*\w", task.request))) or ["text"]
        self._proposals: dict[tuple[State, int, tuple[str, ...]], list[PlainCall]] = {}
        self._draws: dict[tuple[State, str, str, int], float] = {}
        fresh = task.fresh()
        self.start = State(
            None,
            None,
            "",
            0,
            0,
            aligned=True,
            done=task.solved(fresh),
            right=self._gold(0),
            objects=_packed(fresh.objects),
        )

    # --- the world ---

    def run(self, state: State, call: PlainCall) -> State:
        """Make a call in a copy of the world of a state."""
        if call.key in state.children:
            return state.children[call.key]
        world = World(pickle.loads(state.objects))  # noqa: S301 - written by this very process
        observation = self.task.run(world, call)
        objects = _packed(world.objects)
        is_right = state.right is not None and call.key == state.right.key
        made = state.made + is_right
        child = State(
            state,
            call,
            observation,
            state.depth + 1,
            made,
            aligned=state.aligned and (is_right or call.tool in READ_ONLY),
            done=self.task.solved(
                world, [*(step.observation for step in state.path()), observation]
            ),
            right=self._gold(made),
            objects=objects,
        )
        state.children[call.key] = child
        return child

    def _gold(self, made: int) -> PlainCall | None:
        return self.task.gold[made] if made < len(self.task.gold) else None

    # --- the model ---

    def propose(
        self, state: State, attempt: int, shown: Sequence[str] | None = None
    ) -> list[PlainCall]:
        """Calls to make next, best first by the model's lights; none once all gold calls were made.

        Args:
            state: The state.
            attempt: How often it is now asked, from 1.
            shown: Names of the tools that the model sees; all if left out.
        """
        if state.right is None:
            return []
        names = tuple(self._schemas) if shown is None else tuple(shown)
        key = (state, attempt, names if shown is not None else ())
        if key not in self._proposals:
            self._proposals[key] = self._proposed(state, attempt, names, state.right)
        return self._proposals[key]

    def _proposed(
        self, state: State, attempt: int, names: Sequence[str], right: PlainCall
    ) -> list[PlainCall]:
        chance = self._chance("propose", state.name, attempt)
        luck, place = chance.random(), chance.randint(1, self.proposals - 1)
        if luck < (FIRST if state.aligned else FIRST_ASTRAY):
            place = 0
        offered = luck < (self._offered if state.aligned else OFFERED_ASTRAY)
        calls = self._wrong_calls(
            chance, right, names, self.task.gold[state.made + 1 :]
        )
        if offered and right.tool in names:
            calls = calls[: self.proposals - 1]
            calls.insert(place, right)
        return calls

    def _wrong_calls(
        self,
        chance: random.Random,
        right: PlainCall,
        names: Sequence[str],
        later: Sequence[PlainCall],
    ) -> list[PlainCall]:
        """Different calls: too early, of the gold tool with one wrong argument, or as other tasks make them."""
        calls: dict[str, PlainCall] = {}
        for _ in range(DRAWS_PER_WRONG_CALL * self.proposals):
            if len(calls) == self.proposals or not names:
                break
            # No luck is drawn where there is nothing to win, so that all other draws stay as they are without it.
            if self._early_offers and later and chance.random() < self._early_offers:
                call = chance.choice(later)
            elif right.arguments and right.tool in names and chance.random() < 0.5:
                call = self._with_one_wrong_argument(chance, right)
            else:
                tool = chance.choice(names)
                seen = self._pool.get(tool)
                filled = (
                    chance.choice(seen)
                    if seen
                    else arguments_for(self._schemas[tool], self._words, chance)
                )
                call = PlainCall(tool, filled)
            if call.key != right.key:
                calls[call.key] = call
        return list(calls.values())

    def _with_one_wrong_argument(
        self, chance: random.Random, right: PlainCall
    ) -> PlainCall:
        name = chance.choice(sorted(right.arguments))
        seen = [
            arguments[name]
            for arguments in self._pool.get(right.tool, ())
            if name in arguments
        ]
        schema = self._schemas[right.tool].get("properties", {}).get(name, {})
        value = (
            chance.choice(seen)
            if seen and chance.random() < 0.5
            else value_for(schema, self._words, chance)
        )
        return PlainCall(right.tool, {**right.arguments, name: value})

    # --- the judge ---

    def score(
        self, state: State, call: PlainCall, ask: int, *, stage: Stage, noise: Noise
    ) -> float:
        """r_pre or r_post of a call in a state, or whether the task is done after it.

        Args:
            state: The state before the call.
            call: The call.
            ask: How often this is now asked, from 1.
            stage: What is asked.
            noise: The judge.
        """
        if stage == "goal":
            mean = noise.done if self.run(state, call).done else noise.not_done
            return noise.score(
                mean, self._error(state, call, ask, stage, noise.goal_sigma)
            )
        standing = self._standing(state, call)
        error = self._error(
            state, call, ask, stage, noise.spread(standing), repeats=noise.repeats
        )
        if noise.tool_bias:
            error += noise.tool_bias * self._draw(self.start, call.tool, "bias", 0)
        return noise.score(noise.mean(standing, stage), error, logit=noise.logit)

    def _standing(self, state: State, call: PlainCall) -> Standing:
        if state.right is not None and call.key == state.right.key:
            return "right"
        return (
            "early"
            if any(call.key == gold.key for gold in self.task.gold[state.made + 1 :])
            else "wrong"
        )

    def _error(
        self,
        state: State,
        call: PlainCall,
        ask: int,
        stage: Stage,
        sigma: float,
        *,
        repeats: bool = False,
    ) -> float:
        """Half of the variance belongs to the state and call, half is drawn each time, unless errors repeat."""
        if sigma == 0:
            return 0.0
        fixed = self._draw(state, call.key, "goal" if stage == "goal" else "call", 0)
        if repeats:
            return sigma * fixed
        return sigma * (fixed + self._draw(state, call.key, stage, ask)) / math.sqrt(2)

    def _draw(self, state: State, call: str, what: str, ask: int) -> float:
        key = (state, call, what, ask)
        if key not in self._draws:
            self._draws[key] = self._chance(
                "judge", state.name, call, what, ask
            ).gauss()
        return self._draws[key]

    def _chance(self, *what: Any) -> random.Random:
        return random.Random(repr((self._seed, self.task.id, *what)))  # noqa: S311 - no secret depends on it


def _packed(objects: Objects) -> bytes:
    """Objects as bytes, equal for equal objects: after one round trip pickle writes the same bytes again."""
    return pickle.dumps(pickle.loads(pickle.dumps(objects)))  # noqa: S301 - written by this very process
