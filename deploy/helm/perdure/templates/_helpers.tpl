{{- define "perdure.labels" -}}
app.kubernetes.io/name: perdure
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* perdure.selector: what tells the pods of a role; takes a dict with root, role and, for those of one build, build. */}}
{{- define "perdure.selector" -}}
app.kubernetes.io/name: perdure
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .role }}
{{- with .build }}
perdure/build: {{ . | quote }}
{{- end }}
{{- end }}

{{- define "perdure.name" -}}
{{ .root.Release.Name }}-{{ .role }}{{ with .build }}-{{ . | lower | replace "." "-" | replace "_" "-" }}{{ end }}
{{- end }}

{{- define "perdure.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "perdure.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "perdure.databaseEnv" -}}
{{- if .Values.database.urlSecret }}
- {name: PERDURE_DATABASE_URL, valueFrom: {secretKeyRef: {name: {{ .Values.database.urlSecret }}, key: url}}}
{{- end }}
{{- end }}

{{- define "perdure.temporalEnv" -}}
- {name: TEMPORAL_ADDRESS, value: {{ .Values.temporal.address | quote }}}
- {name: TEMPORAL_NAMESPACE, value: {{ .Values.temporal.namespace | quote }}}
{{- with .Values.temporal.apiKeySecret }}
- {name: TEMPORAL_API_KEY, valueFrom: {secretKeyRef: {name: {{ . }}, key: apiKey}}}
{{- end }}
{{- end }}

{{/* perdure.env: where Temporal and the database are, and what is kept where. */}}
{{- define "perdure.env" -}}
{{ include "perdure.temporalEnv" . }}
{{- if .Values.temporal.createNamespace }}
- {name: PERDURE_CREATE_NAMESPACE, value: "true"}
{{- end }}
{{- include "perdure.databaseEnv" . }}
{{- if .Values.largeValues }}
{{- $_ := required "largeValues: they are kept in a database, so database.urlSecret is needed" .Values.database.urlSecret }}
- {name: PERDURE_LARGE_VALUES, value: "true"}
{{- end }}
{{- if .Values.payloadKeySecret }}
- {name: PERDURE_PAYLOAD_KEY_FILE, value: /run/secrets/perdure-payload/keys}
{{- end }}
{{- range .Values.extraEnv }}
- {{ toJson . }}
{{- end }}
{{- end }}

{{/* perdure.mounts and perdure.volumes: what every process reads. */}}
{{- define "perdure.mounts" -}}
- {name: configuration, mountPath: /etc/perdure, readOnly: true}
- {name: key, mountPath: /run/secrets/perdure, readOnly: true}
{{- if .Values.payloadKeySecret }}
- {name: payload-keys, mountPath: /run/secrets/perdure-payload, readOnly: true}
{{- end }}
- {name: tmp, mountPath: /tmp}
{{- end }}

{{- define "perdure.volumes" -}}
- {name: configuration, configMap: {name: {{ .Release.Name }}}}
- {name: key, secret: {secretName: {{ required "keySecret: the Secret with the signing key" .Values.keySecret }}}}
{{- with .Values.payloadKeySecret }}
- {name: payload-keys, secret: {secretName: {{ . }}}}
{{- end }}
- {name: tmp, emptyDir: {}}
{{- end }}

