{{- define "kraftwatch.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "kraftwatch.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
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
{{- toYaml (merge $fixed (deepCopy .Values.config)) -}}
{{- end -}}
