package kube

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
)

// testRejectedWrites checks that a write that the API server forbids results in ErrPolicy, and that
// a write that fails for another reason results in ErrUnavailable.
func testRejectedWrites(f *fixture) {
	f.topic("orders", 1)
	var status atomic.Int32
	rejecting := rest.CopyConfig(f.config)
	rejecting.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return transport(func(request *http.Request) (*http.Response, error) {
			code := int(status.Load())
			if code == 0 || request.Method == http.MethodGet ||
				!strings.Contains(request.URL.Path, "/topics") {
				return next.RoundTrip(request)
			}
			return &http.Response{
				StatusCode: code, Header: http.Header{}, Request: request, ProtoMajor: 1,
				ProtoMinor: 1,
				Body:       io.NopCloser(strings.NewReader("exceeded quota")),
			}, nil
		})
	})
	b := f.run(0, rejecting)
	b.until("topic delivered", func(i *metadata.Image) bool { return i.Topic("orders") != nil })
	ctx := f.t.Context()
	for code, want := range map[int32]error{
		http.StatusForbidden:          metadata.ErrPolicy,
		http.StatusServiceUnavailable: metadata.ErrUnavailable,
		http.StatusConflict:           metadata.ErrUnavailable,
	} {
		status.Store(code)
		faults := map[string]error{
			"alter": b.AlterTopic(ctx,
				metadata.TopicChange{Name: "orders",
					Properties: []metadata.PropertyChange{{Name: "retention.ms", Value: "1000"}}}),
		}
		// For create and delete, a conflict means that another client has created or deleted the topic.
		if code != http.StatusConflict {
			_, faults["create"] = b.CreateTopic(ctx,
				metadata.NewTopic{Name: "payments", Partitions: 1, Replicas: 1})
			faults["delete"] = b.DeleteTopic(ctx, "orders")
		}
		for what, err := range faults {
			if !errors.Is(err, want) {
				f.t.Errorf("%s, status %d: got error %v, want %v", what, code, err, want)
			}
		}
	}
}

func testCreateAndDeleteTopics(f *fixture) {
	b := f.run(0, f.config)
	b.until("up", up(0))
	request := metadata.NewTopic{Name: "My_Orders", Partitions: 2, Replicas: -1,
		Properties: map[string]string{"cleanup.policy": "compact"}, Validate: true}
	validated, err := b.CreateTopic(f.t.Context(), request)
	if err != nil || validated.ID != (metadata.ID{}) || len(validated.Partitions) != 2 {
		f.t.Errorf(
			"CreateTopic with Validate: got %+v, error %v, want 2 partitions and no id",
			validated,
			err,
		)
	}
	resource := &v1alpha1.Topic{}
	name := metadata.ResourceName("My_Orders")
	if err := f.client.Get(f.t.Context(), client.ObjectKey{Namespace: f.namespace, Name: name},
		resource); !apierrors.IsNotFound(err) {
		f.t.Errorf("after CreateTopic with Validate, Get returned %v, want NotFound", err)
	}
	request.Validate = false
	created, err := b.CreateTopic(f.t.Context(), request)
	if err != nil {
		f.t.Fatal(err)
	}
	f.get(name, resource)
	if want, _ := id(resource.UID); created.ID != want || !created.Settings.Compact ||
		created.RetainData ||
		len(created.Partitions[0].Replicas) != 1 {
		f.t.Errorf("got topic %+v, want a compacted one with id %s", created, want)
	}
	if resource.Labels[v1alpha1.LabelCluster] != "demo" || resource.Spec.TopicName != "My_Orders" ||
		resource.Spec.ReclaimPolicy != v1alpha1.ReclaimDelete {
		f.t.Errorf("got resource %+v", resource)
	}
	if _, err := b.CreateTopic(f.t.Context(), request); !errors.Is(err, metadata.ErrTopicExists) {
		f.t.Errorf("second creation of a topic: got error %v, want ErrTopicExists", err)
	}
	for _, validate := range []bool{false, true} {
		colliding := metadata.NewTopic{Name: "My.Orders", Partitions: 1, Replicas: 1, Validate: validate}
		if _, err := b.CreateTopic(f.t.Context(), colliding); !errors.Is(err,
			metadata.ErrInvalidTopicName) || !strings.Contains(err.Error(), `collides with the existing topic "My_Orders"`) {
			f.t.Errorf("creation of a topic whose name collides: got error %v", err)
		}
	}
	wide := metadata.NewTopic{Name: "wide", Partitions: 1, Replicas: 4}
	if _, err := b.CreateTopic(f.t.Context(), wide); !errors.Is(err,
		metadata.ErrInvalidReplication) {
		f.t.Errorf("4 replicas on 3 brokers: got error %v, want ErrInvalidReplication", err)
	}
	// The rules of the CRD reject invalid values that the broker does not check.
	request.Name, request.Properties = "zero", map[string]string{"max.message.bytes": "0"}
	if _, err := b.CreateTopic(f.t.Context(), request); !errors.Is(err,
		metadata.ErrInvalidSettings) ||
		!strings.Contains(err.Error(), "spec.maxMessageSize") {
		f.t.Errorf("a value that the CRD rejects: got error %v, want ErrInvalidSettings", err)
	}
	if err := b.DeleteTopic(f.t.Context(), "My_Orders"); err != nil {
		f.t.Error(err)
	}
	if err := f.client.Get(f.t.Context(), client.ObjectKeyFromObject(resource),
		resource); !apierrors.IsNotFound(err) {
		f.t.Errorf("after DeleteTopic, Get returned %v, want NotFound", err)
	}
	for _, name := range []string{"My_Orders", "never", "not a name"} {
		if err := b.DeleteTopic(f.t.Context(), name); !errors.Is(err, metadata.ErrTopicNotFound) {
			f.t.Errorf("delete of %q: got error %v, want ErrTopicNotFound", name, err)
		}
	}
}

