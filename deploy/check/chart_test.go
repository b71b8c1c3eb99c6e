// Package check holds the files with which perdure is deployed to what reads
// them: the Helm chart to Helm and the types of Kubernetes, the alerts and the
// dashboard to Prometheus. It is a module of its own, since these are large.
package check

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write deploy/kubernetes.yaml and testdata/pods.yaml anew")

const (
	chartDir = "../helm/perdure"
	release  = "perdure"
)

// everything turns on what the chart can do.
const everything = `
configuration: "name: perdure\nbackends: []\nincomingAuth: {type: token, tokenFile: tokens.yaml}\n"
image: {repository: perdure, digest: "sha256:0123456789012345678901234567890123456789012345678901234567890123"}
database: {urlSecret: perdure-database}
payloadKeySecret: perdure-payload
largeValues: true
codec: {enabled: true, uiOrigin: "https://temporal.example.com", envFrom: [{secretRef: {name: callers}}], volumes: [{name: tokens, emptyDir: {}}], volumeMounts: [{name: tokens, mountPath: /run/tokens}]}
builds: {current: v1.4.0, previous: [{id: v1.3.0, tag: 1.3.0}, {id: V1_2, tag: "1.2", replicas: 3}]}
temporal: {apiKeySecret: perdure-temporal, createNamespace: true}
allowedHosts: [perdure.default.svc]
definitions: {"deploy.yaml": "name: deploy\nsteps: []\n"}
extraEnvFrom: [{secretRef: {name: backends}}]
extraEnv: [{name: SSL_CERT_DIR, value: /run/ca}]
extraVolumes: [{name: ca, secret: {secretName: authority}}]
extraVolumeMounts: [{name: ca, mountPath: /run/ca, readOnly: true}]
imagePullSecrets: [{name: registry}]
podAnnotations: {example.com/team: tools}
gateway: {autoscaling: {enabled: true}, extraArgs: [--call-patience=20s], nodeSelector: {disk: ssd}}
worker: {autoscaling: {enabled: true}, tolerations: [{key: batch, operator: Exists}]}
ingress: {enabled: true, className: nginx, tlsSecret: tools-tls, annotations: {a/b: c}}
networkPolicy: {from: [{namespaceSelector: {matchLabels: {agents: "yes"}}}]}
serviceMonitor: {enabled: true, labels: {release: prometheus}}
alerts: {enabled: true}
dashboard: {enabled: true}
`

func TestChart(t *testing.T) {
	t.Parallel()
	common := []string{"ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount"}
	cases := []struct {
		name, values string
		want         []string // kinds besides the common ones
	}{
		{name: "defaults", values: "allowAnonymous: true"},
		{name: "everything", values: everything,
			want: []string{"HorizontalPodAutoscaler", "Ingress", "Job", "PrometheusRule", "ServiceMonitor"}},
		{name: "no network policy, no migration", values: "allowAnonymous: true\nnetworkPolicy: {enabled: false}\ndatabase: {urlSecret: x, migrate: false}"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			kinds := map[string]bool{}
			cluster := &cluster{t: t}
			for _, document := range render(t, c.values) {
				kinds[cluster.add(document)] = true
			}
			cluster.check()
			cluster.checkBuilds()
			want := append(slices.Clone(common), c.want...)
			if strings.Contains(c.values, "networkPolicy: {enabled: false}") {
				want = slices.DeleteFunc(want, func(k string) bool { return k == "NetworkPolicy" })
			}
			slices.Sort(want)
			if got := slices.Sorted(maps.Keys(kinds)); !slices.Equal(got, want) {
				t.Errorf("the chart makes %v, want %v", got, want)
			}
		})
	}
}

