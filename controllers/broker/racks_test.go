package broker

import (
	"context"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// forbiddenNodes rejects all reads and counts them. The API server does the same if the operator
// has permissions only in some namespaces.
type forbiddenNodes struct {
	client.Reader
	reads int
}

func (n *forbiddenNodes) Get(context.Context, client.ObjectKey, client.Object,
	...client.GetOption) error {
	n.reads++
	return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "node", nil)
}

// brokerClient returns one broker's Lease, pod and LogCluster. It counts the updates.
type brokerClient struct {
	client.Client
	updates int
}

func (c *brokerClient) Get(_ context.Context, _ client.ObjectKey, into client.Object,
	_ ...client.GetOption) error {
	switch into := into.(type) {
	case *coordinationv1.Lease:
		into.Annotations = map[string]string{v1alpha1.AnnotationRack: "east"}
		v1alpha1.Registration{Pod: "uid"}.Write(into)
	case *corev1.Pod:
		into.UID, into.Spec.NodeName = "uid", "node"
	}
	return nil
}

func (c *brokerClient) Update(context.Context, client.Object, ...client.UpdateOption) error {
	c.updates++
	return nil
}

func TestRackIsKeptWhereNodesCannotBeRead(t *testing.T) {
	c, nodes := &brokerClient{}, &forbiddenNodes{}
	r := newRacks(c, nodes)
	for range 3 {
		if err := r.write(t.Context(), brokerZero, "demo"); err != nil {
			t.Fatal(err)
		}
	}
	if nodes.reads != 1 || c.updates != 0 {
		t.Errorf("got %d reads of the node and %d updates of the Lease, want 1 and 0", nodes.reads,
			c.updates)
	}
}
