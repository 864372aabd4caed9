"""Budgets of a search: reserved before a launch, refunded when the call is consumed. Pure."""

from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel, ConfigDict

from langchain_tooltree.tooltree.config import Estimate, SearchConfig


class Spent(BaseModel):
    """What one call, or a whole search, used.

    Attributes:
        model_calls: Requests to models.
        tool_calls: Tools run for the first time.
        replayed: Tools run again to rebuild a fork of the sandbox.
        input_tokens: Tokens sent, as the models reported them.
        output_tokens: Tokens received, as the models reported them.
        seconds: Wall-clock time of the call.
    """

    model_config = ConfigDict(frozen=True)

    model_calls: int = 0
    tool_calls: int = 0
    replayed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0

    @property
    def tokens(self) -> int:
        """Tokens sent and received."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(**{name: getattr(self, name) + getattr(other, name) for name in Spent.model_fields})


@dataclass(slots=True)
class Budget:
    """What is spent and what is promised to calls in flight.

    Calls are counted exactly and never overshot: a launch reserves the most it may use, and what it did not use comes
    back when its result is consumed, in launch order, so that the same answers always leave the same budget. Tokens
    and seconds are known only afterwards, so they may be overshot by the calls in flight.

    Args:
        config: Supplies the limits on tokens and seconds.
        limits: The limits on calls.
    """

    config: SearchConfig
    limits: Estimate
    spent: Spent = field(default_factory=Spent)
    reserved_model_calls: int = 0
    reserved_tool_calls: int = 0
    elapsed: float = 0.0

    @property
    def free_model_calls(self) -> int:
        """Model calls that are neither spent nor promised."""
        return self.limits.model_calls - self.spent.model_calls - self.reserved_model_calls

    @property
    def free_tool_calls(self) -> int:
        """Tool calls that are neither spent nor promised."""
        return self.limits.tool_calls - self.spent.tool_calls - self.reserved_tool_calls

    def reserve(self, *, model_calls: int = 0, tool_calls: int = 0) -> None:
        """Promise calls to a launch."""
        self.reserved_model_calls += model_calls
        self.reserved_tool_calls += tool_calls

    def settle(self, spent: Spent, *, model_calls: int = 0, tool_calls: int = 0) -> None:
        """Take back a promise and book what was really used.

        Args:
            spent: What the call used.
            model_calls: Model calls that were reserved for it.
            tool_calls: Tool calls that were reserved for it.
        """
        self.reserved_model_calls -= model_calls
        self.reserved_tool_calls -= tool_calls
        self.spent += spent

    def exceeded(self) -> Literal["max_tokens", "max_seconds"] | None:
        """The limit on tokens or seconds that is reached, if one is."""
        if self.config.max_tokens is not None and self.spent.tokens >= self.config.max_tokens:
            return "max_tokens"
        if self.config.max_seconds is not None and self.elapsed >= self.config.max_seconds:
            return "max_seconds"
        return None