// testNamesOfAnotherCluster checks that a topic and a user can be created although resources of
// another LogCluster in the namespace already have the names that their resources would have.
func testNamesOfAnotherCluster(f *fixture) {
	ctx := f.t.Context()
	b := f.run(0, f.config)
	b.until("up", up(0))
	for _, name := range []string{metadata.OffsetsTopic, "invoices"} {
		other, err := metadata.TopicResource(metadata.NewTopic{Name: name, Partitions: 1,
			Replicas: 1}, "other", nil)
		if err != nil {
			f.t.Fatal(err)
		}
		f.create(other)
		request := metadata.NewTopic{Name: name, Partitions: 2, Replicas: -1}
		if _, err := b.CreateTopic(ctx, request); err != nil {
			f.t.Fatalf("topic %s: %v", name, err)
		}
		if _, err := b.CreateTopic(ctx, request); !errors.Is(err, metadata.ErrTopicExists) {
			f.t.Errorf("second creation of topic %s: error %v, want ErrTopicExists", name, err)
		}
		created := &v1alpha1.Topic{}
		f.get(metadata.ResourceNameIn("demo", name), created)
		if created.KafkaName() != name || created.Spec.Cluster != "demo" {
			f.t.Errorf("topic %s has the resource %+v", name, created.Spec)
		}
	}
	if err := b.DeleteTopic(ctx, "invoices"); err != nil {
		f.t.Error(err)
	}
	f.get("invoices", &v1alpha1.Topic{}) // the Topic of the other LogCluster
	if err := b.DeleteTopic(ctx, "invoices"); !errors.Is(err, metadata.ErrTopicNotFound) {
		f.t.Errorf("deletion of the other LogCluster's topic: error %v", err)
	}

	f.create(metadata.NewUser("alice", "other"))
	grant := metadata.UserChange{Name: "alice",
		Quotas: map[string]*int64{"producer_byte_rate": new(int64(1 << 20))}}
	for range 2 {
		if err := b.ChangeUser(ctx, grant); err != nil {
			f.t.Fatal(err)
		}
	}
	user := &v1alpha1.LogUser{}
	f.get(metadata.ResourceNameIn("demo", "alice"), user)
	if user.PrincipalName() != "alice" || user.Spec.Cluster != "demo" {
		f.t.Errorf("the LogUser is %+v", user.Spec)
	}
}
