"""The shapes of what no schema in our dependencies describes, from the fields that their projects document.

The Spark operator's API (sparkoperator.k8s.io/v1beta2), the Prometheus operator's PodMonitor, and the Compose
specification, as far as our files use them: a key that is not here is refused.
"""

from typing import Any

Shape = dict[str, Any]

TEXT: Shape = {"type": "string", "minLength": 1}
WHOLE: Shape = {"type": "integer", "minimum": 1}
TEXTS: Shape = {"type": "array", "items": TEXT, "minItems": 1}
ANY_OBJECT: Shape = {"type": "object"}
LABELS: Shape = {"type": "object", "additionalProperties": TEXT}
MEMORY: Shape = {"type": "string", "pattern": "^[0-9]+[kmgt]$"}
"""As Java's -Xmx spells it."""
QUANTITY: Shape = {"type": "string", "pattern": "^[0-9]+(m|[KMG]i?)?$"}


def closed(required: list[str], /, **properties: Shape) -> Shape:
    """An object that has these keys and no others."""
    return {"type": "object", "additionalProperties": False, "required": required, "properties": properties}


def listed(item: Shape) -> Shape:
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
_LOCKED = closed(
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
    "securityContext": _LOCKED,
    "env": listed(closed(["name", "value"], name=TEXT, value=TEXT)),
    "ports": listed(
        closed(
            ["name", "containerPort", "protocol"],
            name={"type": "string", "pattern": "^[a-z0-9-]{1,15}$"},
            containerPort=WHOLE,
            protocol={"enum": ["TCP", "UDP"]},
        )
    ),
    "volumeMounts": listed(
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
        volumes=listed(
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
POD_MONITOR = closed(
    ["apiVersion", "kind", "metadata", "spec"],
    apiVersion={"const": "monitoring.coreos.com/v1"},
    kind={"const": "PodMonitor"},
    metadata=METADATA,
    spec=closed(
        ["selector", "podMetricsEndpoints"],
        selector=closed(["matchLabels"], matchLabels=LABELS),
        podMetricsEndpoints=listed(
            closed(["port"], port=TEXT, path={"type": "string", "pattern": "^/"}, interval=TEXT, scrapeTimeout=TEXT)
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
            configs=listed(closed(["source", "target"], source=TEXT, target=TEXT)),
            secrets=listed(closed(["source", "target"], source=TEXT, target=TEXT)),
            logging=closed(["driver"], driver=TEXT, options=LABELS),
        ),
    },
    configs={"type": "object", "additionalProperties": closed(["file"], file=TEXT)},
    secrets={"type": "object", "additionalProperties": closed(["file"], file=TEXT)},
    volumes={"type": "object", "additionalProperties": {"type": ["null", "object"]}},
)
