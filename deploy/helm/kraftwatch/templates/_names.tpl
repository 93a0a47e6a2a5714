{{- /* A CronJob's name has at most 52 characters, `-audit` included. */ -}}
{{- define "kraftwatch.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 46 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 46 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "kraftwatch.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kraftwatch.job" -}}
{{ include "kraftwatch.selector" . }}
app.kubernetes.io/component: job
{{- end -}}

{{- define "kraftwatch.relay" -}}
{{ include "kraftwatch.selector" . }}
app.kubernetes.io/component: relay
{{- end -}}

{{- define "kraftwatch.labels" -}}
{{ include "kraftwatch.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "kraftwatch.config" -}}
{{- $secrets := "/etc/kraftwatch-secrets" -}}
{{- $fixed := dict "checkpoint" "/var/lib/kraftwatch/checkpoint" "listen" "0.0.0.0:9847" -}}
{{- $_ := set $fixed "listen_certfile" (printf "%s/page.crt" $secrets) -}}
{{- $_ := set $fixed "listen_keyfile" (printf "%s/page.key" $secrets) -}}
{{- $_ := set $fixed "listen_token_file" (printf "%s/page-token" $secrets) -}}
{{- $_ := set $fixed "listen_read_token_file" (printf "%s/page-read-token" $secrets) -}}
{{- toYaml (merge $fixed (deepCopy .Values.config)) -}}
{{- end -}}

{{- /* The ports that config names, besides those of the controllers: store, topic, sinks, heartbeat and OTLP. A policy knows no host names. */ -}}
{{- define "kraftwatch.ports" -}}
{{- $config := .Values.config -}}
{{- $places := list -}}
{{- range regexFindAll "https?://[^/\\s\"']+" (toYaml $config) -1 -}}
{{- $places = append $places (ternary . (printf "%s:%s" . (hasPrefix "https" . | ternary "443" "80")) (regexMatch ":[0-9]+$" .)) -}}
{{- end -}}
{{- with $config.store -}}
{{- $host := (urlParse .).host -}}
{{- $places = append $places (ternary $host (printf "%s:5432" $host) (regexMatch ":[0-9]+$" $host)) -}}
{{- end -}}
{{- range (default dict $config.relay).bootstrap -}}{{- $places = append $places . -}}{{- end -}}
{{- range $config.sinks -}}
{{- $kind := ternary (kindIs "string" . | ternary (splitList ":" (toString .) | first) "") "" (kindIs "string" .) -}}
{{- if kindIs "map" . -}}
{{- $kind = keys . | first -}}
{{- range (default dict (get . "kafka")).bootstrap -}}{{- $places = append $places . -}}{{- end -}}
{{- end -}}
{{- if has $kind (list "slack" "pagerduty" "apprise" "webhook" "alertmanager") -}}{{- $places = append $places ":443" -}}{{- end -}}
{{- if and (kindIs "string" .) (eq $kind "kafka") -}}
{{- $places = append $places (regexFind ":[0-9]+/" . | trimSuffix "/") -}}
{{- end -}}
{{- end -}}
{{- $ports := list -}}
{{- range $places -}}{{- $ports = append $ports (regexFind "[0-9]+$" . | int) -}}{{- end -}}
{{- range $ports | uniq | sortAlpha }}
- {port: {{ . }}, protocol: TCP}
{{- end -}}
{{- end -}}

{{- define "kraftwatch.egress" -}}
# DNS.
- ports:
  - {port: 53, protocol: UDP}
  - {port: 53, protocol: TCP}
{{- range .Values.networkPolicy.kafka }}
- to:
  {{- range .namespaces }}
  - namespaceSelector:
      matchLabels:
        kubernetes.io/metadata.name: {{ . }}
  {{- end }}
  {{- range .ipBlocks }}
  - ipBlock:
      cidr: {{ . }}
  {{- end }}
  ports:
  {{- range .ports }}
  - {port: {{ . }}, protocol: TCP}
  {{- end }}
{{- end }}
{{- if .Values.networkPolicy.fromConfig }}
{{- with include "kraftwatch.ports" . | trim }}
- ports:
  {{- . | nindent 2 }}
{{- end }}
{{- end }}
{{- with .Values.networkPolicy.extraEgress }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "kraftwatch.pod" -}}
serviceAccountName: {{ include "kraftwatch.name" . }}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: 30
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  {{- include "kraftwatch.podSecurity" . | nindent 2 }}
volumes:
  {{- include "kraftwatch.volumes" . | nindent 2 }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "kraftwatch.container" -}}
image: {{ include "kraftwatch.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- with .Values.env }}
env:
  {{- toYaml . | nindent 2 }}
{{- end }}
livenessProbe:
  httpGet: {path: /healthz, port: http, scheme: HTTPS}
  periodSeconds: 15
  timeoutSeconds: 5
  failureThreshold: 4
readinessProbe:
  httpGet: {path: /readyz, port: http, scheme: HTTPS}
  periodSeconds: 10
  timeoutSeconds: 5
securityContext:
  {{- include "kraftwatch.containerSecurity" . | nindent 2 }}
{{- end -}}

{{- define "kraftwatch.mounts" -}}
- name: config
  mountPath: /etc/kraftwatch
  readOnly: true
- name: secrets
  mountPath: /etc/kraftwatch-secrets
  readOnly: true
- name: tmp
  mountPath: /tmp
{{- end -}}

{{- define "kraftwatch.image" -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
{{- end -}}

{{- define "kraftwatch.podSecurity" -}}
runAsNonRoot: true
# Java needs a user name: the image defines one for this uid.
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "kraftwatch.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: ["ALL"]
{{- end -}}

{{- define "kraftwatch.volumeMounts" -}}
- name: checkpoint
  mountPath: /var/lib/kraftwatch
{{ include "kraftwatch.mounts" . }}
{{- end -}}

{{- define "kraftwatch.volumes" -}}
- name: config
  configMap:
    name: {{ include "kraftwatch.name" . }}
- name: secrets
  secret:
    secretName: {{ .Values.existingSecret }}
    defaultMode: 0440
- name: tmp
  emptyDir:
    sizeLimit: 64Mi
{{- end -}}
