package deploy

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// objects has the objects of a manifest.
type objects struct {
	accounts    []corev1.ServiceAccount
	services    []corev1.Service
	roles       []rbacv1.Role
	bindings    []rbacv1.RoleBinding
	budgets     []policyv1.PodDisruptionBudget
	workloads   []workload
	deployments []appsv1.Deployment
	sets        []appsv1.StatefulSet
}

// workload has the common fields of all kinds of workloads.
type workload struct {
	name     string
	selector *metav1.LabelSelector
	pod      corev1.PodTemplateSpec
}

// decode reads a document into a value as an API server does: each field exists, occurs once, and
// has the right case.
func decode[T any](t *testing.T, text string) (v T) {
	t.Helper()
	data, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	unknown, err := json.UnmarshalStrict(data, &v)
	if err = errors.Join(append(unknown, err)...); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return v
}

func parse(t *testing.T, path string) (o objects) {
	t.Helper()
	for _, text := range strings.Split(read(t, path), "\n---\n") {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(text), &kind); err != nil {
			t.Fatal(err)
		}
		switch kind.APIVersion + " " + kind.Kind {
		case "v1 ServiceAccount":
			o.accounts = append(o.accounts, decode[corev1.ServiceAccount](t, text))
		case "v1 Service":
			o.services = append(o.services, decode[corev1.Service](t, text))
		case "rbac.authorization.k8s.io/v1 Role":
			o.roles = append(o.roles, decode[rbacv1.Role](t, text))
		case "rbac.authorization.k8s.io/v1 RoleBinding":
			o.bindings = append(o.bindings, decode[rbacv1.RoleBinding](t, text))
		case "policy/v1 PodDisruptionBudget":
			o.budgets = append(o.budgets, decode[policyv1.PodDisruptionBudget](t, text))
		case "apps/v1 Deployment":
			d := decode[appsv1.Deployment](t, text)
			o.deployments = append(o.deployments, d)
			o.workloads = append(o.workloads, workload{d.Name, d.Spec.Selector, d.Spec.Template})
		case "apps/v1 StatefulSet":
			s := decode[appsv1.StatefulSet](t, text)
			o.sets = append(o.sets, s)
			o.workloads = append(o.workloads, workload{s.Name, s.Spec.Selector, s.Spec.Template})
		case "apps/v1 DaemonSet":
			d := decode[appsv1.DaemonSet](t, text)
			o.workloads = append(o.workloads, workload{d.Name, d.Spec.Selector, d.Spec.Template})
		default:
			t.Fatalf("%s: a %s %s isn't checked", path, kind.APIVersion, kind.Kind)
		}
	}
	return o
}

func TestTheManifestsOfKubernetes(t *testing.T) {
	paths, err := filepath.Glob("kubernetes/*.yaml")
	if err != nil || len(paths) < 4 {
		t.Fatalf("%v, %v", paths, err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			o := parse(t, path)
			if len(o.workloads) != 1 {
				t.Fatalf("%d workloads", len(o.workloads))
			}
			o.checkPod(t)
			o.checkNetwork(t)
			o.checkRegister(t)
			o.checkReplacement(t)
		})
	}
}

// env returns the variables of the workload's only container.
func (o *objects) env() map[string]string {
	all := make(map[string]string)
	for _, v := range o.workloads[0].pod.Spec.Containers[0].Env {
		all[v.Name] = v.Value
	}
	return all
}

