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
	"sigs.k8s.io/yaml"

	"heartwood.dev/heartwood/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the goldens of testdata anew")

var settings = Settings{Image: "registry.example/heartwood:v1"}

// minimal is a cluster that leaves out what can be left out, and did not pass the API server's
// defaulting.
func minimal() *v1alpha1.LogCluster {
	return &v1alpha1.LogCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "small", Namespace: "logs"},
		Spec:       v1alpha1.LogClusterSpec{Brokers: 1},
	}
}

// full is a cluster that sets everything render looks at, each to something else than its default.
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
			Listeners: &v1alpha1.Listeners{Port: 19092},
			RackKey:   "example.com/rack",
		},
	}
}

func TestObjectsAreAsTheirGoldensShow(t *testing.T) {
	for _, cluster := range []*v1alpha1.LogCluster{minimal(), full()} {
		for _, object := range Cluster(cluster, settings) {
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
					t.Fatalf("%v; go test -update writes it", err)
				}
				if diff := cmp.Diff(string(want), string(got)); diff != "" {
					t.Errorf("%s differs (-golden +got); go test -update writes it anew\n%s",
						golden, diff)
				}
			})
		}
	}
}

func TestRenderingTwiceGivesTheSameBytes(t *testing.T) {
	first, err := yaml.Marshal(Cluster(full(), settings))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 { // enough for Go's random map order to show
		again, err := yaml.Marshal(Cluster(full(), settings))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(first), string(again)); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestEveryObjectCanBeAppliedAndFound(t *testing.T) {
	cluster := full()
	for _, object := range Cluster(cluster, settings) {
		kind := object.GetObjectKind().GroupVersionKind()
		if kind.Kind == "" || kind.Version == "" {
			t.Errorf("%T %s says no apiVersion or kind: server-side apply needs both", object,
				object.GetName())
		}
		if object.GetNamespace() != cluster.Namespace ||
			object.GetLabels()[v1alpha1.LabelCluster] != cluster.Name {
			t.Errorf("%s %s is not in namespace %s with label %s", kind.Kind, object.GetName(),
				cluster.Namespace, v1alpha1.LabelCluster)
		}
	}
}

func TestImageIsTheOperatorsUnlessTheClusterNamesOne(t *testing.T) {
	for cluster, want := range map[*v1alpha1.LogCluster]string{
		minimal(): settings.Image,
		full():    "registry.example/heartwood:pinned",
	} {
		if got := statefulSet(cluster,
			settings).Spec.Template.Spec.Containers[0].Image; got != want {
			t.Errorf("%s: image %s, want %s", cluster.Name, got, want)
		}
	}
}

func TestVolumesStayUnlessDeletingThemIsAskedFor(t *testing.T) {
	for policy, want := range map[v1alpha1.ReclaimPolicy]appsv1.PersistentVolumeClaimRetentionPolicyType{
		"":                      appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
		v1alpha1.ReclaimRetain:  appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
		v1alpha1.ReclaimDelete:  appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
		"SomethingNewFromAbove": appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
	} {
		cluster := minimal()
		cluster.Spec.Storage.ReclaimPolicy = policy
		got := statefulSet(cluster, settings).Spec.PersistentVolumeClaimRetentionPolicy
		if got.WhenDeleted != want ||
			got.WhenScaled != appsv1.RetainPersistentVolumeClaimRetentionPolicyType {
			t.Errorf("policy %q: %+v, want %s when deleted and Retain when scaled", policy, got,
				want)
		}
	}
}

func TestATopologyKeyIsNamedOnce(t *testing.T) {
	cluster := minimal()
	cluster.Spec.RackKey = corev1.LabelHostname
	if got := spread(cluster); len(got) != 1 {
		t.Errorf("%d constraints for one key: the API server refuses that", len(got))
	}
}

func TestBrokersMayUpdateLeasesOfTheirOwnClusterOnly(t *testing.T) {
	for _, rule := range role(full(), Settings{}).Rules {
		if !slices.Contains(rule.Resources, "leases") || !slices.Contains(rule.Verbs, "update") {
			continue
		}
		if diff := cmp.Diff([]string{"main-broker-0", "main-broker-1", "main-broker-2"},
			rule.ResourceNames); diff != "" {
			t.Errorf("leases a broker may update: %s", diff)
		}
	}
	for _, rule := range role(full(), Settings{}).Rules {
		if slices.Contains(rule.Verbs, rbacv1.VerbAll) ||
			slices.Contains(rule.Resources, rbacv1.ResourceAll) {
			t.Errorf("a broker may do everything: %+v", rule)
		}
	}
}

// TestReadOnlyAdminIsReadOnlyForRBACToo: a broker that was taken over cannot change what manifests
// rule. The topic of groups it still makes.
func TestReadOnlyAdminIsReadOnlyForRBACToo(t *testing.T) {
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
		{v1alpha1.AdminReadOnly, "partitions", []string{"get", "list", "watch"}},
		{v1alpha1.AdminReadWrite, "topics",
			[]string{"get", "list", "watch", "create", "delete", "patch"}},
		{v1alpha1.AdminReadWrite, "partitions", []string{"get", "list", "watch", "patch"}},
	} {
		if diff := cmp.Diff(want.verbs, verbs(want.admin, want.resource)); diff != "" {
			t.Errorf("adminApi: %s, %s: %s", want.admin, want.resource, diff)
		}
	}
}

func TestTheLongestClusterNameFitsWhatIsNamedAfterIt(t *testing.T) {
	// 40 characters: the CRD's limit. A StatefulSet's name becomes a label with an 11-character
	// hash behind it.
	cluster := minimal()
	cluster.Name = strings.Repeat("a", 40)
	if got := len(BrokersName(cluster.Name)) + 11; got > 63 {
		t.Errorf("label controller-revision-hash has %d characters", got)
	}
	for _, name := range []string{v1alpha1.BrokerLeaseName(cluster.Name, 999),
		headlessName(cluster.Name), bootstrapName(cluster.Name)} {
		if len(name) > 63 {
			t.Errorf("%s has %d characters: too long for a host name", name, len(name))
		}
	}
}

func TestAddresses(t *testing.T) {
	if got, want := Bootstrap(full()), "main-bootstrap.logs.svc:19092"; got != want {
		t.Errorf("bootstrap %s, want %s", got, want)
	}
	if got, want := HTTPAddress("main", "logs", 2),
		"main-broker-2.main-brokers.logs.svc:9644"; got != want {
		t.Errorf("http address %s, want %s", got, want)
	}
}