func TestChartRefuses(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"keySecret: ''":                                  "keySecret",
		"gateway: {replicas: many}":                      "replicas",
		"networkPolicys: {}":                             "networkPolicys",
		"logFormat: xml":                                 "logFormat",
		"publicURL: tools.example.o":                     "publicURL",
		"largeValues: true":                              "database.urlSecret",
		"{allowAnonymous: true, codec: {enabled: true}}": "payloadKeySecret",
		"{}": "incomingAuth",
		"{allowAnonymous: true, ingress: {enabled: true}}":     "incomingAuth",
		"image: {digest: v1}":                                  "digest",
		"image: {tag: v1}":                                     "repository",
		"networkPolicy: {metricsFrom: []}":                     "metricsFrom",
		"builds: {current: a b}":                               "current",
		"builds: {previous: [{id: v1, tag: v1}]}":              "builds.previous",
		"builds: {current: v1, previous: [{id: v1, tag: v1}]}": "builds.previous",
		"{allowAnonymous: true, builds: {current: v1.4, previous: [{id: v1-4, tag: v1}]}}":                  "perdure-worker-v1-4 would be that of two builds",
		"{allowAnonymous: true, builds: {current: v2, previous: [{id: a_1, tag: v1}, {id: A.1, tag: v1}]}}": "would be that of two builds, one of them a_1",
	} {
		if _, err := rendered(t, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("values %q: got %v, want an error that names %s", values, err, want)
		}
	}
}

// TestChartMetrics: what callers reach has no metrics, and the network policies let
// only what scrapes read them, and nothing out to where clouds keep credentials.
func TestChartMetrics(t *testing.T) {
	t.Parallel()
	for _, document := range render(t, everything) {
		var meta metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &meta); err != nil {
			t.Fatal(err)
		}
		switch meta.Kind {
		case "Service":
			var s corev1.Service
			if err := yaml.Unmarshal([]byte(document), &s); err != nil {
				t.Fatal(err)
			}
			for _, port := range s.Spec.Ports {
				if port.Name == "metrics" && s.Spec.ClusterIP != corev1.ClusterIPNone {
					t.Errorf("the service %s offers metrics beside %d other ports", s.Name, len(s.Spec.Ports)-1)
				}
			}
		case "NetworkPolicy":
			var p networkingv1.NetworkPolicy
			if err := yaml.Unmarshal([]byte(document), &p); err != nil {
				t.Fatal(err)
			}
			for _, rule := range p.Spec.Ingress {
				if rule.Ports[0].Port.StrVal == "metrics" && len(rule.From) == 0 {
					t.Errorf("%s lets everybody read metrics", p.Name)
				}
			}
			if !strings.Contains(document, "169.254.0.0/16") {
				t.Errorf("%s lets pods ask the cloud for the credentials of their machine", p.Name)
			}
		}
	}
}

// TestCodecPod shows that what opens values is given no secret of a backend, and
// no database where it needs none.
func TestCodecPod(t *testing.T) {
	t.Parallel()
	for values, secrets := range map[string][]string{
		everything: {"callers", "perdure", "perdure-database", "perdure-payload", "perdure-temporal"},
		"database: {urlSecret: perdure-database}\npayloadKeySecret: perdure-payload\nextraEnvFrom: [{secretRef: {name: backends}}]\nallowAnonymous: true\ncodec: {enabled: true}": {"perdure", "perdure-payload"},
	} {
		found := &cluster{t: t}
		for _, document := range render(t, values) {
			found.add(document)
		}
		i := slices.IndexFunc(found.pods, func(p corev1.PodTemplateSpec) bool { return p.Labels["app.kubernetes.io/component"] == "codec" })
		if i < 0 {
			t.Fatal("there is no such pod")
		}
		if got := secretsOf(found.pods[i].Spec); !slices.Equal(got, secrets) {
			t.Errorf("it is given %v, want %v", got, secrets)
		}
	}
}

