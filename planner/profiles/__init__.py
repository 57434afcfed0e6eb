"""What exists: accelerators and models as sourced facts, found by name, alias or path."""

from planner.profiles.base import Precision
from planner.profiles.catalogue import hardware_profile, model_profile, profile, profile_names
from planner.profiles.check import ProfileCheck, check_profiles
from planner.profiles.hardware import Figure, HardwareProfile
from planner.profiles.measured import DecodePoint, KvCurve, MeasuredInstance, PrefillCurve
from planner.profiles.model import (
    Architecture,
    AttentionLayers,
    GqaLayers,
    KdaLayers,
    MixtureOfExperts,
    MlaLayers,
    ModelProfile,
)

__all__ = [
    "Architecture",
    "AttentionLayers",
    "DecodePoint",
    "Figure",
    "GqaLayers",
    "HardwareProfile",
    "KdaLayers",
    "KvCurve",
    "MeasuredInstance",
    "MixtureOfExperts",
    "MlaLayers",
    "ModelProfile",
    "Precision",
    "PrefillCurve",
    "ProfileCheck",
    "check_profiles",
    "hardware_profile",
    "model_profile",
    "profile",
    "profile_names",
]
