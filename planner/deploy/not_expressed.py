"""NOT_EXPRESSED.md: what the plan decided and the target cannot say, and what was taken for granted in its place."""

from collections.abc import Collection, Iterator, Sequence

from planner.deploy.deployment import Deployment, Group, Unit
from planner.deploy.engine_args import is_converted, is_planned_for
from planner.deploy.hours import cron_triggers, follows, is_scaled
from planner.deploy.refusals import LAUNCHED, ON_KUBERNETES, SEVERAL_NODES, Target, has_global_router
from planner.deploy.versions import (
    DYNAMO,
    DYNAMO_IMAGES,
    ENGINES,
    KSERVE,
    LLM_D,
    LWS,
    PRODUCTS,
    SGLANG_ROUTER,
    VLLM_ROUTER,
    EngineName,
    Software,
)
from planner.markdown_text import code, escaped, prose
from planner.results.plan import DeployedModel
from planner.units import number, percent, usd

FILE = "NOT_EXPRESSED.md"
WRITTEN_FOR: dict[Target, tuple[Software, ...]] = {
    "dynamo": (DYNAMO,),
    "llm-d": (LLM_D, LWS),
    "kserve": (KSERVE,),
    "sglang": (SGLANG_ROUTER,),
    "vllm": (VLLM_ROUTER,),
}
DENSE = "dense_tp"
"""Part of a layout that no engine has a flag for."""
MOST_LISTED = 12
"""Of periods that are told one by one."""


def not_expressed(deployment: Deployment, target: Target, engine: EngineName) -> str:
    """The page, in Markdown."""
    sections = {
        "What is deployed": _deployed(deployment),
        "Prompts": _prompts(deployment, target),
        "Links and transfer": _links(deployment, target),
        "Shares, hours and promises": _shares_and_hours(deployment, target),
        "Taken for granted": _assumed(deployment, target, engine),
        "Versions": _versions(target, engine),
    }
    head = [
        f"# What {target} does not say of the plan of {escaped(deployment.plan.scenario)}",
        "",
        "These files were written from a plan. That they are valid does not prove that anything is scheduled, that a",
        "model loads, or that it serves as planned.",
    ]
    lines = [*head]
    for title, found in sections.items():
        told = [*found]
        if told:
            lines += ["", f"## {title}", "", *(line if line.startswith("|") else f"- {prose(line)}" for line in told)]
    return "\n".join([*lines, ""])


def _deployed(deployment: Deployment) -> Iterator[str]:
    yield "| pool | cluster | role | instances | each | layout | weights | KV cache |"
    yield "|---|---|---|---|---|---|---|---|"
    for unit in deployment.units:
        layout = unit.layout
        sizes = f"tp={layout.tp},ep={layout.ep},dp={layout.dp},pp={layout.pp}"
        cells = [
            unit.pool.name,
            unit.cluster,
            unit.role,
            str(unit.pool.n_instances),
            f"{unit.n_accelerators} x {unit.pool.hardware}",
            sizes,
            unit.pool.precision or unit.model.precision,
            unit.kv_precision,
        ]
        yield _row(*map(escaped, cells))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _prompts(deployment: Deployment, target: Target) -> Iterator[str]:
    for group in deployment.groups:
        if group.threshold_tokens is not None:
            yield from _threshold(deployment, target, group)
        else:
            yield f"{group.site}: all prompts go to {_named(group.prefill)}."
        yield from _other_classes(group)
    yield from _other_periods(deployment)
    for unit in deployment.units:
        if not deployment.groups_of(unit):
            files = "it is in no file" if target == "kserve" else "no router calls it"
            when = f" in {deployment.period.name}" if deployment.period else ""
            yield f"{unit.pool.name} takes no requests{when}: {files}."
    if target == "llm-d":
        yield from _common_ranges(deployment)


