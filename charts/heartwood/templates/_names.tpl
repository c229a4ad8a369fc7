{{/* The prefix of all names: the release's name, followed by the chart's name unless the release's name contains it. */}}
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

{{/* The name of cluster-scoped objects. It contains the namespace, because releases in different namespaces may have the same name. The
separator is a colon, because the name of a namespace contains none. */}}
{{- define "heartwood.operatorEverywhere" -}}
{{ .Release.Namespace }}:{{ include "heartwood.operator" . }}
{{- end -}}

{{- define "heartwood.serviceAccount" -}}
{{ default (include "heartwood.operator" .) .Values.serviceAccount.name }}
{{- end -}}

{{/* The image, by digest if image.digest is set. It is also the default image of brokers. */}}
{{- define "heartwood.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ default .Chart.AppVersion $image.tag }}
{{- end -}}
{{- end -}}

{{/* The selector of the Deployment. Kubernetes does not allow changes of a Deployment's selector. */}}
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
