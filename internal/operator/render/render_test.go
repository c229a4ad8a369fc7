package render

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"heartwood.dev/heartwood/api/v1alpha1"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

var settings = Settings{Image: "registry.example/heartwood:v1"}

// minimal returns a LogCluster without optional fields, to which no API server has added defaults.
func minimal() *v1alpha1.LogCluster {
	return &v1alpha1.LogCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "small", Namespace: "logs"},
		Spec:       v1alpha1.LogClusterSpec{Brokers: 1},
	}
}

// full returns a LogCluster in which every field that this package uses differs from its default.
func full() *v1alpha1.LogCluster {
	return &v1alpha1.LogCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "main", Namespace: "logs"},
		Spec: v1alpha1.LogClusterSpec{
			Brokers: 3,
			Image:   "registry.example/heartwood:pinned",
			Storage: v1alpha1.Storage{
				Size: resource.MustParse("100Gi"), ClassName: new("fast"),
				ReclaimPolicy: v1alpha1.ReclaimDelete,
			},
			Resources: &v1alpha1.Resources{
				Requests: map[string]resource.Quantity{"memory": resource.MustParse("512Mi"),
					"cpu": resource.MustParse("500m")},
				Limits: map[string]resource.Quantity{"memory": resource.MustParse("1Gi")},
			},
			Listeners:  v1alpha1.Listeners{{Name: "kafka", Port: 19092}},
			RackKey:    "example.com/rack",
			RackSpread: v1alpha1.RackSpreadRequired,
			Pprof:      true,
			Pod: &v1alpha1.Pod{
				NodeSelector: map[string]string{"disk": "nvme"},
				Tolerations: []v1alpha1.Toleration{{Key: "dedicated", Operator: "Equal",
					Value: "logs", Effect: "NoSchedule"}},
				Affinity: &runtime.RawExtension{Raw: []byte(`{"podAntiAffinity": {
					"requiredDuringSchedulingIgnoredDuringExecution": [{
						"topologyKey": "kubernetes.io/hostname",
						"labelSelector": {"matchLabels": {"app": "database"}}}]}}`)},
				PriorityClassName: "important",
				ImagePullSecrets:  []v1alpha1.SecretName{{Name: "registry"}},
				Annotations:       map[string]string{"example.com/team": "logs"},
				Labels: map[string]string{"team": "logs",
					"app.kubernetes.io/name": "not-overwritten"},
			},
		},
	}
}

// secured returns a LogCluster with a listener of each type.
func secured() *v1alpha1.LogCluster {
	scram := []v1alpha1.Authentication{{Type: v1alpha1.AuthenticationScramSha512}}
	return &v1alpha1.LogCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "safe", Namespace: "logs"},
		Spec: v1alpha1.LogClusterSpec{
			Brokers: 2, Peers: v1alpha1.PeersMutualTLS,
			HTTP: &v1alpha1.HTTP{Metrics: v1alpha1.HTTPMetricsAuthorized,
				AllowFrom: []v1alpha1.NetworkSource{{NamespaceSelector: &metav1.LabelSelector{
					MatchLabels: map[string]string{"name": "monitoring"}}}}},
			Listeners: v1alpha1.Listeners{
				{Name: "tls", Port: 9093, TLS: &v1alpha1.ListenerTLS{}, Authentication: scram,
					AllowFrom: []v1alpha1.NetworkSource{{
						PodSelector: &metav1.LabelSelector{
							MatchLabels: map[string]string{"app": "a"}}}}},
				{Name: "out", Port: 9094, Type: v1alpha1.ListenerNodePort,
					TLS: &v1alpha1.ListenerTLS{}, Authentication: scram,
					AllowFrom: []v1alpha1.NetworkSource{{CIDR: "203.0.113.0/24"}}},
				{Name: "lb", Port: 9095, Type: v1alpha1.ListenerLoadBalancer,
					Annotations: map[string]string{"example.com/subnet": "a"}},
				{Name: "route", Port: 9096, Type: v1alpha1.ListenerTLSRoute,
					TLS:        &v1alpha1.ListenerTLS{},
					Advertised: &v1alpha1.Advertised{Host: "b{id}.example.com"},
					Gateway: &v1alpha1.Gateway{Name: "edge", Namespace: "gateways",
						SectionName: "kafka"}},
			},
		},
	}
}

