{{- define "cocoa.fullname" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}
{{- end }}

{{/* Labels by which pods are chosen: (dict "root" $ "component" "gateway"). */}}
{{- define "cocoa.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "cocoa.labels" -}}
{{ include "cocoa.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Name, namespace, annotations and labels of an object of a component; it may have further "annotations". */}}
{{- define "cocoa.metadata" -}}
{{- $at := dict "root" .root "component" .component -}}
{{- include "cocoa.component" $at -}}
name: {{ include "cocoa.fullname" .root }}-{{ .component }}
namespace: {{ .root.Release.Namespace }}
{{- with merge (dict) (.annotations | default dict) $at.values.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
labels:
  {{- include "cocoa.labels" . | nindent 2 }}
{{- end }}

{{- define "cocoa.image" -}}
{{- with (.root.Values.global).imageRegistry }}{{ . }}/{{ end }}
{{- if .image.digest }}{{ .image.repository }}@{{ .image.digest }}
{{- else }}{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "cocoa.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "cocoa.fullname" .) .Values.serviceAccount.name }}
{{- else }}{{ default "default" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{/* Processes that this release runs, as JSON: {"generation": true, …}. */}}
{{- define "cocoa.runs" -}}
{{- $generation := and (not .Values.generation.url) (not .Values.vllm.enabled) -}}
{{- $similarity := and (not .Values.similarity.url) (include "cocoa.hasPairModel" . | eq "true") -}}
{{- dict "gateway" true "generation" $generation "similarity" $similarity | toJson -}}
{{- end }}

{{/* Whether a model compares answers: empty where words do, which the gateway reads itself. */}}
{{- define "cocoa.hasPairModel" -}}
{{- $own := .Values.generation.model | default "embedded" | hasPrefix "embedded" -}}
{{- $isForeign := or (eq .Values.generation.api "openai") (not $own) -}}
{{- $isNamed := .Values.similarity.model | default "embedded" | hasPrefix "embedded" | not -}}
{{- $reads := has .Values.similarity.name (list "cross_encoder" "embedding" "nli") -}}
{{- $hasNli := ne ((.Values.nli).model | default "auto") "auto" -}}
{{- if or (not $isForeign) $isNamed $reads $hasNli }}true{{ end }}
{{- end }}

{{/* Components with pods, as JSON. */}}
{{- define "cocoa.components" -}}
{{- $runs := include "cocoa.runs" . | fromJson -}}
{{- $_ := set $runs "vllm" .Values.vllm.enabled -}}
{{- $_ := set $runs "redis" (include "cocoa.ownRedis" . | eq "true") -}}
{{- $found := list -}}
{{- range $component, $is := $runs -}}{{- if $is -}}{{- $found = append $found $component -}}{{- end -}}{{- end -}}
{{- $found | toJson -}}
{{- end }}

{{/* Settings of a process as JSON, by variable: (dict "root" $ "process" "gateway" "secret" false). */}}
{{- define "cocoa.settings" -}}
{{- $runs := include "cocoa.runs" .root | fromJson -}}
{{- $found := dict -}}
{{- range (.root.Files.Get "files/settings.json" | fromJsonArray) -}}
  {{- $value := $.root.Values -}}
  {{- range .value -}}
    {{- $value = ternary (get ($value | default dict) .) nil (hasKey ($value | default dict) .) -}}
  {{- end -}}
  {{- $here := has $.process .processes -}}
  {{- /* Where a model has no process of its own, the gateway says what it thinks of its settings. */ -}}
  {{- if and (eq $.process "gateway") (not (get $runs (first .processes))) (ne (first .value) "worker") -}}
    {{- $here = true -}}
  {{- end -}}
  {{- /* These are arguments of vLLM. */ -}}
  {{- if and $.root.Values.vllm.enabled (has .variable (list "COCOA_GENERATION__REVISION" "COCOA_GENERATION__DTYPE")) -}}
    {{- $here = false -}}
  {{- end -}}
  {{- $isEmptyUrl := and (eq (last .value) "url") (eq (toString $value) "") -}}
  {{- if and $here (eq .secret $.secret) (not (kindIs "invalid" $value)) (not $isEmptyUrl) -}}
    {{- $_ := set $found .variable (include "cocoa.text" $value) -}}
  {{- end -}}
{{- end -}}
{{- $found | toJson -}}
{{- end }}

{{/* A value as an environment variable has it. */}}
{{- define "cocoa.text" -}}
{{- if kindIs "float64" . -}}
  {{- if eq (floor .) . -}}{{ int64 . }}{{- else -}}{{ . }}{{- end -}}
{{- else if kindIs "slice" . -}}{{ join "," . }}
{{- else if kindIs "map" . -}}{{ toJson . }}
{{- else -}}{{ toString . }}{{- end -}}
{{- end }}

{{/* Whether this release runs a Redis: empty where it does not. */}}
{{- define "cocoa.ownRedis" -}}
{{- if and .Values.redis.enabled (not .Values.cache.url) }}true{{ end }}
{{- end }}

{{- define "cocoa.workerScheme" -}}
{{- if .Values.worker.tlsCertFile }}https{{ else }}http{{ end }}
{{- end }}

{{- define "cocoa.vllmScheme" -}}
{{- if .Values.vllm.tlsSecret }}https{{ else }}http{{ end }}
{{- end }}

{{/* Settings of the gateway that follow from what the chart runs, as JSON. */}}
{{- define "cocoa.wiring" -}}
{{- $name := include "cocoa.fullname" . -}}
{{- $scheme := include "cocoa.workerScheme" . -}}
{{- $runs := include "cocoa.runs" . | fromJson -}}
{{- $found := dict -}}
{{- if .Values.vllm.enabled -}}
  {{- $_ := set $found "COCOA_GENERATION__URL" (printf "%s://%s-vllm:%v" (include "cocoa.vllmScheme" .) $name .Values.port) -}}
  {{- $_ := set $found "COCOA_GENERATION__API" "openai" -}}
  {{- $_ := set $found "COCOA_GENERATION__IS_ROUTED" "true" -}}
  {{- if and .Values.vllm.tlsSecret (not .Values.generation.tlsCaFile) -}}
    {{- $_ := set $found "COCOA_GENERATION__TLS_CA_FILE" "/vllm-ca/ca.crt" -}}
  {{- end -}}
{{- else if $runs.generation -}}
  {{- $_ := set $found "COCOA_GENERATION__URL" (printf "%s://%s-generation:%v" $scheme $name .Values.port) -}}
{{- end -}}
{{- if $runs.similarity -}}
  {{- $_ := set $found "COCOA_SIMILARITY__URL" (printf "%s://%s-similarity:%v" $scheme $name .Values.port) -}}
{{- else if and (ne .Values.similarity.api "cocoa") (kindIs "invalid" (.Values.nli).model) -}}
  {{- /* The gateway's image has nothing that could load one. */ -}}
  {{- $_ := set $found "COCOA_NLI__MODEL" "" -}}
{{- end -}}
{{- if include "cocoa.ownRedis" . -}}
  {{- $_ := set $found "COCOA_CACHE__URL" (printf "redis://%s-redis:6379" $name) -}}
{{- end -}}
{{- $found | toJson -}}
{{- end }}

{{/* Whether workers want a key: the name of the Secret that holds it. */}}
{{- define "cocoa.workerSecret" -}}
{{- if .Values.worker.existingSecret }}{{ .Values.worker.existingSecret }}
{{- else if .Values.worker.apiKey }}{{ include "cocoa.fullname" . }}-worker{{ end }}
{{- end }}
