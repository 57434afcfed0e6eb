"""Seconds, bytes and memory of one model on one instance: what `planner predict` answers."""

from planner.studies.predict.answer import predict
from planner.studies.predict.question import PredictQuestion
from planner.studies.predict.survey import roofline_survey

__all__ = ["PredictQuestion", "predict", "roofline_survey"]
