"""A travel agency: four tools, and a stand-in for a model that knows how to use them, though not at once."""

from langchain_core.tools import tool

PRICES = {
    "Oslo": {"OS-1": 120, "OS-2": 90, "OS-3": 140},
    "Rome": {"RO-1": 75, "RO-2": 110},
    "Lisbon": {"LI-1": 130, "LI-2": 85},
}
"""What each flight costs, in euros, by city."""

EFFECTS = {"find_flights": "read", "read_price": "read", "check_weather": "read"}
"""Tools that only read. Calls of `book_flight` are writes: no search runs them, and a person approves them."""


@tool
def find_flights(city: str) -> str:
    """Find the flights to a city; their prices are read one by one."""
    return ", ".join(PRICES.get(city, {})) or f"There are no flights to {city}."


@tool
def read_price(flight: str) -> str:
    """Read the price of a flight."""
    prices = {
        name: price for flights in PRICES.values() for name, price in flights.items()
    }
    return (
        f"{flight} costs {prices[flight]} EUR."
        if flight in prices
        else f"There is no flight {flight}."
    )


@tool
def check_weather(city: str) -> str:
    """Tell tomorrow's weather in a city."""
    return f"{city}: 9 degrees, light rain."


@tool
def book_flight(flight: str) -> str:
    """Book a flight. It is paid at once."""
    return f"{flight} is booked."


TOOLS = [find_flights, read_price, check_weather, book_flight]


class Clerk:
    """Stands in for a model. It is content with the price of the first flight, so that a search has something to do."""

    def act(self, question):
        """The agent's own next step: look for flights, read a price, book if asked to; asked again, all the rest."""
        calls = self.open(question)
        if question.attempt > 1:
            return calls
        return (
            calls[:1]
            if not self.seen(question, "read_price")
            or calls[:1] == self.booking(question)
            else []
        )

    def propose(self, question):
        """All calls that may be next."""
        return self.open(question)

    def score_call(self, question, call):
        """Any price may be the lowest."""
        return 0.8 if call.tool == "read_price" else 0.7

    def score_observation(self, question, call):
        """The request is fulfilled once nothing is left to do."""
        left = self.missing(question) or self.booking(question)
        return 0.8, 0.3 if left else 0.95

    def missing(self, question):
        """The flights whose prices nobody has read."""
        return [f"the price of {flight}" for flight in self.unread(question)]

    def answer(self, question):
        """What was found out, or what this stand-in can do at all."""
        if booked := self.seen(question, "book_flight"):
            return booked[-1].observation or "The booking was refused."
        prices = self.prices(question)
        if not prices:
            return f"I am a stand-in for a model: ask me for the cheapest flight to {', '.join(PRICES)}, or to book it."
        return f"{min(prices, key=prices.get)} is the cheapest flight that I know of, for {min(prices.values())} EUR."

    def open(self, question):
        """What is left to do, in order."""
        if not (city := self.city(question)):
            return []
        if not self.seen(question, "find_flights"):
            return [("find_flights", {"city": city}), ("check_weather", {"city": city})]
        unread = [
            ("read_price", {"flight": flight}) for flight in self.unread(question)
        ]
        return unread or self.booking(question)

    def booking(self, question):
        """The write, if it is asked for and all prices are known."""
        wanted = "book" in question.request.lower() and not self.seen(
            question, "book_flight"
        )
        prices = self.prices(question)
        if not wanted or not prices or self.unread(question):
            return []
        return [("book_flight", {"flight": min(prices, key=prices.get)})]

    def unread(self, question):
        """The flights that were found and whose prices are unknown."""
        if not self.seen(question, "find_flights"):
            return []
        return [
            flight
            for flight in PRICES[self.city(question)]
            if flight not in self.prices(question)
        ]

    def prices(self, question):
        """The prices that were read."""
        calls = self.seen(question, "read_price")
        flights = PRICES.get(self.city(question), {})
        return {
            made.arguments["flight"]: flights[made.arguments["flight"]]
            for made in calls
        }

    @staticmethod
    def city(question):
        """The city that the user names; none if it is unknown."""
        return next(
            (city for city in PRICES if city.lower() in question.request.lower()), ""
        )

    @staticmethod
    def seen(question, tool):
        """The calls of a tool on the way."""
        return [made for made in question.path if made.tool == tool]