def _threshold(deployment: Deployment, target: Target, group: Group) -> Iterator[str]:
    t = group.threshold_tokens or 0
    planned = group.by_class[0][1]
    where = f"{group.site}: prompts of more than {number(planned, 9)} uncached tokens go to {_named(group.long)}"
    yield f"{where}, others to {_named(group.short)}. Lengths are whole: at most {t} tokens, or {t + 1} and more."
    how = {
        "dynamo": f"The GlobalRouter's grid has rows of {t + 1} tokens.",
        "llm-d": f"Pods carry the ranges of lengths 0-{t} and from {t + 1} on.",
    }.get(target)
    if group.colocated and target not in LAUNCHED:
        yield (
            f"The router's decider has prompts of {t + 1} uncached tokens and more prefilled elsewhere. It takes as "
            "cached what it has routed to the pod that it chose; where it knows nothing of that, the pod prefills all."
        )
    elif how is None:
        yield (
            f"The router of {target} has no threshold. There is one for short prompts and one for long ones, each on a "
            "port of its own: whoever calls them must choose, by uncached tokens as the plan does or by whole prompts."
        )
    else:
        yield f"{how} It counts the whole prompt, not what of it is uncached{_hits(deployment, group)}."
    if target == "llm-d":
        yield "Without a token producer llm-d's router estimates lengths: prompts near the threshold may go astray."


def _hits(deployment: Deployment, group: Group) -> str:
    cached = [one.cached_fraction for one in deployment.plan.classes if one.model == group.model.name]
    if not any(cached):
        return "; the plan counts with no prefix hits, so both are the same"
    return f": the plan finds {percent(max(cached))} of prompt tokens in the cache, so more prompts count as long"


def _other_classes(group: Group) -> Iterator[str]:
    if len({tokens for _, tokens in group.by_class}) > 1:
        (first, _), *others = group.by_class
        told = ", ".join(f"{name} {_tokens(tokens)}" for name, tokens in others)
        yield f"{group.site}: one threshold for all classes, that of {first}. The plan has others: {told}."


def _other_periods(deployment: Deployment) -> Iterator[str]:
    """Thresholds of the periods that are not deployed, those of equal ones together."""
    now = deployment.period
    if now is None:
        return
    found: dict[str, list[str]] = {}
    for one in deployment.plan.periods:
        if one.thresholds != now.thresholds:
            sites = (f"{name} at {site} {_tokens(t)}" for name, at in one.thresholds.items() for site, t in at.items())
            found.setdefault(", ".join(sites), []).append(one.name)
    if found:
        yield f"Thresholds are those of {now.name}, and a router keeps them; in other periods the plan has others:"
    for told, names in [*found.items()][:MOST_LISTED]:
        yield f"{', '.join(names)}: {told}."
    if len(found) > MOST_LISTED:
        yield f"... and {len(found) - MOST_LISTED} more; `--param period=NAME` deploys those of another."


def _common_ranges(deployment: Deployment) -> Iterator[str]:
    for unit in deployment.units:
        limits = {group.threshold_tokens for group in deployment.groups_of(unit)}
        if unit.role == "prefill" and len(limits) > 1:
            yield f"{unit.pool.name} serves sites with different thresholds, and its pods carry one range for all."


def _tokens(tokens: float | None) -> str:
    """From where on prompts are long."""
    if tokens is None:
        return "none is long"
    return "all are long" if tokens <= 0 else f"long beyond {number(tokens, 9)} tokens"


def _named(units: Sequence[Unit]) -> str:
    return " and ".join(unit.pool.name for unit in units)


def _links(deployment: Deployment, target: Target) -> Iterator[str]:
    for link in deployment.plan.links:
        trip = "" if link.round_trip_ms is None else f", round trip {number(link.round_trip_ms)} ms"
        size = f"{number(link.capacity_gbps)} Gbps{trip}, ports: {link.n_ports}"
        mean = f"{number(link.mean_gbps)} Gbps of KV caches on average"
        yield f"{link.name}, {link.from_site} to {link.to_site}: {size}; {mean}. No file reserves or limits it."
    crossing = [group for group in deployment.groups if group.crosses_sites]
    if crossing and deployment.parameters.transfer == "auto":
        tied = " That holds for every pool that exchanges any with them." if target == "sglang" else ""
        yield f"KV caches that cross sites go over TCP.{tied}"
    elif deployment.hands_over and target != "sglang" and deployment.parameters.transfer != "tcp":
        yield "RDMA is used where UCX finds a device; no pod or container asks for one."
    yield from _clusters(deployment, target)


