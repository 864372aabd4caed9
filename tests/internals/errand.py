"""A policy of `OfflineChatModel` for tests."""


class Errand:
    """Wants some calls, one after another; each scores its number in tenths, and the last one reaches the goal."""

    def __init__(self, *wanted):
        self.wanted = wanted

    def propose(self, question):
        return [("alpha", {"n": n}) for n in self.wanted[len(question.path) :]][
            : question.count
        ]

    def score_call(self, _, call):
        return call.arguments["n"] / 10

    def score_observation(self, question, call):
        return call.arguments["n"] / 10, len(question.path) + 1 == len(self.wanted)

    def answer(self, _):
        return "Done."