{{/* perdure.deployment: the pods of a role. Takes a dict with root, role, port, args, drain and,
where workers say which build they are, build, tag and replicas; no replicas = as the role has it. */}}
{{- define "perdure.deployment" -}}
{{- $root := .root -}}
{{- $own := index $root.Values .role -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "perdure.name" . }}
  labels:
    {{- include "perdure.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .role }}
  {{- if .build }}
  annotations: {helm.sh/resource-policy: keep} # runs may be pinned to the build
  {{- end }}
spec:
  {{- if .replicas }}
  replicas: {{ .replicas }}
  {{- else if not $own.autoscaling.enabled }}
  replicas: {{ $own.replicas }}
  {{- end }}
  strategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}
  selector:
    matchLabels:
      {{- include "perdure.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "perdure.labels" $root | nindent 8 }}
        app.kubernetes.io/component: {{ .role }}
        {{- with .build }}
        perdure/build: {{ . | quote }}
        {{- end }}
      annotations:
        # A changed configuration is for the next start, so it starts the pods anew.
        perdure/configuration: {{ $root.Values.configuration | sha256sum }}
        {{- with $root.Values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ $root.Release.Name }}
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: {{ add $root.Values.grace .drain 10 }}
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      {{- with $root.Values.imagePullSecrets }}
      imagePullSecrets: {{ toJson . }}
      {{- end }}
      containers:
        - name: perdure
          image: {{ if .digest }}{{ $root.Values.image.repository }}@{{ .digest }}{{ else if .tag }}{{ $root.Values.image.repository }}:{{ .tag }}{{ else }}{{ include "perdure.image" $root }}{{ end }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args:
            - {{ .role }}
            - --config=/etc/perdure/perdure.yaml
            {{- if $root.Values.definitions }}
            - --definitions=/etc/perdure-definitions
            {{- end }}
            - --key-file=/run/secrets/perdure/key
            {{- range .args }}
            - {{ . }}
            {{- end }}
            - --grace={{ $root.Values.grace }}s
            - --log-format={{ $root.Values.logFormat }}
            - --metrics-listen=:9464
            {{- range $own.extraArgs }}
            - {{ . | quote }}
            {{- end }}
          env:
            {{- include "perdure.env" $root | nindent 12 }}
          {{- with $root.Values.extraEnvFrom }}
          envFrom: {{ toJson . }}
          {{- end }}
          ports: [{name: {{ .port.name }}, containerPort: {{ .port.number }}}, {name: metrics, containerPort: 9464}]
          livenessProbe: {httpGet: {path: /healthz, port: {{ .port.name }}}, initialDelaySeconds: 30, timeoutSeconds: 5, failureThreshold: 6}
          readinessProbe: {httpGet: {path: {{ eq .port.name "mcp" | ternary "/reachable" "/readyz" }}, port: {{ .port.name }}}, periodSeconds: 5, timeoutSeconds: 3}
          {{- if .drain }}
          lifecycle: {preStop: {sleep: {seconds: {{ .drain }}}}}
          {{- end }}
          resources: {{ toJson $own.resources }}
          securityContext:
            {{- include "perdure.security" $root | nindent 12 }}
          volumeMounts:
            {{- include "perdure.mounts" $root | nindent 12 }}
            {{- range $root.Values.extraVolumeMounts }}
            - {{ toJson . }}
            {{- end }}
            {{- if $root.Values.definitions }}
            - {name: definitions, mountPath: /etc/perdure-definitions, readOnly: true}
            {{- end }}
      volumes:
        {{- include "perdure.volumes" $root | nindent 8 }}
        {{- range $root.Values.extraVolumes }}
        - {{ toJson . }}
        {{- end }}
        {{- if $root.Values.definitions }}
        - {name: definitions, configMap: {name: {{ $root.Release.Name }}-definitions}}
        {{- end }}
      {{- with $own.nodeSelector }}
      nodeSelector: {{ toJson . }}
      {{- end }}
      {{- with $own.tolerations }}
      tolerations: {{ toJson . }}
      {{- end }}
      {{- with $own.affinity }}
      affinity: {{ toJson . }}
      {{- end }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "perdure.selector" . | nindent 14 }}
{{- end }}

{{/* perdure.job: a command that ends, beside an installation or upgrade of the chart. Takes a dict
with root, role, when, args, env, tries and seconds. It connects to what the pods do, so it has
the variables and files that the values add to these. */}}
{{- define "perdure.job" -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ include "perdure.name" . }}
  labels:
    {{- include "perdure.labels" .root | nindent 4 }}
  annotations:
    helm.sh/hook: {{ .when }}-install,{{ .when }}-upgrade
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
spec:
  backoffLimit: {{ .tries }}
  activeDeadlineSeconds: {{ .seconds }}
  template:
    metadata:
      labels:
        {{- include "perdure.labels" .root | nindent 8 }}
        app.kubernetes.io/component: {{ .role }}
    spec:
      restartPolicy: Never
      automountServiceAccountToken: false
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets: {{ toJson . }}
      {{- end }}
      containers:
        - name: perdure
          image: {{ include "perdure.image" .root }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args: {{ toJson .args }}
          env:
            {{- include .env .root | trim | nindent 12 }}
            {{- range .root.Values.extraEnv }}
            - {{ toJson . }}
            {{- end }}
          {{- with .root.Values.extraEnvFrom }}
          envFrom: {{ toJson . }}
          {{- end }}
          resources: {requests: {cpu: 50m, memory: 64Mi}, limits: {memory: 256Mi}}
          securityContext:
            {{- include "perdure.security" .root | nindent 12 }}
          {{- with .root.Values.extraVolumeMounts }}
          volumeMounts: {{ toJson . }}
          {{- end }}
      {{- with .root.Values.extraVolumes }}
      volumes: {{ toJson . }}
      {{- end }}
{{- end }}
