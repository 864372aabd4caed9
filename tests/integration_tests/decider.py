"""A decision model for the middleware that asks one."""

from typing import Any

from langchain_core.decisions import (
    BaseDecisionModel,
    Choice,
    ChoiceAnswer,
    ClassifierResponse,
    NoulAnswer,
    Question,
)


class Decider(BaseDecisionModel):
    """Takes the first choice, and any call to be risky."""

    model: str = "decider"

    @property
    def _provider(self) -> str:
        return "tests"

    def _classify(
        self, state: Any, questions: dict[str, Question]
    ) -> ClassifierResponse:
        answers: dict[str, Any] = {}
        for name, question in questions.items():
            if isinstance(question, Choice):
                first, *_ = question.criteria
                answers[name] = ChoiceAnswer(
                    type="choice",
                    choice=first,
                    probabilities={first: 1.0},
                    confidence=1.0,
                )
            else:
                answers[name] = NoulAnswer(type="noul", noul=0.9)
        return ClassifierResponse(model=self.model, answers=answers)
