"""The conditional edge behind the tools."""

from functools import partial
from types import SimpleNamespace

from runs_to_read import seen

from langchain_tooltree import AnomalyDetector, anomaly_condition


def test_anomalous_observations_lead_to_reflection():
    assert anomaly_condition({"messages": seen("You can't do that.")}) == "reflect"
    assert anomaly_condition({"messages": seen("The door is now open.")}) == "model"


def test_what_the_agent_cannot_help_goes_to_the_model():
    assert anomaly_condition({"messages": seen("Error: invalid API key")}) == "model"


def test_a_state_may_be_a_list_or_an_object_and_have_another_key():
    odd = seen("You can't do that.")
    assert anomaly_condition(odd) == "reflect"
    assert anomaly_condition(SimpleNamespace(chat=odd), "chat") == "reflect"
    assert anomaly_condition({}) == "model"


def test_a_detector_of_ones_own_can_be_bound():
    condition = partial(anomaly_condition, detector=AnomalyDetector(phrases=["green"]))
    assert condition({"messages": seen("A green ball.")}) == "reflect"


def test_a_detector_that_fails_leads_to_the_model(caplog):
    def broken(_):
        msg = "no idea"
        raise LookupError(msg)

    condition = partial(anomaly_condition, detector=AnomalyDetector(classifier=broken))
    assert condition({"messages": seen("A green ball.")}) == "model"
    assert "An observation was not checked: LookupError: no idea" in caplog.text