// TestJobs: what migrates and promotes connects to Temporal and the database as gateways
// and workers do, so it has their certificates.
func TestJobs(t *testing.T) {
	t.Parallel()
	found := &cluster{t: t}
	for _, document := range render(t, everything) {
		found.add(document)
	}
	for _, role := range []string{"gateway", "worker", "migration", "promotion"} {
		i := slices.IndexFunc(found.pods, func(p corev1.PodTemplateSpec) bool { return p.Labels["app.kubernetes.io/component"] == role })
		if i < 0 {
			t.Fatalf("there is no %s", role)
		}
		container := found.pods[i].Spec.Containers[0]
		mounted := slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/run/ca" })
		named := slices.ContainsFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == "SSL_CERT_DIR" })
		if secrets := secretsOf(found.pods[i].Spec); !mounted || !named || !slices.Contains(secrets, "authority") || !slices.Contains(secrets, "backends") {
			t.Errorf("%s: certificates are mounted: %t, named: %t; it is given %v", role, mounted, named, secrets)
		}
	}
}

// secretsOf are the names of the Secrets of which a pod has something.
func secretsOf(pod corev1.PodSpec) (names []string) {
	for _, v := range pod.Volumes {
		if v.Secret != nil {
			names = append(names, v.Secret.SecretName)
		}
	}
	for _, c := range pod.Containers {
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				names = append(names, e.ValueFrom.SecretKeyRef.Name)
			}
		}
		for _, e := range c.EnvFrom {
			if e.SecretRef != nil {
				names = append(names, e.SecretRef.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// TestManifests holds deploy/kubernetes.yaml, for those without Helm, to what
// the chart makes of its defaults and deploy/perdure.yaml.
func TestManifests(t *testing.T) {
	t.Parallel()
	const file = "../kubernetes.yaml"
	configuration, err := os.ReadFile("../perdure.yaml")
	if err != nil {
		t.Fatal(err)
	}
	values, err := yaml.Marshal(map[string]any{"configuration": string(configuration), "allowAnonymous": true})
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.NewBufferString(`# Made from deploy/helm/perdure by "make manifests", for clusters without Helm.
# To be changed: the image, where Temporal is, the public URL, the configuration, and
# with its incomingAuth --allow-anonymous, which lets everybody in the cluster call.
#
#   kubectl create secret generic perdure --from-literal key=$(openssl rand -hex 32)
#   kubectl apply -f deploy/kubernetes.yaml
`)
	for _, document := range render(t, string(values)) {
		fmt.Fprintf(want, "---\n%s\n", strings.TrimSpace(document))
	}
	golden(t, file, want.Bytes())
}

// TestPods holds testdata/pods.yaml, whose commands cmd/perdure's TestDeployment
// looks at, to what the chart makes when everything is turned on.
func TestPods(t *testing.T) {
	t.Parallel()
	want := bytes.NewBufferString("# Made by \"make manifests\": what runs when the chart has everything turned on.\n")
	for _, document := range render(t, everything) {
		var meta metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &meta); err != nil {
			t.Fatal(err)
		}
		if meta.Kind == "Deployment" || meta.Kind == "Job" {
			fmt.Fprintf(want, "---\n%s\n", strings.TrimSpace(document))
		}
	}
	golden(t, "testdata/pods.yaml", want.Bytes())
}

func golden(t *testing.T, file string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what the chart makes (%v): run make manifests", file, err)
	}
}

func render(t *testing.T, values string) []string {
	t.Helper()
	documents, err := rendered(t, values)
	if err != nil {
		t.Fatal(err)
	}
	return documents
}

// rendered is what helm template prints, in the order of the files' names.
func rendered(t *testing.T, values string) ([]string, error) {
	t.Helper()
	c, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	given, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		t.Fatal(err)
	}
	if _, has := given["image"]; !has {
		given["image"] = map[string]any{"repository": "perdure"}
	}
	all, err := chartutil.ToRenderValues(c, given, chartutil.ReleaseOptions{Name: release, Namespace: "default", IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(withoutNotes(c), all)
	if err != nil {
		return nil, err
	}
	var documents []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for _, document := range strings.Split("\n"+files[name], "\n---") {
			if meaning(document) {
				documents = append(documents, document)
			}
		}
	}
	return documents, nil
}

func withoutNotes(c *chart.Chart) *chart.Chart {
	c.Templates = slices.DeleteFunc(c.Templates, func(f *chart.File) bool { return strings.HasSuffix(f.Name, ".txt") })
	return c
}

// meaning says whether a document has more than comments.
func meaning(document string) bool {
	var any map[string]any
	return yaml.Unmarshal([]byte(document), &any) != nil || len(any) > 0
}

// A cluster is what documents make together.
type cluster struct {
	t        *testing.T
	pods     []corev1.PodTemplateSpec
	services []corev1.Service
	selects  map[string]map[string]string // by what selects: labels of pods
	scales   []string                     // names of Deployments that others scale
	deployed []appsv1.Deployment
	held     []string // names of ConfigMaps
}

// add decodes a document strictly, as a cluster does that validates fields, and
// tells its kind.
func (c *cluster) add(document string) string {
	c.t.Helper()
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(document), &meta); err != nil {
		c.t.Fatalf("%v in\n%s", err, document)
	}
	if c.selects == nil {
		c.selects = map[string]map[string]string{}
	}
	strict := func(into any) {
		c.t.Helper()
		if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
			c.t.Errorf("%s: %v in\n%s", meta.Kind, err, document)
		}
	}
	switch meta.APIVersion + " " + meta.Kind {
	case "apps/v1 Deployment":
		var d appsv1.Deployment
		strict(&d)
		c.deployed, c.pods = append(c.deployed, d), append(c.pods, d.Spec.Template)
		c.selects["Deployment "+d.Name] = d.Spec.Selector.MatchLabels
	case "batch/v1 Job":
		var j batchv1.Job
		strict(&j)
		c.pods = append(c.pods, j.Spec.Template)
	case "v1 Service":
		var s corev1.Service
		strict(&s)
		c.services = append(c.services, s)
		c.selects["Service "+s.Name] = s.Spec.Selector
	case "v1 ConfigMap":
		var m corev1.ConfigMap
		strict(&m)
		c.held = append(c.held, m.Name)
	case "v1 ServiceAccount":
		strict(&corev1.ServiceAccount{})
	case "autoscaling/v2 HorizontalPodAutoscaler":
		var h autoscalingv2.HorizontalPodAutoscaler
		strict(&h)
		c.scales = append(c.scales, h.Spec.ScaleTargetRef.Name)
	case "policy/v1 PodDisruptionBudget":
		var p policyv1.PodDisruptionBudget
		strict(&p)
		c.selects["PodDisruptionBudget "+p.Name] = p.Spec.Selector.MatchLabels
	case "networking.k8s.io/v1 NetworkPolicy":
		var p networkingv1.NetworkPolicy
		strict(&p)
		c.selects["NetworkPolicy "+p.Name] = p.Spec.PodSelector.MatchLabels
	case "networking.k8s.io/v1 Ingress":
		strict(&networkingv1.Ingress{})
	case "monitoring.coreos.com/v1 ServiceMonitor", "monitoring.coreos.com/v1 PrometheusRule":
		// The types are an operator's; the rules are looked at by TestAlerts.
	default:
		c.t.Errorf("the chart makes a %s %s, which is not looked at", meta.APIVersion, meta.Kind)
	}
	return meta.Kind
}

