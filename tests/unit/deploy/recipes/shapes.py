"""JSON schemas of formats for which no dependency has a schema, written from their projects' documentation.

The Spark operator's API (sparkoperator.k8s.io/v1beta2), the Prometheus operator's PodMonitor, and the Compose
specification, as far as our files use them. Unknown keys are refused.
"""

from typing import Any

Shape = dict[str, Any]

TEXT: Shape = {"type": "string", "minLength": 1}
WHOLE: Shape = {"type": "integer", "minimum": 1}
TEXTS: Shape = {"type": "array", "items": TEXT, "minItems": 1}
ANY_OBJECT: Shape = {"type": "object"}
LABELS: Shape = {"type": "object", "additionalProperties": TEXT}
MEMORY: Shape = {"type": "string", "pattern": "^[0-9]+[kmgt]$"}
"""The format of Java's -Xmx."""
QUANTITY: Shape = {"type": "string", "pattern": "^[0-9]+(m|[KMG]i?)?$"}


def closed(required: list[str], /, **properties: Shape) -> Shape:
    """Returns the schema of an object without other keys."""
    return {"type": "object", "additionalProperties": False, "required": required, "properties": properties}


def list_of(item: Shape) -> Shape:
    """Returns the schema of a list with at least one item."""
    return {"type": "array", "items": item, "minItems": 1}


METADATA = closed(["name", "namespace"], name=TEXT, namespace=TEXT, labels=LABELS)
_IDENTITY = closed(
    ["runAsNonRoot"],
    runAsNonRoot={"const": True},
    runAsUser=WHOLE,
    runAsGroup=WHOLE,
    fsGroup=WHOLE,
    seccompProfile=closed(["type"], type={"enum": ["RuntimeDefault", "Localhost", "Unconfined"]}),
)
_RESTRICTED = closed(
    ["allowPrivilegeEscalation"],
    allowPrivilegeEscalation={"const": False},
    readOnlyRootFilesystem={"type": "boolean"},
    capabilities=closed(["drop"], drop=TEXTS, add=TEXTS),
)
_POD = {
    "cores": WHOLE,
    "coreRequest": QUANTITY,
    "coreLimit": QUANTITY,
    "memory": MEMORY,
    "memoryOverhead": MEMORY,
    "labels": LABELS,
    "annotations": LABELS,
    "javaOptions": TEXT,
    "serviceAccount": TEXT,
    "podSecurityContext": _IDENTITY,
    "securityContext": _RESTRICTED,
    "env": list_of(closed(["name", "value"], name=TEXT, value=TEXT)),
    "ports": list_of(
        closed(
            ["name", "containerPort", "protocol"],
            name={"type": "string", "pattern": "^[a-z0-9-]{1,15}$"},
            containerPort=WHOLE,
            protocol={"enum": ["TCP", "UDP"]},
        )
    ),
    "volumeMounts": list_of(
        closed(["name", "mountPath"], name=TEXT, mountPath={"type": "string", "pattern": "^/"}, readOnly={})
    ),
}
SPARK_APPLICATION = closed(
    ["apiVersion", "kind", "metadata", "spec"],
    apiVersion={"const": "sparkoperator.k8s.io/v1beta2"},
    kind={"const": "SparkApplication"},
    metadata=METADATA,
    spec=closed(
        ["type", "mode", "sparkVersion", "mainApplicationFile", "driver", "executor", "image", "restartPolicy"],
        type={"enum": ["Java", "Python", "Scala", "R"]},
        pythonVersion={"enum": ["2", "3"]},
        mode={"enum": ["cluster", "client"]},
        sparkVersion={"type": "string", "pattern": r"^\d+\.\d+\.\d+$"},
        image=TEXT,
        imagePullPolicy={"enum": ["Always", "IfNotPresent", "Never"]},
        mainApplicationFile={"type": "string", "pattern": r"^local:///.*\.py$"},
        arguments=TEXTS,
        sparkConf=LABELS,
        restartPolicy=closed(
            ["type"],
            type={"enum": ["Never", "OnFailure", "Always"]},
            onFailureRetries=WHOLE,
            onFailureRetryInterval=WHOLE,
            onSubmissionFailureRetries=WHOLE,
            onSubmissionFailureRetryInterval=WHOLE,
        ),
        volumes=list_of(
            closed(
                ["name"],
                name=TEXT,
                persistentVolumeClaim=closed(["claimName"], claimName=TEXT),
                configMap=closed(["name"], name=TEXT),
                secret=closed(["secretName"], secretName=TEXT),
                emptyDir=ANY_OBJECT,
            )
        ),
        driver=closed(["serviceAccount"], **_POD),
        executor=closed(
            ["instances"],
            **{key: shape for key, shape in _POD.items() if key != "serviceAccount"},
            instances=WHOLE,
        ),
    ),
)
_SECRET_KEY = closed(["name", "key"], name=TEXT, key=TEXT)
POD_MONITOR = closed(
    ["apiVersion", "kind", "metadata", "spec"],
    apiVersion={"const": "monitoring.coreos.com/v1"},
    kind={"const": "PodMonitor"},
    metadata=METADATA,
    spec=closed(
        ["selector", "podMetricsEndpoints"],
        jobLabel=TEXT,
        selector=closed(["matchLabels"], matchLabels=LABELS),
        podMetricsEndpoints=list_of(
            closed(
                ["port"],
                port=TEXT,
                path={"type": "string", "pattern": "^/"},
                scheme={"enum": ["http", "https"]},
                interval=TEXT,
                scrapeTimeout=TEXT,
                tlsConfig=closed([], ca=closed([], secret=_SECRET_KEY), serverName=TEXT),
                authorization=closed(["credentials"], type=TEXT, credentials=_SECRET_KEY),
            )
        ),
    ),
)
COMPOSE = closed(
    ["name", "services"],
    name={"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]*$"},
    services={
        "type": "object",
        "additionalProperties": closed(
            ["image", "restart"],
            image=TEXT,
            build=closed(["context", "dockerfile"], context=TEXT, dockerfile=TEXT),
            command=TEXTS,
            restart={"enum": ["no", "always", "on-failure", "unless-stopped"]},
            stop_grace_period={"type": "string", "pattern": "^[0-9]+s$"},
            read_only={"type": "boolean"},
            user={"type": "string", "pattern": "^[0-9]+:[0-9]+$"},
            cap_drop=TEXTS,
            security_opt=TEXTS,
            tmpfs=TEXTS,
            mem_limit=MEMORY,
            pids_limit=WHOLE,
            ports={"type": "array", "items": {"type": "string", "pattern": r"^([0-9.]+:)?[0-9]+:[0-9]+$"}},
            volumes={"type": "array", "items": {"type": "string", "pattern": "^[a-z.][^:]*:/[^:]+(:ro)?$"}},
            configs=list_of(closed(["source", "target"], source=TEXT, target=TEXT)),
            secrets=list_of(closed(["source", "target"], source=TEXT, target=TEXT)),
            logging=closed(["driver"], driver=TEXT, options=LABELS),
        ),
    },
    configs={"type": "object", "additionalProperties": closed(["file"], file=TEXT)},
    secrets={"type": "object", "additionalProperties": closed(["file"], file=TEXT)},
    volumes={"type": "object", "additionalProperties": {"type": ["null", "object"]}},
)