def _clusters(deployment: Deployment, target: Target) -> Iterator[str]:
    for group in deployment.groups:
        far = [unit for unit in group.prefill if unit.cluster != group.cluster]
        if far and target in ON_KUBERNETES:
            yield (
                f"The router of {group.cluster} finds pods of its own cluster. {_named(far)} runs in {far[0].cluster}, "
                f"and gets no prompt from {group.site} until {target} finds it there: over a network and a discovery "
                "that both clusters share, which these files do not make. `--to sglang` and `--to vllm` call it by its "
                "address."
            )


def _shares_and_hours(deployment: Deployment, target: Target) -> Iterator[str]:
    plan = deployment.plan
    for group in deployment.groups:
        for units, work in ((group.short, "short prompts"), (group.long, "long prompts"), (group.decode, "decoding")):
            if len(units) > 1:
                yield f"{group.site}: {_named(units)} share {work} as the router balances them, not as planned."
    if len(plan.periods) > 1:
        now = deployment.period
        busiest = f"; {now.name} is deployed" if now else ""
        yield f"The plan has {len(plan.periods)} periods{busiest}, at all hours."
        yield from _changing_sizes(deployment, target)
    promises = {f"{one.name}: {_promise(one.slo)}" for one in plan.classes if one.slo}
    if promises:
        yield f"Nothing holds latency to what is promised ({'; '.join(sorted(promises))})."
    if plan.survives:
        yield f"Spare for the loss of {', '.join(plan.survives)} is in the number of instances; nothing says so."
    if plan.cost.usd_per_hour is not None:
        yield f"Prices: the plan costs {usd(plan.cost.usd_per_hour)} USD per hour; no file limits the bill."
    yield "The plan counts with one queue per pool, first come first served; routers balance by what they see."


def _changing_sizes(deployment: Deployment, target: Target) -> Iterator[str]:
    """Pools that the plan has more or fewer instances of in some periods than are deployed, and what scales them."""
    scaled = {unit.pool.name for unit in deployment.units if is_scaled(deployment, unit, target)}
    sizes = {pool.name: pool.n_instances for pool in deployment.period.pools} if deployment.period else {}
    for name, deployed in sizes.items():
        planned = {pool.n_instances for one in deployment.plan.periods for pool in one.pools if pool.name == name}
        if len(planned) > 1:
            ranges = f"the plan has {min(planned)} to {max(planned)} by period"
            what = "KEDA has to be there to scale it" if name in scaled else "nothing in the files scales it"
            yield f"{name}: {deployed} instances are deployed; {ranges}; {what}."
    yield from _cron_lines(deployment, scaled)


def _cron_lines(deployment: Deployment, scaled: Collection[str]) -> Iterator[str]:
    """Triggers of pools whose workload is not told by the files, for a ScaledObject that somebody else writes."""
    told = [(unit, follows(deployment, unit)) for unit in deployment.units if unit.pool.name not in scaled]
    rows = [
        (unit.pool.name, trigger["metadata"])
        for unit, schedule in told
        if schedule is not None
        for trigger in cron_triggers(deployment, schedule)
    ]
    if rows:
        yield f"Cron triggers of KEDA for a ScaledObject of your own, in {deployment.parameters.timezone}:"
        yield "| pool | start | end | desiredReplicas |"
        yield "|---|---|---|---|"
        yield from (_row(escaped(name), code(m["start"]), code(m["end"]), m["desiredReplicas"]) for name, m in rows)


def _promise(slo: dict[str, float]) -> str:
    names = {"ttft_s": "TTFT within {} s", "ttft_percentile": "for {} % of requests", "tpot_ms": "steps within {} ms"}
    return ", ".join(names.get(key, key + " {}").format(number(value)) for key, value in slo.items())