func TestObjectsMatchTheirGoldenFiles(t *testing.T) {
	for _, cluster := range []*v1alpha1.LogCluster{minimal(), full(), secured()} {
		for _, object := range slices.Concat(Cluster(cluster, settings),
			TLSRoutes(cluster, settings)) {
			kind := strings.ToLower(object.GetObjectKind().GroupVersionKind().Kind)
			golden := filepath.Join("testdata", fmt.Sprintf("%s-%s.yaml", object.GetName(), kind))
			t.Run(filepath.Base(golden), func(t *testing.T) {
				got, err := yaml.Marshal(object)
				if err != nil {
					t.Fatal(err)
				}
				if *update {
					if err := os.WriteFile(golden, got, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(golden)
				if err != nil {
					t.Fatalf("%v; to write it, run go test -update", err)
				}
				if diff := cmp.Diff(string(want), string(got)); diff != "" {
					t.Errorf("%s differs (-golden +got); to rewrite it, run go test -update\n%s",
						golden, diff)
				}
			})
		}
	}
}

func TestRenderingIsDeterministic(t *testing.T) {
	first, err := yaml.Marshal(Cluster(full(), settings))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 { // enough rounds to detect a dependency on the order of a map
		again, err := yaml.Marshal(Cluster(full(), settings))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(first), string(again)); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestObjectsHaveKindNamespaceAndLabel(t *testing.T) {
	cluster := full()
	for _, object := range Cluster(cluster, settings) {
		kind := object.GetObjectKind().GroupVersionKind()
		if kind.Kind == "" || kind.Version == "" {
			t.Errorf("%T %s has no apiVersion or kind, which server-side apply requires", object,
				object.GetName())
		}
		if object.GetNamespace() != cluster.Namespace ||
			object.GetLabels()[v1alpha1.LabelCluster] != cluster.Name {
			t.Errorf("%s %s is not in namespace %s with label %s", kind.Kind, object.GetName(),
				cluster.Namespace, v1alpha1.LabelCluster)
		}
	}
}

func TestImageDefaultsToTheOperators(t *testing.T) {
	for cluster, want := range map[*v1alpha1.LogCluster]string{
		minimal(): settings.Image,
		full():    "registry.example/heartwood:pinned",
	} {
		if got := statefulSet(cluster,
			settings).Spec.Template.Spec.Containers[0].Image; got != want {
			t.Errorf("%s: got image %s, want %s", cluster.Name, got, want)
		}
	}
}

func TestVolumesAreRetainedByDefault(t *testing.T) {
	type retention = appsv1.PersistentVolumeClaimRetentionPolicyType
	for policy, want := range map[v1alpha1.ReclaimPolicy]retention{
		"":                     appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
		v1alpha1.ReclaimRetain: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
		v1alpha1.ReclaimDelete: appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
		"UnknownPolicy":        appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
	} {
		cluster := minimal()
		cluster.Spec.Storage.ReclaimPolicy = policy
		got := statefulSet(cluster, settings).Spec.PersistentVolumeClaimRetentionPolicy
		if got.WhenDeleted != want ||
			got.WhenScaled != appsv1.RetainPersistentVolumeClaimRetentionPolicyType {
			t.Errorf("policy %q: got %+v, want %s when deleted and Retain when scaled", policy, got,
				want)
		}
	}
}

func TestTopologyKeyIsNamedOnce(t *testing.T) {
	cluster := minimal()
	cluster.Spec.RackKey = corev1.LabelHostname
	if got := spread(cluster); len(got) != 1 {
		t.Errorf("got %d constraints for one key, want 1: the API server rejects more", len(got))
	}
}

func TestBrokersMayUpdateLeasesOfTheirOwnClusterOnly(t *testing.T) {
	for _, rule := range role(full(), Settings{}).Rules {
		if !slices.Contains(rule.Resources, "leases") || !slices.Contains(rule.Verbs, "update") {
			continue
		}
		if diff := cmp.Diff([]string{"main-broker-0", "main-broker-1", "main-broker-2"},
			rule.ResourceNames); diff != "" {
			t.Errorf("leases that a broker may update (-want +got): %s", diff)
		}
	}
	for _, rule := range role(full(), Settings{}).Rules {
		if slices.Contains(rule.Verbs, rbacv1.VerbAll) ||
			slices.Contains(rule.Resources, rbacv1.ResourceAll) {
			t.Errorf("a broker has wildcard permissions: %+v", rule)
		}
	}
}

// TestReadOnlyAdminRestrictsTheRole checks that with adminAPI ReadOnly a broker has no permission
// to change or delete Topics, or to change PartitionSets and the LogCluster. It must still be
// allowed to create Topics, such as __consumer_offsets.
func TestReadOnlyAdminRestrictsTheRole(t *testing.T) {
	verbs := func(admin v1alpha1.AdminAPI, resource string) (all []string) {
		cluster := full()
		cluster.Spec.AdminAPI = admin
		for _, rule := range role(cluster, Settings{}).Rules {
			if slices.Contains(rule.Resources, resource) {
				all = append(all, rule.Verbs...)
			}
		}
		return all
	}
	for _, want := range []struct {
		admin    v1alpha1.AdminAPI
		resource string
		verbs    []string
	}{
		{v1alpha1.AdminReadOnly, "topics", []string{"get", "list", "watch", "create"}},
		{v1alpha1.AdminReadOnly, "partitionsets", []string{"get", "list", "watch"}},
		{v1alpha1.AdminReadWrite, "topics",
			[]string{"get", "list", "watch", "create", "delete", "patch"}},
		{v1alpha1.AdminReadWrite, "partitionsets", []string{"get", "list", "watch", "update"}},
		{v1alpha1.AdminReadOnly, "logclusters", []string{"get", "list", "watch"}},
		{v1alpha1.AdminReadWrite, "logclusters", []string{"get", "list", "watch", "patch"}},
	} {
		if diff := cmp.Diff(want.verbs, verbs(want.admin, want.resource)); diff != "" {
			t.Errorf("adminAPI %s: verbs for %s (-want +got): %s", want.admin, want.resource, diff)
		}
	}
}

func TestLongestClusterNameFitsDerivedNames(t *testing.T) {
	// The CRD limits names to 40 characters. The StatefulSet controller uses the StatefulSet's
	// name, followed by a dash and a hash (11 characters), as the value of a label.
	cluster := minimal()
	cluster.Name = strings.Repeat("a", 40)
	if got := len(BrokersName(cluster.Name)) + 11; got > 63 {
		t.Errorf("label controller-revision-hash has %d characters, want at most 63", got)
	}
	for _, name := range []string{v1alpha1.BrokerLeaseName(cluster.Name, 999),
		HeadlessName(cluster.Name), bootstrapName(cluster.Name)} {
		if len(name) > 63 {
			t.Errorf("%s has %d characters: too long for a host name", name, len(name))
		}
	}
}

func TestAddresses(t *testing.T) {
	if got, want := Bootstrap(full()), "main-bootstrap.logs.svc:19092"; got != want {
		t.Errorf("got bootstrap address %s, want %s", got, want)
	}
	if got, want := HTTPAddress("main", "logs", 2),
		"main-broker-2.main-brokers.logs.svc:9644"; got != want {
		t.Errorf("got HTTP address %s, want %s", got, want)
	}
}
