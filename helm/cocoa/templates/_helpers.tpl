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

{{/* Name, namespace and labels of an object of a component. */}}
{{- define "cocoa.metadata" -}}
name: {{ include "cocoa.fullname" .root }}-{{ .component }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "cocoa.labels" . | nindent 2 }}
{{- end }}

{{- define "cocoa.image" -}}
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
{{- dict "gateway" true "generation" $generation "similarity" (not .Values.similarity.url) | toJson -}}
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

{{/* Settings of the gateway that follow from what the chart runs, as JSON. */}}
{{- define "cocoa.wiring" -}}
{{- $name := include "cocoa.fullname" . -}}
{{- $scheme := include "cocoa.workerScheme" . -}}
{{- $runs := include "cocoa.runs" . | fromJson -}}
{{- $found := dict -}}
{{- if .Values.vllm.enabled -}}
  {{- if .Values.generation.url -}}{{- fail "generation.url and vllm.enabled exclude each other" -}}{{- end -}}
  {{- $model := .Values.generation.model | default "" -}}
  {{- if or (eq $model "") (hasPrefix "embedded" $model) -}}
    {{- fail "generation.model must name the model that vLLM serves, such as Qwen/Qwen3-8B" -}}
  {{- end -}}
  {{- $_ := set $found "COCOA_GENERATION__URL" (printf "http://%s-vllm:%v" $name .Values.port) -}}
  {{- $_ := set $found "COCOA_GENERATION__API" "openai" -}}
{{- else if $runs.generation -}}
  {{- if ne .Values.generation.api "cocoa" -}}{{- fail "generation.api is for what is at generation.url, which is empty" -}}{{- end -}}
  {{- $_ := set $found "COCOA_GENERATION__URL" (printf "%s://%s-generation:%v" $scheme $name .Values.port) -}}
{{- end -}}
{{- if $runs.similarity -}}
  {{- if ne .Values.similarity.api "cocoa" -}}{{- fail "similarity.api is for what is at similarity.url, which is empty" -}}{{- end -}}
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

{{- define "cocoa.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: {{ .Values.podSecurityContext.runAsUser }}
runAsGroup: {{ .Values.podSecurityContext.runAsGroup }}
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* What all pods have, up to their containers: (dict "root" $ "component" "gateway" "values" .Values.gateway "drain" 80). */}}
{{- define "cocoa.pod" -}}
serviceAccountName: {{ include "cocoa.serviceAccount" .root }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
  seccompProfile:
    type: RuntimeDefault
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  - {{- toYaml . | nindent 4 }}
    {{- if not .labelSelector }}
    labelSelector:
      matchLabels:
        {{- include "cocoa.selector" $ | nindent 8 }}
    {{- end }}
  {{- end }}
{{- end }}
terminationGracePeriodSeconds: {{ .drain }}
{{- end }}

{{/* Annotations and labels of pods: they change, and pods are made anew, when what they read at start has changed. */}}
{{- define "cocoa.podMetadata" -}}
labels:
  {{- include "cocoa.labels" . | nindent 2 }}
  {{- with .values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  kubectl.kubernetes.io/default-container: {{ .component }}
  {{- with .config }}
  checksum/config: {{ . | sha256sum }}
  {{- end }}
  {{- with .values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "cocoa.mounts" -}}
- name: tmp
  mountPath: /tmp
{{- range .values.volumes }}
- name: {{ .name }}
  mountPath: {{ .mountPath }}
  readOnly: true
{{- end }}
{{- end }}

{{- define "cocoa.volumes" -}}
- name: tmp
  emptyDir: {}
{{- range .values.volumes }}
- name: {{ .name }}
  {{- toYaml .source | nindent 2 }}
{{- end }}
{{- end }}

{{/* Mounts of what loads models. */}}
{{- define "cocoa.modelMounts" -}}
- name: data
  mountPath: /data
{{- if .values.sharedMemory }}
- name: shm
  mountPath: /dev/shm
{{- end }}
{{- end }}

{{- define "cocoa.modelVolumes" -}}
- name: data
  {{- if .root.Values.modelFiles.enabled }}
  persistentVolumeClaim:
    claimName: {{ .root.Values.modelFiles.existingClaim | default (printf "%s-models" (include "cocoa.fullname" .root)) }}
  {{- else }}
  emptyDir: {}
  {{- end }}
{{- with .values.sharedMemory }}
- name: shm
  emptyDir:
    medium: Memory
    sizeLimit: {{ . }}
{{- end }}
{{- end }}

{{- define "cocoa.tokenEnv" -}}
{{- with .Values.modelFiles.existingSecret }}
- name: HF_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ . }}
      key: HF_TOKEN
{{- end }}
{{- end }}

{{/* Longer than what comes before it: (dict "root" $ "values" .Values.gateway). */}}
{{- define "cocoa.drain" -}}
{{- add .values.preStopSeconds (ceil .root.Values.drainS | int) 10 -}}
{{- end }}

{{- define "cocoa.preStop" -}}
preStop:
  exec:
    command: [sleep, {{ .values.preStopSeconds | quote }}]
{{- end }}
