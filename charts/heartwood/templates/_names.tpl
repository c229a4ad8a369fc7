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
{{ include "heartwood.commonLabels" . }}
{{- end -}}

{{- define "heartwood.console" -}}
{{ include "heartwood.fullname" . }}-console
{{- end -}}

{{/* The selector of the console's Deployment and Service. */}}
{{- define "heartwood.consoleSelector" -}}
app.kubernetes.io/name: heartwood
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: console
{{- end -}}

{{- define "heartwood.consoleLabels" -}}
{{ include "heartwood.consoleSelector" . }}
{{ include "heartwood.commonLabels" . }}
{{- end -}}

{{- define "heartwood.commonLabels" -}}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- /* The objects that an uninstall has kept, as arguments of kubectl. After a failed install some may be missing. */}}
{{- define "heartwood.kept" -}}
{{- range $path, $_ := .Files.Glob "files/{crds/*,*-policy}.yaml" -}}
{{- range $document := splitList "\n---\n" ($.Files.Get $path) -}}
{{- $object := $document | fromYaml -}}
{{- if lookup $object.apiVersion $object.kind "" $object.metadata.name -}}
{{ lower $object.kind }}/{{ $object.metadata.name }}{{ " " }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Fails if a CRD or an admission policy, which are kept at an uninstall, belongs to another release. Helm itself would only say "invalid ownership metadata". */}}
{{- define "heartwood.owned" -}}
{{- $found := lookup .object.apiVersion .object.kind "" .object.metadata.name }}
{{- if $found }}
{{- $annotations := default dict $found.metadata.annotations }}
{{- $release := default "(none)" (get $annotations "meta.helm.sh/release-name") }}
{{- $namespace := default "(none)" (get $annotations "meta.helm.sh/release-namespace") }}
{{- if or (ne $release .root.Release.Name) (ne $namespace .root.Release.Namespace) }}
{{- $kept := include "heartwood.kept" .root | trim }}
{{- $again := ternary "Then run" (printf "Then install as release %s in namespace %s again, to which the kept objects belong; or, for another name or namespace, run" $release $namespace) (eq $release "(none)") }}
{{- fail (printf "\n\n%s %s belongs to release %s in namespace %s. An uninstall keeps CRDs and admission policies, because deleting them would delete every LogCluster.\n\nTo keep that release, or CRDs that are managed without Helm, set crds.install=false. To replace it, first run helm uninstall if it still exists, also if its install has failed. %s these commands, and install again with --force-conflicts, because kubectl or an earlier Helm owns fields of these objects:\n\n  KEPT=\"%s\"\n  kubectl annotate --overwrite $KEPT meta.helm.sh/release-name=%s meta.helm.sh/release-namespace=%s\n  kubectl label --overwrite $KEPT app.kubernetes.io/managed-by=Helm\n" .object.kind .object.metadata.name $release $namespace $again $kept .root.Release.Name .root.Release.Namespace) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Fails if the CRDs of the Prometheus operator are missing. Helm itself would only say "no matches for kind". Without a cluster (helm template) nothing is known about it. */}}
{{- define "heartwood.monitored" -}}
{{- $cluster := lookup "v1" "Namespace" "" "kube-system" }}
{{- if and $cluster (not (.Capabilities.APIVersions.Has (printf "monitoring.coreos.com/v1/%s" .kind))) }}
{{- fail (printf "\n\nmonitoring.enabled needs kind %s, which the Prometheus operator installs: install its CRDs (such as the chart prometheus-community/prometheus-operator-crds), or set monitoring.enabled=false and use config/prometheus/rules.yaml with your own Prometheus.\n" .kind) }}
{{- end }}
{{- end }}
