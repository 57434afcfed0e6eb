"""Schemas of what exports write, made for tests: every key that exports may use, its type, and what must be there.

Publishers' own schemas allow far more keys. These refuse what is in none of them: unknown keys, wrong types and parts
that are missing.
"""

from typing import Any

Form = dict[str, Any]
TEXT: Form = {"type": "string"}
COUNT: Form = {"type": "integer", "minimum": 0}
POSITIVE: Form = {"type": "integer", "minimum": 1}
FREE: Form = {"type": "object"}
LABELS: Form = {"type": "object", "additionalProperties": TEXT}
NAME: Form = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}
"""A name of Kubernetes."""


def table(*required: str, **properties: Form) -> Form:
    """A mapping of these keys and no other."""
    return {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False}


def many(item: Form, least: int = 1) -> Form:
    """A list."""
    return {"type": "array", "items": item, "minItems": least}


def one_of(*words: str) -> Form:
    """One of some words."""
    return {"enum": [*words]}


FIELD = table("fieldRef", fieldRef=table("fieldPath", fieldPath=TEXT))
VARIABLE = table("name", name=TEXT, value=TEXT, valueFrom=FIELD)
PORT = table("containerPort", name=NAME, containerPort=POSITIVE)
RESOURCES = table(limits=LABELS, requests=LABELS)
CONTAINER = table(
    "name",
    name=NAME,
    image=TEXT,
    command=many(TEXT),
    args=many(TEXT),
    env=many(VARIABLE, 0),
    ports=many(PORT),
    resources=RESOURCES,
    restartPolicy=one_of("Always"),
    volumeMounts=many(table("name", "mountPath", name=NAME, mountPath=TEXT)),
)
VOLUME = table("name", name=NAME, emptyDir=table(medium=TEXT, sizeLimit=TEXT), configMap=table("name", name=NAME))
POD = table(
    "containers",
    containers=many(CONTAINER),
    initContainers=many(CONTAINER),
    nodeSelector=LABELS,
    volumes=many(VOLUME),
)
TEMPLATE = table("spec", metadata=table(labels=LABELS, annotations=LABELS), spec=POD)
METADATA = table("name", name=NAME, namespace=NAME, labels=LABELS, annotations=LABELS)


def resource(kind: str, spec: Form) -> Form:
    """A custom resource of a kind."""
    return table(
        *("apiVersion", "kind", "metadata", "spec"), apiVersion=TEXT, kind=one_of(kind), metadata=METADATA, spec=spec
    )


COMPONENT = table(
    *("name", "podTemplate"),
    name={"type": "string", "pattern": "^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$"},
    type=one_of("frontend", "worker", "prefill", "decode"),
    replicas=COUNT,
    podTemplate=TEMPLATE,
    multinode=table("nodeCount", nodeCount=POSITIVE),
    sharedMemorySize=TEXT,
)
DYNAMO = table("components", backendFramework=one_of("vllm", "sglang", "trtllm"), components=many(COMPONENT))

SET = table("workerTemplate", size=POSITIVE, workerTemplate=TEMPLATE, leaderTemplate=TEMPLATE)
ROLE = table("name", "spec", name=NAME, spec=table("leaderWorkerTemplate", replicas=COUNT, leaderWorkerTemplate=SET))
DISAGGREGATED_SET = table("roles", roles=many(ROLE))

TRIGGER = table("type", "metadata", type=TEXT, metadata=LABELS, name=TEXT)
KEDA = table("triggers", idleReplicaCount=COUNT, triggers=many(TRIGGER))
SCALING = table("minReplicas", "maxReplicas", minReplicas=POSITIVE, maxReplicas=POSITIVE, keda=KEDA)
WORKLOAD = {
    "replicas": COUNT,
    "annotations": LABELS,
    "labels": LABELS,
    "parallelism": table(
        tensor=POSITIVE, data=POSITIVE, dataLocal=POSITIVE, pipeline=POSITIVE, expert={"type": "boolean"}
    ),
    "template": POD,
    "worker": POD,
    "scaling": SCALING,
}
ROUTER = table(route=table(), gateway=table(), scheduler=table(config=table("inline", inline=FREE)))
SERVICE = table(
    "model",
    **WORKLOAD,
    model=table("uri", uri=TEXT, name=TEXT),
    prefill=table(**WORKLOAD),
    router=ROUTER,
)

MADE = {
    "DynamoGraphDeployment": resource("DynamoGraphDeployment", DYNAMO),
    "DisaggregatedSet": resource("DisaggregatedSet", DISAGGREGATED_SET),
    "LLMInferenceService": resource("LLMInferenceService", SERVICE),
}
"""By kind."""
