"""A stand-in for the model of everyday agents, which works as a plain model does, one call at a time, and plans."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel

from langchain_tooltree.testing import Made, OfflineChatModel, Question, read_question

WEATHER = "What is the weather in Lisbon?"
PACKING = "What should I pack for Lisbon?"

NOTE = "[Planner's note"

ROUTINES: dict[str, list[tuple[str, Mapping[str, Any]]]] = {
    WEATHER: [("get_weather", {"city": "Lisbon"})],
    PACKING: [("get_weather", {"city": "Lisbon"}), ("find_list", {"kind": "light"})],
    "Remember that I like trains.": [("remember", {"liking": "trains"})],
    "Where am I?": [("locate_user", {})],
}
"""The calls that each request takes; none for any other request."""


class Forecast(BaseModel):
    """The weather to come."""

    city: str
    sunny: bool


FORECAST = Forecast(city="Lisbon", sunny=True)


class Routine:
    """Knows what to call, and says what came of it last."""

    def propose(self, question: Question) -> Sequence[tuple[str, Mapping[str, Any]]]:
        return ROUTINES.get(question.request, [])[len(question.path) :][:1]

    def score_call(self, _: Question, __: Made) -> float:
        return 0.9

    def score_observation(self, question: Question, _: Made) -> tuple[float, float]:
        return 0.9, 0.9 if len(question.path) + 1 == len(ROUTINES[question.request]) else 0.2

    def answer(self, question: Question) -> str:
        return f"I found this: {question.path[-1].observation}" if question.path else "Good day!"


class Worker(OfflineChatModel):
    """Works through its routines, one call at a time; polite, if its system prompt wants that."""

    policy: Any = Routine()

    def _respond(self, messages: list[BaseMessage], tools: Sequence[Mapping[str, Any]]) -> Any:
        question, _ = read_question(messages, tools)
        if question.kind not in {"answer", "step"}:
            return super()._respond(messages, tools)
        names = [tool["function"]["name"] for tool in tools]
        offered = [call for call in self.policy.propose(question) if call[0] in names]
        if not offered and "Forecast" in names:
            offered = [("Forecast", FORECAST.model_dump())]
        if offered:
            name, arguments = offered[0]
            made = sum(len(message.tool_calls) for message in messages if isinstance(message, AIMessage))
            return AIMessage("", tool_calls=[{"name": name, "args": dict(arguments), "id": f"call_{made}"}])
        turn = sum(isinstance(each, HumanMessage) and not each.text.startswith(NOTE) for each in messages)
        manner = "Dear guest, " if isinstance(messages[0], SystemMessage) and "polite" in messages[0].text else ""
        report = '{"missing": "nothing"}\n' if question.kind == "step" else ""
        return f"{report}{manner}answer {turn}: {self.policy.answer(question)}"

    def _message(self, messages: list[BaseMessage], options: Mapping[str, Any]) -> AIMessage:
        message = super()._message(messages, options)
        answers = read_question(messages, options.get("tools") or ())[0].kind == "answer"
        if answers and not message.tool_calls and "response_format" in options:
            return message.model_copy(update={"content": FORECAST.model_dump_json()})
        return message
