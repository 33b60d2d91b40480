{{/*
What all processes have. Templates here take (dict "root" $ "component" "gateway"), to which `cocoa.component` adds
"values" and "drain"; a Deployment also wants "action", what its probes ask by the probe's name, and may have "config",
text whose change makes pods anew.
*/}}
{{- define "cocoa.component" -}}
{{- $keys := dict "generation" "generationWorker" "similarity" "similarityWorker" -}}
{{- if not .root.Values.pods -}}
{{- fail "these are the values of an older chart: upgrade with --reset-then-reuse-values, or with --values, not with --reuse-values" -}}
{{- end -}}
{{- $values := deepCopy .root.Values.pods -}}
{{- $own := get .root.Values (get $keys .component | default .component) | default dict -}}
{{- include "cocoa.over" (dict "base" $values "over" (deepCopy $own)) -}}
{{- $_ := set . "values" $values -}}
{{- /* Longer than what comes before it. */ -}}
{{- $before := ternary (add ($values.preStopSeconds | default 0 | int) (ceil .root.Values.drainS | int)) 0 (hasKey $values "preStopSeconds") -}}
{{- $_ := set . "drain" (add $before 10) -}}
{{- end }}

{{/* Lay one map over another in place, an empty value too (sprig's merge would not); null takes a key away. */}}
{{- define "cocoa.over" -}}
{{- range $key, $value := .over -}}
{{- if kindIs "invalid" $value -}}{{- $_ := unset $.base $key -}}
{{- else if and (kindIs "map" $value) (kindIs "map" (get $.base $key)) -}}
{{- include "cocoa.over" (dict "base" (get $.base $key) "over" $value) -}}
{{- else -}}{{- $_ := set $.base $key $value -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "cocoa.deployment" -}}
{{- $values := .values -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "cocoa.metadata" . | nindent 2 }}
spec:
  {{- if not (or ($values.autoscaling).enabled ($values.keda).enabled) }}
  replicas: {{ $values.replicas | default 1 }}
  {{- end }}
  progressDeadlineSeconds: {{ $values.progressDeadlineSeconds | default (include "cocoa.longestStart" .root) | int }}
  {{- if eq (toString $values.strategy.type) "Recreate" }}
  {{- $_ := unset $values.strategy "rollingUpdate" }}
  {{- end }}
  strategy:
    {{- toYaml $values.strategy | nindent 4 }}
  selector:
    matchLabels:
      {{- include "cocoa.selector" . | nindent 6 }}
  template:
    metadata:
      {{- include "cocoa.podMetadata" . | nindent 6 }}
    spec:
      {{- include "cocoa.pod" . | nindent 6 }}
      {{- with $values.initContainers }}
      initContainers:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: {{ .component }}
          image: {{ include "cocoa.image" (dict "root" .root "image" $values.image) }}
          imagePullPolicy: {{ $values.image.pullPolicy }}
          {{- include (printf "cocoa.%s" (.container | default .component)) . | trim | nindent 10 }}
          {{- include "cocoa.probes" . | nindent 10 }}
          {{- with $values.preStopSeconds }}
          lifecycle:
            preStop:
              exec:
                command: [sleep, {{ . | quote }}]
          {{- end }}
          resources:
            {{- toYaml $values.resources | nindent 12 }}
          securityContext:
            {{- include "cocoa.containerSecurity" .root | nindent 12 }}
          volumeMounts:
            {{- include "cocoa.mounts" . | nindent 12 }}
        {{- with $values.extraContainers }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      volumes:
        {{- include "cocoa.volumes" . | nindent 8 }}
{{- end }}

{{/*
Seconds after which a Deployment that has no new ready pod has failed: gateways are ready after the slowest of their
models, and nodes fetch images first.
*/}}
{{- define "cocoa.longestStart" -}}
{{- $longest := 0 -}}
{{- range (include "cocoa.components" . | fromJsonArray) -}}
{{- $at := dict "root" $ "component" . -}}
{{- include "cocoa.component" $at -}}
{{- $longest = max $longest ($at.values.startupSeconds | int) -}}
{{- end -}}
{{- add $longest 600 -}}
{{- end }}

{{- define "cocoa.probes" -}}
{{- $all := dict
  "startup" (dict "periodSeconds" 5 "timeoutSeconds" 5 "failureThreshold" (divf (.values.startupSeconds) 5 | ceil | int))
  "liveness" (dict "periodSeconds" 10 "timeoutSeconds" 5 "failureThreshold" 3)
  "readiness" (dict "periodSeconds" 5 "timeoutSeconds" 5) -}}
{{- range $name, $times := $all }}
{{- $key := printf "%sProbe" $name }}
{{- $given := get $.values $key | default dict }}
{{- $base := merge (dict) $times }}
{{- if not (or $given.httpGet $given.tcpSocket $given.exec $given.grpc) }}
{{- $base = merge $base (get $.action $name) }}
{{- end }}
{{- include "cocoa.over" (dict "base" $base "over" $given) }}
{{ $key }}:
  {{- toYaml $base | nindent 2 }}
{{- end }}
{{- end }}

{{- define "cocoa.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
{{- range $key := list "runAsUser" "runAsGroup" }}
{{- with get $.Values.podSecurityContext $key }}
{{ $key }}: {{ . | int64 }}
{{- end }}
{{- end }}
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* What all pods have, up to their containers. */}}
{{- define "cocoa.pod" -}}
{{- $security := dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- include "cocoa.over" (dict "base" $security "over" .root.Values.podSecurityContext) -}}
serviceAccountName: {{ include "cocoa.serviceAccount" .root }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- toYaml $security | nindent 2 }}
{{- range $key := list "priorityClassName" "runtimeClassName" "dnsPolicy" "dnsConfig" "hostAliases" "nodeSelector" "tolerations" "affinity" }}
{{- with get $.values $key }}
{{ $key }}: {{ if kindIs "string" . }}{{ . }}{{ else }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end }}
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
{{- if .models }}
- name: data
  mountPath: /data
{{- end }}
{{- if .values.sharedMemory }}
- name: shm
  mountPath: /dev/shm
{{- end }}
{{- end }}

{{- define "cocoa.volumes" -}}
- name: tmp
  emptyDir:
    sizeLimit: {{ .values.tmpSize }}
{{- range .values.volumes }}
- name: {{ .name }}
  {{- toYaml .source | nindent 2 }}
{{- end }}
{{- if .models }}
- name: data
  {{- if .root.Values.modelFiles.enabled }}
  persistentVolumeClaim:
    claimName: {{ .root.Values.modelFiles.existingClaim | default (printf "%s-models" (include "cocoa.fullname" .root)) }}
  {{- else }}
  emptyDir:
    sizeLimit: {{ .root.Values.modelFiles.size }}
  {{- end }}
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
