package deploy

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/slidegate/slidegate/test/redistest"
)

// manifests are the objects of deploy/kubernetes.
type manifests struct {
	config     *corev1.ConfigMap
	deployment *appsv1.Deployment
	service    *corev1.Service
	budget     *policyv1.PodDisruptionBudget
	scaler     *autoscalingv2.HorizontalPodAutoscaler
	network    *networkingv1.NetworkPolicy
}

// readManifests reads every file as the API server does that is told to refuse what it does not know.
func readManifests(t *testing.T) (m manifests) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, autoscalingv2.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	paths, err := filepath.Glob(filepath.Join(root, "deploy", "kubernetes", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		object, kind, err := decoder.Decode(text, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if want := strings.ToLower(kind.Kind) + ".yaml"; filepath.Base(path) != want {
			t.Errorf("%s holds a %s", path, kind.Kind)
		}
		m.keep(t, object)
	}
	if m.config == nil || m.deployment == nil || m.service == nil || m.budget == nil || m.scaler == nil || m.network == nil {
		t.Fatalf("only some are there: %q", paths)
	}
	return m
}

func (m *manifests) keep(t *testing.T, object runtime.Object) {
	t.Helper()
	switch o := object.(type) {
	case *corev1.ConfigMap:
		m.config = o
	case *appsv1.Deployment:
		m.deployment = o
	case *corev1.Service:
		m.service = o
	case *policyv1.PodDisruptionBudget:
		m.budget = o
	case *autoscalingv2.HorizontalPodAutoscaler:
		m.scaler = o
	case *networkingv1.NetworkPolicy:
		m.network = o
	default:
		t.Errorf("no test knows %T", object)
	}
}

func (m manifests) pod() corev1.PodSpec         { return m.deployment.Spec.Template.Spec }
func (m manifests) container() corev1.Container { return m.pod().Containers[0] }

// settings are the variables that the container gets.
func (m manifests) settings(t *testing.T) settings {
	t.Helper()
	all := settings{}
	if len(m.container().EnvFrom) > 0 {
		t.Errorf("variables from %+v", m.container().EnvFrom)
	}
	for _, v := range m.container().Env {
		if v.ValueFrom == nil {
			all[v.Name] = v.Value
		}
	}
	return all
}

// args are those of the container, where a directory of this machine is mounted.
func (m manifests) args(at *volume) (args []string) {
	for _, arg := range m.container().Args {
		args = append(args, strings.Replace(arg, m.container().VolumeMounts[0].MountPath, at.path, 1))
	}
	return args
}

// volume is what the pod mounts.
func (m manifests) volume(t *testing.T) *volume { return newVolume(t, m.config.Data) }

// file is what the pod is told, by name.
func (m manifests) file(t *testing.T) (fields map[string]any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(m.config.Data["rules.yaml"]), &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}

// port returns the number of a port of the container.
func (m manifests) port(t *testing.T, name string) int {
	t.Helper()
	for _, p := range m.container().Ports {
		if p.Name == name {
			return int(p.ContainerPort)
		}
	}
	t.Errorf("the container has no port %s", name)
	return 0
}

// TestThePodServes: the command takes the arguments and variables of the pod, listens on the ports that it names,
// answers its probes, and says when it drains.
func TestThePodServes(t *testing.T) {
	m := readManifests(t)
	said := m.settings(t)
	for name, port := range map[string]string{"SLIDEGATE_LISTEN": "http", "SLIDEGATE_ADMIN": "admin"} {
		if got, want := said[name], fmt.Sprintf("0.0.0.0:%d", m.port(t, port)); got != want {
			t.Errorf("%s is %s, and the port of that name is %s", name, got, want)
		}
	}
	server := redistest.Standalone(t)
	r := serve(t, said.with(local(settings{
		"SLIDEGATE_STORE": "redis://" + server.Addr + "/0", "SLIDEGATE_UPSTREAM": web(t), "SLIDEGATE_STORE_TIMEOUT": "2s",
	})), m.args(m.volume(t))...)
	r.want(200)
	if keys := strings.Join(server.Keys(), " "); !strings.Contains(keys, ":rest:burst:1s") || !strings.Contains(keys, ":rest:sustained:1h") || strings.Contains(r.text(), "no flag") {
		t.Errorf("stored is %s, and it says\n%s", keys, r.text())
	}
	for _, probe := range []*corev1.Probe{m.container().LivenessProbe, m.container().ReadinessProbe} {
		if probe.HTTPGet.Port != intstr.FromString("admin") {
			t.Errorf("a probe asks port %v", probe.HTTPGet.Port)
		}
		if status, body := r.get(r.admin + probe.HTTPGet.Path); status != 200 {
			t.Errorf("%s answers %d: %s", probe.HTTPGet.Path, status, body)
		}
	}
	notes := m.deployment.Spec.Template.Annotations
	if status, _ := r.get(r.admin + notes["prometheus.io/path"]); status != 200 || notes["prometheus.io/port"] != strconv.Itoa(m.port(t, "admin")) {
		t.Errorf("Prometheus is told %q", notes)
	}
	if status := r.terminate(); status != 0 {
		t.Errorf("it ends with %d: %s", status, r.text())
	}
}

// TestThePodIsLivingWhileRedisIsAway: a restart would not bring it back.
func TestThePodIsLivingWhileRedisIsAway(t *testing.T) {
	m := readManifests(t)
	for policy, ready := range map[string]int{"open": 200, "closed": 503} {
		r := serve(t, m.settings(t).with(local(settings{
			"SLIDEGATE_STORE": "redis://" + redistest.NewServer(t).Addr + "/0", "SLIDEGATE_UPSTREAM": "", "SLIDEGATE_ON_STORE_ERROR": policy,
		})), m.args(m.volume(t))...)
		if status, _ := r.get(r.admin + m.container().LivenessProbe.HTTPGet.Path); status != 200 {
			t.Errorf("%s: the liveness probe gets %d", policy, status)
		}
		if status, _ := r.get(r.admin + m.container().ReadinessProbe.HTTPGet.Path); status != ready {
			t.Errorf("%s: the readiness probe gets %d, want %d", policy, status, ready)
		}
	}
}

// TestThePodIsRestricted, in the sense of the Pod Security Standards, and it can write nowhere.
func TestThePodIsRestricted(t *testing.T) {
	pod, container := readManifests(t).pod(), readManifests(t).container()
	p, c := pod.SecurityContext, container.SecurityContext
	for what, ok := range map[string]bool{
		"one container":            len(pod.Containers) == 1 && len(pod.InitContainers) == 0,
		"not root":                 *p.RunAsNonRoot && *p.RunAsUser == 65534 && *p.RunAsGroup == 65534 && c.RunAsUser == nil,
		"seccomp":                  p.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
		"no escalation":            !*c.AllowPrivilegeEscalation,
		"read-only root":           *c.ReadOnlyRootFilesystem,
		"no capability":            slices.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}) && len(c.Capabilities.Add) == 0,
		"nothing of the host":      !pod.HostNetwork && !pod.HostPID && !pod.HostIPC && len(pod.Volumes) == 1 && pod.Volumes[0].ConfigMap != nil,
		"nothing to write to":      len(container.VolumeMounts) == 1 && container.VolumeMounts[0].ReadOnly,
		"no token":                 !*pod.AutomountServiceAccountToken,
		"no variables of services": !*pod.EnableServiceLinks,
	} {
		if !ok {
			t.Errorf("%s: it is not so", what)
		}
	}
}

