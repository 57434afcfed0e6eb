"""Profiles of what exists: accelerators, models and serving stacks as sourced facts, found by name, alias or path."""

from planner.profiles.base import Precision
from planner.profiles.catalogue import (
    hardware_profile,
    labels,
    model_profile,
    namesake_note,
    namesakes,
    profile,
    profile_names,
    stack_profile,
)
from planner.profiles.check import ProfileCheck, check_profiles
from planner.profiles.consistency import too_steep
from planner.profiles.efficiency import Efficiencies
from planner.profiles.experts import MixtureOfExperts
from planner.profiles.figure import Figure
from planner.profiles.folders import Kind
from planner.profiles.hardware import Figures, HardwareProfile
from planner.profiles.layers import (
    AttentionLayers,
    GdnLayers,
    GqaLayers,
    Indexer,
    KdaLayers,
    LightningLayers,
    Mamba1Layers,
    Mamba2Layers,
    MlaLayers,
    SwaLayers,
)
from planner.profiles.measured import DecodePoint, KvCurve, MeasuredInstance, PrefillCurve
from planner.profiles.model import Architecture, Checkpoint, ModelProfile, WeightPart
from planner.profiles.parameters import (
    active_parameters,
    attention_parameters,
    missing_shapes,
    mtp_parameters,
    parameters_by_part,
    total_parameters,
)
from planner.profiles.speculation import MOST_DRAFT_TOKENS, Speculation, speculation_fault
from planner.profiles.stack import StackFactors, StackProfile, zero_rates

__all__ = [
    "MOST_DRAFT_TOKENS",
    "Architecture",
    "AttentionLayers",
    "Checkpoint",
    "DecodePoint",
    "Efficiencies",
    "Figure",
    "Figures",
    "GdnLayers",
    "GqaLayers",
    "HardwareProfile",
    "Indexer",
    "KdaLayers",
    "Kind",
    "KvCurve",
    "LightningLayers",
    "Mamba1Layers",
    "Mamba2Layers",
    "MeasuredInstance",
    "MixtureOfExperts",
    "MlaLayers",
    "ModelProfile",
    "Precision",
    "PrefillCurve",
    "ProfileCheck",
    "Speculation",
    "StackFactors",
    "StackProfile",
    "SwaLayers",
    "WeightPart",
    "active_parameters",
    "attention_parameters",
    "check_profiles",
    "hardware_profile",
    "labels",
    "missing_shapes",
    "model_profile",
    "mtp_parameters",
    "namesake_note",
    "namesakes",
    "parameters_by_part",
    "profile",
    "profile_names",
    "speculation_fault",
    "stack_profile",
    "too_steep",
    "total_parameters",
    "zero_rates",
]
