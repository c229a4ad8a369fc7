package controllers

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/reports"
	"heartwood.dev/heartwood/controllers/topic"
	"heartwood.dev/heartwood/internal/operator/render"
	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/envtest"
	. "heartwood.dev/heartwood/test/kit/specs"
)

// rolloutInterval is the time between two steps of a rolling update in these tests.
const rolloutInterval = 500 * time.Millisecond

// several returns the duration of several intervals.
func several(interval time.Duration) time.Duration { return 4 * interval }

// operatorUser is the user with which the controllers access the API server in these tests. It has
// only the permissions in config/rbac.
const operatorUser = "heartwood-operator-under-test"

var (
	config *rest.Config // configuration of a user with all permissions
	api    client.Client
	// writes contains the number of the controllers' write requests in each namespace, without
	// requests that write events.
	writes = &counts{byName: map[string]int{}}
	// moved contains, by namespace, the number of assignments that the controllers have changed after
	// the first write.
	moved = &counts{byName: map[string]int{}}
	// ahead contains, by namespace, the offset between the real time and the time that applies to
	// certificates and passwords.
	ahead = &clock{byNamespace: map[string]time.Duration{}}
	// record contains the controllers' log.
	record = &recorder{}
	// hosts maps the brokers' addresses to the addresses of test servers.
	hosts = &resolver{addresses: map[string]string{}}
)

func TestControllers(t *testing.T) {
	ctrl.SetLogger(funcr.NewJSON(record.add, funcr.Options{LogTimestamp: true}))
	config = envtest.Start(t)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme,
		v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if api, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	allowUnserved(t)
	bindOperator(t)
	startManager(t, scheme)
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(await.Limit)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	Run(t)
}

// startManager starts a manager with all controllers, which runs until t ends.
func startManager(t *testing.T, scheme *runtime.Scheme) {
	operator := rest.CopyConfig(config)
	operator.Impersonate.UserName = operatorUser
	operator.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return countWrites{next, &sync.Mutex{}, map[string]string{}}
	})
	mgr, err := ctrl.NewManager(operator, ctrl.Options{
		Scheme:         scheme,
		MapperProvider: Mapper,
		Metrics:        metricsserver.Options{BindAddress: "0"},
		Cache:          cache.Options{ByObject: CacheByObject()},
	})
	if err != nil {
		t.Fatal(err)
	}
	options := options{
		reports: reports.Options{Interval: 100 * time.Millisecond,
			Transport: &http.Transport{DialContext: hosts.dial}},
		preferredLeaderDelay: 200 * time.Millisecond, settleTime: time.Millisecond,
		sizesWait:         500 * time.Millisecond,
		resizeWait:        time.Millisecond,
		rolloutInterval:   rolloutInterval,
		rebalanceInterval: 200 * time.Millisecond, volumesInterval: 200 * time.Millisecond,
		providedInterval: time.Second,
		topicPace:        topic.Pace{After: 50 * time.Millisecond, Again: 100 * time.Millisecond},
		now:              ahead.now,
	}
	if err := setup(mgr, render.Settings{Image: "registry.example/heartwood:test"},
		options); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-stopped; err != nil {
			t.Errorf("the manager failed: %v", err)
		}
	})
}

// bindOperator grants operatorUser the role that controller-gen generated from the RBAC markers.
func bindOperator(t *testing.T) {
	content, err := os.ReadFile("../config/rbac/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(content, role); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
			Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind,
			Name: operatorUser}},
	}
	for _, object := range []client.Object{role, binding} {
		if err := api.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

// countWrites counts write requests in writes, and changed assignments in moved. It ignores
// requests that write events.
type countWrites struct {
	next http.RoundTripper
	mu   *sync.Mutex
	last map[string]string // written assignments, by namespace and key
}

// compare counts the assignments in a request that differ from an earlier request.
func (c countWrites) compare(request *http.Request, namespace string) {
	body, err := request.GetBody()
	if err != nil {
		return
	}
	content, _ := io.ReadAll(body)
	set := &v1alpha1.PartitionSet{}
	if json.Unmarshal(content, set) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, value := range set.Spec.Assignments {
		key = namespace + " " + key
		replicas, _, _ := strings.Cut(value, " ")
		if last, known := c.last[key]; known && last != replicas {
			moved.add(namespace)
		}
		c.last[key] = replicas
	}
}

func (c countWrites) RoundTrip(request *http.Request) (*http.Response, error) {
	path := strings.Split(request.URL.Path, "/")
	index := slices.Index(path, "namespaces")
	if request.Method != http.MethodGet && index >= 0 && index+1 < len(path) &&
		!slices.Contains(path, "events.k8s.io") {
		writes.add(path[index+1])
		if request.Method == http.MethodPut && path[len(path)-2] == "partitionsets" {
			c.compare(request, path[index+1])
		}
	}
	return c.next.RoundTrip(request)
}

// counts is a set of counters, each with a name.
type counts struct {
	mu     sync.Mutex
	byName map[string]int
}

func (c *counts) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byName[name]++
}

func (c *counts) get(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byName[name]
}

// clock contains the time offset of each namespace. See ahead.
type clock struct {
	mu          sync.Mutex
	byNamespace map[string]time.Duration
}

func (c *clock) now(namespace string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.byNamespace[namespace])
}

func (c *clock) advance(namespace string, by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byNamespace[namespace] += by
}

// resolver replaces the DNS of a Kubernetes cluster. It maps a broker's address to another address.
type resolver struct {
	mu        sync.Mutex
	addresses map[string]string
}

func (r *resolver) set(name, address string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addresses[name] = address
}

func (r *resolver) dial(ctx context.Context, network, name string) (net.Conn, error) {
	r.mu.Lock()
	address, ok := r.addresses[name]
	r.mu.Unlock()
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, network, address)
}