def _assumed(deployment: Deployment, target: Target, engine: EngineName) -> Iterator[str]:
    for unit in deployment.units:
        if unit.pool.layout is None:
            name = unit.pool.name
            yield f"{name}: nobody said how its instances are laid out; they are tensor parallel, tp={unit.layout.tp}."
        elif DENSE in unit.pool.layout:
            yield f"{unit.pool.name}: engines lay dense MLPs out themselves, whatever {unit.pool.layout} says of them."
    yield from _other_software(deployment, engine)
    yield from _other_memory(deployment, engine)
    converted = [unit for unit in deployment.units if is_converted(deployment, unit)]
    if converted:
        yield f"Weights of {_named(converted)} are made fp8 of bf16 while they load, without calibration."
    for model in dict.fromkeys(unit.model for unit in deployment.units):
        checkpoint = deployment.checkpoint_of(model)
        if checkpoint == model.name:
            say = f"`--param checkpoint.{model.name}=PATH` says where its weights are"
            yield f"No repository of {model.name} is known: {say}."
        else:
            yield f"Weights of {model.name} are those of {checkpoint}, in the precision that is stored there."
        yield from _drafts(deployment, model)
    if not all(deployment.image_of(unit, None) for unit in deployment.units):
        yield "Images are the ones that the pinned versions are released as; whether a registry has them was not asked."
    if target in ON_KUBERNETES:
        yield from _cluster_facts(deployment, target)
    elif not all(deployment.hosts_of(unit) for unit in deployment.units):
        yield "Machines are called after their pools: `--param hosts.POOL=NAME,NAME` says what they are."


def _other_memory(deployment: Deployment, engine: EngineName) -> Iterator[str]:
    """Memory that was planned by the accounting of another engine."""
    others = [unit for unit in deployment.units if unit.pool.engine and not is_planned_for(unit, engine)]
    if others:
        own = ENGINES[engine]
        yield (
            f"Memory of {_named(others)} is planned as {others[0].pool.stack} counts it. {own.name} is told no "
            f"`{own.flag('memory')}`: whether its own leaves as much for caches, its first log says."
        )


def _drafts(deployment: Deployment, model: DeployedModel) -> Iterator[str]:
    """Assumptions of the plan about drafted tokens."""
    drafts = model.drafts
    if drafts is None:
        return
    draft = deployment.draft_checkpoint_of(drafts)
    by = "MTP layers of its checkpoint" if draft is None else f"{draft} beside it, on the same accelerators"
    accepted = ", ".join(f"{value:g}" for value in dict.fromkeys(drafts.acceptance))
    yield (
        f"{model.name} drafts {drafts.draft_tokens} tokens per step with {by}. The plan counts with an acceptance of "
        f"{accepted}: it depends on what is asked, and no flag holds it."
    )


def _other_software(deployment: Deployment, engine: EngineName) -> Iterator[str]:
    software = ENGINES[engine]
    pinned = f"{engine}-{software.version}"
    for unit in deployment.units:
        stack = unit.pool.stack
        if stack is None:
            yield f"{unit.pool.name}: its times are of no known software; it runs {software.name} {software.version}."
        elif stack != pinned:
            yield f"{unit.pool.name}: its times are of {stack}; it runs {software.name}, pinned at {software.version}."


def _cluster_facts(deployment: Deployment, target: Target) -> Iterator[str]:
    key = deployment.parameters.label_key
    for hardware in dict.fromkeys(unit.pool.hardware for unit in deployment.units):
        if hardware not in deployment.parameters.label:
            value = PRODUCTS[hardware]
            yield f"Nodes with {hardware} are taken to be labelled {key}={value} (`--param label.{hardware}=VALUE`)."
    large = [unit for unit in deployment.units if unit.n_accelerators > deployment.parameters.accelerators_per_node]
    if large and target in SEVERAL_NODES:
        yield f"Instances of {_named(large)} span machines of {deployment.parameters.accelerators_per_node}."
    if wide := [unit for unit in large if unit.layout.ep > 1 and unit.layout.dp > 1]:
        yield (
            f"Times of {_named(wide)} take wide expert parallelism as the stack's profile has it (`wide_ep`): DeepEP, "
            "grouped experts, and where it says so two micro-batches and tokens of a pass. No flag here turns them on."
        )
    if target == "llm-d":
        yield "The router's chart is installed apart, with *-values.yaml, for pods labelled `llm-d.ai/model`."
    if target == "dynamo" and any(has_global_router(deployment, group) for group in deployment.groups):
        space = deployment.parameters.namespace
        yield f"Dynamo's operator is taken to call the namespace of a graph `{space}-GRAPH`: the router looks there."


def _versions(target: Target, engine: EngineName) -> Iterator[str]:
    yield "| software | version | its flags and fields are known from |"
    yield "|---|---|---|"
    runs_inside = target == "dynamo"
    for software in (ENGINES[engine], *WRITTEN_FOR[target]):
        version = f"as in {DYNAMO_IMAGES[engine]}" if runs_inside and software is ENGINES[engine] else software.version
        yield _row(software.name, version, software.read)
