"""Baselines that read the dialogue: retrieval of whole trajectories, nearest states, and a trained classifier.

All see what a question holds except the system prompt, which is the same for all trajectories of an agent.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import takewhile

import numpy as np

try:
    from scipy import sparse
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from threadpoolctl import threadpool_limits
except ImportError as error:
    msg = "This benchmark compares with scikit-learn's methods: pip install '.[benchmarks]'"
    raise ImportError(msg) from error

from langchain_tooltree import Trajectory
from langchain_tooltree.messages.content import get_text
from langchain_tooltree.messages.kinds import ChatMessage
from tests.benchmarks.next_tool_baselines import Bigram, Rank, chained, ranked
from tests.benchmarks.next_tool_protocol import Question, questions_in

RETRIEVED = 3
NEIGHBOURS = 5
INVERSE_REGULARIZATION = 10.0
ITERATIONS = 2000


def on_one_thread() -> threadpool_limits:
    """Keeps linear algebra on one thread: threads for matrices as small as these mostly wait for each other."""
    return threadpool_limits(limits=1)


def retrieval3(trajectories: Sequence[Trajectory]) -> Rank:
    """What came after the last tool in the trajectories most like this one, by what the user has said so far.

    Each occurrence counts as much as its trajectory is similar; then as the bigram does.
    """
    bigram = Bigram(trajectories)
    if not trajectories:
        return bigram
    after = [Bigram([trajectory]).after for trajectory in trajectories]
    texts = [_said_by("user", trajectory.messages) for trajectory in trajectories]
    vectorizer = _fitted(texts)
    vectors = vectorizer.transform(texts)

    def rank(question: Question) -> list[str]:
        similar = (
            (vectors @ vectorizer.transform([_said_by("user", question.messages)]).T)
            .toarray()
            .ravel()
        )
        votes: Counter[str] = Counter()
        for place in np.argsort(-similar, kind="stable")[:RETRIEVED]:
            for tool, times in after[place].get(question.last_tool, {}).items():
                votes[tool] += float(similar[place]) * times
        return chained(ranked(votes), bigram(question))

    return rank


def knn(trajectories: Sequence[Trajectory]) -> Rank:
    """What came next in the states most like this one among those with the same last tool, then as the bigram does.

    The state is what was said and observed since the last call; nearer neighbours count for more.
    """
    bigram = Bigram(trajectories)
    known: dict[str, list[Question]] = defaultdict(list)
    for question in questions_in(trajectories):
        known[question.last_tool].append(question)
    vectorizer = _fitted(
        [_since_last_call(question) for here in known.values() for question in here]
    )
    models = {
        tool: KNeighborsClassifier(
            min(NEIGHBOURS, len(here)), weights="distance", metric="cosine"
        ).fit(
            vectorizer.transform([_since_last_call(question) for question in here]),
            [question.answer for question in here],
        )
        for tool, here in known.items()
    }

    def rank(question: Question) -> list[str]:
        if question.last_tool not in models:
            return bigram(question)
        model = models[question.last_tool]
        shares = model.predict_proba(
            vectorizer.transform([_since_last_call(question)])
        )[0]
        votes = {
            str(tool): float(share)
            for tool, share in zip(model.classes_, shares, strict=True)
            if share > 0
        }
        return chained(ranked(votes), bigram(question))

    return rank


def supervised(trajectories: Sequence[Trajectory]) -> Rank:
    """Multinomial logistic regression on the calls so far and on what was said and observed last."""
    bigram = Bigram(trajectories)
    known = questions_in(trajectories)
    answers = [question.answer for question in known]
    if len(set(answers)) < 2:  # there is nothing to tell apart
        return bigram
    history = DictVectorizer().fit([_history(question) for question in known])
    views = [(view, _fitted([view(question) for question in known])) for view in _VIEWS]

    def encoded(questions: Sequence[Question]) -> sparse.csr_matrix:
        parts = [
            vectorizer.transform([view(question) for question in questions])
            for view, vectorizer in views
        ]
        return sparse.hstack(
            [history.transform([_history(question) for question in questions]), *parts],
            format="csr",
        )

    model = LogisticRegression(C=INVERSE_REGULARIZATION, max_iter=ITERATIONS).fit(
        encoded(known), answers
    )

    def rank(question: Question) -> list[str]:
        shares = model.predict_proba(encoded([question]))[0]
        best = [
            str(model.classes_[place]) for place in np.argsort(-shares, kind="stable")
        ]
        return chained(best, bigram.overall)

    return rank


def _fitted(texts: Sequence[str]) -> TfidfVectorizer:
    """Inverse document frequencies of texts, which may be without a word."""
    vectorizer = TfidfVectorizer(sublinear_tf=True)
    return vectorizer.fit(
        texts if any(map(vectorizer.build_analyzer(), texts)) else ["nothing"]
    )


def _said_by(role: str, messages: Sequence[ChatMessage]) -> str:
    return "\n".join(
        get_text(message.get("content"))
        for message in messages
        if message["role"] == role
    )


def _last_said_by(role: str) -> Callable[[Question], str]:
    def view(question: Question) -> str:
        said = (
            get_text(each.get("content"))
            for each in reversed(question.messages)
            if each["role"] == role
        )
        return next(said, "")

    return view


def _since_last_call(question: Question) -> str:
    since = takewhile(
        lambda message: not message.get("tool_calls"), reversed(question.messages)
    )
    return "\n".join(
        get_text(message.get("content"))
        for message in since
        if message["role"] != "system"
    )


_VIEWS = (
    _last_said_by("user"),
    _last_said_by("tool"),
    _last_said_by("assistant"),
    _since_last_call,
)


def _history(question: Question) -> dict[str, float]:
    """Features of the calls so far; whole numbers as logarithms."""
    tools = question.tools
    repeated = sum(
        1 for _ in takewhile(lambda tool: tool == tools[-1], reversed(tools))
    )
    features = {
        f"last {tools[-1]}": 1.0,
        f"last but one {tools[-2] if len(tools) > 1 else ''}": 1.0,
        f"last two {' '.join(tools[-2:])}": 1.0,
        f"after {question.messages[-1]['role']}": 1.0,
        "calls": np.log1p(len(tools)),
        "in a row": np.log1p(repeated),
    }
    for tool, times in Counter(tools).items():
        features[f"called {tool}"] = 1.0
        features[f"times {tool}"] = np.log1p(times)
    return features
