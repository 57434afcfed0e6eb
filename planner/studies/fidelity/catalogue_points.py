"""Published prefill curves of the model profiles as measured points: one request alone on an idle instance."""

from collections.abc import Iterator

from planner.profiles import MeasuredInstance, ModelProfile, model_profile, profile_names
from planner.profiles.points import ServingPoint


def catalogue_points(framework: str) -> list[ServingPoint]:
    """Points of every measured prefill curve of a framework; those of models without shapes are among them.

    Args:
        framework: such as sglang.

    Returns:
        One point per length.

    >>> len({point.model for point in catalogue_points("sglang")}) >= 3
    True
    """
    models = [model_profile(name) for name in profile_names("model")]
    return [
        point
        for model in models
        for key, instance in model.measured.items()
        if instance.basis == "measured" and _framework(instance) == framework.casefold()
        for point in _points(model, key, instance)
    ]


def _framework(instance: MeasuredInstance) -> str:
    return (instance.stack or "").partition("-")[0].casefold()


def _points(model: ModelProfile, key: str, instance: MeasuredInstance) -> Iterator[ServingPoint]:
    if instance.prefill is None:
        return
    framework, _, version = (instance.stack or "").partition("-")
    for tokens, seconds in zip(instance.prefill.tokens, instance.prefill.seconds, strict=True):
        yield ServingPoint(
            file=f"model profile {model.name}, {key}",
            line=1,
            model=model.name,
            hardware=instance.hardware,
            framework=framework,
            framework_version=version or None,
            precision=instance.precision,
            kv_precision="bf16",
            mode="agg",
            input_tokens=float(tokens),
            output_tokens=1.0,
            concurrency=1.0,
            n_accelerators=instance.n_accelerators,
            tp_size=instance.n_accelerators,
            pp_size=1,
            attention_dp_size=1,
            ttft_s=float(seconds),
            source=instance.source,
        )