func (o *objects) checkPod(t *testing.T) {
	w := o.workloads[0]
	for name, value := range w.selector.MatchLabels {
		if w.pod.Labels[name] != value {
			t.Errorf("the selector asks for %s=%s, and the pods have %v", name, value, w.pod.Labels)
		}
	}
	if n := len(w.pod.Spec.Containers); n != 1 {
		t.Fatalf("%d containers", n)
	}
	c := w.pod.Spec.Containers[0]
	names := make(map[string]bool)
	for _, p := range c.Ports {
		names[p.Name] = true
	}
	for what, probe := range map[string]*corev1.Probe{"liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
		if probe == nil || probe.HTTPGet == nil || !names[probe.HTTPGet.Port.String()] {
			t.Fatalf("%s: %+v", what, probe)
		}
	}
	if r := c.Resources.Requests; r.Cpu().IsZero() || r.Memory().IsZero() {
		t.Error("a voter needs a share of the processor that is its own")
	}
	if p := c.LivenessProbe.HTTPGet.Path; p != "/livez" {
		t.Errorf("a pod is restarted by %s, and must not be for lack of a majority", p)
	}
	votes := o.env()["LOCKMESH_NON_VOTING"] != "true"
	if want := map[bool]string{true: "/readyz?settled=1", false: "/readyz"}[votes]; c.ReadinessProbe.HTTPGet.Path != want {
		t.Errorf("the gate of a rollout is %s, want %s", c.ReadinessProbe.HTTPGet.Path, want)
	}
	if votes {
		checkSpread(t, &w.pod)
	}
	env := o.env()
	needs := graceOf(t, env)
	if g := w.pod.Spec.TerminationGracePeriodSeconds; g == nil || time.Duration(*g)*time.Second <= needs {
		t.Errorf("the service needs %v to end, and is killed after %v s", needs, g)
	}
	if votes && len(o.sets) > 0 {
		env["LOCKMESH_NAME"] = o.sets[0].Name + "-0" // the pod's host name
	}
	accepts(t, env)
}

// checkSpread checks that voters are spread over zones and machines, and that pods are started in
// any case: a lost machine or zone must not take two of three voters.
func checkSpread(t *testing.T, pod *corev1.PodTemplateSpec) {
	t.Helper()
	var keys []string
	for _, s := range pod.Spec.TopologySpreadConstraints {
		keys = append(keys, s.TopologyKey)
		if s.MaxSkew != 1 || s.WhenUnsatisfiable != corev1.ScheduleAnyway || s.LabelSelector == nil || len(s.LabelSelector.MatchLabels) == 0 {
			t.Errorf("%+v", s)
			continue
		}
		for name, value := range s.LabelSelector.MatchLabels {
			if pod.Labels[name] != value {
				t.Errorf("pods with %s=%s are spread, and the pods have %v", name, value, pod.Labels)
			}
		}
	}
	if want := []string{corev1.LabelTopologyZone, corev1.LabelHostname}; !slices.Equal(keys, want) {
		t.Errorf("voters are spread over %v, want %v", keys, want)
	}
}

// checkNetwork checks that pods look for each other by the name of a headless service with all
// their addresses.
func (o *objects) checkNetwork(t *testing.T) {
	w := o.workloads[0]
	peers := o.env()["LOCKMESH_PEERS"]
	if peers != "dns:locks:7950" {
		t.Errorf("pods look for each other at %s", peers)
	}
	for _, s := range o.services {
		if s.Name != "locks" || s.Spec.ClusterIP != corev1.ClusterIPNone || !s.Spec.PublishNotReadyAddresses {
			t.Errorf("%+v", s.Spec)
		}
		for name, value := range s.Spec.Selector {
			if w.pod.Labels[name] != value {
				t.Errorf("the service selects %s=%s, and the pods have %v", name, value, w.pod.Labels)
			}
		}
		var protocols []corev1.Protocol
		for _, p := range s.Spec.Ports {
			if p.Port == 7950 {
				protocols = append(protocols, p.Protocol)
			}
		}
		if !slices.Equal(protocols, []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP}) {
			t.Errorf("port 7950 is open for %v", protocols)
		}
	}
	for _, s := range o.sets {
		if len(o.services) != 1 || s.Spec.ServiceName != o.services[0].Name {
			t.Errorf("the service of the set is %q", s.Spec.ServiceName)
		}
	}
}

