"""The keys of formats for which no dependency has a schema, from their projects' documentation, as far as we use them.

The Spark operator's API (sparkoperator.k8s.io/v1beta2), the Prometheus operator's PodMonitor (monitoring.coreos.com/v1)
and the Compose specification.
"""

from collections.abc import Iterator, Mapping

_OBJECT = "apiVersion kind metadata name namespace labels spec"
KEYS: Mapping[str, frozenset[str]] = {
    kind: frozenset(keys.split())
    for kind, keys in {
        "SparkApplication": f"""{_OBJECT} type pythonVersion mode sparkVersion image imagePullPolicy mainApplicationFile
            arguments sparkConf restartPolicy onFailureRetries onFailureRetryInterval onSubmissionFailureRetries
            onSubmissionFailureRetryInterval volumes persistentVolumeClaim claimName configMap secret secretName
            emptyDir driver executor instances cores coreRequest coreLimit memory memoryOverhead annotations javaOptions
            serviceAccount env value ports containerPort protocol volumeMounts mountPath readOnly podSecurityContext
            runAsNonRoot runAsUser runAsGroup fsGroup seccompProfile securityContext allowPrivilegeEscalation
            readOnlyRootFilesystem capabilities drop add""",
        "PodMonitor": f"""{_OBJECT} jobLabel selector matchLabels podMetricsEndpoints port path scheme interval
            scrapeTimeout tlsConfig ca secret key serverName authorization type credentials""",
        "Compose": """name services image build context dockerfile command restart stop_grace_period read_only user
            cap_drop security_opt tmpfs mem_limit pids_limit ports volumes configs secrets source target logging driver
            options file""",
    }.items()
}
_NAMES = frozenset(
    {"labels", "matchLabels", "annotations", "sparkConf", "options", "services", "configs", "secrets", "volumes"}
)
"""The keys of their mappings are names that a user chooses."""


def unknown_keys(value: object, kind: str, *, are_names: bool = False) -> Iterator[str]:
    """Yields the keys that this format does not have."""
    if isinstance(value, list):
        for each in value:
            yield from unknown_keys(each, kind)
    elif isinstance(value, Mapping):
        for key, each in value.items():
            if not are_names and key not in KEYS[kind]:
                yield key
            yield from unknown_keys(each, kind, are_names=key in _NAMES and not are_names)
