"""Profiles of what exists: accelerators, models and serving stacks as sourced facts, found by name, alias or path.

Public modules:

    architectures        accelerator generations: the plausible range of each one's figures
    base                 what all profiles have: name, aliases, sources
    catalogue            profiles by file name, alias or path
    check                the gate: every problem of every file
    efficiency           fractions of an accelerator's peaks that kernels reach
    efficiency_checks    plausible efficiencies
    figure_units         the unit that a figure's key ends in
    folders              where profiles lie: the shipped ones, and folders of own ones that the environment names
    imported             a profile made of a config, and what it leaves open
    importer             model profiles from a Hugging Face config.json
    instance_spec        an instance as a question states it, and the criteria that choose its serving stack
    layers               groups of layers of one kind and shape
    measured             figures measured on, or inferred of, one serving instance
    model                model profiles: published shapes and parameter counts of one model
    model_checks         plausible shapes and counts of a model
    new_hardware         an accelerator to fill in
    parameters           parameter counts from shapes, in closed form per group of layers
    points               measured serving points, from the files people have
    points.bench_points  runs of serving benchmarks as measured points
    projections          matrices of attention and recurrent layers
    stack                stack profiles: what a serving framework adds to the roofline
    stack_checks         plausible factors of a stack
    stack_writer         a stack as the text of its file
    stated_size          the number of parameters that a model's name states, and whether a count agrees with it
    toml_text            tables and values as TOML text
    weights_index        bytes of a checkpoint by its index
"""

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