// checkRegister checks that the pods' account may use the ConfigMap, and nothing else.
func (o *objects) checkRegister(t *testing.T) {
	name, ok := strings.CutPrefix(o.env()["LOCKMESH_REGISTER"], "configmap:")
	if !ok || o.env()["LOCKMESH_NON_VOTING"] == "true" {
		if len(o.roles)+len(o.bindings)+len(o.accounts) > 0 {
			t.Errorf("%+v", o.roles)
		}
		return
	}
	if len(o.roles) != 1 || len(o.bindings) != 1 || len(o.accounts) != 1 {
		t.Fatalf("%d roles, %d bindings, %d accounts", len(o.roles), len(o.bindings), len(o.accounts))
	}
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{name}, Verbs: []string{"get", "update"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}},
	}
	if got := o.roles[0].Rules; !slices.EqualFunc(got, want, func(a, b rbacv1.PolicyRule) bool { return a.String() == b.String() }) {
		t.Errorf("the role allows %+v, want %+v", got, want)
	}
	b, account := o.bindings[0], o.workloads[0].pod.Spec.ServiceAccountName
	if b.RoleRef.Name != o.roles[0].Name || b.RoleRef.Kind != "Role" || len(b.Subjects) != 1 || b.Subjects[0].Name != account || b.Subjects[0].Kind != "ServiceAccount" || account != o.accounts[0].Name {
		t.Errorf("%+v binds not %q", b, account)
	}
}

// checkReplacement checks that pods are replaced singly.
func (o *objects) checkReplacement(t *testing.T) {
	for _, d := range o.deployments {
		u := d.Spec.Strategy.RollingUpdate
		if u == nil || u.MaxUnavailable.IntValue() != 0 || u.MaxSurge.IntValue() != 1 || *d.Spec.Replicas != 3 {
			t.Errorf("%+v", d.Spec.Strategy)
		}
		if o.env()["LOCKMESH_REGISTER"] == "" {
			t.Error("a surge beside pods that are being terminated exceeds what the promise without a register allows for")
		}
	}
	for _, s := range o.sets {
		var names []string
		for i := range *s.Spec.Replicas {
			names = append(names, s.Name+"-"+string('0'+i))
		}
		if voters := o.env()["LOCKMESH_VOTERS"]; voters != strings.Join(names, ",") {
			t.Errorf("the voters are %s, and the pods %v", voters, names)
		}
		dir, volumes := o.env()["LOCKMESH_STATE_DIR"], s.Spec.VolumeClaimTemplates
		switch mounts := s.Spec.Template.Spec.Containers[0].VolumeMounts; {
		case dir == "" && len(volumes)+len(mounts) > 0:
			t.Error("a volume without a use")
		case dir != "" && (len(volumes) != 1 || len(mounts) != 1 || mounts[0].Name != volumes[0].Name || !strings.HasPrefix(dir, mounts[0].MountPath+"/")):
			t.Errorf("%s isn't on a volume of the pod's own: %+v", dir, mounts)
		}
	}
	if o.env()["LOCKMESH_NON_VOTING"] == "true" {
		return
	}
	if len(o.budgets) != 1 || o.budgets[0].Spec.MaxUnavailable.IntValue() != 1 {
		t.Errorf("%+v", o.budgets)
	}
}

// TestAFieldThatDoesNotExistIsFound: the check of the manifests is as strict as an API server.
func TestAFieldThatDoesNotExistIsFound(t *testing.T) {
	for _, field := range []string{"ReadinessProbe", "readinesProbe"} {
		data, err := yaml.YAMLToJSONStrict([]byte("containers:\n- name: c\n  " + field + ": {}\n"))
		if err != nil {
			t.Fatal(err)
		}
		if unknown, err := json.UnmarshalStrict(data, new(corev1.PodSpec)); err != nil || len(unknown) != 1 {
			t.Errorf("%s: %v, %v", field, unknown, err)
		}
	}
}