// check finds names that lead nowhere.
func (c *cluster) check() {
	c.t.Helper()
	for who, labels := range c.selects {
		if !slices.ContainsFunc(c.pods, func(p corev1.PodTemplateSpec) bool { return contains(p.Labels, labels) }) {
			c.t.Errorf("%s selects no pod: %v", who, labels)
		}
	}
	for _, name := range c.scales {
		i := slices.IndexFunc(c.deployed, func(d appsv1.Deployment) bool { return d.Name == name })
		if i < 0 || c.deployed[i].Spec.Replicas != nil {
			c.t.Errorf("the autoscaler of %s scales nothing, or what has a number of replicas of its own", name)
		}
	}
	for _, s := range c.services {
		c.checkPorts(s)
	}
	for _, p := range c.pods {
		c.checkPod(p)
	}
}

// checkBuilds: a Deployment for each build of the workers, whose pods no other
// takes for its own, with the image and the flag of that build.
func (c *cluster) checkBuilds() {
	c.t.Helper()
	for i, d := range c.deployed {
		for j, other := range c.deployed {
			if i != j && (d.Name == other.Name || contains(other.Spec.Template.Labels, d.Spec.Selector.MatchLabels)) {
				c.t.Errorf("%s takes the pods of %s for its own", d.Name, other.Name)
			}
		}
		container := d.Spec.Template.Spec.Containers[0]
		build, is := d.Spec.Template.Labels["perdure/build"]
		if is != slices.ContainsFunc(container.Args, func(a string) bool { return strings.HasPrefix(a, "--build-id=") }) ||
			is && !slices.Contains(container.Args, "--build-id="+build) {
			c.t.Errorf("%s is build %q, its arguments are %v", d.Name, build, container.Args)
		}
		if kept := d.Annotations["helm.sh/resource-policy"] == "keep"; kept != is {
			c.t.Errorf("%s is build %q; Helm keeps it when the build is another: %t", d.Name, build, kept)
		}
		if want := map[string]string{"v1.3.0": "perdure:1.3.0", "V1_2": "perdure:1.2"}[build]; want != "" && container.Image != want {
			c.t.Errorf("%s has the image %s, want %s", d.Name, container.Image, want)
		}
	}
}

