{{/* The name of what the chart makes: the release's, unless it already says heartwood. */}}
{{- define "heartwood.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "heartwood.operator" -}}
{{ include "heartwood.fullname" . }}-operator
{{- end -}}

{{/* The name of what lies outside the release's namespace, where a release of the same name in another one has the like. No name of a namespace
has a colon. */}}
{{- define "heartwood.operatorEverywhere" -}}
{{ .Release.Namespace }}:{{ include "heartwood.operator" . }}
{{- end -}}

{{- define "heartwood.serviceAccount" -}}
{{ default (include "heartwood.operator" .) .Values.serviceAccount.name }}
{{- end -}}

{{/* The image, by digest where there is one. Brokers get the same. */}}
{{- define "heartwood.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ default .Chart.AppVersion $image.tag }}
{{- end -}}
{{- end -}}

{{/* What a Deployment selects by: it can never change. */}}
{{- define "heartwood.selector" -}}
app.kubernetes.io/name: heartwood
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "heartwood.labels" -}}
{{ include "heartwood.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}