// TestThePodHasWhatItNeeds: memory that the runtime keeps to, and the time to drain.
func TestThePodHasWhatItNeeds(t *testing.T) {
	m := readManifests(t)
	need := m.container().Resources
	limit, cpu := need.Limits.Memory().Value(), need.Requests.Cpu()
	soft, err := resource.ParseQuantity(strings.TrimSuffix(m.settings(t)["GOMEMLIMIT"], "B"))
	if share := float64(soft.Value()) / float64(limit); err != nil || share < 0.85 || share > 0.92 {
		t.Errorf("GOMEMLIMIT is %.2f of the limit, %v", share, err)
	}
	if cpu.IsZero() || need.Requests.Memory().IsZero() || !need.Limits.Cpu().IsZero() {
		t.Errorf("resources are %+v", need)
	}
	wait := time.Duration(m.container().Lifecycle.PreStop.Sleep.Seconds) * time.Second
	if given := time.Duration(*m.pod().TerminationGracePeriodSeconds) * time.Second; wait == 0 || given <= wait+grace(t) {
		t.Errorf("it is killed after %v, and waits %v and drains for up to %v", given, wait, grace(t))
	}
}

// TestManifestsMeet: what selects pods selects these, what names a port names one of theirs, and pods may reach
// whatever their settings name.
func TestManifestsMeet(t *testing.T) {
	m := readManifests(t)
	want := m.deployment.Spec.Template.Labels
	for what, selector := range map[string]map[string]string{
		"Deployment": m.deployment.Spec.Selector.MatchLabels, "Service": m.service.Spec.Selector,
		"PodDisruptionBudget": m.budget.Spec.Selector.MatchLabels, "NetworkPolicy": m.network.Spec.PodSelector.MatchLabels,
		"spread": m.pod().TopologySpreadConstraints[0].LabelSelector.MatchLabels,
	} {
		if !maps.Equal(selector, want) {
			t.Errorf("%s selects %v, the pods are %v", what, selector, want)
		}
	}
	for _, p := range m.service.Spec.Ports {
		if p.TargetPort.StrVal != "http" {
			t.Errorf("the Service leads to port %v", p.TargetPort)
		}
	}
	mount, source := m.container().VolumeMounts[0], m.pod().Volumes[0]
	if mount.Name != source.Name || mount.SubPath != "" || source.ConfigMap.Name != m.config.Name || !slices.Contains(m.container().Args, mount.MountPath+"/rules.yaml") {
		t.Errorf("%+v is mounted of %+v, which holds %v, and the arguments are %q", mount, source, m.config.Data, m.container().Args)
	}
	target := m.scaler.Spec.ScaleTargetRef
	if target.Name != m.deployment.Name || target.Kind != m.deployment.Kind || target.APIVersion != m.deployment.APIVersion || m.deployment.Spec.Replicas != nil {
		t.Errorf("the scaler is of %+v, and replicas are %v", target, m.deployment.Spec.Replicas)
	}
	if least := *m.scaler.Spec.MinReplicas; int(least) <= m.budget.Spec.MaxUnavailable.IntValue() {
		t.Errorf("%d pods, of which %v may be away", least, m.budget.Spec.MaxUnavailable)
	}
	for _, rule := range m.network.Spec.Ingress {
		for _, p := range rule.Ports {
			if name := p.Port.StrVal; m.port(t, name) == m.port(t, "admin") && len(rule.From) == 0 {
				t.Error("everybody may reach the admin port")
			}
		}
	}
	m.reaches(t, "store")
	m.reaches(t, "upstream")
}

// reaches tells whether the policy lets pods connect to what a setting names.
func (m manifests) reaches(t *testing.T, setting string) {
	t.Helper()
	u, err := url.Parse(fmt.Sprint(m.file(t)[setting]))
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range m.network.Spec.Egress {
		for _, p := range rule.Ports {
			if strconv.Itoa(p.Port.IntValue()) == port && rule.To[0].PodSelector.MatchLabels["app.kubernetes.io/name"] == host {
				return
			}
		}
	}
	t.Errorf("%s: pods may not reach %s", setting, u.Host)
}