func (c *cluster) checkPorts(s corev1.Service) {
	c.t.Helper()
	for _, pod := range c.pods {
		if !contains(pod.Labels, s.Spec.Selector) {
			continue
		}
		for _, port := range s.Spec.Ports {
			if !slices.ContainsFunc(pod.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == port.TargetPort.StrVal }) {
				c.t.Errorf("Service %s: no container has the port %s", s.Name, port.TargetPort.StrVal)
			}
		}
	}
}

func (c *cluster) checkPod(p corev1.PodTemplateSpec) {
	c.t.Helper()
	spec, container := p.Spec, p.Spec.Containers[0]
	for _, e := range container.Env {
		if file, is := strings.CutPrefix(e.Value, "/run/secrets/"); is && !slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool {
			return strings.HasPrefix("/run/secrets/"+file, m.MountPath+"/")
		}) {
			c.t.Errorf("%v: %s is not mounted", container.Args, e.Value)
		}
	}
	if s := container.SecurityContext; s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem ||
		spec.SecurityContext.RunAsNonRoot == nil || !*spec.SecurityContext.RunAsNonRoot {
		c.t.Errorf("%v may write or be root", container.Args)
	}
	for _, probe := range []*corev1.Probe{container.LivenessProbe, container.ReadinessProbe} {
		if probe != nil && probe.TimeoutSeconds < 2 { // 1 is what Kubernetes takes, which a busy process may miss
			c.t.Errorf("%v: the probe %v has %d s", container.Args, probe.HTTPGet, probe.TimeoutSeconds)
		}
	}
	for _, m := range container.VolumeMounts {
		if !slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
			c.t.Errorf("%v: no volume %s", container.Args, m.Name)
		}
	}
	for _, v := range spec.Volumes {
		if v.ConfigMap != nil && !slices.Contains(c.held, v.ConfigMap.Name) {
			c.t.Errorf("%v: no ConfigMap %s", container.Args, v.ConfigMap.Name)
		}
	}
}

func contains(labels, wanted map[string]string) bool {
	for name, value := range wanted {
		if labels[name] != value {
			return false
		}
	}
	return len(wanted) > 0
}
