"""Parameters of an export beside the plan: facts of clusters, and choices that no plan makes."""

from collections.abc import Collection, Iterable, Iterator
from typing import Annotated, Any, Literal

from pydantic import Field

from planner.deploy.names import label
from planner.deploy.versions import PRODUCT_LABEL
from planner.errors import InputError, InputProblem, UsageError, did_you_mean, printable
from planner.results.plan import Plan
from planner.schema import Document, StrictModel

OPTION = "--param"
SHOWN = 100
"""Characters of a parameter in a message."""
Label = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$")]
LabelValue = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?$")]
Qualified = Annotated[str, Field(pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?$")]
Image = Annotated[str, Field(pattern=r"^[\w][\w./:@-]*$", max_length=500)]
Checkpoint = Annotated[str, Field(pattern=r"^[\w/][\w./:@-]*$", max_length=500)]
Hosts = Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*(,[A-Za-z0-9][\w.-]*)*$", max_length=1_000_000)]


class Parameters(StrictModel):
    """Parameters that `--param KEY=VALUE` may state."""

    name: Label | None = None
    """What names of the export begin with; by default the scenario's name."""
    namespace: Label = "default"
    """Namespace of Kubernetes that everything is deployed in."""
    clusters: Literal["per-site", "one"] = "per-site"
    """Whether every site is a cluster of its own, or one cluster spans them all and nodes are labelled by region."""
    engine: Literal["vllm", "sglang"] | None = None
    """Engine under Dynamo; by default the one whose times the plan has."""
    transfer: Literal["auto", "rdma", "tcp"] = "auto"
    """How KV caches are handed over; by default TCP between sites, and RDMA where there is any inside."""
    router: Literal["auto", "isl-bounding"] = "auto"
    """How Dynamo divides prompts: by the grid of its GlobalRouter. Its isl_bounding can hold no threshold."""
    period: str | None = None
    """Period whose instances and thresholds are deployed; by default the one with the highest demand."""
    timezone: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$", max_length=100)] = "Etc/UTC"
    """Time zone of the hours of pools that are rented by the period, as the IANA names it."""
    first_hour: Annotated[int, Field(ge=0, le=23)] = 0
    """Hour of the day, of Monday where the periods are a week, at which the first period begins."""
    accelerators_per_node: Annotated[int, Field(ge=1, le=1024)] = 8
    """Accelerators of a machine."""
    image: Image | None = None
    """Container image of the engine, in place of the pinned one."""
    images: dict[str, Image] = {}
    """The same for the pools of one kind of accelerator, by hardware."""
    sidecar_image: Image | None = None
    """Container image of llm-d's routing proxy, in place of the pinned one."""
    label_key: Qualified = PRODUCT_LABEL
    """Label of nodes that tells their accelerators."""
    label: dict[str, LabelValue] = {}
    """Value of that label, by hardware."""
    region: dict[str, LabelValue] = {}
    """Value of the region's label, by site, where one cluster spans them all; by default the site's name."""
    resource: dict[str, Qualified] = {}
    """Resource that a pod asks for, by hardware."""
    checkpoint: dict[str, Checkpoint] = {}
    """Repository or path of the weights, by model."""
    hosts: dict[str, Hosts] = {}
    """Machines of a pool for launch commands, by pool or by its label: names or addresses, separated by commas."""


TABLES = tuple(name for name, field in Parameters.model_fields.items() if field.default == {})
WHOLE_NUMBERS = ("accelerators_per_node", "first_hour")


def parameters_from(texts: Iterable[str], plan: Plan) -> Parameters:
    """Parameters from `KEY=VALUE` texts.

    Args:
        texts: such as `label.h200-sxm=NVIDIA-H200`.

    Raises:
        UsageError: a text is not KEY=VALUE.
        InputError: a key or value is not allowed, or names what the plan does not have.
    """
    data: dict[str, Any] = {}
    for text in texts:
        # A pool may be named by its layout, such as "decode tp=2", and no machine has "=" in its name.
        key, separator, value = text.rpartition("=") if text.startswith("hosts.") else text.partition("=")
        if not separator or not key.strip() or not value.strip():
            shown = printable(text, SHOWN)
            raise UsageError(f"{OPTION} {shown}: not KEY=VALUE, such as {OPTION} label.h200-sxm=NVIDIA-H200")
        _put(data, key.strip(), value.strip())
    found = Document(OPTION, data).record(Parameters)
    problems = [*_unknown(found, plan), *_shared_machines(found)]
    if problems:
        raise InputError(problems)
    return found


def _put(data: dict[str, Any], key: str, value: str) -> None:
    field, _, name = key.partition(".")
    if name and field in TABLES and isinstance(data.setdefault(field, {}), dict):
        data[field][name] = value
    else:
        data[key] = int(value) if key in WHOLE_NUMBERS and value.isdecimal() else value


def _unknown(found: Parameters, plan: Plan) -> Iterator[InputProblem]:
    """Problems of parameters that name nothing of the plan."""
    hardware = {pool.hardware for pool in plan.pools}
    drafting = {model.drafts.model for model in plan.models if model.drafts and model.drafts.model}
    known: dict[str, Collection[str]] = {
        "label": hardware,
        "resource": hardware,
        "images": hardware,
        "region": {pool.site for pool in plan.pools},
        "checkpoint": {model.name for model in plan.models} | drafting,
        "hosts": {name for pool in plan.pools for name in (pool.name, label(pool.name))},
    }
    for field, names in known.items():
        for name in getattr(found, field):
            if name not in names:
                yield InputProblem(OPTION, f"{field}.{name}", "names nothing of the plan", did_you_mean(name, names))
    periods = [period.name for period in plan.periods]
    if found.period is not None and found.period not in periods:
        allowed = did_you_mean(found.period, periods) if periods else "the plan has one demand at all times"
        yield InputProblem(OPTION, "period", f"is '{found.period}', no period of the plan", allowed)


def _shared_machines(found: Parameters) -> Iterator[InputProblem]:
    """Machines named twice: instances would take each other's ports and accelerators."""
    owners: dict[str, str] = {}
    for pool, hosts in found.hosts.items():
        for host in hosts.split(","):
            if host in owners:
                what = f"names the machine {host}, which is one of {owners[host]} already"
                yield InputProblem(OPTION, f"hosts.{pool}", what, "each machine once, whole instances fill it")
            owners[host] = pool
